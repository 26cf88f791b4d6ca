"""Numbers that are added to words of a file."""

import os
import random
import struct
from array import array

import pytest

from hugealign.errors import MalformedElfError
from hugealign.fixing.writing import add

_SIZE = 3 << 19


def _columns(first: int, entry: int, *cells: int) -> list[int]:
    return [at + cell for at in range(first, _SIZE - entry, entry) for cell in cells]


@pytest.mark.parametrize("number", [8, -8])
@pytest.mark.parametrize(
    "places",
    [
        _columns(0, 24, 0, 16),
        _columns(4096, 24, 8),
        _columns(64, 16, 0),
        _columns(72, 48, 0, 8),
        [*_columns(8, 24, 0, 16)[:-5], _SIZE - 8],
        [*range(0, 1 << 20, 24), *range(5 << 18, 3 << 19, 8)],
        sorted(random.Random(1).sample(range(0, _SIZE - 8, 8), 50_000)),
        _columns(4, 24, 0, 16),
        [0],
        [8, 40],
        [8, 40, 48],
    ],
)
def test_add(number: int, places: list[int]) -> None:
    before = struct.pack("<Q", 1000) * (_SIZE // 8)
    fd = os.memfd_create("file")
    os.write(fd, before)
    add(fd, number, array("Q", places))
    expected = bytearray(before)
    for place in places:
        struct.pack_into("<Q", expected, place, struct.unpack_from("<Q", expected, place)[0] + number)
    assert os.pread(fd, _SIZE + 1, 0) == expected
    os.close(fd)


@pytest.mark.parametrize("places", [[8], [0, 24, 48], [0, 16, 24, 40]])
def test_add_too_much(places: list[int]) -> None:
    """A word that cannot hold the sum is an error, not a sum modulo 2**64."""
    fd = os.memfd_create("file")
    os.write(fd, b"\xff" * 64)
    with pytest.raises(MalformedElfError):
        add(fd, 8, array("Q", places))
    os.close(fd)
