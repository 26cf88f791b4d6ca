"""Where non-Python files are: beside the package in a checkout, inside it once installed; and where our cache is.

Only we and root may put files where we load code from: so root uses nothing in another user's home, and no user runs
files from a directory that others can write to.
"""

import errno
import os
import stat
from contextlib import suppress

from hugealign.errors import OTHERS_MAY_WRITE, HugealignError
from hugealign.io.descriptors import using
from hugealign.io.units import printable

#: Where root keeps what outlives a reboot (Filesystem Hierarchy Standard 3.0, 5.8).
ROOT_STATE = "/var/lib"
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def directory(name: str) -> str:
    """Return the absolute path of the data directory *name* (``ld-scripts``, ``cmake``, ``libexec``)."""
    inside = os.path.join(PACKAGE, name)
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(PACKAGE), name)


def cache() -> str:
    """Return the path of our directory in the user's cache (XDG Base Directory Specification 0.8)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "hugealign")


def state() -> str:
    """Return the path of our directory for what outlives a reboot: the user's (same specification), or root's."""
    base = os.environ.get("XDG_STATE_HOME", "")
    usual = os.path.expanduser("~/.local/state") if os.geteuid() else ROOT_STATE
    return os.path.join(base if os.path.isabs(base) else usual, "hugealign")


def made(path: str, within: str) -> int:
    """Open the directory *path*, where only we and root may write; make it if need be, but not *within*, nor above it.

    Raises OSError, also for a path that is not absolute, as that of a user without a home who is in no list of users;
    HugealignError if others may write there or replace the directory.
    """
    if not os.path.isabs(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    missing: list[str] = []
    while True:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if missing else os.O_NOFOLLOW))
            break
        except FileNotFoundError:
            if path in (within, "/"):
                raise
            path, name = os.path.split(path)
            missing.append(name)
    try:
        check_directory(fd, path)
        for name in reversed(missing):
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=fd)
            above, fd = fd, os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            os.close(above)
        check(os.fstat(fd), os.path.join(path, *reversed(missing)))
    except BaseException:
        os.close(fd)
        raise
    return fd


def check_directory(fd: int, path: str) -> None:
    """Check the open directory *fd* and all its real parents, whatever links the *path* led through.

    Raises HugealignError, which names the *path*.
    """
    check(os.fstat(fd), path, sticky=True)
    with using(os.open("..", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)) as above:
        if not os.path.samestat(os.fstat(above), os.fstat(fd)):
            check_directory(above, os.path.dirname(path) or path)


def check(info: os.stat_result, path: str, sticky: bool = False) -> None:
    """Raise HugealignError if others may change *info*; a *sticky* directory protects the files in it."""
    writable = info.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not (sticky and info.st_mode & stat.S_ISVTX)
    if writable or info.st_uid not in (0, os.geteuid()):
        raise HugealignError(f"{printable(path)}: others may write there", OTHERS_MAY_WRITE, directory=path)
