"""Who refers to whom in a file: ``scan.c`` searches its code and data, in a fiftieth of the time that Python takes.

Pairs are numbers: the referring function is the upper half, the function or place that it refers to the lower.
"""

import ctypes
import mmap
import os
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hugealign.elf.symbols import Functions
from hugealign.errors import HugealignError
from hugealign.io.native import loaded

#: Kinds of instructions.
CALL, LEA, MOV, BRANCH, ADRP = range(5)
#: The bytes of the last instruction in a piece of code that can lie behind the piece.
BEHIND = 7

_SOURCE = os.path.join(os.path.dirname(__file__), "scan.c")
_P, _N, _K = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32
_FUNCTIONS = {
    "scan": (_N, (_K, ctypes.c_char_p, _N, _N, _P, _P, _N, _P, _N, _P, _N)),
    "in_place": (_N, (ctypes.c_char_p, _N, _N, _P, _N, _P, _P, _N)),
    "relocated": (_N, (ctypes.c_char_p, _N, _K, _K, ctypes.c_char_p, _N, _P, _N, _P, _P, _N)),
    "arrange": (_N, (_P, _N)),
    "members": (_N, (_P, _N, _P, _P, _N, _N, _P, _N)),
    "tabulate": (None, (_P, _N, _N, _P, _P, _P, _P)),
}


class _Written:
    """An array for numbers that C writes; pages that C does not touch take no memory."""

    def __init__(self, count: int) -> None:
        self._memory = mmap.mmap(-1, max(8 * count, 1))
        self._view = ctypes.c_char.from_buffer(self._memory)
        self.address = ctypes.addressof(self._view)

    def numbers(self, count: int) -> "array[int]":
        """Return the first *count*."""
        return array("Q", self._memory[: 8 * count])


@dataclass(frozen=True, slots=True)
class Adjacency:
    """For each function some *others*, all in one array: function n has those from ``begin[n]`` to ``begin[n + 1]``."""

    begin: "array[int]"
    others: "array[int]"

    def of(self, index: int) -> "array[int]":
        """Return the others of function *index*."""
        return self.others[self.begin[index] : self.begin[index + 1]]


class Scan:
    """Searches among *functions*.  If there is anything to search, it raises HugealignError without a C compiler."""

    def __init__(self, functions: Functions) -> None:
        """Search nothing yet."""
        self.starts, self._sizes = array("Q", functions.starts), array("Q", functions.sizes)
        self._owners = (_at(self.starts), len(self.starts))

    @property
    def _c(self) -> Any:
        try:
            return loaded(_SOURCE, _FUNCTIONS)
        except HugealignError as error:
            raise HugealignError(f"code cannot be searched: {error}") from None

    def taken(
        self, kinds: Sequence[int], pieces: Iterable[tuple[bytes, int]], places: "array[int]", most: int
    ) -> "array[int]":
        """Return the pairs of a function and one of *places* whose address an instruction of its code takes.

        *places* ascend; *pieces* are code and its address; instructions are of *kinds*.  They are sorted, without
        duplicates; the first *most* instructions count.
        """
        pairs: array[int] = array("Q")
        owners = (self._owners[0], _at(self._sizes), self._owners[1])
        for code, start in pieces:
            for kind in kinds:
                room = min(len(code), most - len(pairs))
                made = _Written(room)
                searched = (kind, code, len(code), start, *owners, _at(places), len(places))
                pairs += made.numbers(self._c.scan(*searched, made.address, room))
        return self.arranged(pairs)

    def pointers_in(self, data: bytes, address: int, most: int) -> "tuple[array[int], array[int]]":
        """Return the places and the functions of at most *most* pointers in *data*, which lies at *address*."""
        room = min(len(data) // 8, most)
        places, indices = array("Q", bytes(8 * room)), array("I", bytes(4 * room))
        count = self._c.in_place(data, len(data), address, *self._owners, _at(places), _at(indices), room)
        return places[:count], indices[:count]

    def relocated(
        self, data: bytes, types: tuple[int, int], symbols: bytes, most: int
    ) -> "tuple[array[int], array[int]]":
        """Return the same for the relocations in *data*.

        The addend of a relocation of the first of *types* is the address; one of the second refers to a symbol.
        """
        room = min(len(data) // 24, most)
        places, indices = array("Q", bytes(8 * room)), array("I", bytes(4 * room))
        known = (symbols, len(symbols), *self._owners)
        count = self._c.relocated(data, len(data), *types, *known, _at(places), _at(indices), room)
        return places[:count], indices[:count]

    def members(
        self, users: "array[int]", places: "array[int]", indices: "array[int]", longest: int, most: int
    ) -> "array[int]":
        """Return up to *most* pairs: each user with each of the first *longest* functions in its table.

        Pointers at consecutive *places* to the functions *indices* are a table; *users* are pairs of a function and the
        first place.
        """
        if not users:
            return array("Q")
        made = _Written(most)
        table = (_at(places), _at(indices), len(places), longest)
        return made.numbers(self._c.members(_at(users), len(users), *table, made.address, most))

    def arranged(self, pairs: "array[int]") -> "array[int]":
        """Return *pairs* sorted, without duplicates."""
        if pairs:
            del pairs[self._c.arrange(_at(pairs), len(pairs)) :]
        return pairs

    def tables(self, pairs: "array[int]") -> tuple[Adjacency, Adjacency]:
        """Return the seconds of each first function of *pairs*, which are sorted, and the firsts of each second."""
        count = len(self.starts)
        forth, back = (
            Adjacency(array("Q", bytes(8 * (count + 1))), array("I", bytes(4 * len(pairs)))) for _ in range(2)
        )
        if pairs:
            tables = (_at(table) for side in (forth, back) for table in (side.begin, side.others))
            self._c.tabulate(_at(pairs), len(pairs), count, *tables)
        return forth, back


def _at(of: "array[Any]") -> int:
    return of.buffer_info()[0]
