"""The arithmetic of windows, by its definition."""

from hypothesis import given
from hypothesis import strategies as st

from hugealign.elf.windows import (
    align_down,
    align_up,
    file_offset,
    whole_windows,
)
from tests.unit.elf.test_windows import text

PAGES = st.sampled_from([1 << 16, 1 << 21, 1 << 25, 1 << 29])
ADDRESSES = st.integers(0, 1 << 47)


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


@given(ADDRESSES, st.integers(0, 1 << 30), ADDRESSES)
def test_file_offset(vaddr: int, inside: int, offset: int) -> None:
    assert file_offset(text(vaddr, 1 << 30, offset=offset), vaddr + inside) == offset + inside
