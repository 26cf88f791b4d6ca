"""Edit a linked file in place: grow the last section of code and its segment to the end of the window.

This is for linkers that leave the room but do not use it.  The section header grows too, because GNU strip and objcopy
compute segments from sections.  No address and no other byte of the program changes.
"""

import os
import struct

from hugealign.elf.image import SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS, SHT_NULL, Image, Section, Segment
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
    machine = image.machine
    if machine is None:
        return "not a processor that hugealign edits"
    segment = image.text_segments[0]
    if segment.p_filesz != segment.p_memsz:
        return "the text is not wholly in the file"
    if segment.p_vaddr % page_size or segment.p_offset % page_size:
        return "the text does not start on a window"
    last = _last_section(image, segment)
    if last is None:
        return "no section of code ends where the text segment ends"
    old, trap = segment.p_filesz, machine.trap
    new = align_up(segment.p_vaddr + old, page_size) - segment.p_vaddr
    start, end = segment.p_offset + old, segment.p_offset + new
    taken = _in_the_way(image, segment, start, end, new)
    if taken:
        return taken
    # First the fill, while nothing maps it; then the section, which only tools depend on; last p_filesz and p_memsz,
    # which are neighbours, in one write.
    writes = [
        (start, (trap * ((new - old) // len(trap) + 1))[: new - old]),
        (last.header + 32, struct.pack(image.order + "Q", segment.p_vaddr + new - last.sh_addr)),
        (segment.header + 32, struct.pack(image.order + "QQ", new, new)),
    ]
    return Patch([*_offsets(image), *(writes if new > old else [])], end)


def _offsets(image: Image) -> list[tuple[int, bytes]]:
    """Return the writes that give sections without contents the offset at which they begin in their segment.

    mold gives .relro_padding the offset 0.  patchelf sorts by it, and moves all that comes before .dynstr to the front:
    here almost a window, and there is no room for it.
    """
    return [
        (section.header + 24, struct.pack(image.order + "Q", section.sh_addr - segment.p_vaddr + segment.p_offset))
        for section in image.sections
        if section.sh_type == SHT_NOBITS and section.sh_flags & SHF_ALLOC and not section.sh_offset
        for segment in image.load_segments
        if segment.p_vaddr + segment.p_filesz == section.sh_addr and segment.p_filesz
    ]


def apply(fd: int, edit: Patch) -> None:
    """Write *edit* to the file behind *fd*.  Raises OSError; the file is then still as good as before."""
    for offset, data in edit.writes:
        write_all(fd, data, offset)


def _last_section(image: Image, segment: Segment) -> Section | None:
    """Return the section of code that ends where *segment* ends."""
    flags = SHF_ALLOC | SHF_EXECINSTR
    end = segment.p_vaddr + segment.p_memsz
    for section in reversed(image.sections):
        if (
            section.sh_flags & flags == flags
            and section.sh_addr >= segment.p_vaddr
            and section.sh_addr + section.sh_size == end
        ):
            return section
    return None


def _in_the_way(image: Image, grown: Segment, start: int, end: int, new_size: int) -> str | None:
    """Return what occupies the file range or the addresses that the segment *grown* would extend over, or None."""
    if image.file_size < end:
        return "the file ends inside the last window"
    for segment in image.load_segments:
        if segment is grown:
            continue
        if segment.p_filesz and segment.p_offset < end and segment.p_offset + segment.p_filesz > start:
            return f"LOAD {segment.index} ({segment.flags}) lies in the file where the text would grow"
        first, last = grown.p_vaddr + grown.p_memsz, grown.p_vaddr + new_size
        if segment.p_vaddr < last and segment.p_vaddr + segment.p_memsz > first:
            return f"LOAD {segment.index} ({segment.flags}) lies in memory where the text would grow"
    for section in image.sections:
        in_file = section.sh_size and section.sh_type not in (SHT_NULL, SHT_NOBITS)
        if in_file and section.sh_offset < end and section.sh_offset + section.sh_size > start:
            return "a section lies in the file where the text would grow"
    table_end = image.e_shoff + 64 * len(image.sections)
    if image.sections and image.e_shoff < end and table_end > start:
        return "the section headers lie in the file where the text would grow"
    return None


def dig_holes(path: str, image: Image, padded: str, lead_section: str) -> None:
    """Free the disk blocks of the file at *path* that hold nothing of use, if the file system can.

    These are the gaps between segments, which no header table, section or segment claims, whatever they hold; and
    zeros: the pad before the text, if there is one, and that of the text, with which the section *padded* ends, if the
    trap instruction is all zeros.  A failure costs only disk space.
    """
    names = {lead_section, padded if image.machine and image.machine.holes else ""} - {""}
    gaps, size = unclaimed(image), image.file_size
    ends = [(s.sh_offset, min(s.sh_offset + s.sh_size, size)) for s in image.sections if s.name in names]
    if not gaps and not ends:
        return
    from hugealign.io.libc import libc

    try:
        with using(os.open(path, os.O_RDWR | os.O_CLOEXEC)) as fd:
            pads = [_whole_pages(_zeros_from(fd, *section), section[1]) for section in ends]
            for start, end in gaps + [(start, end) for start, end in pads if start < end]:
                libc().fallocate(fd, _PUNCH_HOLE, start, end - start)
    except OSError:
        return


def _zeros_from(fd: int, start: int, end: int) -> int:
    """Return the first offset, not below *start*, from which on the file behind *fd* holds zeros up to *end*."""
    zeros = bytes(1 << 16)
    while start < end:
        at = max(start, end - len(zeros))
        data = os.pread(fd, end - at, at)
        if data != zeros:
            return at + len(data.rstrip(b"\0"))
        end = at
    return start


def unclaimed(image: Image) -> list[tuple[int, int]]:
    """Return the page-aligned file ranges of 64 KiB and more that nothing in the headers claims."""
    claimed = [(s.p_offset, s.p_offset + s.p_filesz) for s in image.segments if s.p_filesz]
    claimed += [
        (s.sh_offset, s.sh_offset + s.sh_size) for s in image.sections if s.sh_type not in (SHT_NULL, SHT_NOBITS)
    ]
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
