"""The record of a separation: what is packed comes back, and nothing else is believed."""

from array import array

import pytest

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.fixrecord import Piece
from hugealign.errors import MalformedElfError
from hugealign.fixing.plan import Step
from hugealign.fixing.separation.record import Separated, pack, pack_words, unpack, unpack_words

RECORD = Separated(
    2 << 20,
    0x9000,
    0x200,
    "digest",
    (Piece(0, 0, 0x1000), Piece(0x1000, 0x5000, 0x8000)),
    ((0x100, b"old"),),
    ((0x4000, 3),),
    1,
    Step(0x1000, 0x4000, 0x200, 0),
)


def test_comes_back() -> None:
    assert unpack(pack(RECORD)) == RECORD


@pytest.mark.parametrize(
    "change",
    [
        {"pieces": ()},
        {"pieces": (Piece(0, 8, 0x1000),)},
        {"pieces": (Piece(0, 0, 0x2000), Piece(0x1000, 0x5000, 0x8000))},
        {"pieces": (Piece(0, 0, 0x1000), Piece(0x1000, 0x800, 0x8000))},
        {"pieces": (Piece(0, 0, 0xA000),)},
        {"headers": 63},
        {"bytes": ((0x8FFF, b"old"),)},
        {"words": ((0, 3),)},
    ],
)
def test_contradictions_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(MalformedElfError):
        unpack(pack(RECORD.changed(**change)))


def test_words_come_back() -> None:
    places = {0x4000: array("Q", [8, 16, 1 << 31]), 56: array("Q", [0, 9])}
    data, counts = pack_words(places)
    assert counts == ((0x4000, 3), (56, 2))
    assert unpack_words(data, counts) == places


def test_words_too_far_apart_are_refused() -> None:
    with pytest.raises(RefusalError):
        pack_words({1: array("Q", [8, 1 << 33])})


@pytest.mark.parametrize("counts", [((1, 4),), ((1, 6),), ((1, 1 << 40),)])
def test_words_of_another_number_are_refused(counts: tuple[tuple[int, int], ...]) -> None:
    data, _ = pack_words({1: array("Q", range(0, 40, 8))})
    with pytest.raises(MalformedElfError):
        unpack_words(data, counts)
