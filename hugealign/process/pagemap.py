"""Which windows of a process are huge, one by one: the ioctl PAGEMAP_SCAN of /proc/PID/pagemap.

Format: Documentation/admin-guide/mm/pagemap.rst, "Pagemap Scan IOCTL" (Linux 6.7).  Whoever may read the smaps of a
process may do this.  The flags of /proc/kpageflags would not serve: they tell what a folio is, not whether this
process maps it with a PMD, and only root sees them.
"""

import fcntl
import struct
from array import array
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from hugealign.records import Record

_PAGEMAP_SCAN = 0xC0606610  # _IOWR('f', 16, struct pm_scan_arg) of include/uapi/linux/fs.h
_ARGUMENT = struct.Struct("12Q")  # size, flags, start, end, walk_end, vec, vec_len, max_pages, four masks
_WALK_END = 4
_IS_FILE = 1 << 2
_IS_PRESENT = 1 << 3
_IS_HUGE = 1 << 6
_REGIONS = 512  # per call


class Region(Record):
    """Pages of a process that are present and alike; addresses in bytes.

    *huge*: a PMD maps them (or a hugetlb page).  *file*: they are of the file or of shared memory; in a private
    mapping of a file the others were written to and are the process's own.
    """

    start: int
    end: int
    huge: bool
    file: bool


class State(StrEnum):
    """How a process has a window."""

    HUGE = "huge"
    SMALL = "small"
    WRITTEN = "written"  # in small pages, some of them copies of the process's own
    UNTOUCHED = "untouched"


def scan(pagemap: int, start: int, end: int) -> tuple[Region, ...]:
    """Return the present pages between *start* and *end*; *pagemap* is the open file /proc/PID/pagemap.

    Raises OSError: ENOTTY on Linux before 6.7.
    """
    found: list[Region] = []
    vector = array("Q", bytes(24 * _REGIONS))
    place, _ = vector.buffer_info()
    while start < end:
        wanted = (0, _IS_PRESENT, 0, _IS_FILE | _IS_PRESENT | _IS_HUGE)
        argument = bytearray(_ARGUMENT.pack(_ARGUMENT.size, 0, start, end, 0, place, _REGIONS, 0, *wanted))
        count = fcntl.ioctl(pagemap, _PAGEMAP_SCAN, argument)
        found += [
            Region(vector[i], vector[i + 1], bool(vector[i + 2] & _IS_HUGE), bool(vector[i + 2] & _IS_FILE))
            for i in range(0, 3 * count, 3)
        ]
        reached = _ARGUMENT.unpack(argument)[_WALK_END]
        if reached <= start:
            break
        start = reached
    return tuple(found)


def touched(regions: Iterable[Region], start: int, count: int, page_size: int, of_file: bool) -> dict[int, State]:
    """Return the state of those of the *count* windows of *page_size* bytes from *start* on that have a page.

    They are called by their numbers, in order.  *of_file*: the mapping is of a file, so that pages not of the file were
    written to.  The time is that of the pages: anybody can map 60 TiB, and touch none of it.
    """
    huge: Counter[int] = Counter()
    written: dict[int, bool] = {}
    for region in regions:
        begin, end = max(region.start, start), min(region.end, start + count * page_size)
        while begin < end:
            index = (begin - start) // page_size
            stop = min(end, start + (index + 1) * page_size)
            huge[index] += (stop - begin) * region.huge
            written[index] = written.get(index, False) or (of_file and not region.file)
            begin = stop
    return {
        index: State.HUGE if huge[index] == page_size else State.WRITTEN if own else State.SMALL
        for index, own in written.items()
    }
