"""Which functions call which directly, read from the machine code of a file.

There is no disassembler: a call instruction is found by its opcode, and accepted if its target is the very beginning of
a function, which other bytes hit once in ten thousand times.  On x86-64 that is ``E8 rel32`` (Intel's manual, volume 2,
CALL), on aarch64 ``BL`` (Arm's manual, C6.2.36).  Calls through pointers and through the PLT are not seen.
"""

import os
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property

from hugealign.code import scan
from hugealign.code.scan import Adjacency, Scan
from hugealign.elf.image import EM_AARCH64, EM_X86_64, SHF_EXECINSTR, SHT_NOBITS, Image
from hugealign.elf.symbols import Functions
from hugealign.io.descriptors import file_at

_CHUNK = 1 << 24  # bytes of code that are looked at together
_MOST = 1 << 29  # bytes of code in all
_CALLS = 1 << 23  # calls in one file; the largest programs have half as many
_KINDS = {EM_X86_64: (scan.CALL,), EM_AARCH64: (scan.BRANCH,)}


class Pairs:
    """Pairs of different *functions* in the file at *path*, as `read` finds them.

    The file is read at the first use, since not every order needs the pairs.
    """

    def __init__(self, path: str | os.PathLike[str], functions: Functions) -> None:
        """Remember the file."""
        self._path, self._functions = path, functions

    def read(self, search: Scan) -> "array[int]":
        """Return the pairs, sorted (`hugealign.code.scan`); none for what cannot be read."""
        raise NotImplementedError

    @cached_property
    def _tables(self) -> tuple[Adjacency, Adjacency]:
        search = Scan(self._functions)
        return search.tables(self.read(search))

    @property
    def forth(self) -> Adjacency:
        """The second functions of each first.  Raises HugealignError without a C compiler."""
        return self._tables[0]

    @property
    def back(self) -> Adjacency:
        """The first functions of each second.  Raises HugealignError without a C compiler."""
        return self._tables[1]


class Calls(Pairs):
    """Which functions call which.  Unreadable code calls nothing."""

    @property
    def readable(self) -> bool:
        """Whether calls are known in the code of the file's processor."""
        return self._functions.image.e_machine in _KINDS

    def read(self, search: Scan) -> "array[int]":
        """Return the caller and the callee of each call."""
        image = self._functions.image
        return search.taken(_KINDS.get(image.e_machine, ()), pieces(self._path, image), search.starts, _CALLS)

    def callees(self, index: int) -> Sequence[int]:
        """Return the functions that function *index* calls, by index."""
        return self.forth.of(index)

    def callers(self, index: int) -> Sequence[int]:
        """Return the functions that call function *index*, by index."""
        return self.back.of(index)


def pieces(path: str | os.PathLike[str], image: Image) -> Iterator[tuple[bytes, int]]:
    """Yield the code of a file in pieces, each with the bytes behind that an instruction can need, and its address."""
    left = _MOST
    with suppress(OSError, OverflowError), file_at(path) as fd:
        for section in image.sections:
            # The segments of a debug file describe bytes that it does not have; its sections say so.
            if not section.sh_flags & SHF_EXECINSTR or section.sh_type == SHT_NOBITS:
                continue
            for begin in range(0, min(section.sh_size, left), _CHUNK):
                code = os.pread(fd, min(_CHUNK + scan.BEHIND, section.sh_size - begin), section.sh_offset + begin)
                if not code:
                    break
                left -= min(len(code), _CHUNK)
                yield code, section.sh_addr + begin
