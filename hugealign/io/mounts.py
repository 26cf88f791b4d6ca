"""The mounts that a process sees: ``/proc/PID/mountinfo``, Documentation/filesystems/proc.rst 3.5."""

import os
from collections.abc import Iterator
from contextlib import suppress

from hugealign.records import Record

_LIMIT = 16 << 20  # bytes of a mount table
_ESCAPED = rb"\\([0-3][0-7]{2})"  # space, tab, newline and backslash (mangle in fs/proc_namespace.c)
#: File systems on a server, besides FUSE (filesystems(5)).
_SERVED = (b"nfs", b"nfs4", b"cifs", b"smb3", b"9p", b"ceph", b"afs", b"lustre", b"beegfs", b"gpfs")


class Mount(Record):
    """One mount: its *root* within the file system on *device*, mounted at *place*.  Untrusted, as the kernel gives it.

    *kind* is the type of the file system, *source* is where it comes from, and *options* are its options.
    """

    number: bytes
    device: bytes
    root: bytes
    place: bytes
    kind: bytes
    source: bytes
    options: bytes


def seen(pid: int | str = "self", word: bytes = b"") -> Iterator[Mount]:
    """Yield the mounts that *pid* sees, with *word* only those that contain it; none where they cannot be read."""
    with suppress(OSError):
        try:
            table = _table(f"/proc/{pid}")
        except OSError:  # its first thread may have ended, and be in no namespace
            other = next((name for name in os.listdir(f"/proc/{pid}/task") if name != str(pid)), str(pid))
            table = _table(f"/proc/{pid}/task/{other}")
        yield from parse(table, word)


def _table(directory: str) -> bytes:
    with open(f"{directory}/mountinfo", "rb") as file:
        return file.read(_LIMIT)


def parse(table: bytes, word: bytes = b"") -> Iterator[Mount]:
    """Yield the mounts of a *table*, as `seen` does; a container host has thousands, so other lines are not split."""
    for line in table.split(b"\n"):
        if word not in line:
            continue
        mount, _, behind = line.partition(b" - ")
        words, system = mount.split(b" "), behind.split(b" ")
        if len(words) > 4 and len(system) == 3:
            yield Mount(words[0], words[2], words[3], words[4], *system)


def of_device(device: int, pid: int | str = "self") -> Mount | None:
    """Return the first mount of the file system with the ``st_dev`` *device*.

    None for btrfs subvolumes, whose ``st_dev`` is in no mount table.
    """
    name = b"%d:%d" % (os.major(device), os.minor(device))
    return next((mount for mount in seen(pid, name) if mount.device == name), None)


def layers(device: int, *, image: bool = False) -> list[str]:
    """Return the directories of the overlay with the ``st_dev`` *device*, topmost first; none for another type.

    Of a container these are what it has changed and the layers of its *image*, or the latter alone.
    """
    mount = of_device(device)
    if mount is None or mount.kind != b"overlay":
        return []
    # podman's are relative to the directory above that of the mount
    where = os.path.dirname(os.path.dirname(text(mount.place)))
    named = [part.partition("=")[::2] for part in text(mount.options).split(",")]
    upper = [value for key, value in named if key == "upperdir" and not image]
    lower = [layer for key, value in named if key in ("lowerdir", "lowerdir+") for layer in value.split(":")]
    return [os.path.join(where, layer) for layer in upper + lower]


def served(device: int, pid: int | str = "self") -> bool:
    """Return whether *device* is on a server: looking at a file there may wait for an answer that never comes."""
    mount = of_device(device, pid)
    return mount is not None and _on_server(mount)


def behind_server(path: str, pid: int | str = "self") -> bool:
    """Return whether *pid* comes through a server on its way to the absolute *path*.

    Even looking that name up may wait for ever, whatever is mounted over it.  Links on the way are not followed.
    """
    return any(_on_server(mount) and f"{path}/".startswith(f"{text(mount.place).rstrip('/')}/") for mount in seen(pid))


def _on_server(mount: Mount) -> bool:
    return mount.kind.startswith(b"fuse") or mount.kind in _SERVED


def text(field: bytes) -> str:
    """Return *field* with the kernel's escapes decoded."""
    if b"\\" not in field:
        return os.fsdecode(field)
    import re  # `run`, which must start fast, needs it for nothing else

    return os.fsdecode(re.sub(_ESCAPED, lambda match: bytes((int(match[1], 8),)), field))
