"""Whether others may put files of theirs where we load code from: only we and root may.

So root uses nothing in another user's home, and nobody uses what lies in a directory that others write to.
"""

import os
import stat

from hugealign.descriptors import using
from hugealign.errors import HugealignError
from hugealign.units import printable


def check_directory(fd: int, path: str) -> None:
    """Check the open directory *fd* and all above it: as they are, whatever links the *path* led through.

    Raises HugealignError, which names the *path*.
    """
    check(os.fstat(fd), path, sticky=True)
    with using(os.open("..", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)) as above:
        if not os.path.samestat(os.fstat(above), os.fstat(fd)):
            check_directory(above, os.path.dirname(path) or path)


def check(found: os.stat_result, path: str, sticky: bool = False) -> None:
    """Raise HugealignError if others may change what is *found*; *sticky* directories guard what is in them."""
    writable = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not (sticky and found.st_mode & stat.S_ISVTX)
    if writable or found.st_uid not in (0, os.geteuid()):
        raise HugealignError(
            f"{printable(path)}: others may write there, so nothing is run from it; chmod 700, or chown, "
            "or set XDG_CACHE_HOME"
        )
