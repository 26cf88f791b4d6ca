"""Window arithmetic: pure functions on integers, no I/O.

A *window* is an aligned range of the huge page size.  The kernel can map one with a single page only if the
whole window lies inside one mapping and if address and file offset agree modulo the window
(``thp_vma_suitable_order`` in include/linux/huge_mm.h).
"""

from hugealign.elf.image import Image, Segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The page size of the kernels that this project serves; mappings begin and end on a multiple of it.
BASE_PAGE = 4096
#: Linux maps nothing below, and rounds up to it (``round_hint_to_min`` in mm/mmap.c): CONFIG_LSM_MMAP_MIN_ADDR.
_LOWEST = 0x10000


def align_down(value: int, alignment: int) -> int:
    """Return the largest multiple of *alignment* that is not above *value*."""
    return value - value % alignment


def align_up(value: int, alignment: int) -> int:
    """Return the smallest multiple of *alignment* that is not below *value*."""
    return value + -value % alignment


def load_bias(image: "Image") -> int:
    """Return the distance that the loader adds to the addresses of *image*, modulo any alignment that it honours.

    The first ``PT_LOAD`` decides, so an image base that is not a multiple of the window moves every window.  Linux
    rounds the bias down to a page after it has subtracted p_vaddr (``ELF_PAGESTART(load_bias - vaddr)`` in
    load_elf_binary, fs/binfmt_elf.c), glibc puts the page of p_vaddr on the aligned address (``_dl_map_segment``,
    elf/dl-map-segments.h): they differ if p_vaddr lies off a page.
    """
    loads = image.load_segments
    if image.fixed or not loads:
        return 0
    return -(align_up if image.by_kernel else align_down)(loads[0].p_vaddr, BASE_PAGE)


def unasked_load_bias(image: "Image", page_size: int) -> int | None:
    """Return the load bias of *image* where its alignment does not decide, but something else can; else None.

    A mapping of a file without a requested address gets one that is congruent to the offset, if a whole window lies
    in the mapping, and if the file system (ext4, XFS, tmpfs with huge pages, ...) and the kernel (5.18, commit
    1854bc6e2420) do that: ``__thp_get_unmapped_area`` in mm/huge_memory.c, ``shmem_get_unmapped_area`` in mm/shmem.c.
    Linux maps static PIEs so, whose address it then rounds down to their alignment, and dynamic linkers those libraries
    that request no more than a page.  For a library that is not linked to address 0 they request its own address, which
    may be free (glibc 2.36, ``_dl_map_segments``; musl, ``map_library``), or the lowest one that is allowed.
    For a library with a larger alignment glibc reserves room without a file (``_dl_map_segment``), which lies on the
    grid if its size is a multiple of the window (``__get_unmapped_area`` in mm/mmap.c, Linux 6.13).
    """
    loads = image.load_segments
    alignment = max(image.load_alignment, BASE_PAGE)
    if image.fixed or not loads or image.interpreted or alignment >= page_size:
        return None
    first, offset = loads[0].p_vaddr, align_down(loads[0].p_offset, BASE_PAGE)
    base = align_down(first, BASE_PAGE)
    if base and not image.by_kernel:
        return align_up(max(base, _LOWEST), alignment) - base
    size = align_up(max(s.p_vaddr + s.p_memsz for s in loads), BASE_PAGE) - base
    if alignment > BASE_PAGE and not image.by_kernel:
        return None if (max(size, alignment) + alignment) % page_size else -base
    if align_up(offset, page_size) + page_size > offset + size:
        return None
    if alignment > BASE_PAGE:
        return align_down(offset, alignment) - align_up(first, BASE_PAGE)
    return offset - base


def whole_windows(
    segment: "Segment", page_size: int, fixed: bool = False, load_bias: int = 0, alignment: int | None = None
) -> tuple[int, int]:
    """Return the addresses where the whole windows of *segment* begin and end; they are equal if there is none.

    The kernel extends the mapping of a segment to 4 KiB pages on both sides (``elf_map`` in fs/binfmt_elf.c).  An
    *alignment* (by default p_align) below the window lets ASLR move the segment off the grid, unless its address is
    *fixed* (ET_EXEC).  The addresses are those of the file; in memory *load_bias* is added.
    """
    start = align_up(align_down(segment.p_vaddr, BASE_PAGE) + load_bias, page_size) - load_bias
    # The loader clears the rest of a page behind which memory begins that is not in the file: it is a copy then.
    in_file = align_up if segment.p_filesz >= segment.p_memsz else align_down
    end = align_down(in_file(segment.p_vaddr + segment.p_filesz, BASE_PAGE) + load_bias, page_size) - load_bias
    congruent = (segment.p_vaddr + load_bias - segment.p_offset) % page_size == 0
    alignment = segment.p_align if alignment is None else alignment
    stays = fixed or (alignment and alignment % page_size == 0)
    if end <= start or not congruent or not stays:
        return start, start
    return start, end


