"""Which functions a file's code and data refer to without calling them.

A method of a class, the handler of a command and an interpreter's operation are never called directly.  Their addresses
stand in tables beside those of their kind, and code that makes an object or looks up a command takes the address of the
table.  As in `hugealign.code.calls` there is no disassembler: an instruction that takes an address is found by its
opcode, and accepted if the address is the very beginning of a function or of a pointer to one.  On x86-64 that is
``LEA r64, [RIP + rel32]``, and in files at fixed addresses ``MOV r32, imm32`` and ``MOV [r64], imm32`` (Intel's manual,
volume 2); on aarch64 ``ADRP`` and the ``ADD`` behind it (Arm's, C6.2.12, C6.2.5).
"""

import os
from array import array
from collections.abc import Sequence
from contextlib import suppress

from hugealign.code import calls, scan
from hugealign.code.scan import Scan
from hugealign.elf.constants import SHT_DYNSYM
from hugealign.elf.contents import filled
from hugealign.elf.image import EM_AARCH64, EM_X86_64, SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS, SHT_RELA, Image
from hugealign.errors import MalformedElfError
from hugealign.io.descriptors import file_at

_MOST = 1 << 28  # bytes of data in all
_STEPS = 1 << 23  # references in all, with repetitions: a large table can have many users
_MEMBERS = 512  # of a table, from where the code refers to it
_POINTERS = 1 << 21  # in all; the largest programs have half as many
_USERS = 1 << 20  # of tables
_SYMBOLS = 1 << 26  # bytes of the symbols to which relocations refer
_POINTER, _RELA = 8, 24  # bytes of a pointer, and of a relocation
#: Relocations that store an address: of a place in the file, and of a symbol (psABI of each processor).
_TYPES = {EM_X86_64: (8, 1), EM_AARCH64: (1027, 257)}
_KINDS = {EM_X86_64: (scan.LEA, scan.MOV), EM_AARCH64: (scan.ADRP,)}  # the second in files at fixed addresses


class References(calls.Pairs):
    """Which functions refer to which.

    A function refers to each function whose address it takes.  If it takes the address of a pointer, it refers to all
    functions from there to the end of the table.  A function in a table refers to the next one.  Code that cannot be
    read refers to nothing.
    """

    def read(self, search: Scan) -> "array[int]":
        """Return the pairs of a function and one that it refers to."""
        image = self._functions.image
        if image.e_machine not in _TYPES or not image.is64:
            return array("Q")
        pointers = _pointers(self._path, image, search)
        places = array("Q", sorted(pointers))
        indices = array("I", map(pointers.__getitem__, places))
        tables = zip(places, places[1:], indices, indices[1:], strict=False)
        pairs = array("Q", (a << 32 | b for here, there, a, b in tables if there - here == _POINTER and a != b))
        kinds = _KINDS[image.e_machine][: 2 if image.fixed else 1]
        users = search.taken(kinds, calls.pieces(self._path, image), places, _USERS)
        pairs += search.taken(kinds, calls.pieces(self._path, image), search.starts, _STEPS - len(pairs))
        pairs += search.members(users, places, indices, _MEMBERS, _STEPS - len(pairs))
        return search.arranged(pairs)

    def targets(self, index: int) -> Sequence[int]:
        """Return the functions to which function *index* refers, by index."""
        return self.forth.of(index)

    def referrers(self, index: int) -> Sequence[int]:
        """Return the functions that refer to function *index*, by index."""
        return self.back.of(index)


def _pointers(path: str | os.PathLike[str], image: Image, search: Scan) -> dict[int, int]:
    """Return the functions that pointers in the data begin, by the address of the pointer."""
    pointers: dict[int, int] = {}
    left, symbols = _MOST, None
    with suppress(OSError, OverflowError, MalformedElfError), file_at(path) as fd:
        for section in image.sections:
            if not section.sh_flags & SHF_ALLOC or section.sh_flags & SHF_EXECINSTR or section.sh_type == SHT_NOBITS:
                continue
            left -= section.sh_size
            if left < 0:
                break
            if section.sh_type == SHT_RELA:
                symbols = _symbols(fd, image) if symbols is None else symbols
                for _, piece in filled(fd, section.sh_offset, section.sh_size, _RELA):
                    most = _POINTERS - len(pointers)
                    pointers.update(zip(*search.relocated(piece, _TYPES[image.e_machine], symbols, most), strict=True))
            elif section.sh_addr % _POINTER == 0:  # a file at fixed addresses, and SHT_RELR, have them in place
                for begin, piece in filled(fd, section.sh_offset, section.sh_size, _POINTER):
                    most = _POINTERS - len(pointers)
                    pointers.update(zip(*search.pointers_in(piece, section.sh_addr + begin, most), strict=True))
    return pointers


def _symbols(fd: int, image: Image) -> bytes:
    section = next((s for s in image.sections if s.sh_type == SHT_DYNSYM), None)
    return os.pread(fd, min(section.sh_size, _SYMBOLS), section.sh_offset) if section else b""
