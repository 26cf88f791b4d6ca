"""The page map: what regions mean for windows, and the ioctl on pages of our own."""

import ctypes
import mmap
import os

import pytest

from hugealign.process import pagemap
from hugealign.process.pagemap import Region, State, touched

K = 1 << 10
WINDOW = 2 << 20
HUGE, SMALL, WRITTEN, UNTOUCHED = State.HUGE, State.SMALL, State.WRITTEN, State.UNTOUCHED


def huge(start: int, end: int) -> Region:
    return Region(start * WINDOW, end * WINDOW, huge=True, file=True)


def small(start: int, end: int, file: bool = True) -> Region:
    return Region(start, end, huge=False, file=file)


def states(regions: list[Region], start: int, count: int, page_size: int, *, of_file: bool) -> tuple[State, ...]:
    result = touched(regions, start, count, page_size, of_file)
    assert list(result) == sorted(result)
    return tuple(result.get(index, UNTOUCHED) for index in range(count))


@pytest.mark.parametrize(
    ("regions", "expected"),
    [
        ([], (UNTOUCHED,) * 3),
        ([huge(2, 5)], (HUGE,) * 3),
        ([huge(3, 4)], (UNTOUCHED, HUGE, UNTOUCHED)),
        ([small(2 * WINDOW, 5 * WINDOW)], (SMALL,) * 3),
        ([small(4 * WINDOW - 4 * K, 4 * WINDOW + 4 * K)], (UNTOUCHED, SMALL, SMALL)),
        ([huge(2, 3), small(3 * WINDOW, 3 * WINDOW + 4 * K)], (HUGE, SMALL, UNTOUCHED)),
        ([small(3 * WINDOW, 3 * WINDOW + 4 * K, file=False)], (UNTOUCHED, WRITTEN, UNTOUCHED)),
        ([small(0, 2 * WINDOW), small(5 * WINDOW, 9 * WINDOW)], (UNTOUCHED,) * 3),  # head and tail
        ([huge(0, 9)], (HUGE,) * 3),
    ],
)
def test_states(regions: list[Region], expected: tuple[State, ...]) -> None:
    assert states(regions, 2 * WINDOW, 3, WINDOW, of_file=True) == expected


def test_own_pages_are_written_only_in_a_mapping_of_a_file() -> None:
    assert states([small(0, 4 * K, file=False)], 0, 1, WINDOW, of_file=False) == (SMALL,)


def test_window_of_two_huge_pages_needs_both() -> None:
    assert states([huge(0, 1)], 0, 1, 2 * WINDOW, of_file=True) == (SMALL,)
    assert states([huge(0, 1), huge(1, 2)], 0, 1, 2 * WINDOW, of_file=True) == (HUGE,)


@pytest.fixture
def own() -> int:
    try:
        fd = os.open("/proc/self/pagemap", os.O_RDONLY)
        pagemap.scan(fd, 4096, 8192)
    except OSError as error:
        pytest.skip(f"no PAGEMAP_SCAN here: {error}")
    return fd


def test_scan_of_more_regions_than_one_call_returns(own: int) -> None:
    pages = 3 * pagemap._REGIONS
    with mmap.mmap(-1, 2 * pages * 4096) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(0, 2 * pages, 2):
            memory[page * 4096] = 1
        holder = ctypes.c_char.from_buffer(memory)
        start = ctypes.addressof(holder)
        result = pagemap.scan(own, start, start + len(memory))
        del holder
    os.close(own)
    # An anonymous shared mapping is shared memory: its pages are of a file.
    expected = [Region(start + at * 8192, start + at * 8192 + 4096, huge=False, file=True) for at in range(pages)]
    assert [vars(region) for region in result] == [vars(region) for region in expected]


def test_neighbours_are_scanned_together_and_told_apart(own: int) -> None:
    with mmap.mmap(-1, 64 * 4096) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in (0, 1, 2, 3, 7, 8, 40, 41, 63):
            memory[page * 4096] = 1
        holder = ctypes.c_char.from_buffer(memory)
        start = ctypes.addressof(holder)
        pages = [(0, 1), (1, 3), (4, 5), (5, 8), (8, 9), (40, 42), (60, 64)]
        spans = [(start + first * 4096, start + end * 4096) for first, end in pages]
        result = pagemap.scan_each(own, spans)
        assert result == [pagemap.scan(own, *span) for span in spans]
        assert [len(regions) for regions in result] == [1, 1, 0, 1, 1, 1, 1]
        assert pagemap.scan_each(own, []) == []
        del holder
    os.close(own)


def test_scan_of_a_file_without_the_ioctl() -> None:
    # Every file of /proc/PID that has none answers as pagemap did before Linux 6.7.
    fd = os.open("/proc/self/status", os.O_RDONLY)
    with pytest.raises(OSError, match="Inappropriate ioctl"):
        pagemap.scan(fd, 4096, 8192)
    os.close(fd)
