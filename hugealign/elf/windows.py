"""Window arithmetic: pure functions on integers, no I/O.

A *window* is an aligned range of the huge page size.  The kernel can map one with a single page only where the
whole window lies inside one mapping and where address and file offset agree modulo the window
(``thp_vma_suitable_order`` in include/linux/huge_mm.h).
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.elf.image import Segment

#: The page of the kernels that this project serves; mappings begin and end on it.
BASE_PAGE = 4096


def align_down(value: int, alignment: int) -> int:
    """Return the largest multiple of *alignment* that is not above *value*."""
    return value - value % alignment


def align_up(value: int, alignment: int) -> int:
    """Return the smallest multiple of *alignment* that is not below *value*."""
    return value + -value % alignment


def whole_windows(segment: "Segment", page_size: int, fixed: bool = False) -> tuple[int, int]:
    """Return the addresses where the whole windows of *segment* begin and end; equal when there is none.

    The mapping that the kernel makes of a segment reaches out to 4 KiB pages on both sides
    (``elf_map`` in fs/binfmt_elf.c).  ``p_align`` below the window lets ASLR move the segment off the grid, unless
    its address is *fixed* (ET_EXEC).
    """
    start = align_up(align_down(segment.p_vaddr, BASE_PAGE), page_size)
    end = align_down(align_up(segment.p_vaddr + segment.p_filesz, BASE_PAGE), page_size)
    congruent = (segment.p_vaddr - segment.p_offset) % page_size == 0
    stays = fixed or (segment.p_align and segment.p_align % page_size == 0)
    if end <= start or not congruent or not stays:
        return start, start
    return start, end


def file_offset(segment: "Segment", vaddr: int) -> int:
    """Return where in the file the byte of *segment* at *vaddr* lies."""
    return vaddr - segment.p_vaddr + segment.p_offset
