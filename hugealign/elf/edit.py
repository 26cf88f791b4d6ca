"""Edit a linked file in place: grow the last section of code and its segment to the end of the window.

This is for linkers that leave the room but do not use it.  The section header grows too, because GNU strip and objcopy
compute segments from sections.  No address and no other byte of the program changes.
"""

import os
import struct

from hugealign.elf.coverage import RODATA_PAD_SECTIONS
from hugealign.elf.image import PF_X, SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS, Image, Section, Segment
from hugealign.elf.objectfile import TRAP
from hugealign.elf.windows import BASE_PAGE, align_down, align_up
from hugealign.io.descriptors import using, write_all
from hugealign.records import Record

#: FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE of include/uapi/linux/falloc.h.
_PUNCH_HOLE = 3


class Patch(Record):
    """The writes, as (file offset, bytes), in order; the file runs after each of them."""

    writes: list[tuple[int, bytes]]
    end: int


def plan_tail(image: Image, page_size: int) -> Patch | str:
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
    last = _last_section(image, segment, SHF_ALLOC | SHF_EXECINSTR)
    if last is None:
        return "no section of code ends where the text segment ends"
    grown = _grown(image, segment, last, page_size, TRAP[image.e_machine])
    return grown if isinstance(grown, str) else grown.changed(writes=[*_offsets(image), *grown.writes])


def _offsets(image: Image) -> list[tuple[int, bytes]]:
    """Return the writes that give sections without contents the offset at which they begin in their segment.

    mold gives .relro_padding the offset 0.  patchelf sorts by it, and moves all that comes before .dynstr to the front:
    here almost a window, for which there is no room.
    """
    return [
        (section.header + 24, struct.pack("<Q", section.sh_addr - segment.p_vaddr + segment.p_offset))
        for section in image.sections
        if section.sh_type == SHT_NOBITS and section.sh_flags & SHF_ALLOC and not section.sh_offset
        for segment in image.load_segments
        if segment.p_vaddr + segment.p_filesz == section.sh_addr and segment.p_filesz
    ]


def plan_rodata(image: Image, page_size: int) -> Patch | str:
    """Return the edit that makes the segment with the pad of read-only data end on a window, or why there is none."""
    segment = rodata_padded(image)
    if segment is None:
        return "no segment that is only readable holds the pad of read-only data"
    if not image.is64 or not image.little or segment.p_filesz != segment.p_memsz:
        return "not a file that hugealign edits"
    if (segment.p_vaddr - segment.p_offset) % page_size:
        return "address and offset of the read-only data differ modulo the window"
    last = _last_section(image, segment, SHF_ALLOC)
    if last is None:
        return "no section ends where the segment of read-only data ends"
    return _grown(image, segment, last, page_size, b"\0")


def rodata_padded(image: Image) -> Segment | None:
    """Return the read-only segment that holds our pad, None if there is none."""
    pad = next((s for s in image.sections if s.name in RODATA_PAD_SECTIONS and s.sh_flags & SHF_ALLOC), None)
    segments = image.rodata_segments if pad else ()
    return next((s for s in segments if pad and s.p_vaddr <= pad.sh_addr < s.p_vaddr + s.p_memsz), None)


def _grown(image: Image, segment: Segment, last: Section, page_size: int, fill: bytes) -> Patch | str:
    """Return the edit that extends *segment* and its *last* section to the end of the window with *fill*."""
    old = segment.p_filesz
    new = align_up(segment.p_vaddr + old, page_size) - segment.p_vaddr
    start, end = segment.p_offset + old, segment.p_offset + new
    taken = _in_the_way(image, segment, start, end, new)
    if taken:
        return taken
    # First the fill, while nothing maps it; then the section, which only tools depend on; last p_filesz and p_memsz,
    # which are neighbours, in one write.
    writes = [
        (start, (fill * ((new - old) // len(fill) + 1))[: new - old]),
        (last.header + 32, struct.pack("<Q", segment.p_vaddr + new - last.sh_addr)),
        (segment.header + 32, struct.pack("<QQ", new, new)),
    ]
    return Patch(writes if new > old else [], end)


def apply(fd: int, edit: Patch) -> None:
    """Write *edit* to the file behind *fd*.  Raises OSError; the file is then still as good as before."""
    for offset, data in edit.writes:
        write_all(fd, data, offset)


def _last_section(image: Image, segment: Segment, flags: int) -> Section | None:
    end = segment.p_vaddr + segment.p_memsz
    for section in reversed(image.sections):
        if (
            section.sh_flags & (SHF_ALLOC | SHF_EXECINSTR) == flags
            and section.sh_addr >= segment.p_vaddr
            and section.sh_addr + section.sh_size == end
        ):
            return section
    return None


def _in_the_way(image: Image, grown: Segment, start: int, end: int, new_size: int) -> str | None:
    """Return what occupies the file range or the addresses that the segment *grown* would extend over, or None."""
    what = "the text" if grown.p_flags & PF_X else "read-only data"
    if image.file_size < end:
        return "the file ends inside the last window"
    for segment in image.load_segments:
        if segment is grown:
            continue
        if segment.p_filesz and segment.p_offset < end and segment.p_offset + segment.p_filesz > start:
            return f"LOAD {segment.index} ({segment.flags}) lies in the file where {what} would grow"
        first, last = grown.p_vaddr + grown.p_memsz, grown.p_vaddr + new_size
        if segment.p_vaddr < last and segment.p_vaddr + segment.p_memsz > first:
            return f"LOAD {segment.index} ({segment.flags}) lies in memory where {what} would grow"
    for section in image.sections:
        in_file = section.sh_size and section.sh_type not in (0, SHT_NOBITS)
        if in_file and section.sh_offset < end and section.sh_offset + section.sh_size > start:
            return f"a section lies in the file where {what} would grow"
    table_end = image.e_shoff + 64 * len(image.sections)
    if image.sections and image.e_shoff < end and table_end > start:
        return f"the section headers lie in the file where {what} would grow"
    return None


def dig_holes(path: str, image: Image, pad_section: str) -> None:
    """Free the disk blocks of the file at *path* that hold only useless zeros, if the file system can.

    These are the gaps between segments, which no header table, section or segment claims, the pad of read-only data,
    and our padding if the trap instruction is all zeros.  All of it reads as zeros before and after.  A failure costs
    only disk space.
    """
    zeros = RODATA_PAD_SECTIONS if any(TRAP.get(image.e_machine, b"x")) else (*RODATA_PAD_SECTIONS, pad_section)
    gaps = unclaimed(image)
    pads = [_whole_pages(s.sh_offset, s.sh_offset + s.sh_size) for s in image.sections if s.name in zeros]
    if not gaps and not pads:
        return
    import ctypes

    libc = ctypes.CDLL(None)
    try:
        with using(os.open(path, os.O_RDWR | os.O_CLOEXEC)) as fd:
            # A section of that name may come from an input.
            for start, end in gaps + [pad for pad in pads if _is_zero(fd, *pad)]:
                libc.fallocate(fd, _PUNCH_HOLE, ctypes.c_long(start), ctypes.c_long(end - start))
    except OSError:
        return


def _is_zero(fd: int, start: int, end: int) -> bool:
    """Return whether the file behind *fd* holds zeros from *start* to *end*."""
    step = 1 << 20
    return not any(os.pread(fd, min(step, end - at), at).strip(b"\0") for at in range(start, end, step))


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
