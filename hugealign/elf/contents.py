"""The contents of a section, read in bounded pieces: a file may be sparse, and it may be truncated while it is read.

The file is not mapped, since access to a page that is gone would end us by SIGBUS (mmap(2)).  Holes and pieces of zeros
take no memory, and holes no time.
"""

import errno
import mmap
import os
import re
from bisect import bisect_right
from collections.abc import Iterator

from hugealign.errors import TRUNCATED, MalformedElfError

_PIECE = 1 << 20
_ZEROS = bytes(_PIECE)
_MOST = 1 << 32  # bytes: as far as an offset in a string table reaches
_NOT_ZERO = re.compile(rb"[^\0]")


def filled(fd: int, offset: int, size: int, multiple: int = 1) -> Iterator[tuple[int, bytes]]:
    """Yield start and data of those pieces of *size* bytes at *offset* of the file that are not all zeros.

    The start counts from *offset*; start and length are multiples of *multiple*.  Raises OSError, and MalformedElfError
    if the file ends too early.
    """
    at, step = 0, _PIECE // multiple * multiple
    while at + multiple <= size:
        begin = _data(fd, offset + at) - offset
        at = max(at, begin // multiple * multiple)
        wanted = min(step, (size - at) // multiple * multiple)
        if wanted <= 0:
            return
        piece = os.pread(fd, wanted, offset + at)
        if len(piece) < wanted:
            raise MalformedElfError(code=TRUNCATED)
        if piece != (_ZEROS if wanted == _PIECE else _ZEROS[:wanted]):
            yield at, piece
        at += wanted


def _data(fd: int, at: int) -> int:
    """Return where the next data of a file begins, at or behind *at*; see lseek(2), SEEK_DATA."""
    try:
        return os.lseek(fd, at, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return 1 << 63
        return at  # a file system without holes


class Contents:
    """*size* bytes at *offset* of a file, as *data*; *filled* of them were read.  Raises as `filled` does."""

    __slots__ = ("_ends", "data", "filled")

    def __init__(self, fd: int, offset: int, size: int) -> None:
        if size > _MOST:
            raise MalformedElfError("sh_size")
        # Anonymous memory is zero, and not allocated until it is written to.
        self.data = mmap.mmap(-1, max(size, 1))
        self.filled = 0
        self._ends: list[int] = []  # of the pieces that were read; each follows the one before or a hole
        for at, piece in filled(fd, offset, size):
            self.data[at : at + len(piece)] = piece
            self.filled += len(piece)
            self._ends.append(at + len(piece))

    def next(self, at: int) -> int:
        """Return where the first non-zero byte at or behind *at* lies; the size if there is none."""
        for end in self._ends[bisect_right(self._ends, at) :]:
            if match := _NOT_ZERO.search(self.data, max(at, end - _PIECE), end):
                return match.start()
        return len(self.data)
