"""Write an output to disk: a new file, complete and synced, takes a name, which another file may have had."""

import os

from hugealign.errors import HugealignError
from hugealign.fixing.output import Output
from hugealign.io.descriptors import write_all
from hugealign.io.replacing import ReplaceError, copy_range, created, replace

#: Contents that move are first copied up to a multiple of this in the new file: the page cache takes larger folios for
#: writes that begin on a boundary (fgf_set_order in include/linux/pagemap.h), and `copy_range` keeps to it afterwards.
_BOUNDARY = 8 << 20  # bytes

#: In which state a failure leaves a file.
UNCHANGED, _CHANGED = "the file is unchanged", "the file is changed, and complete"


def write_new(source: int, output: Output, path: str, planned: tuple[int, ...]) -> None:
    """Write what *output* makes of the open file *source* to *path*, with its mode.

    *planned* is the file's `state` from before it was read for *output*.  Raises ReplaceError.
    """
    with created(path, source) as new:
        compose(source, new, output)
        _look_again(source, planned)


def write_over(path: str, source: int, output: Output, planned: tuple[int, ...]) -> None:
    """Put what *output* makes of the file at *path* in its place, with all that `replace` keeps.

    *source* is the file, open and locked (`hugealign.io.regular.locked`), and *planned* its `state` from before it was
    read for *output*.  Raises HugealignError, whose message says in which state the file is.
    """

    def fill(old: int, new: int, _size: int) -> None:
        _look_again(old, planned)
        compose(old, new, output)

    try:
        replace(path, lambda _: True, fill, held=source)
    except ReplaceError as error:
        raise HugealignError(f"{error}; {_CHANGED if error.changed else UNCHANGED}") from error


def compose(source: int, target: int, output: Output) -> None:
    """Write what *output* makes of the file behind *source* to the empty one behind *target*.  Raises OSError."""
    for piece in output.pieces:
        first = min(piece.size, -piece.target % _BOUNDARY)
        for start, size in ((0, first), (first, piece.size - first)):
            copy_range(source, target, piece.source + start, piece.target + start, size)
    os.ftruncate(target, output.size)
    for offset, data in output.writes:
        write_all(target, data, offset)


def state(fd: int) -> tuple[int, ...]:
    """Return what changes when somebody else writes to the open file."""
    info = os.fstat(fd)
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns


def _look_again(fd: int, planned: tuple[int, ...]) -> None:
    if state(fd) != planned:
        raise ReplaceError("it was changed meanwhile")
