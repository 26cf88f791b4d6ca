"""Which text of a process comes from staged copies, and whether these are still of the files at their paths."""

import os
from collections.abc import Sequence

from hugealign import mounts
from hugealign.process.processes import Process
from hugealign.process.smaps import Mapping

#: A copy of the file as it is; of an older state of it; of a file that is gone from its path, or another's by now.
CURRENT, OLDER, REPLACED = "current", "older", "replaced"
_SOURCE = b"hugealign"  # of the tmpfs that `run` and `stage` mount


def states(process: Process, mappings: Sequence[Mapping]) -> dict[int, str]:
    """Return for the *mappings* of *process* that are of staged copies what these are, by address."""
    points = _mounted(process.pid)
    found = {}
    for mapping in mappings:
        if mapping.path == "/":
            # When the file below it is renamed or removed elsewhere, a mount goes (detach_mounts in fs/namespace.c),
            # and the path of a file that was mounted by itself is the root of nothing.
            found[mapping.start] = REPLACED
        elif mapping.path in points:
            found[mapping.start] = REPLACED if mapping.deleted else _compared(process, mapping)
    return found


def _compared(process: Process, mapping: Mapping) -> str:
    theirs = f"/proc/{process.pid}/root"
    directory = os.path.dirname(mapping.path)
    try:
        # In a container our file of that name is another one, and the one below the mount cannot be seen.
        if not os.path.samestat(os.stat(directory), os.stat(f"{theirs}{directory}")):
            return CURRENT
        copy = os.stat(f"{theirs}{mapping.path}")
    except OSError:
        return CURRENT
    try:
        original = os.stat(mapping.path)
    except OSError:
        return REPLACED
    # The copy has the times of its original.  Where we see the copy itself, there is nothing to compare.
    if os.path.samestat(copy, original) or copy.st_mtime_ns == original.st_mtime_ns:
        return CURRENT
    return OLDER


def _mounted(pid: int) -> set[str]:
    """Return the files over which *pid* sees something from a tmpfs of ours."""
    ours = (b"tmpfs", _SOURCE)
    return {mounts.text(mount.place) for mount in mounts.seen(pid) if (mount.kind, mount.source) == ours}
