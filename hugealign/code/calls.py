"""Which functions call which directly, read from the machine code of a file.

There is no disassembler: a call instruction is found by its opcode, and accepted if its target is the very beginning of
a function, which other bytes hit once in ten thousand times.  On x86-64 that is ``E8 rel32`` (Intel's manual, volume 2,
CALL), on aarch64 ``BL`` (Arm's manual, C6.2.36).  Calls through pointers and through the PLT are not seen.
"""

import os
import re
import struct
import sys
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice

from hugealign.elf.image import EM_AARCH64, EM_X86_64, SHF_EXECINSTR, SHT_NOBITS, Image
from hugealign.elf.symbols import Functions
from hugealign.io.descriptors import file_at

_CHUNK = 1 << 24  # bytes of code that are looked at together
_BEHIND = 4  # and bytes behind them that the last instruction can need
_MOST = 1 << 29  # bytes of code in all
_DENSE = 4  # bytes of a piece for each that can begin a call, on average; a call has five
_PAIRS = 1 << 22  # distinct calls; the largest programs have two million
_X86_64, _REL32 = re.compile(rb"\xe8"), struct.Struct("<i")
_AARCH64 = re.compile(rb"[\x94-\x97]")  # the last byte of the instruction
_INDEX = (1 << 32) - 1


class Pairs:
    """Pairs of *functions*, from the file at *path*, as `read` finds them; none is paired with itself.

    The file is read at the first question, since an order may not need to know.
    """

    def __init__(self, path: str | os.PathLike[str], functions: Functions) -> None:
        """Remember the file."""
        self._path, self._functions = path, functions

    def read(self) -> Iterable[tuple[int, int]]:
        """Yield the pairs, by index; nothing for what cannot be read."""
        raise NotImplementedError

    @cached_property
    def _numbers(self) -> "array[int]":
        """Each pair as one number, the first function, then the second: sorted, and no more than `_PAIRS`."""
        targets: set[int] = set()
        add = targets.add
        for first, second in self.read():
            add(first << 32 | second)
            if len(targets) == _PAIRS:
                break
        return array("Q", sorted(targets))

    @cached_property
    def forth(self) -> "Adjacency":
        """The second functions of each first."""
        return _adjacency(self._numbers, len(self._functions))

    @cached_property
    def back(self) -> "Adjacency":
        """The first functions of each second."""
        turned = sorted((pair & _INDEX) << 32 | pair >> 32 for pair in self._numbers)
        return _adjacency(turned, len(self._functions))


class Calls(Pairs):
    """Which functions call which.  Unreadable code calls nothing."""

    @property
    def readable(self) -> bool:
        """Whether calls are known in the code of the file's processor."""
        return self._functions.image.e_machine in (EM_X86_64, EM_AARCH64)

    def read(self) -> Iterable[tuple[int, int]]:
        """Yield the caller and the callee of each call."""
        return _pairs(self._path, self._functions)

    def callees(self, index: int) -> Sequence[int]:
        """Return the functions that function *index* calls, by index."""
        return self.forth.of(index)

    def callers(self, index: int) -> Sequence[int]:
        """Return the functions that call function *index*, by index."""
        return self.back.of(index)


@dataclass(frozen=True, slots=True)
class Adjacency:
    """For each function some *others*, all in one array: function n has those from ``begin[n]`` to ``begin[n + 1]``."""

    begin: "array[int]"
    others: "array[int]"

    def of(self, index: int) -> "array[int]":
        """Return the others of function *index*."""
        return self.others[self.begin[index] : self.begin[index + 1]]


def _adjacency(pairs: Sequence[int], count: int) -> Adjacency:
    """Return the table of the sorted *pairs*: for each first, all below *count*, its seconds."""
    halves = array("I", array("Q", pairs).tobytes())  # in the byte order of this machine
    low, high = (halves[::2], halves[1::2]) if sys.byteorder == "little" else (halves[1::2], halves[::2])
    begin = array("Q", bytes(8 * (count + 1)))
    for first, times in Counter(high).items():
        begin[first + 1] = times
    return Adjacency(array("Q", accumulate(begin)), low)


def _pairs(path: str | os.PathLike[str], functions: Functions) -> Iterator[tuple[int, int]]:
    """Yield the caller and the callee of each call."""
    starts, sizes, image = functions.starts, functions.sizes, functions.image
    at = dict(zip(starts, range(len(starts)), strict=True))
    finder = {EM_X86_64: _x86_64, EM_AARCH64: _aarch64}.get(image.e_machine)
    if finder is None:
        return
    following = [*starts[1:], 1 << 65]
    for code, start in pieces(path, image):
        caller = max(bisect_right(starts, start) - 1, 0)
        end, behind = starts[caller] + sizes[caller], following[caller]
        for site, callee in finder(code, start, at):  # in ascending order
            while site >= behind:
                caller += 1
                end, behind = starts[caller] + sizes[caller], following[caller]
            if callee != caller and starts[caller] <= site < end:
                yield caller, callee


def pieces(path: str | os.PathLike[str], image: Image) -> Iterator[tuple[bytes, int]]:
    """Yield the code of a file in pieces, each with the bytes behind that an instruction can need, and its address."""
    left = _MOST
    with suppress(OSError, OverflowError), file_at(path) as fd:
        for section in image.sections:
            # The segments of a debug file describe bytes that it does not have; its sections say so.
            if not section.sh_flags & SHF_EXECINSTR or section.sh_type == SHT_NOBITS:
                continue
            for begin in range(0, min(section.sh_size, left), _CHUNK):
                code = os.pread(fd, min(_CHUNK + _BEHIND, section.sh_size - begin), section.sh_offset + begin)
                if not code:
                    break
                left -= min(len(code), _CHUNK)
                yield code, section.sh_addr + begin


def _x86_64(code: bytes, start: int, at: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the address of each call, and the function it calls; *at* maps addresses to functions."""
    function, word, past = at.get, _REL32.unpack_from, start + _BEHIND
    last = len(code) - _BEHIND
    for call in islice(_X86_64.finditer(code), len(code) // _DENSE):
        end = call.end()
        if end > last:
            break
        callee = function(past + end + word(code, end)[0])
        if callee is not None:
            yield start + end - 1, callee


def _aarch64(code: bytes, start: int, at: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Do the same for aarch64."""
    for call in islice(_AARCH64.finditer(code), len(code) // _DENSE):
        end = call.end()
        if end % 4 == 0:
            words = int.from_bytes(code[end - 4 : end], "little") & 0x3FFFFFF
            site = start + end - 4
            callee = at.get(site + 4 * (words - ((words & 0x2000000) << 1)))
            if callee is not None:
                yield site, callee
