"""The basic blocks of functions, from clang's address map.

Clang writes it with ``-fbasic-block-address-map``, before version 19 with ``-fbasic-block-sections=labels``.  LLVM's
docs/Extensions.rst, "SHT_LLVM_BB_ADDR_MAP", and llvm/lib/Object/BBAddrMap.cpp describe the format: clang 12 to 14 write
SHT_LLVM_BB_ADDR_MAP_V0, 15 and 16 version 1, 17 to 20 version 2, and later ones up to 5.  Every number is untrusted:
reads are in proportion to what the file really has of the section, and a map that does not add up is refused whole.
"""

import mmap
import os
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

from hugealign.elf.constants import SHT_LLVM_BB_ADDR_MAP, SHT_LLVM_BB_ADDR_MAP_V0
from hugealign.elf.contents import Contents
from hugealign.elf.image import Image, Section, read_image
from hugealign.elf.leb128 import read_unsigned
from hugealign.errors import HugealignError, cause
from hugealign.io.descriptors import file_at
from hugealign.io.units import printable

_NEWEST = 5
_ENTRY_COUNT, _FREQUENCY, _PROBABILITY, _RANGES, _OMITTED, _CALLSITES, _HASHES, _POST_LINK = (1 << n for n in range(8))
#: The version that introduced a feature; in older ones the numbers behind it would be misread.
_SINCE = {_CALLSITES: 3, _HASHES: 4, _POST_LINK: 5}
_LANDING_PAD = 4  # a bit of the metadata
_MOST_SIZE = 1 << 32  # of a section, a block, a distance; as clang's own reader has it
_LONG = (1 << 64) - 1
MOST = 1 << 22  # blocks of one file; the largest programs have half as many
MOST_BYTES = 1 << 28  # of all maps of one file
MOST_OF_FUNCTION = 1 << 16  # blocks of one function; a function with more keeps one more, which shows that


@dataclass(frozen=True, slots=True)
class Block:
    """A basic block: the compiler's *number*, its address, its size in bytes, and whether exceptions land there.

    *hash* is what the compiler says about its instructions and neighbours, 0 if it says nothing.
    """

    number: int
    address: int
    size: int
    landing_pad: bool
    hash: int = 0


class _Reader:
    """Read the numbers of *data* one by one.  Raises MalformedElfError at its end.

    *left* is how many more blocks the file may have.
    """

    __slots__ = ("at", "data", "end", "left", "order", "wide")

    def __init__(self, data: mmap.mmap, size: int, order: str, wide: bool) -> None:
        self.data, self.order, self.wide = data, order, wide
        self.at, self.end, self.left = 0, size, MOST

    def fixed(self, size: int) -> int:
        if self.at + size > self.end:
            raise HugealignError("the map of blocks ends within a number")
        value = int.from_bytes(self.data[self.at : self.at + size], "little" if self.order == "<" else "big")
        self.at += size
        return value

    def leb(self) -> int:
        """Return an unsigned LEB128 below 2**32."""
        return self.lebs(1)[0]

    def lebs(self, count: int, most: int = _MOST_SIZE - 1) -> list[int]:
        """Return *count* unsigned LEB128 numbers up to *most*."""
        try:
            values, self.at = read_unsigned(self.data, self.at, self.end, count)
        except ValueError as error:
            raise HugealignError(f"the map of blocks: {error}") from None
        if values and max(values) > most:
            raise HugealignError("the map of blocks has a number of more than 32 bits")
        return values

    def address(self) -> int:
        return self.fixed(8 if self.wide else 4)


def read_blocks(path: str | os.PathLike[str], wanted: Container[int] | None = None) -> dict[int, list[Block]]:
    """Return the blocks of the functions of the file at *path*, by the address of the function, in layout order.

    With *wanted*, only those of the functions at these addresses; for a function divided into parts, the first part's
    address counts.  Functions without a size and entries for code that was not linked are left out.  Raises
    HugealignError, which names the file.
    """
    try:
        with file_at(path) as fd:
            return _read(fd, read_image(fd), wanted)
    except (HugealignError, OSError, ValueError) as error:
        raise HugealignError(f"{printable(os.fspath(path))}: {cause(error)}") from None


def require_blocks(path: str | os.PathLike[str], wanted: Container[int]) -> dict[int, list[Block]]:
    """Return what `read_blocks` does.  Also raises HugealignError if the file has no map of the *wanted* functions."""
    blocks = read_blocks(path, wanted)
    if not blocks:
        raise HugealignError(
            f"{printable(os.fspath(path))}: has no map of blocks; compile it once with clang -fbasic-block-address-map "
            "(before clang 19: -fbasic-block-sections=labels)"
        )
    return blocks


def fit(blocks: Sequence[Block], start: int, size: int) -> bool:
    """Return whether *blocks* fit into a function of *size* bytes at *start*.

    A function has at least two blocks, the entry first, and no block twice.
    """
    return (
        1 < len(blocks) <= MOST_OF_FUNCTION
        and blocks[0].number == 0
        and len({block.number for block in blocks}) == len(blocks)
        and all(start <= block.address and block.address + block.size <= start + size for block in blocks)
    )


