"""The record of a fix: what is packed comes back, and nothing else is believed."""

import base64
import json
import zlib
from array import array

import pytest

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.fixrecord import MAGIC, FixRecord, Piece, Step, pack, pack_words, unpack, unpack_words
from hugealign.errors import MalformedElfError

SHIFTED = FixRecord("shift", 2 << 20, 1000, 128, "digest", (Piece(0, 0, 400), Piece(500, 4500, 500)), 7)
SEPARATED = FixRecord(
    "separate",
    2 << 20,
    0x9000,
    0x200,
    "digest",
    (Piece(0, 0, 0x1000), Piece(0x1000, 0x5000, 0x8000)),
    1,
    Step(0x1000, 0x4000, 0x200, 0),
    ((0x100, b"old"),),
    ((0x4000, 3),),
)
LONG = SEPARATED.changed(size=4 << 20, replaced=((1 << 20, b"\xcc" * (2 << 20)),))


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


@pytest.mark.parametrize("record", [SHIFTED, SEPARATED, LONG])
def test_comes_back(record: FixRecord) -> None:
    assert unpack(pack(record)) == record


@pytest.mark.parametrize(
    ("record", "change"),
    [
        (SHIFTED, {"level": "other"}),
        (SHIFTED, {"level": "separate"}),  # without a step
        (SHIFTED, {"size": 999}),  # the last piece reaches further
        (SHIFTED, {"size": "x"}),
        (SHIFTED, {"headers": 63}),
        (SHIFTED, {"headers": 401}),
        (SHIFTED, {"pieces": []}),
        (SHIFTED, {"pieces": [[0, 0, 400], [300, 4500, 700]]}),  # they overlap
        (SHIFTED, {"pieces": [[8, 0, 400]]}),
        (SHIFTED, {"pieces": [[0, 8, 400]]}),
        (SHIFTED, {"pieces": [[0, 0, 0]]}),
        (SHIFTED, {"pieces": [[0, 0, 400], [500, 100, 500]]}),  # they overlap in the new file
        (SHIFTED, {"pieces": [[0, 0]]}),
        (SHIFTED, {"pieces": None}),
        (SHIFTED, {"pieces": [[0, 0, float("inf")]]}),
        (SEPARATED, {"step": None}),
        (SEPARATED, {"step": [0x1000, 0x4000, 0x200]}),
        (SEPARATED, {"words": [[0, 3]]}),
        (SEPARATED, {"words": [[1 << 46, 3]]}),
        (SEPARATED, {"words": [[1]]}),
        (SEPARATED, {"replaced": [[0x8FFF, packed(b"old")]]}),
        (SEPARATED, {"replaced": [[0, "old"]]}),
        (SEPARATED, {"replaced": [[0, 7]]}),
        (LONG, {"replaced": [[0, packed(bytes(1 << 20))]] * 4}),  # more than is kept of any file
    ],
)
def test_damaged(record: FixRecord, change: dict[str, object]) -> None:
    document = json.loads(pack(record)[len(MAGIC) :])
    with pytest.raises(MalformedElfError, match="damaged"):
        unpack(MAGIC + json.dumps(document | change).encode())


@pytest.mark.parametrize("data", [b"", MAGIC, MAGIC + b"{", MAGIC + b"[" * 100_000, MAGIC + b"7", pack(SHIFTED)[1:]])
def test_no_record(data: bytes) -> None:
    with pytest.raises(MalformedElfError):
        unpack(data)


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


@pytest.mark.parametrize("data", [b"", b"x", zlib.compress(bytes(7))])
def test_words_that_are_none_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedElfError):
        unpack_words(data, ((1, 2),))
