"""Open regular files, and nothing else, by the names that users give."""

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator, Sequence

from hugealign.errors import UNREADABLE, HugealignError, cause
from hugealign.io.descriptors import reopened, using

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.io.places import Place

#: Seconds to wait for a lock.
LOCK_SECONDS = 60.0
_PAUSE = 0.01
_ATTEMPTS = 100  # at finding a file, while others give its name to file after file
#: The file system has no locks, or none on a file that is open for reading (NFS).
NO_LOCKS = (errno.ENOLCK, errno.EBADF, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class FileError(HugealignError):
    """The file cannot be examined: missing, not readable, not a regular file, or larger than memory."""

    def __init__(self, message: str, code: str = UNREADABLE) -> None:
        super().__init__(message, code)


def real_path(path: str) -> str:
    """Return the *path* without links, also if nothing is there.  Raises FileError if it changes meanwhile."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError) as error:
        raise FileError(cause(error)) from error


def named(path: str) -> "Place":
    """Return the place of the file that *path* leads to, through links as they are now.  Raises FileError."""
    from hugealign.io import copying, places  # a link does not need them

    for _ in range(_ATTEMPTS):
        place = places.real(real_path(path), path)
        try:
            # Links in /proc lead where their text does not, into another root.
            if os.path.samestat(os.stat(path), place.status()):
                return place
        except (OSError, ValueError) as error:
            raise FileError(cause(error)) from error
    raise FileError("its name leads to another file by now", copying.CHANGED)


@contextlib.contextmanager
def opened(path: "str | Place", empty: bool = False) -> Iterator[int]:
    """Open the regular file at *path* for reading only; with *empty*, it may be empty.

    Links are followed, except to a Place.  Raises FileError, also for errors while reading.
    """
    with using(_open(path, empty)) as fd, _explained():
        yield fd


@contextlib.contextmanager
def opened_at(place: int) -> Iterator[int]:
    """Open the regular file that the descriptor *place* (``O_PATH``) stands for; otherwise as `opened` does."""
    with _explained(), using(_reopen(place, empty=False)) as fd:
        yield fd


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileError(cause(error)) from error


def contains(path: str, words: Sequence[bytes]) -> bool:
    """Return whether the regular file at *path* contains one of *words*; not if it cannot be read."""
    import mmap

    with (
        contextlib.suppress(HugealignError, OSError, ValueError),
        opened(path) as fd,
        mmap.mmap(fd, 0, prot=mmap.PROT_READ) as data,
    ):
        return any(data.find(word) >= 0 for word in words)
    return False


@contextlib.contextmanager
def locked(path: "str | Place", empty: bool = False) -> Iterator[int]:
    """Open the regular file at *path* for reading only, and keep other callers of this function out meanwhile.

    With *empty*, the file may be empty.  Where the file system has no locks, nothing keeps them out.  Raises FileError.
    """
    while True:
        with using(_open(path, empty)) as fd:
            _lock(fd)
            # The previous holder of the lock may have put another file in its place, or removed it.
            if _leads_to(path, fd):
                yield fd
                return


def _leads_to(path: "str | Place", fd: int) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path) if isinstance(path, str) else path.status())
    except OSError as error:
        raise FileError(cause(error)) from error


def _open(path: "str | Place", empty: bool = False) -> int:
    try:
        # O_PATH first: opening a FIFO can hang, and opening a device can do something.
        with using(os.open(path, os.O_PATH | os.O_CLOEXEC) if isinstance(path, str) else path.look()) as place:
            return _reopen(place, empty)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise FileError(cause(error)) from error


def _reopen(place: int, empty: bool) -> int:
    info = os.fstat(place)
    if not stat.S_ISREG(info.st_mode):
        raise FileError("not a regular file", "file.special")
    if not info.st_size and not empty:
        raise FileError("the file is empty", "file.empty")
    return reopened(place)


def _lock(fd: int) -> None:
    try:
        if not lock(fd):
            raise FileError("another process holds its lock", "file.locked")
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise FileError(f"cannot be locked: {error.strerror}") from error


def lock(fd: int, shared: bool = False) -> bool:
    """Lock the open file, exclusively or *shared*; return False if others kept it for too long.  Raises OSError."""
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    end = time.monotonic() + LOCK_SECONDS
    while time.monotonic() <= end:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            return True
        time.sleep(_PAUSE)
    return False
