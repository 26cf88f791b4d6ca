"""The files behind a process's text: the state of their windows in the page cache, and what their builds request."""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Sequence

from hugealign.errors import HugealignError
from hugealign.pagecache import measure
from hugealign.process import codefiles
from hugealign.process.smaps import Mapping

_LIMIT = 512  # windows to look up per mapping: each costs a fault, and time


def cached(
    pid: int, mapping: Mapping, addresses: Iterable[int], page_size: int, *, program: bool, elsewhere: bool = False
) -> dict[int, bool]:
    """Return whether a new mapping of the file would have the windows at *addresses* of *mapping* huge.

    Windows whose state is unknown are left out: those beyond a limit, and those of a file that may not be opened.
    """
    known = list(itertools.islice(addresses, _LIMIT))
    if not known:
        return {}
    file = codefiles.opened_file(pid, mapping, program, elsewhere)
    with contextlib.suppress(HugealignError), file as fd, measure.huge_pages_allowed():
        if fd is not None:
            offsets = [mapping.offset + address - mapping.start for address in known]
            return dict(zip(known, measure.measure(fd, offsets, page_size), strict=True))
    return {}


def wanted(
    pid: int, mappings: Sequence[Mapping], page_size: int, program: Callable[[Mapping], bool], elsewhere: bool = False
) -> dict[int, int]:
    """Return how many leading windows of each of *mappings*, by address, the build of its file requests.

    Mappings are left out if the build requests all windows, or if that is unknown.
    """
    left: dict[tuple[tuple[int, int], int], int | None] = {}  # for files that are mapped in parts
    result = {}
    for mapping in mappings:
        file = mapping.device, mapping.inode
        if file not in left:
            left[file] = None
            opened = codefiles.opened_file(pid, mapping, program(mapping), elsewhere)
            with contextlib.suppress(HugealignError), opened as fd:
                left[file] = None if fd is None else measure.windows_meant(fd, page_size)
        if (count := left[file]) is not None:
            result[mapping.start] = min(count, mapping.windows_possible(page_size))
            left[file] = count - result[mapping.start]
    return result
