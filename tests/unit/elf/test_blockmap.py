"""Clang's map of basic blocks: each version by hand, after LLVM's docs/Extensions.rst; and what is refused."""

import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hugealign.elf.blockmap import Block, _function, _known, _Reader
from hugealign.errors import MalformedElfError

ADDRESS = bytes.fromhex("0010400000000000")


def read(data: bytes, version: int, features: int = 0) -> list[Block]:
    memory = mmap.mmap(-1, max(len(data), 1))
    memory[: len(data)] = data
    reader = _Reader(memory, len(data), "<", wide=True)
    found = _function(reader, version, features)
    assert reader.at == reader.end
    return found


#: Two blocks, of 16 bytes at 0 and of 300 behind 4 bytes of padding, where exceptions land.
FIRST, SECOND = Block(0, 0x401000, 16, landing_pad=False), Block(7, 0x401014, 300, landing_pad=True)
LONG = bytes([0xAC, 2])  # 300
VERSIONS = {
    0: (0, 0, [0, 16, 1], [20, *LONG, 4]),
    1: (1, 0, [0, 16, 1], [4, *LONG, 4]),
    2: (2, 0, [0, 0, 16, 1], [7, 4, *LONG, 4]),
    3: (3, 0x20, [0, 0, 2, 5, 5, 6, 1], [7, 4, 0, *LONG, 4]),
    4: (4, 0x40, [0, 0, 16, 1, *bytes(8)], [7, 4, *LONG, 4, *bytes(8)]),
}


@pytest.mark.parametrize("name", VERSIONS)
def test_versions(name: int) -> None:
    version, features, first, second = VERSIONS[name]
    number = 7 if version > 1 else 1
    assert read(ADDRESS + bytes([2, *first, *second]), version, features) == [
        FIRST,
        Block(number, SECOND.address, SECOND.size, landing_pad=True),
    ]


def test_hashes() -> None:
    """As ``clang-23 -mllvm -emit-bb-hash`` writes them: its version 5, with eight bytes for each block."""
    first, second = [0, 0, 16, 1, *range(1, 9)], [7, 4, 4, 4, *bytes(7), 9]
    found = read(ADDRESS + bytes([2, *first, *second]), 5, 0x40)
    assert [block.hash for block in found] == [0x0807060504030201, 9 << 56]
    assert [block.hash for block in read(ADDRESS + bytes([1, 0, 0, 16, 1]), 5)] == [0]


def test_parts_of_a_function_and_what_the_compiler_thought() -> None:
    """Two ranges; then the entry count, and of each block a frequency and a successor with its probability."""
    one, two = bytes([1, 0, 0, 16, 1]), bytes([1, 7, 20, *LONG, 4])
    thought = bytes([0x80, 1]) + 2 * bytes([9, 1, 7, 0xFF, 1])
    assert read(bytes([2]) + ADDRESS + one + ADDRESS + two + thought, 2, 0b1111) == [FIRST, SECOND]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        ADDRESS[:7],
        ADDRESS,
        ADDRESS + b"\0",  # a function without blocks
        ADDRESS + b"\2" + bytes([0, 0, 16, 1]),  # one is missing
        ADDRESS + b"\xff\xff\xff\xff\x0f" + bytes(64),
        ADDRESS + b"\1\0\0" + b"\xff" * 5 + b"\1\0",  # a number of more than 32 bits
        ADDRESS + b"\1\0\0" + b"\xff" * 9,
        ADDRESS + b"\2\0\0" + 2 * (b"\xff\xff\xff\xff\x0f\0\0\0"),  # more than 4 GiB
    ],
)
def test_refused(data: bytes) -> None:
    with pytest.raises(MalformedElfError):
        read(data, 2)


@pytest.mark.parametrize(("features", "version"), [(0x20, 2), (0x40, 3), (0x80, 4), (0x100, 5)])
def test_features_that_a_version_has_not(features: int, version: int) -> None:
    with pytest.raises(MalformedElfError, match="features"):
        _known(features, version)


@given(st.binary(max_size=64), st.integers(0, 5), st.integers(0, 255))
def test_any_bytes_are_a_map_or_refused(data: bytes, version: int, features: int) -> None:
    memory = mmap.mmap(-1, 64)
    memory[: len(data)] = data
    try:
        blocks = _function(_Reader(memory, len(data), "<", wide=True), version, features)
    except MalformedElfError:
        return
    assert len(blocks) <= len(data)
