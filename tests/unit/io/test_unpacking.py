"""What a packed file may cost: in proportion to its size, or what the user says; and the same bytes by every way."""

import bz2
import gzip
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hugealign.io import unpacking
from hugealign.io.unpacking import FACTOR, FREE, Budget, ByteSource, FileSource, LimitError, StreamSource, UnpackError

KIB = 1 << 10
PAY: dict[str, tuple[Callable[[Budget], None], int]] = {
    "bytes": (lambda budget: budget.spend(KIB), KIB),
    "members": (Budget.members, KIB),
    "processes": (Budget.process, 256 * KIB),
}


@pytest.mark.parametrize("kind", PAY)
@pytest.mark.parametrize(
    ("size", "most", "allowed"), [(0, None, FREE), (KIB, None, FREE + KIB * FACTOR), (9, KIB, KIB)]
)
def test_what_is_allowed_and_not_one_more(kind: str, size: int, most: int | None, allowed: int) -> None:
    pay, price = PAY[kind]
    budget = Budget(size, most)
    for _ in range(allowed // price):
        pay(budget)
    with pytest.raises(LimitError, match=r"^unpacks to more than .*; --max-unpacked=SIZE allows more$"):
        pay(budget)


def test_a_pipe_grows_with_what_came() -> None:
    budget = Budget()
    with open("/dev/zero", "rb") as zeros:
        StreamSource(zeros, budget).skip(KIB)
    budget.spend(FREE + FACTOR * KIB)
    with pytest.raises(LimitError):
        budget.spend(FACTOR * (1 << 20))


DATA = os.urandom(300_000) + bytes(300_000)
WAYS: dict[str, tuple[Callable[[bytes], bytes], Callable[[ByteSource, Budget], ByteSource]]] = {
    "gzip": (gzip.compress, unpacking.gzip),
    "bzip2": (bz2.compress, unpacking.bzip2),
    "xz": (lzma.compress, unpacking.xz),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_was_packed_comes_out(way: str, tmp_path: Path) -> None:
    pack, unpack = WAYS[way]
    packed = pack(DATA[:1000]) + pack(DATA[1000:])
    (tmp_path / "x").write_bytes(packed)
    with (tmp_path / "x").open("rb") as file:
        budget = Budget(len(packed))
        for source in (FileSource(file.fileno(), 0, len(packed)), StreamSource(file, budget)):
            stream = unpacking.stream(unpack(source, budget), KIB)
            assert stream.peek(10)[:10] == DATA[:10]
            assert stream.read() == DATA
    (tmp_path / "x").write_bytes(packed[:-20])
    with (tmp_path / "x").open("rb") as file, pytest.raises(UnpackError):
        unpack(FileSource(file.fileno(), 0, len(packed) - 20), Budget()).finish()
