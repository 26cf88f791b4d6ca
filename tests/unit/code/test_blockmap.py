"""Clang's map of basic blocks: each version by hand, after LLVM's docs/Extensions.rst; and what is refused."""

import struct
from pathlib import Path

import pytest

from hugealign.code import blockmap
from hugealign.code.blockmap import Block, read_blocks
from hugealign.errors import HugealignError
from tests.support import steps

ADDRESS = bytes.fromhex("0010400000000000")
V0, SHT = 0x6FFF4C08, 0x6FFF4C0A  # SHT_LLVM_BB_ADDR_MAP of clang 12 to 14, and later ones


def file_of(path: Path, maps: bytes, size: int = 0, kind: int = SHT, sections: int = 1) -> Path:
    """Write an x86-64 file with *sections*, all of them the same *size* bytes: *maps*, and behind them a hole."""
    names = b"\0.llvm_bb_addr_map\0.shstrtab\0"
    at = 64 + 64 * (sections + 2) + len(names)
    path.write_bytes(
        struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, 62, 1, 0, 0, 64, 0, 64, 56, 0, 64,
                    sections + 2, sections + 1)
        + bytes(64)
        + struct.pack("<IIQQQQIIQQ", 1, kind, 0, 0, at, size or len(maps), 0, 0, 1, 0) * sections
        + struct.pack("<IIQQQQIIQQ", 19, 3, 0, 0, at - len(names), len(names), 0, 0, 1, 0)
        + names
        + maps
    )  # fmt: skip
    with path.open("r+b") as file:
        file.truncate(at + (size or len(maps)))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def versioned(data: bytes, version: int, features: int = 0) -> bytes:
    return (bytes([version]) + features.to_bytes(1 if version < 5 else 2, "little") if version else b"") + data


def read(path: Path, data: bytes, version: int, features: int = 0) -> list[Block]:
    """Return the blocks of the one function that *data* describes."""
    (blocks,) = read_blocks(file_of(path, versioned(data, version, features), kind=SHT if version else V0)).values()
    return blocks


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
def test_versions(name: int, path: Path) -> None:
    version, features, first, second = VERSIONS[name]
    number = 7 if version > 1 else 1
    assert read(path, ADDRESS + bytes([2, *first, *second]), version, features) == [
        FIRST,
        Block(number, SECOND.address, SECOND.size, landing_pad=True),
    ]


def test_hashes(path: Path) -> None:
    """As ``clang-23 -mllvm -emit-bb-hash`` writes them: its version 5, with eight bytes for each block."""
    first, second = [0, 0, 16, 1, *range(1, 9)], [7, 4, 4, 4, *bytes(7), 9]
    result = read(path, ADDRESS + bytes([2, *first, *second]), 5, 0x40)
    assert [block.hash for block in result] == [0x0807060504030201, 9 << 56]
    assert [block.hash for block in read(path, ADDRESS + bytes([1, 0, 0, 16, 1]), 5)] == [0]


def test_parts_of_a_function_and_what_the_compiler_thought(path: Path) -> None:
    """Two ranges; then the entry count, and of each block a frequency and a successor with its probability."""
    one, two = bytes([1, 0, 0, 16, 1]), bytes([1, 7, 20, *LONG, 4])
    thought = bytes([0x80, 1]) + 2 * bytes([9, 1, 7, 0xFF, 1])
    assert read(path, bytes([2]) + ADDRESS + one + ADDRESS + two + thought, 2, 0b1111) == [FIRST, SECOND]


