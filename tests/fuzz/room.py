"""A directory of bounded size: a tmpfs of one process's own, so that all files in it count together."""

import ctypes
import os

_NEWNS, _NEWUSER = 0x00020000, 0x10000000  # linux/sched.h
_NOSUID_NODEV, _REMOUNT, _REC_PRIVATE = 6, 32, 16384 | 1 << 18  # linux/mount.h
_libc = ctypes.CDLL(None, use_errno=True)


def bound(directory: str, size: int) -> None:
    """Mount a tmpfs of *size* bytes on *directory*, for this process and its children only.  Raises OSError."""
    user, group = os.geteuid(), os.getegid()
    _call(_libc.unshare, _NEWNS | (_NEWUSER if user else 0))
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    _call(_libc.mount, None, b"/", None, _REC_PRIVATE, None)
    _mount(directory, size, 0)


def possible() -> bool:
    """Return whether this process may mount a tmpfs: tried in a child."""
    child = os.fork()
    if not child:
        status = 1
        try:
            bound("/tmp", 1 << 20)  # no other process sees it
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def resize(directory: str, size: int) -> None:
    """Let the tmpfs on *directory* hold *size* bytes.  Raises OSError."""
    _mount(directory, size, _REMOUNT)


def _mount(directory: str, size: int, flags: int) -> None:
    options = f"size={size},mode=700".encode()
    _call(_libc.mount, b"hugealign-fuzz", os.fsencode(directory), b"tmpfs", flags | _NOSUID_NODEV, options)


def _call(function: "ctypes._NamedFuncPointer", *arguments: object) -> None:
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
