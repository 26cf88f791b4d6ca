"""How much memory we may use, and how large the free pieces are: control groups and the buddy allocator.

Formats: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst, Documentation/filesystems/proc.rst 1.3.
"""

import os
from collections.abc import Iterable, Sequence

from hugealign.io import mounts
from hugealign.system import kernel

_UNLIMITED = 1 << 62  # version 1 has no word for "unlimited", only a number this large


def limit(groups: Sequence[str] | None = None) -> int | None:
    """Return the bytes that our control group and its ancestors may use; None without a limit."""
    values = [
        _number(os.path.join(group, name))
        for group in (control_groups() if groups is None else groups)
        for name in ("memory.max", "memory.limit_in_bytes")
    ]
    return min((value for value in values if value is not None and value < _UNLIMITED), default=None)


def room(groups: Sequence[str] | None = None) -> int | None:
    """Return the bytes that our control group and its ancestors may still use; None without a limit.

    The page cache of files counts as free: the kernel reclaims it before it refuses anything.
    """
    rooms = []
    for group in control_groups() if groups is None else groups:
        for most, current in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            allowed, taken = (_number(os.path.join(group, name)) for name in (most, current))
            if allowed is not None and taken is not None and allowed < _UNLIMITED:
                rooms.append(max(0, allowed - taken + _file_cache(group)))
    return min(rooms, default=None)


def limit_hits(groups: Sequence[str] | None = None) -> int:
    """Return how often the limits that `limit` finds have been hit so far."""
    hits = 0
    for group in control_groups() if groups is None else groups:
        hits += _number(os.path.join(group, "memory.failcnt")) or 0
        for line in _lines(os.path.join(group, "memory.events")):
            key, _, value = line.partition(" ")
            hits += int(value) if key == "max" else 0
    return hits


def free_huge_pages() -> int | None:
    """Return how many huge pages fit into free blocks; None if the kernel does not say."""
    order = (kernel.huge_page_size() // os.sysconf("SC_PAGE_SIZE")).bit_length() - 1
    lines = _lines("/proc/buddyinfo")
    # Node 0, zone   Normal   29   38 …: free blocks by order
    return sum(sum(map(int, line.split()[4 + order :])) for line in lines) if lines else None


def _file_cache(group: str) -> int:
    """Return the bytes of the page cache on the *group*'s file lists, without those of tmpfs."""
    stats = dict(line.split(" ", 1) for line in _lines(os.path.join(group, "memory.stat")) if " " in line)
    prefix = "total_" if "total_active_file" in stats else ""
    values = (stats.get(f"{prefix}{name}", "0") for name in ("active_file", "inactive_file"))
    return sum(int(value) for value in values if value.isdecimal())


def control_groups() -> list[str]:
    """Return the directories of our memory control group and its ancestors."""
    return groups_of(mounts.seen(word=b"cgroup"), _lines("/proc/self/cgroup"))


def groups_of(seen: Iterable[mounts.Mount], lines: Sequence[str]) -> list[str]:
    """Return the same for a process that has *seen* these mounts, and whose /proc/PID/cgroup has *lines*."""
    for mount in seen:
        unified = mount.kind == b"cgroup2"
        if unified or (mount.kind == b"cgroup" and b"memory" in mount.options.split(b",")):
            top, root = mounts.text(mount.place), mounts.text(mount.root)
            group = _group(lines, "" if unified else "memory")
            if group is None:
                continue
            # In a container, the mount shows only a part of the tree.
            inside = group.removeprefix(root) if root != "/" else group
            groups = [top]
            for part in inside.split("/"):
                if part and part != "..":
                    groups.append(os.path.join(groups[-1], part))
            if any(os.path.exists(os.path.join(g, n)) for g in groups for n in ("memory.max", "memory.failcnt")):
                return groups
    return []


def _group(lines: Sequence[str], controller: str) -> str | None:
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controller in controllers.split(","):
            return group
    return None


def _number(path: str) -> int | None:
    lines = _lines(path)
    return int(lines[0]) if lines and lines[0].isdecimal() else None


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            return file.read().splitlines()
    except OSError:
        return []