def text_windows(
    image: "Image", page_size: int, alignment: int | None = None, bias: int | None = None
) -> "list[tuple[Segment, int, int]]":
    """Return the runs of whole windows of text that hold code (``image.code``): segment, first address, end address.

    A huge page without an instruction serves nothing.  The arguments are those of `whole_text`.
    """
    return [
        (segment, low, high)
        for segment, first, last in whole_text(image, page_size, alignment, bias)
        for low, high in windows_holding(image.code, first, last, page_size)
    ]


def whole_text(
    image: "Image", page_size: int, alignment: int | None = None, bias: int | None = None
) -> "list[tuple[Segment, int, int]]":
    """Return the runs of all whole windows of text: segment, first address, end address.

    *alignment* is the one that the loader gives the file, by default ``image.load_alignment``, and *bias* the distance
    that it adds, by default `load_bias`.  Two kinds of windows are left out: those that the file is too short for,
    since no folio reaches beyond its end (``page_cache_ra_order`` in mm/readahead.c), and those that another segment is
    mapped over.
    """
    bias = load_bias(image) if bias is None else bias
    alignment = image.load_alignment if alignment is None else alignment
    runs: list[tuple[Segment, int, int]] = []
    loads: list[tuple[int, int, int]] = []
    for segment in joined(image.text_segments):
        first, last = whole_windows(segment, page_size, image.fixed, bias, alignment)
        in_file = align_up(image.file_size, BASE_PAGE) - segment.p_offset + segment.p_vaddr
        last = min(last, align_down(in_file + bias, page_size) - bias)
        if first >= last:
            continue
        loads = loads or sorted(
            (align_down(s.p_vaddr, BASE_PAGE), align_up(s.p_vaddr + s.p_memsz, BASE_PAGE), s.index)
            for s in joined(image.load_segments)
            if s.p_memsz
        )
        for at, until, index in loads:
            if at >= last or first >= last:
                break
            if index == segment.index or until <= first:
                continue
            free = align_down(at + bias, page_size) - bias
            if free > first:
                runs.append((segment, first, free))
            first = align_up(until + bias, page_size) - bias
        if last > first:
            runs.append((segment, first, last))
    return runs


def windows_holding(
    ranges: "Sequence[tuple[int, int]]", first: int, last: int, page_size: int
) -> "list[tuple[int, int]]":
    """Return the runs of those windows between *first* and *last* that hold a byte of *ranges*, ascending and apart."""
    from bisect import bisect_right

    runs: list[tuple[int, int]] = []
    # A hostile file has 1,170 segments and 262,144 sections.
    for at in range(bisect_right(ranges, first, key=lambda span: span[1]), len(ranges)):
        start, end = ranges[at]
        if start >= last:
            break
        low = max(first, first + align_down(start - first, page_size))
        high = min(last, first + align_up(end - first, page_size))
        if runs and low <= runs[-1][1]:
            runs[-1] = runs[-1][0], max(high, runs[-1][1])
        else:
            runs.append((low, high))
    return runs


def joined(segments: "tuple[Segment, ...]") -> "tuple[Segment, ...]":
    """Return *segments* with one in the place of those that the kernel keeps in one mapping, in the order of the table.

    It joins mappings of a file that are adjacent in memory and in the file, and have the same protection
    (``can_vma_merge_after`` in mm/vma.c).  The one has the index of the first of them by address.
    """
    if len(segments) < 2:
        return segments
    made: dict[int, Segment] = {}
    latest: dict[int, Segment] = {}
    for after in sorted(segments, key=lambda load: load.p_vaddr):
        segment, last = after, latest.get(after.p_flags)
        if (
            last is not None
            and segment.p_filesz
            and last.p_filesz == last.p_memsz
            and segment.p_vaddr - segment.p_offset == last.p_vaddr - last.p_offset
            and align_down(segment.p_vaddr, BASE_PAGE) <= align_up(last.p_vaddr + last.p_memsz, BASE_PAGE)
        ):
            before = segment.p_vaddr - last.p_vaddr
            segment = Segment(
                last.p_type,
                last.p_flags,
                last.p_offset,
                last.p_vaddr,
                max(last.p_filesz, before + segment.p_filesz),
                max(last.p_memsz, before + segment.p_memsz),
                max(last.p_align, segment.p_align),
                last.index,
                last.header,
            )
        made[segment.index] = latest[segment.p_flags] = segment
    return tuple(made[index] for index in sorted(made))


def file_offset(segment: "Segment", vaddr: int) -> int:
    """Return the file offset of the byte of *segment* at *vaddr*."""
    return vaddr - segment.p_vaddr + segment.p_offset
