"""Window arithmetic: pure functions on integers, no I/O.

A *window* is an aligned range of the huge page size.  The kernel can map one with a single page only if the
whole window lies inside one mapping and if address and file offset agree modulo the window
(``thp_vma_suitable_order`` in include/linux/huge_mm.h).
"""

from hugealign.elf.image import Image, Segment

#: The page size of the kernels that this project serves; mappings begin and end on a multiple of it.
BASE_PAGE = 4096


def align_down(value: int, alignment: int) -> int:
    """Return the largest multiple of *alignment* that is not above *value*."""
    return value - value % alignment


def align_up(value: int, alignment: int) -> int:
    """Return the smallest multiple of *alignment* that is not below *value*."""
    return value + -value % alignment


def drift(image: "Image") -> int:
    """Return the distance that the loader adds to the addresses of *image*, modulo any alignment that it honours.

    The kernel and glibc put the page of the *first* ``PT_LOAD`` on an aligned address (``load_elf_binary`` in
    fs/binfmt_elf.c lowers load_bias by its p_vaddr; ``_dl_map_segment`` in elf/dl-map-segments.h), so an image base
    that is not a multiple of the window moves every window.
    """
    loads = image.load_segments
    return 0 if image.fixed or not loads else -align_down(loads[0].p_vaddr, BASE_PAGE)


def whole_windows(
    segment: "Segment", page_size: int, fixed: bool = False, drift: int = 0, alignment: int | None = None
) -> tuple[int, int]:
    """Return the addresses where the whole windows of *segment* begin and end; they are equal if there is none.

    The kernel extends the mapping of a segment to 4 KiB pages on both sides (``elf_map`` in fs/binfmt_elf.c).  An
    *alignment* (by default p_align) below the window lets ASLR move the segment off the grid, unless its address is
    *fixed* (ET_EXEC).  The addresses are those of the file; in memory *drift* is added.
    """
    start = align_up(align_down(segment.p_vaddr, BASE_PAGE) + drift, page_size) - drift
    end = align_down(align_up(segment.p_vaddr + segment.p_filesz, BASE_PAGE) + drift, page_size) - drift
    congruent = (segment.p_vaddr + drift - segment.p_offset) % page_size == 0
    alignment = segment.p_align if alignment is None else alignment
    stays = fixed or (alignment and alignment % page_size == 0)
    if end <= start or not congruent or not stays:
        return start, start
    return start, end


def text_windows(image: "Image", page_size: int, alignment: int | None = None) -> "list[tuple[Segment, int, int]]":
    """Return the runs of whole windows of text: segment, first address, end address.

    *alignment* is the one that the loader gives the file, by default ``image.load_alignment``.  Two kinds of windows
    are left out: those that the file is too short for, since no folio reaches beyond its end (``page_cache_ra_order``
    in mm/readahead.c), and those that another segment is mapped over.
    """
    return _windows(image, image.text_segments, page_size, alignment)


def rodata_windows(image: "Image", page_size: int, alignment: int | None = None) -> "list[tuple[Segment, int, int]]":
    """Return the runs of whole windows of read-only segments, as `text_windows` does for text."""
    return _windows(image, image.rodata_segments, page_size, alignment)


def _windows(
    image: "Image", segments: "tuple[Segment, ...]", page_size: int, alignment: int | None
) -> "list[tuple[Segment, int, int]]":
    moved = drift(image)
    alignment = image.load_alignment if alignment is None else alignment
    loads = sorted(
        (align_down(s.p_vaddr, BASE_PAGE), align_up(s.p_vaddr + s.p_memsz, BASE_PAGE), s.index)
        for s in image.load_segments
        if s.p_memsz
    )
    runs = []
    for segment in segments:
        first, last = whole_windows(segment, page_size, image.fixed, moved, alignment)
        in_file = align_up(image.file_size, BASE_PAGE) - segment.p_offset + segment.p_vaddr
        last = min(last, align_down(in_file + moved, page_size) - moved)
        for at, until, index in loads:
            if at >= last or first >= last:
                break
            if index == segment.index or until <= first:
                continue
            free = align_down(at + moved, page_size) - moved
            if free > first:
                runs.append((segment, first, free))
            first = align_up(until + moved, page_size) - moved
        if last > first:
            runs.append((segment, first, last))
    return runs


def file_offset(segment: "Segment", vaddr: int) -> int:
    """Return the file offset of the byte of *segment* at *vaddr*."""
    return vaddr - segment.p_vaddr + segment.p_offset
