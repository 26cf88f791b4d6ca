"""Files by a name below an open directory: whoever exchanges a name on the way with a link leads us nowhere else.

Root works in directories of other users.  So a path is resolved once, when it is named, and what is done afterwards
starts from the directory that was open then, and follows no symbolic link.
"""

import errno
import os

from hugealign.io.descriptors import using
from hugealign.records import Record

_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Directory:
    """The open directory at a path, closed when nothing refers to it any more: a tree has one for all of its files.

    *name* is one in the directory *above* if that is given, and then no symbolic link.
    """

    def __init__(self, name: str, above: "Directory | None" = None) -> None:
        if above:
            self.fd: int = os.open(name, _STEP, dir_fd=above.fd)
        else:
            self.fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            os.close(self.fd)


class Place(Record):
    """A file by its *name*, a path without links below the directory *top*; *path* is what a person calls it."""

    top: Directory
    name: str
    path: str

    def look(self) -> int:
        """Open the file without opening what it stands for (``O_PATH``).  Raises OSError, ValueError."""
        return beneath(self.top.fd, self.name, os.O_PATH)

    def directory(self) -> int:
        """Open the directory of the file.  Raises OSError, ValueError."""
        return beneath(self.top.fd, os.path.dirname(self.name) or ".", os.O_RDONLY | os.O_DIRECTORY)

    def status(self) -> os.stat_result:
        """Return the state of the file.  Raises OSError, ValueError."""
        with using(self.look()) as file:
            return os.fstat(file)

    def real(self) -> str:
        """Return the path without links that the file has now.  Raises OSError, ValueError."""
        with using(beneath(self.top.fd, os.path.dirname(self.name) or ".", os.O_PATH | os.O_DIRECTORY)) as directory:
            return os.path.join(os.readlink(f"/proc/self/fd/{directory}"), os.path.basename(self.name))


def real(path: str, shown: str = "") -> Place:
    """Return the place of the real *path*, whether or not something is there."""
    return Place(Directory("/"), path[1:], shown or path)


def beneath(directory: int, path: str, flags: int) -> int:
    """Open what the relative *path* names below the open *directory*, with *flags*; no symbolic link is followed.

    In steps and not by openat2(2), which Linux before 5.6 does not have and a container may forbid.  Raises OSError,
    ValueError.
    """
    *directories, name = path.split("/")
    if ".." in (*directories, name):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    at = directory
    try:
        for step in directories:
            above, at = at, os.open(step, _STEP, dir_fd=at)
            if above != directory:
                os.close(above)
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    finally:
        if at != directory:
            os.close(at)
