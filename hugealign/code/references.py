"""Which functions a file's code and data refer to without calling them.

A method of a class, the handler of a command and an interpreter's operation are never called directly.  Their addresses
stand in tables beside those of their kind, and code that makes an object or looks up a command takes the address of the
table.  As in `hugealign.code.calls` there is no disassembler: an instruction that takes an address is found by its
opcode, and accepted if the address is the very beginning of a function or of a pointer to one.  On x86-64 that is
``LEA r64, [RIP + rel32]``, and in files at fixed addresses ``MOV r32, imm32`` and ``MOV [r64], imm32`` (Intel's manual,
volume 2); on aarch64 ``ADRP`` and the ``ADD`` behind it (Arm's, C6.2.12, C6.2.5).
"""

import os
import re
import struct
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice

from hugealign.code import calls
from hugealign.elf.contents import filled
from hugealign.elf.image import EM_AARCH64, EM_X86_64, SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS, Image, Section
from hugealign.elf.symbols import Functions
from hugealign.errors import MalformedElfError
from hugealign.io.descriptors import using

_MOST = 1 << 28  # bytes of data in all
_STEPS = 1 << 23  # references in all, each as often as it is made: a large table can have many users
_MEMBERS = 512  # of a table, from where the code refers to it
_POINTERS = 1 << 21  # in all; the largest programs have half as many
_USERS = 1 << 20  # of tables
_SYMBOLS = 1 << 26  # bytes of the symbols to which relocations refer
_POINTER = 8
_SHT_RELA, _SHT_DYNSYM = 4, 11
_RELA, _SYMBOL = struct.Struct("<QIIq"), struct.Struct("<8xQ8x")
#: Relocations that store an address: of a place in the file, and of a symbol (psABI of each processor).
_RELATIVE, _OF_SYMBOL = {EM_X86_64: 8, EM_AARCH64: 1027}, {EM_X86_64: 1, EM_AARCH64: 257}
_LEA = re.compile(rb"[\x48\x4c]\x8d[\x05\x0d\x15\x1d\x25\x2d\x35\x3d](?=(....))", re.DOTALL)
_MOV = re.compile(rb"(?:[\xb8-\xbf]|\x48\xc7[\x00-\x03\x06\x07])(?=(....))", re.DOTALL)
_ADRP = re.compile(rb"[\x90\xb0\xd0\xf0](?=..[\x00-\x3f]\x91)", re.DOTALL)
_PAGE = 1 << 12


class References(calls.Pairs):
    """Which functions refer to which.

    One refers to each function whose address it takes, and to all from a pointer whose address it takes to the end of
    that table; a function in a table refers to the next one there.  What cannot be read refers to nothing.
    """

    def read(self) -> Iterable[tuple[int, int]]:
        """Yield who refers to whom."""
        return islice(_references(self._path, self._functions), _STEPS)

    def made(self, index: int) -> Sequence[int]:
        """Return the functions to which function *index* refers, by index."""
        return self.forth.of(index)

    def had(self, index: int) -> Sequence[int]:
        """Return the functions that refer to function *index*, by index."""
        return self.back.of(index)


def _references(path: str | os.PathLike[str], functions: Functions) -> Iterator[tuple[int, int]]:
    """Yield who refers to whom."""
    image = functions.image
    if image.e_machine not in _RELATIVE or not image.is64:
        return
    at = dict(zip(functions.starts, range(len(functions)), strict=True))
    pointers = _pointers(path, image, at)
    for place, index in pointers.items():
        following = pointers.get(place + _POINTER, index)
        if following != index:
            yield index, following
    users: set[tuple[int, int]] = set()
    for code, start in calls.pieces(path, image):
        for site, address in _taken(code, start, image):
            if address not in at and address not in pointers:
                continue
            user = functions.at(site)
            if user >= 0 and address in pointers:
                if len(users) < _USERS:
                    users.add((user, address))
            elif user >= 0 and at[address] != user:
                yield user, at[address]
    for user, address in sorted(users):
        for place in range(address, address + _MEMBERS * _POINTER, _POINTER):
            if place not in pointers:
                break
            if pointers[place] != user:
                yield user, pointers[place]


