"""Find the huge windows of a process, one by one: the ioctl PAGEMAP_SCAN of /proc/PID/pagemap.

Format: Documentation/admin-guide/mm/pagemap.rst, "Pagemap Scan IOCTL" (Linux 6.7).  It needs the same permission as
reading the process's smaps.  The flags of /proc/kpageflags would not do: they describe a folio, not whether this
process maps it with a PMD, and only root sees them.
"""

import fcntl
import mmap
import os
import struct
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum

from hugealign.io.descriptors import using
from hugealign.records import Record

_PAGEMAP_SCAN = 0xC0606610  # _IOWR('f', 16, struct pm_scan_arg) of include/uapi/linux/fs.h
_ARGUMENT = struct.Struct("12Q")  # size, flags, start, end, walk_end, vec, vec_len, max_pages, four masks
_WALK_END = 4
_IS_FILE = 1 << 2
_IS_PRESENT = 1 << 3
_IS_HUGE = 1 << 6
_REGIONS = 512  # per call
_GAP = 1 << 16  # bytes between mappings that one call scans together
_PRESENT, _EXCLUSIVE = 1 << 63, 1 << 56  # bits of an entry: present, and mapped by no other process


class Region(Record):
    """Consecutive pages of a process that are present and alike; addresses in bytes.

    *huge*: a PMD maps them (or a hugetlb page).  *file*: they belong to the file or to shared memory; the other pages
    of a private file mapping were written to and are the process's own.
    """

    start: int
    end: int
    huge: bool
    file: bool


class State(StrEnum):
    """The state of a window in a process."""

    HUGE = "huge"
    SMALL = "small"
    WRITTEN = "written"  # in small pages, some of them the process's own copies
    UNTOUCHED = "untouched"


def scan(pagemap: int, start: int, end: int) -> tuple[Region, ...]:
    """Return the present pages between *start* and *end*; *pagemap* is the open file /proc/PID/pagemap.

    Raises OSError: ENOTTY on Linux before 6.7.
    """
    regions: list[Region] = []
    room = max(1, min(_REGIONS, (end - start) // mmap.PAGESIZE))
    vector = array("Q", bytes(24 * room))
    place, _ = vector.buffer_info()
    while start < end:
        wanted = (0, _IS_PRESENT, 0, _IS_FILE | _IS_PRESENT | _IS_HUGE)
        argument = bytearray(_ARGUMENT.pack(_ARGUMENT.size, 0, start, end, 0, place, room, 0, *wanted))
        count = fcntl.ioctl(pagemap, _PAGEMAP_SCAN, argument)
        regions += [
            Region(vector[i], vector[i + 1], bool(vector[i + 2] & _IS_HUGE), bool(vector[i + 2] & _IS_FILE))
            for i in range(0, 3 * count, 3)
        ]
        reached = _ARGUMENT.unpack(argument)[_WALK_END]
        if reached <= start:
            break
        start = reached
    return tuple(regions)


def scan_each(pagemap: int, spans: Sequence[tuple[int, int]]) -> list[tuple[Region, ...]]:
    """Return the present pages in each of *spans*, which ascend, as `scan` does; it requests neighbours together."""
    result: list[tuple[Region, ...]] = []
    regions: tuple[Region, ...] = ()
    at = behind = 0
    for index, (start, end) in enumerate(spans):
        if index == behind:
            behind += 1
            while behind < len(spans) and spans[behind][0] - spans[behind - 1][1] <= _GAP:
                behind += 1
            regions, at = scan(pagemap, start, spans[behind - 1][1]), 0
        while at < len(regions) and regions[at].end <= start:
            at += 1
        own, last = [], at
        while last < len(regions) and (region := regions[last]).start < end:
            own.append(Region(max(region.start, start), min(region.end, end), region.huge, region.file))
            last += 1
        result.append(tuple(own))
    return result


def touched(regions: Iterable[Region], start: int, count: int, page_size: int, of_file: bool) -> dict[int, State]:
    """Return the state of those of the *count* windows of *page_size* bytes from *start* that have a page.

    The keys are the numbers of the windows, in order.  *of_file*: the mapping is of a file, so pages that are not the
    file's were written to.  The time depends on the pages, not on the size: any process can map 60 TiB and touch
    none of it.
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


def mapped_by_others(pid: int, address: int) -> bool:
    """Return whether other processes also map the page at *address* of *pid*.  Raises OSError."""
    with using(os.open(f"/proc/{pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)) as fd:
        entry = int.from_bytes(os.pread(fd, 8, address // mmap.PAGESIZE * 8), "little")
    return bool(entry & _PRESENT) and not entry & _EXCLUSIVE
