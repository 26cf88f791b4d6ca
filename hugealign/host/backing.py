"""What the page cache has behind the windows of a process: whether a new process would get them huge."""

import os
from collections.abc import Sequence

from hugealign.errors import HugealignError
from hugealign.host.processes import Process
from hugealign.host.smaps import Mapping

_LIMIT = 512  # windows that are looked up for a mapping: each costs a fault, and time


def behind(process: Process, mapping: Mapping, addresses: Sequence[int], page_size: int) -> dict[int, bool]:
    """Return for the windows at *addresses* of *mapping* whether a new mapping of the file has them huge.

    Windows of which it cannot be known are left out: beyond a limit, or where the file may not be opened.
    """
    if not mapping.is_file:
        return {}
    from hugealign.host import pagecache

    # Both lead to the file itself, also if its name is gone or another file's, and from other mount namespaces.
    # What map_files leads to only CAP_SYS_ADMIN and CAP_CHECKPOINT_RESTORE may open.
    link = "exe" if process.is_program(mapping) else f"map_files/{mapping.start:x}-{mapping.end:x}"
    known = addresses[:_LIMIT]
    try:
        with pagecache.opened(f"/proc/{process.pid}/{link}") as fd:
            if os.fstat(fd).st_ino != mapping.inode:
                return {}
            offsets = [mapping.offset + address - mapping.start for address in known]
            return dict(zip(known, pagecache.measure(fd, offsets, page_size), strict=True))
    except HugealignError:
        return {}
