"""Which text of a process comes from staged copies, and whether these still match the files at their paths."""

import os
from collections.abc import Sequence

from hugealign.io import mounts
from hugealign.process.smaps import Mapping

#: A copy of the current file; of an older state of it; of a file that was removed from its path or replaced.
CURRENT, OLDER, REPLACED = "current", "older", "replaced"
_SOURCE = b"hugealign"  # source of the tmpfs that `run` and `stage` mount


def states(pid: int, mappings: Sequence[Mapping]) -> dict[int, str]:
    """Return, by address, the state of those *mappings* of *pid* that are of staged copies."""
    points = covered(pid)
    result = {}
    for mapping in mappings:
        if mapping.path == "/":
            # A mount disappears when the file below it is renamed or removed elsewhere (detach_mounts in
            # fs/namespace.c); a file that was mounted by itself then has the path of a bare root.
            result[mapping.start] = REPLACED
        elif mapping.path in points:
            result[mapping.start] = REPLACED if mapping.deleted else _compared(pid, mapping)
    return result


def _compared(pid: int, mapping: Mapping) -> str:
    if mounts.behind_server(mapping.path, pid) or mounts.behind_server(mapping.path):
        return CURRENT  # it was when it was staged, and the server may not answer any more
    theirs = f"/proc/{pid}/root"
    directory = os.path.dirname(mapping.path)
    try:
        # In a container, our file of that name is another one, and the one below the mount is invisible.
        if not os.path.samestat(os.stat(directory), os.stat(f"{theirs}{directory}")):
            return CURRENT
        copy = os.stat(f"{theirs}{mapping.path}")
    except OSError:
        return CURRENT
    try:
        original = os.stat(mapping.path)
    except OSError:
        return REPLACED
    # The copy has the times of its original.  If our path leads to the copy itself, there is nothing to compare.
    if os.path.samestat(copy, original) or copy.st_mtime_ns == original.st_mtime_ns:
        return CURRENT
    return OLDER


def covered(pid: int) -> set[str]:
    """Return the paths that *pid* sees covered by a mount from our tmpfs."""
    ours = (b"tmpfs", _SOURCE)
    return {mounts.text(mount.place) for mount in mounts.seen(pid) if (mount.kind, mount.source) == ours}
