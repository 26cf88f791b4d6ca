"""Write an output to disk: a new file, complete and synced, takes a name, which another file may have had."""

import io
import os
import struct
import sys
from array import array
from bisect import bisect_left

from hugealign.elf.wordarrays import added, aligned
from hugealign.errors import TRUNCATED, MalformedElfError
from hugealign.fixing.output import Output
from hugealign.io.copying import CHANGED, ReplaceError, copy_range
from hugealign.io.descriptors import write_all
from hugealign.io.places import Place
from hugealign.io.replacing import created, replace

#: Contents that move are first copied up to a multiple of this in the new file: the page cache takes larger folios for
#: writes that begin on a boundary (fgf_set_order in include/linux/pagemap.h), and `copy_range` keeps to it afterwards.
_BOUNDARY = 8 << 20  # bytes
_BLOCK = 1 << 20  # bytes in which words are changed together
_IN_MEMORY = 1 << 28  # bytes of a file that is only checked


def write_new(source: int, output: Output, path: str, planned: tuple[int, ...]) -> None:
    """Write what *output* makes of the open file *source* to *path*, with its mode.

    *planned* is the file's `state` from before it was read for *output*.  Raises ReplaceError.
    """
    with created(path, source) as new:
        compose(source, new, output)
        _look_again(source, planned)


def write_over(file: Place, source: int, output: Output, planned: tuple[int, ...], *, one_name: bool = False) -> int:
    """Put what *output* makes of *file* in its place, or that of this *one_name* of it, as `replace` does.

    *source* is the file, open and locked (`hugealign.io.regular.locked`), and *planned* its `state` from before it was
    read for *output*.  Return the new file, open, for the caller to close.  Raises ReplaceError.
    """
    made = -1

    def keep(new: int) -> bool:
        nonlocal made
        made = os.dup(new)
        return True

    def fill(old: int, new: int, _size: int) -> None:
        _look_again(old, planned)
        compose(old, new, output)

    try:
        replace(file, keep, fill, held=source, one_name=one_name)
    except BaseException:
        if made >= 0:
            os.close(made)
        raise
    return made


def refuse_wrong(source: int, output: Output) -> None:
    """Raise RefusalError if what *output* makes of the file behind *source* fails its check; nothing of it is kept."""
    if output.check:
        with _unnamed(output.size) as new:
            compose(source, new.fileno(), output)


def _unnamed(size: int) -> io.FileIO:
    if size <= _IN_MEMORY:
        return io.FileIO(os.memfd_create("hugealign", os.MFD_CLOEXEC), "r+")
    from hugealign.io.unpacking import unnamed_file  # for the largest programs only

    return unnamed_file()


def compose(source: int, target: int, output: Output) -> None:
    """Write what *output* makes of the file behind *source* to the empty one behind *target*.

    Raises OSError, and RefusalError if the result is not what it should be.
    """
    for piece in output.pieces:
        first = min(piece.size, -piece.target % _BOUNDARY)
        for start, size in ((0, first), (first, piece.size - first)):
            copy_range(source, target, piece.source + start, piece.target + start, size)
    os.ftruncate(target, output.size)
    for number, places in output.words:
        add(target, number, places)
    for offset, data in output.writes:
        write_all(target, data, offset)
    if output.check:
        output.check(source, target)


def add(fd: int, number: int, places: "array[int]") -> None:
    """Add *number* to the words at *places* of the file behind *fd*.  Raises MalformedElfError."""
    i = 0
    while i < len(places):
        low = places[i] & -8
        stop = bisect_left(places, low + _BLOCK, i)
        size = places[stop - 1] + 8 - low
        block = os.pread(fd, size, low)
        if len(block) < size:
            raise MalformedElfError(code=TRUNCATED)
        try:
            block = _added(block, number, places[i:stop], low)
        except (OverflowError, ValueError, struct.error) as error:
            raise MalformedElfError("address") from error
        write_all(fd, block, low)
        i = stop


def _added(block: bytes, number: int, places: "array[int]", low: int) -> bytes:
    """Return *block* with *number* added to the words at *places*; its first byte is at *low*, a multiple of eight."""
    if sys.byteorder == "little" and not len(block) % 8 and aligned(places):
        words = array("Q", block)
        entry = places[2] - places[0] if len(places) > 2 else 0
        if entry and places[2:] == added(places[:-2], entry):  # one or two columns of a table
            for column in (places[::2], places[1::2]):
                cells = slice(column[0] - low >> 3, (column[-1] - low >> 3) + 1, entry >> 3)
                words[cells] = added(words[cells], number)
        else:
            for place in places:
                words[place - low >> 3] += number
        return words.tobytes()
    word, changed = struct.Struct("<Q"), bytearray(block)
    for place in places:
        word.pack_into(changed, place - low, word.unpack_from(changed, place - low)[0] + number)
    return bytes(changed)


def state(fd: int) -> tuple[int, ...]:
    """Return what changes when another process writes to the open file."""
    info = os.fstat(fd)
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns


def _look_again(fd: int, planned: tuple[int, ...]) -> None:
    if state(fd) != planned:
        raise ReplaceError("it was changed meanwhile", CHANGED)
