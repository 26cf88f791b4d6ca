"""Editing a linked file in place: the last section of code and its segment grow to the end of the window.

For linkers that leave the room but do not use it.  The section header grows too, because GNU strip and objcopy
compute segments from sections.  No address and no other byte of the program changes.
"""

import os
import struct

from hugealign.elf.image import SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS, Image, Section, Segment
from hugealign.elf.objectfile import TRAP
from hugealign.elf.windows import BASE_PAGE, align_down, align_up

#: FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE of include/uapi/linux/falloc.h.
_PUNCH_HOLE = 3


class Edit:
    """What is to be written: (file offset, bytes) in order, each step leaving a file that runs."""

    __slots__ = ("end", "writes")

    def __init__(self, writes: list[tuple[int, bytes]], end: int) -> None:
        self.writes = writes
        self.end = end


def plan_tail(image: Image, page_size: int) -> Edit | str:
    """Return the edit that makes the text of *image* end on a window, or the reason why there is none."""
    if len(image.text_segments) != 1:
        return "there is not exactly one executable segment"
    if not image.is64 or not image.little or image.e_machine not in TRAP:
        return "not a processor that hugealign edits"
    segment = image.text_segments[0]
    if segment.p_filesz != segment.p_memsz:
        return "the text is not wholly in the file"
    if segment.p_vaddr % page_size or segment.p_offset % page_size:
        return "the text does not start on a window"
    last = _last_code(image, segment)
    if last is None:
        return "no section of code ends where the text segment ends"
    old, new = segment.p_filesz, align_up(segment.p_filesz, page_size)
    start, end = segment.p_offset + old, segment.p_offset + new
    taken = _in_the_way(image, segment, start, end, new)
    if taken:
        return taken
    # The trap bytes first, while nothing maps them; then the section, on which nothing but tools depends; last
    # p_filesz and p_memsz, which are neighbours, in one write.
    trap = TRAP[image.e_machine]
    writes = [
        (start, (trap * ((new - old) // len(trap) + 1))[: new - old]),
        (last.header + 32, struct.pack("<Q", segment.p_vaddr + new - last.sh_addr)),
        (segment.header + 32, struct.pack("<QQ", new, new)),
    ]
    return Edit(writes if new > old else [], end)


def apply(fd: int, edit: Edit) -> None:
    """Write *edit* to the file behind *fd*.  Raises OSError, after which the file is still as good as before."""
    for offset, data in edit.writes:
        written = 0
        while written < len(data):
            written += os.pwrite(fd, data[written:], offset + written)


def _last_code(image: Image, segment: Segment) -> Section | None:
    end = segment.p_vaddr + segment.p_memsz
    for section in reversed(image.sections):
        if (
            section.sh_flags & (SHF_ALLOC | SHF_EXECINSTR) == SHF_ALLOC | SHF_EXECINSTR
            and section.sh_addr >= segment.p_vaddr
            and section.sh_addr + section.sh_size == end
        ):
            return section
    return None


def _in_the_way(image: Image, text: Segment, start: int, end: int, new_size: int) -> str | None:
    """Return what occupies the file range or the addresses that the text would grow over, or None."""
    if image.file_size < end:
        return "the file ends inside the last window"
    for segment in image.load_segments:
        if segment is text:
            continue
        if segment.p_filesz and segment.p_offset < end and segment.p_offset + segment.p_filesz > start:
            return f"LOAD {segment.index} ({segment.flags}) lies in the file where the text would grow"
        first, last = text.p_vaddr + text.p_memsz, text.p_vaddr + new_size
        if segment.p_vaddr < last and segment.p_vaddr + segment.p_memsz > first:
            return f"LOAD {segment.index} ({segment.flags}) lies in memory where the text would grow"
    for section in image.sections:
        in_file = section.sh_size and section.sh_type not in (0, SHT_NOBITS)
        if in_file and section.sh_offset < end and section.sh_offset + section.sh_size > start:
            return "a section lies in the file where the text would grow"
    table_end = image.e_shoff + 64 * len(image.sections)
    if image.sections and image.e_shoff < end and table_end > start:
        return "the section headers lie in the file where the text would grow"
    return None


def dig_holes(path: str, image: Image, pad_section: str) -> None:
    """Free the disk blocks of the file at *path* that hold only zeros of no use, where the file system can.

    That is the gaps between segments, which no header table, section or segment claims, and our padding where the
    trap instruction is all zeros.  Both read as zeros before and after.  A failure costs nothing but disk.
    """
    gaps = unclaimed(image)
    if not any(TRAP.get(image.e_machine, b"x")):
        gaps += [_whole_pages(s.sh_offset, s.sh_offset + s.sh_size) for s in image.sections if s.name == pad_section]
    if not gaps:
        return
    import ctypes

    libc = ctypes.CDLL(None)
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    try:
        for start, end in gaps:
            libc.fallocate64(fd, _PUNCH_HOLE, ctypes.c_long(start), ctypes.c_long(end - start))
    finally:
        os.close(fd)


def unclaimed(image: Image) -> list[tuple[int, int]]:
    """Return the page-aligned file ranges of 64 KiB and more that nothing in the headers claims."""
    claimed = [(s.p_offset, s.p_offset + s.p_filesz) for s in image.segments if s.p_filesz]
    claimed += [(s.sh_offset, s.sh_offset + s.sh_size) for s in image.sections if s.sh_type not in (0, SHT_NOBITS)]
    claimed += [(image.e_shoff, image.e_shoff + 64 * len(image.sections)), (image.file_size, image.file_size)]
    gaps = []
    reached = BASE_PAGE
    for start, end in sorted(claimed):
        gap = _whole_pages(reached, start)
        if gap[1] - gap[0] >= 1 << 16:
            gaps.append(gap)
        reached = max(reached, end)
    return gaps


def _whole_pages(start: int, end: int) -> tuple[int, int]:
    return align_up(start, BASE_PAGE), max(align_up(start, BASE_PAGE), align_down(end, BASE_PAGE))
