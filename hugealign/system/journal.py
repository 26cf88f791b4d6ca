"""The journal of changes that cannot be found by looking: files that it fixed or replaced.

One line of JSON for each change, written before it.  Whoever makes a change holds a shared lock on the
journal's directory until it is made; an exclusive lock is required to remove lines.  So a line without its
change is out of date, and `hugealign status` removes it.
"""

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator

from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.errors import HugealignError
from hugealign.io import replacing, resources
from hugealign.io.descriptors import using
from hugealign.io.places import Place
from hugealign.io.regular import lock
from hugealign.records import Record

SCHEMA = "hugealign.journal/1"
#: The changes: `hugealign fix --in-place`, `hugealign warm --replace`.
FIXED, REPLACED = CHANGES = ("fixed", "replaced")
_NAME = "journal"
_LIMIT = 4 << 20  # bytes: some 20,000 changes
_LARGEST = 1 << 63  # of a number in a line


class Entry(Record):
    """A change of the file at the real *path*, made at *time* in seconds since 1970.

    *state* is what `file_state` returned before.
    """

    change: str
    path: str
    time: int
    state: tuple[int, ...]


def path() -> str:
    """Return the path of the journal: root's, or that of the user."""
    return os.path.join(resources.state(), _NAME)


def file_state(file: Place) -> tuple[int, ...]:
    """Return device, inode, size and time of change of *file*; nothing if there is none."""
    try:
        info = file.status()
    except (OSError, ValueError):
        return ()
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns


@contextlib.contextmanager
def noted(change: str, file: Place) -> Iterator[Diagnosis | None]:
    """Note one of CHANGES, which is about to be made to *file*.

    Yield None; or why it cannot be noted, which does not prevent the change.
    """
    try:
        directory = _locked()
    except (OSError, HugealignError) as error:
        yield _unwritten(file.path, error)
        return
    with using(directory):
        problem = None
        try:
            _append(directory, Entry(change, file.real(), int(time.time()), file_state(file)))
        except (OSError, ValueError) as error:
            problem = _unwritten(file.path, error)
        yield problem


def entries() -> list[Entry]:
    """Return what the journal holds, the last of each change and path.  Raises OSError, HugealignError."""
    try:
        with using(os.open(resources.state(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as directory:
            resources.check_directory(directory, resources.state())
            return _parsed(_contents(directory))
    except FileNotFoundError:
        return []


def prune(keep: Callable[[Entry], bool]) -> None:
    """Remove the lines that *keep* does not want, or that are not valid; remove an empty journal.

    Does nothing while something is being changed.  Raises OSError, HugealignError.
    """
    with using(os.open(resources.state(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as directory:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        resources.check_directory(directory, resources.state())
        if not _is_there(directory):
            return
        before = _contents(directory)
        after = b"".join(_line(entry) for entry in _parsed(before) if keep(entry))
        if after:
            if after != before:
                replacing.write(path(), after, 0o600)
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_NAME, dir_fd=directory)
        with contextlib.suppress(OSError):  # something else is in it
            os.rmdir(resources.state())


def _locked() -> int:
    """Open the journal's directory, locked so that no line is taken out.  Raises OSError, HugealignError."""
    home = os.path.expanduser("~") if os.geteuid() else resources.ROOT_STATE
    while True:
        directory = resources.made(resources.state(), home)
        try:
            with contextlib.suppress(OSError):  # a file system without locks: no process can remove a line either
                lock(directory, shared=True)
            if _is_there(directory):  # else an empty journal has just been removed
                return directory
        except BaseException:
            os.close(directory)
            raise
        os.close(directory)


def _is_there(directory: int) -> bool:
    """Return whether the open *directory* is still the one that the path of the journal names."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(directory), os.stat(resources.state()))
    return False


def _opened(directory: int, flags: int) -> int:
    """Open the journal.  Raises OSError."""
    fd = os.open(_NAME, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600, dir_fd=directory)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return fd


def _append(directory: int, entry: Entry) -> None:
    line = _line(entry)
    with using(_opened(directory, os.O_RDWR | os.O_CREAT | os.O_APPEND)) as fd:
        size = os.fstat(fd).st_size
        if size + len(line) > _LIMIT:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        if size and os.pread(fd, 1, size - 1) != b"\n":  # a full disk took the end of the last line
            line = b"\n" + line
        if os.write(fd, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(fd)


def _line(entry: Entry) -> bytes:
    import json  # neither `run` nor `warm` needs it

    document = {"schema": SCHEMA, "time": entry.time, "change": entry.change, "path": entry.path, "state": entry.state}
    return f"{json.dumps(document)}\n".encode()


def _contents(directory: int) -> bytes:
    """Return what the journal holds, as far as it may be large; nothing without one.  Raises OSError."""
    try:
        with using(_opened(directory, os.O_RDONLY)) as fd, open(fd, "rb", closefd=False) as file:
            return file.read(_LIMIT)
    except FileNotFoundError:
        return b""


def _parsed(data: bytes) -> list[Entry]:
    """Return the last line of each change and path; invalid lines are left out."""
    last = {(entry.change, entry.path): entry for entry in map(_entry, data.splitlines()) if entry}
    return list(last.values())


def _entry(line: bytes) -> Entry | None:
    import json

    try:
        document = json.loads(line)
        path, when, state = document["path"], document["time"], tuple(document["state"])
        numbers = all(type(number) is int and 0 <= number < _LARGEST for number in (when, *state))
        if document["schema"] == SCHEMA and document["change"] in CHANGES and numbers and os.path.isabs(path):
            os.fsencode(path)
            return None if "\0" in path else Entry(document["change"], path, when, state)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    return None


def _unwritten(path: str, error: Exception) -> Diagnosis:
    number = error.errno if isinstance(error, OSError) else None
    facts = {"journal": resources.state(), "error": errno.errorcode.get(number or 0, "others-may-write")}
    remedy = Remedy("run", ("hugealign", "status")) if number == errno.EFBIG else None
    return Diagnosis("machine.no-journal", path, facts, remedy)
