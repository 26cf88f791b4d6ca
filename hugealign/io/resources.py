"""Where non-Python files are: beside the package in a checkout, inside it once installed; and where our cache is.

Only we and root may put files where we load code from: so root uses nothing in another user's home, and no user runs
files from a directory that others can write to.
"""

import os
import stat

from hugealign.errors import HugealignError
from hugealign.io.descriptors import using
from hugealign.io.units import printable

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def directory(name: str) -> str:
    """Return the absolute path of the data directory *name* (``ld-scripts``, ``cmake``, ``libexec``)."""
    inside = os.path.join(PACKAGE, name)
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(PACKAGE), name)


def cache() -> str:
    """Return the path of our directory in the user's cache (XDG Base Directory Specification 0.8)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "hugealign")


def check_directory(fd: int, path: str) -> None:
    """Check the open directory *fd* and all its real parents, whatever links the *path* led through.

    Raises HugealignError, which names the *path*.
    """
    check(os.fstat(fd), path, sticky=True)
    with using(os.open("..", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)) as above:
        if not os.path.samestat(os.fstat(above), os.fstat(fd)):
            check_directory(above, os.path.dirname(path) or path)


def check(found: os.stat_result, path: str, sticky: bool = False) -> None:
    """Raise HugealignError if others may change *found*; a *sticky* directory protects the files in it."""
    writable = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not (sticky and found.st_mode & stat.S_ISVTX)
    if writable or found.st_uid not in (0, os.geteuid()):
        raise HugealignError(
            f"{printable(path)}: others may write there, so nothing is run from it; chmod 700, or chown, "
            "or set XDG_CACHE_HOME"
        )