def _taken(code: bytes, start: int, image: Image) -> Iterator[tuple[int, int]]:
    """Yield where *code*, which lies at *start*, takes an address, and which."""
    number = int.from_bytes
    if image.e_machine == EM_AARCH64:
        for match in islice(_ADRP.finditer(code), len(code) // _POINTER):
            at = match.end() - 4
            first, second = number(code[at : at + 4], "little"), number(code[at + 4 : at + 8], "little")
            if at % 4 == 0 and at >= 0 and first & 31 == second >> 5 & 31:
                pages = (first >> 5 & 0x7FFFF) << 2 | first >> 29 & 3
                page = start + at - (start + at) % _PAGE + (pages - ((pages & 1 << 20) << 1)) * _PAGE
                yield start + at, page + (second >> 10 & 0xFFF)
        return
    for match in islice(_LEA.finditer(code), len(code) // _POINTER):
        yield start + match.start(), start + match.end() + 4 + number(match[1], "little", signed=True)
    if image.fixed:
        for match in islice(_MOV.finditer(code), len(code) // _POINTER):
            yield start + match.start(), number(match[1], "little")


def _pointers(path: str | os.PathLike[str], image: Image, at: Mapping[int, int]) -> dict[int, int]:
    """Return the functions that pointers in the data begin, by the address of the pointer; *at* has their addresses."""
    counts: dict[int, int] = {}
    left, symbols = _MOST, None
    with suppress(OSError, OverflowError, MalformedElfError), using(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as fd:
        for section in image.sections:
            if not section.sh_flags & SHF_ALLOC or section.sh_flags & SHF_EXECINSTR or section.sh_type == SHT_NOBITS:
                continue
            left -= section.sh_size
            if left < 0:
                break
            if section.sh_type == _SHT_RELA:
                symbols = _symbols(fd, image) if symbols is None else symbols
                pairs = _relocated(fd, image.e_machine, section, symbols, at)
            elif section.sh_addr % _POINTER == 0:  # a file at fixed addresses, and SHT_RELR, have them in place
                pairs = _in_place(fd, section, at)
            else:
                continue
            counts.update(islice(pairs, _POINTERS - len(counts)))
    return counts


def _in_place(fd: int, section: Section, at: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the address of each pointer in *section*, and the function."""
    for begin, piece in filled(fd, section.sh_offset, section.sh_size, _POINTER):
        for number, word in enumerate(array("Q", piece)):
            if word in at:
                yield section.sh_addr + begin + number * _POINTER, at[word]


def _symbols(fd: int, image: Image) -> list[int]:
    """Return the values of the dynamic symbols."""
    section = next((s for s in image.sections if s.sh_type == _SHT_DYNSYM), None)
    data = os.pread(fd, min(section.sh_size, _SYMBOLS), section.sh_offset) if section else b""
    return [value for (value,) in _SYMBOL.iter_unpack(data[: len(data) // _SYMBOL.size * _SYMBOL.size])]


def _relocated(
    fd: int, machine: int, section: Section, values: Sequence[int], at: Mapping[int, int]
) -> Iterator[tuple[int, int]]:
    """Yield the address of each pointer that a relocation of *section* fills, and the function.

    *values* are those of the symbols.
    """
    relative, of_symbol = _RELATIVE[machine], _OF_SYMBOL[machine]
    for _, piece in filled(fd, section.sh_offset, section.sh_size, _RELA.size):
        for place, kind, symbol, addend in _RELA.iter_unpack(piece):
            base = 0 if kind == relative else None
            if kind == of_symbol and symbol < len(values):
                base = values[symbol]
            if base is not None and base + addend in at:
                yield place, at[base + addend]
