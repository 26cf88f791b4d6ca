"""Descriptors: closed at the end of a block of code, written to until all is there, and read from a child process."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class using:  # noqa: N801 - reads as what `with` does
    """A context that gives the open descriptor *fd*, and closes it at its end."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __enter__(self) -> int:
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def write_all(fd: int, data: bytes, offset: int = 0) -> None:
    """Write *data* at *offset*.  Raises OSError."""
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], offset + done)


def forked(work: "Callable[[], bytes]", alone: bool = False) -> tuple[int, int]:
    """Start *work* in a child, *alone* in a session; return its PID and the pipe that what it returns comes from."""
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
        os._exit(status)  # whatever it was: it is the parent that will say so
