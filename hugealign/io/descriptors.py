"""Helpers for file descriptors: close one after a block, write one completely, read from a forked child."""

import marshal
import os

from hugealign.errors import NoProcError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class using:  # noqa: N801 - reads as what `with` does
    """A context manager that returns the open descriptor *fd*, and closes it at the end."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __enter__(self) -> int:
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def file_at(path: "str | bytes | os.PathLike[str]") -> using:
    """Open the file at *path* for reading, closed after a block; a FIFO without a writer does not hang.

    Raises OSError.
    """
    return using(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))


def reopened(fd: int) -> int:
    """Return a new descriptor of the file behind *fd*, opened for reading.  Raises OSError."""
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        if os.path.isdir("/proc/self/fd"):
            raise
        raise NoProcError from None


def write_all(fd: int, data: bytes | memoryview, offset: int = 0) -> None:
    """Write all of *data* at *offset*.  Raises OSError."""
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], offset + done)


def forked(work: "Callable[[], bytes]", alone: bool = False) -> tuple[int, int]:
    """Run *work* in a child, in its own session if *alone*; return its PID and a pipe with the result of *work*."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    status = 1
    try:
        if alone:
            os.setsid()
        os.close(reading)
        with open(writing, "wb") as pipe:
            pipe.write(work())
        status = 0
    finally:
        os._exit(status)  # whatever happened, the parent reports it


class SecondProcess:
    """A process that does *work* while this one does other work; ^C ends both.

    The result must be of types that `marshal` knows: numbers, bytes, lists, ....
    """

    def __init__(self, work: "Callable[[], Any]") -> None:
        self._pid, self._fd = forked(lambda: marshal.dumps(work()))

    def result(self, otherwise: "Callable[[], Any]") -> "Any":
        """Wait for the work and return its result; if it failed, return that of *otherwise*."""
        try:
            with open(self._fd, "rb") as pipe:
                data = pipe.read()
        finally:
            try:
                _, status = os.waitpid(self._pid, 0)
            except ChildProcessError:  # our parent made us ignore SIGCHLD, so the kernel kept no status (wait(2))
                status = 0
        if not status:
            try:
                return marshal.loads(data)  # noqa: S302 - from our own process
            except EOFError:  # it failed, and its status was not kept
                pass
        return otherwise()
