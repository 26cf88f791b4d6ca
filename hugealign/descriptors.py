"""Descriptors: closed at the end of a block of code, and written to until all is there."""

import os


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