@pytest.mark.parametrize(
    "data",
    [
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
def test_refused(data: bytes, path: Path) -> None:
    with pytest.raises(HugealignError):
        read(path, data, 2)


@pytest.mark.parametrize(("features", "version"), [(0x20, 2), (0x40, 3), (0x80, 4), (0x100, 5)])
def test_features_that_a_version_has_not(features: int, version: int, path: Path) -> None:
    with pytest.raises(HugealignError, match="features"):
        read(path, ADDRESS + b"\1\0\0\1\0", version, features)


def mapped(address: int, *numbers: int, count: int = 0) -> bytes:
    """A function's map, version 2: blocks of eight bytes."""
    head = bytes([2, 0]) + address.to_bytes(8, "little") + bytes([count or len(numbers)])
    return head + b"".join(bytes([number, 0, 8, 0]) for number in numbers)


def test_functions_of_a_file(path: Path) -> None:
    """Not those with clones of blocks, nor code that was not linked; of those folded into one the first."""
    maps = mapped(0x1000, 0, 3), mapped(0x1000, 0, 4), mapped(0x2000, 0, 1, 1), mapped(0, 0, 1), mapped(0x3000, 0)
    result = read_blocks(file_of(path, b"".join(maps)))
    assert {at: [block.number for block in blocks] for at, blocks in result.items()} == {0x1000: [0, 3], 0x3000: [0]}


def test_a_map_with_a_hole(path: Path) -> None:
    """Zeros cost nothing there: many blocks, calls and successors fit into a small file."""
    many = b"\xff\xff\xff\x3f"
    head = bytes([2, 0]) + ADDRESS
    for maps, kind in (
        (ADDRESS + many, V0),
        (head + many, SHT),
        (bytes([3, 0x20]) + ADDRESS + b"\1\0\0" + many, SHT),  # calls
        (bytes([2, 4]) + ADDRESS + b"\1\0\0\x08\0" + many, SHT),  # successors
    ):
        with pytest.raises(HugealignError, match=r"\.llvm_bb_addr_map has a hole"):
            read_blocks(file_of(path, maps, 1 << 27, kind))
        with pytest.raises(HugealignError, match="more than 256 MiB"):
            read_blocks(file_of(path, maps, (1 << 28) + 1, kind))


def test_only_so_many_blocks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one function no more are kept than it may have."""
    monkeypatch.setattr(blockmap, "MOST", 8)
    monkeypatch.setattr(blockmap, "MOST_OF_FUNCTION", 3)
    assert len(read_blocks(file_of(path, mapped(0x1000, *range(3)) + mapped(0x2000, *range(5))))[0x2000]) == 4
    with pytest.raises(HugealignError, match="more than 8 basic blocks"):
        read_blocks(file_of(path, mapped(0x1000, *range(3)) + mapped(0x2000, *range(6))))


def test_blocks_are_counted_before_they_are_made(path: Path) -> None:
    file_of(path, versioned(ADDRESS + b"\x81\x80\x80\x02" + bytes(1 << 23), 2))

    def look() -> None:
        with pytest.raises(HugealignError, match="more than 4194304 basic blocks"):
            read_blocks(path)

    assert steps(look) < 10_000


@pytest.mark.parametrize(("bound", "most"), [("MOST", 8), ("MOST_BYTES", 60)])
def test_sections_share_the_bounds(bound: str, most: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may lie on each other."""
    monkeypatch.setattr(blockmap, bound, most)
    maps = mapped(0x1000, *range(5))
    assert read_blocks(file_of(path, maps))
    with pytest.raises(HugealignError, match="more than"):
        read_blocks(file_of(path, maps, sections=2))


def test_what_the_compiler_thought_of_blocks_that_are_not_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blockmap, "MOST_OF_FUNCTION", 1)
    frequencies = bytes([9, 9, 9])
    assert len(read(path, ADDRESS + bytes([3]) + bytes([0, 0, 8, 0, 1, 0, 8, 0, 2, 0, 8, 0]) + frequencies, 2, 2)) == 2


def test_more_blocks_than_bytes(path: Path) -> None:
    """It is said of the count, not at the end of the bytes."""
    with pytest.raises(HugealignError, match="truncated"):
        read(path, ADDRESS + b"\x10" + bytes([0, 0, 16, 1]), 2)
