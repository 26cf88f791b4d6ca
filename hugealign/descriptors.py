"""Descriptors that live as long as a block of code."""

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
