"""The files behind a process's text: the state of their windows in the page cache, and what their builds ask for."""

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence

from hugealign import mounts
from hugealign.errors import HugealignError
from hugealign.pagecache import measure
from hugealign.process.processes import Process
from hugealign.process.smaps import Mapping
from hugealign.regular import opened

_LIMIT = 512  # windows to look up per mapping: each costs a fault, and time


def behind(process: Process, mapping: Mapping, addresses: Iterable[int], page_size: int) -> dict[int, bool]:
    """Return whether a new mapping of the file would have the windows at *addresses* of *mapping* huge.

    Windows whose state is unknown are left out: those beyond a limit, and those of a file that may not be opened.
    """
    known = list(itertools.islice(addresses, _LIMIT))
    if not known:
        return {}
    with contextlib.suppress(HugealignError), _opened(process, mapping) as fd, measure.huge_pages_allowed():
        if fd is not None:
            offsets = [mapping.offset + address - mapping.start for address in known]
            return dict(zip(known, measure.measure(fd, offsets, page_size), strict=True))
    return {}


def asked(process: Process, mappings: Sequence[Mapping], page_size: int) -> dict[int, int]:
    """Return how many leading windows of each of *mappings*, by address, the build of its file asks for.

    Mappings are left out if the build asks for all windows, or if that is unknown.
    """
    left: dict[tuple[tuple[int, int], int], int | None] = {}  # for files that are mapped in parts
    found = {}
    for mapping in mappings:
        file = mapping.device, mapping.inode
        if file not in left:
            left[file] = None
            with contextlib.suppress(HugealignError), _opened(process, mapping) as fd:
                left[file] = None if fd is None else measure.windows_meant(fd, page_size)
        if (count := left[file]) is not None:
            found[mapping.start] = min(count, mapping.windows_possible(page_size))
            left[file] = count - found[mapping.start]
    return found


@contextlib.contextmanager
def _opened(process: Process, mapping: Mapping) -> Iterator[int | None]:
    """Open the file behind *mapping*; None if it has none, or if another one took its place.  Raises HugealignError."""
    if not mapping.is_file or mounts.served(os.makedev(*mapping.device), process.pid):
        yield None
        return
    # Both links lead to the file itself, even if its name is gone or belongs to another file, and from other mount
    # namespaces.  Only CAP_SYS_ADMIN and CAP_CHECKPOINT_RESTORE may open files through map_files.
    link = "exe" if process.is_program(mapping) else f"map_files/{mapping.start:x}-{mapping.end:x}"
    path = f"/proc/{process.pid}/{link}"
    if not os.path.exists(path) and not process.elsewhere:
        path = mapping.path  # the process has ended
        if mounts.behind_server(path):  # over which the process had a copy
            yield None
            return
    with opened(path) as fd:
        yield fd if os.fstat(fd).st_ino == mapping.inode else None
