"""Clang's map of basic blocks: each version by hand, after LLVM's docs/Extensions.rst; and what is refused."""

import mmap
from pathlib import Path

import pytest

from hugealign.elf import blockmap
from hugealign.elf.blockmap import _SHT, _SHT_V0, Block, _function, _known, _read, _Reader
from hugealign.elf.image import EM_X86_64, ET_EXEC, Image, Section
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


def of_file(path: Path, maps: bytes, size: int = 0, kind: int = _SHT) -> dict[int, list[Block]]:
    """Read a file that is one section, of *size* bytes; what lies behind *maps* is a hole."""
    path.write_bytes(maps)
    size = size or len(maps)
    with path.open("r+b") as file:
        file.truncate(size)
        image = Image(ET_EXEC, EM_X86_64, (), (Section(".llvm_bb_addr_map", kind, 0, 0, 0, size),), size)
        return _read(file.fileno(), image, None)


def mapped(address: int, *numbers: int, count: int = 0) -> bytes:
    """A function's map, version 2: blocks of eight bytes."""
    head = bytes([2, 0]) + address.to_bytes(8, "little") + bytes([count or len(numbers)])
    return head + b"".join(bytes([number, 0, 8, 0]) for number in numbers)


def test_functions_of_a_file(tmp_path: Path) -> None:
    """Not those with clones of blocks, nor code that was not linked; of those folded into one the first."""
    maps = mapped(0x1000, 0, 3), mapped(0x1000, 0, 4), mapped(0x2000, 0, 1, 1), mapped(0, 0, 1), mapped(0x3000, 0)
    found = of_file(tmp_path / "file", b"".join(maps))
    assert {at: [block.number for block in blocks] for at, blocks in found.items()} == {0x1000: [0, 3], 0x3000: [0]}


def test_a_map_with_a_hole(tmp_path: Path) -> None:
    """Zeros cost nothing there: many blocks, calls and successors could be told in a small file."""
    many = b"\xff\xff\xff\x3f"
    head = bytes([2, 0]) + ADDRESS
    for maps, kind in (
        (ADDRESS + many, _SHT_V0),
        (head + many, _SHT),
        (bytes([3, 0x20]) + ADDRESS + b"\1\0\0" + many, _SHT),  # calls
        (bytes([2, 4]) + ADDRESS + b"\1\0\0\x08\0" + many, _SHT),  # successors
    ):
        with pytest.raises(MalformedElfError, match=r"\.llvm_bb_addr_map has a hole"):
            of_file(tmp_path / "file", maps, 1 << 27, kind)
        with pytest.raises(MalformedElfError, match="more than 256 MiB"):
            of_file(tmp_path / "file", maps, (1 << 28) + 1, kind)


def test_only_so_many_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted before they are made; and of one function no more are kept than it may have."""
    monkeypatch.setattr(blockmap, "_MOST", 8)
    monkeypatch.setattr(blockmap, "MOST_OF_FUNCTION", 3)
    path = tmp_path / "file"
    assert len(of_file(path, mapped(0x1000, *range(3)) + mapped(0x2000, *range(5)))[0x2000]) == 4
    with pytest.raises(MalformedElfError, match="more than 8 basic blocks"):
        of_file(path, mapped(0x1000, *range(3)) + mapped(0x2000, *range(6)))
    made: list[int] = []
    monkeypatch.setattr(blockmap, "Block", lambda number, *_: made.append(number))
    with pytest.raises(MalformedElfError, match="more than 8 basic blocks"):
        of_file(path, mapped(0x1000, *range(9)))
    assert not made


@pytest.mark.parametrize(("bound", "most"), [("_MOST", 8), ("_MOST_BYTES", 60)])
def test_sections_share_the_bounds(bound: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may lie on each other."""
    monkeypatch.setattr(blockmap, bound, most)
    maps = mapped(0x1000, *range(5))
    (tmp_path / "file").write_bytes(maps)
    section = Section(".llvm_bb_addr_map", _SHT, 0, 0, 0, len(maps))
    with (tmp_path / "file").open("rb") as file:
        assert _read(file.fileno(), Image(ET_EXEC, EM_X86_64, (), (section,), len(maps)), None)
        with pytest.raises(MalformedElfError, match="more than"):
            _read(file.fileno(), Image(ET_EXEC, EM_X86_64, (), (section, section), len(maps)), None)


def test_what_the_compiler_thought_of_blocks_that_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blockmap, "MOST_OF_FUNCTION", 1)
    frequencies = bytes([9, 9, 9])
    assert len(read(ADDRESS + bytes([3]) + bytes([0, 0, 8, 0, 1, 0, 8, 0, 2, 0, 8, 0]) + frequencies, 2, 2)) == 2


def test_more_blocks_than_bytes() -> None:
    """It is said of the count, not at the end of the bytes."""
    with pytest.raises(MalformedElfError, match="cut short"):
        read(ADDRESS + b"\x10" + bytes([0, 0, 16, 1]), 2)