def _read(fd: int, image: Image, wanted: Container[int] | None) -> dict[int, list[Block]]:
    maps: dict[int, list[Block]] = {}
    left, room = MOST, MOST_BYTES
    for section in image.sections:
        if section.sh_type not in (SHT_LLVM_BB_ADDR_MAP_V0, SHT_LLVM_BB_ADDR_MAP):
            continue
        room -= section.sh_size
        if room < 0:
            raise HugealignError(f"more than {MOST_BYTES >> 20} MiB of maps of blocks: no program has as much")
        reader = _reader(fd, image, section)
        reader.left = left
        for blocks in _functions(reader, section.sh_type):
            left = reader.left
            if blocks and blocks[0].address and (wanted is None or blocks[0].address in wanted):
                if len({block.number for block in blocks}) != len(blocks):
                    continue  # clones of blocks, which have the number of their original
                # Functions that linkers folded into one (--icf) have a map each, but are the same.
                maps.setdefault(blocks[0].address, blocks)
    return maps


def _reader(fd: int, image: Image, section: Section) -> _Reader:
    """Return a reader of *section*, which may not have holes: zeros take the longest to read."""
    name = printable(section.name) or "the map of blocks"
    end = section.sh_offset + section.sh_size
    if end > image.file_size:
        raise HugealignError(f"{name} lies beyond the end of the file")
    if section.sh_size and os.lseek(fd, section.sh_offset, os.SEEK_HOLE) < end:
        raise HugealignError(f"{name} has a hole")
    contents = Contents(fd, section.sh_offset, section.sh_size)
    return _Reader(contents.data, section.sh_size, image.order, image.is64)


def _functions(reader: _Reader, kind: int) -> Iterator[list[Block]]:
    """Yield the blocks of each function that a section of type *kind* describes."""
    while reader.at < reader.end:
        version = features = 0
        if kind == SHT_LLVM_BB_ADDR_MAP:
            version = reader.fixed(1)
            if not 1 <= version <= _NEWEST:
                raise HugealignError(f"the map of blocks is of version {version}; known are 1 to {_NEWEST}")
            features = _known(reader.fixed(1 if version < _NEWEST else 2), version)
        yield _function(reader, version, features)


def _known(features: int, version: int) -> int:
    """Return *features* if a map of that *version* can have them."""
    if version == 1:
        return 0  # a reserved byte
    if features >= _POST_LINK << 1 or any(features & bit and version < since for bit, since in _SINCE.items()):
        raise HugealignError(f"the map of blocks has unknown features: {features:#x}")
    return features


def _function(reader: _Reader, version: int, features: int) -> list[Block]:
    ranges = reader.leb() if features & _RANGES else 1
    blocks: list[Block] = []
    left = reader.left
    for _ in range(ranges):
        base = reader.address()
        count = reader.leb()
        if count > reader.end - reader.at:  # each takes some bytes
            raise HugealignError("the map of blocks is truncated")
        if not count:  # a hole in a sparse file would be hundreds of millions of them
            raise HugealignError("the map of blocks has a function without blocks")
        if not features & _OMITTED:
            _range(reader, version, features, base, count, blocks)
    if features & _ENTRY_COUNT:
        reader.lebs(1, _LONG)
    for _ in range(left - reader.left) if features & (_FREQUENCY | _PROBABILITY | _POST_LINK) else ():
        _passed_over(reader, features)
    return blocks


def _range(reader: _Reader, version: int, features: int, base: int, count: int, blocks: list[Block]) -> None:
    end = 0
    reader.left -= count
    if reader.left < 0:
        raise HugealignError(f"more than {MOST} basic blocks: no program has as many")
    for number, distance, size, metadata, known in _rows(reader, version, features, count):
        begin = distance + (end if version else 0)
        end = begin + size
        if end >= _MOST_SIZE:
            raise HugealignError("the map of blocks has a function of more than 4 GiB")
        if len(blocks) <= MOST_OF_FUNCTION:
            blocks.append(Block(number, base + begin, size, bool(metadata & _LANDING_PAD), known))


def _rows(reader: _Reader, version: int, features: int, count: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield the number, the distance, the size, the metadata and the hash of each of *count* blocks."""
    if version > 1 and not features & (_CALLSITES | _HASHES):  # of most compilers
        numbers = iter(reader.lebs(4 * count))
        yield from zip(numbers, numbers, numbers, numbers, repeat(0), strict=False)
        return
    leb = reader.leb
    for index in range(count):
        number, distance = leb() if version > 1 else index, leb()
        calls = sum([leb() for _ in range(leb())]) if features & _CALLSITES else 0
        yield number, distance, leb() + calls, leb(), reader.fixed(8) if features & _HASHES else 0


def _passed_over(reader: _Reader, features: int) -> None:
    """Skip the compiler's estimate of how often one block runs."""
    if features & _FREQUENCY:
        reader.lebs(1, _LONG)
    if features & _POST_LINK:
        reader.leb()
    if features & _PROBABILITY:
        for _ in range(reader.leb()):
            reader.leb()
            reader.leb()
            if features & _POST_LINK:
                reader.leb()
