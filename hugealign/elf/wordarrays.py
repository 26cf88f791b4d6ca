"""Arithmetic on arrays of words of eight bytes, on many words at once: as on one number of as many bytes.

A loop takes two or three times as long.  No word carries into the next one, or borrows from it, as long as all are
below 2**56, which is checked; the offsets and addresses of a file are.
"""

import functools
import sys
from array import array
from collections.abc import Iterator

_BLOCK = 1 << 12  # words: what is computed stays in the processor's cache
_LIMIT = 1 << 56
_ALL = (1 << 64) - 1
_MULTIPLES = bytes(range(0, 256, 8))


def added(words: "array[int]", number: int) -> "array[int]":
    """Return *words* with *number* added to each.  Raises OverflowError if a sum does not fit into a word."""
    made = array("Q")
    for at in range(0, len(words), _BLOCK):
        block = words[at : at + _BLOCK]
        count, joined = len(block), _joined(block)
        summands = _repeated(min(abs(number), _LIMIT), count)
        total = joined - summands if number < 0 else joined + summands
        if (joined | total) & _from(_LIMIT, count):
            made.extend([word + number for word in block])
        else:
            made.frombytes(total.to_bytes(8 * count, sys.byteorder))
    return made


def rise(words: "array[int]", least: int) -> bool:
    """Return whether each of *words* but the first is *least* or more behind the one before; False also in doubt."""
    return all(difference >= 0 for difference, _ in _differences(words, least))


def steps(words: "array[int]") -> "array[int] | None":
    """Return how far each of *words* but the first is behind the one before; None unless four bytes can hold that."""
    made = array("I")
    for difference, count in _differences(words, 0):
        if difference < 0:
            return None
        made += array("I", difference.to_bytes(8 * count, sys.byteorder))[sys.byteorder == "big" :: 2]
    return made


def _differences(words: "array[int]", least: int) -> Iterator[tuple[int, int]]:
    """Yield how far each of many words is behind the one before, less *least*, as one number, and how many they are.

    -1 unless four bytes can hold each of these numbers, in which case none has borrowed from the next.
    """
    for at in range(0, len(words) - 1, _BLOCK):
        block = words[at : at + _BLOCK + 1]
        count = len(block) - 1
        joined = _joined(block)
        pair = joined >> 64, joined & _repeated(_ALL, count)
        later, earlier = pair if sys.byteorder == "little" else pair[::-1]
        difference = later - earlier - _repeated(least, count)
        # A number below 0 would have all upper bits.
        exact = not (joined & _from(_LIMIT, count + 1) or difference & _from(1 << 32, count))
        yield difference if exact else -1, count


def aligned(words: "array[int]") -> bool:
    """Return whether all *words* are multiples of eight."""
    return not words.tobytes()[0 if sys.byteorder == "little" else 7 :: 8].translate(None, _MULTIPLES)


def _joined(words: "array[int]") -> int:
    return int.from_bytes(words.tobytes(), sys.byteorder)


@functools.lru_cache(16)
def _repeated(number: int, count: int) -> int:
    """Return *count* words, each *number*, as one."""
    return int.from_bytes(number.to_bytes(8, sys.byteorder) * count, sys.byteorder)


def _from(limit: int, count: int) -> int:
    """Return the bits of *count* words that say that one is *limit*, a power of two, or more."""
    return _repeated(_ALL + 1 - limit, count)
