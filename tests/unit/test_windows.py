from hypothesis import given
from hypothesis import strategies as st

from hugealign.elf.image import PF_R, PF_X, PT_LOAD, Segment
from hugealign.elf.windows import align_down, align_up, file_offset, whole_windows

PAGES = st.sampled_from([1 << 16, 1 << 21, 1 << 25, 1 << 29])
ADDRESSES = st.integers(0, 1 << 47)


def text(vaddr: int, size: int, offset: int | None = None, align: int = 1 << 30) -> Segment:
    return Segment(PT_LOAD, PF_R | PF_X, vaddr if offset is None else offset, vaddr, size, size, align)


@given(ADDRESSES, PAGES)
def test_alignment(value: int, page: int) -> None:
    down, up = align_down(value, page), align_up(value, page)
    assert down % page == up % page == 0
    assert down <= value <= up
    assert up - down in (0, page)


@given(ADDRESSES, st.integers(1, 1 << 32), PAGES)
def test_whole_windows_by_their_definition(vaddr: int, size: int, page: int) -> None:
    """Every window between the two addresses lies in the mapping, and the windows beside them do not."""
    first, last = whole_windows(text(vaddr, size), page)
    start, end = vaddr // 4096 * 4096, -(-(vaddr + size) // 4096) * 4096
    assert first % page == last % page == 0
    assert first <= last
    if first < last:
        assert start <= first
        assert last <= end
        assert first - page < start
        assert last + page > end
    else:
        assert -(-start // page) * page + page > end


def test_congruence_and_alignment_decide() -> None:
    page = 2 << 20
    assert whole_windows(text(page, page), page) == (page, 2 * page)
    assert whole_windows(text(page, page, offset=page + 0x1000), page) == (page, page)
    assert whole_windows(text(page, page, align=0x1000), page) == (page, page)
    assert whole_windows(text(page, page, align=0), page) == (page, page)
    assert whole_windows(text(3 * page, page, offset=page), page) == (3 * page, 4 * page)
    assert whole_windows(text(page, page - 4096), page)[0] == whole_windows(text(page, page - 4096), page)[1]
    assert whole_windows(text(page, page - 4095), page) == (page, 2 * page)  # the mapping ends on a 4 KiB page


@given(ADDRESSES, st.integers(0, 1 << 30), ADDRESSES)
def test_file_offset(vaddr: int, inside: int, offset: int) -> None:
    assert file_offset(text(vaddr, 1 << 30, offset=offset), vaddr + inside) == offset + inside
