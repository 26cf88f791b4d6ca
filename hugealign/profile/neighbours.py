"""Functions of another build whose names are gone and whose code has changed: found by their neighbours and callers.

Linkers keep the order of objects, and compilers mostly that of functions, so that between two functions that both
builds have lie the same ones in both.  Where an address falls between two such anchors, the function of our build that
begins nearest to the same place between theirs is taken for it.  How far that can be *trusted*, 0 to 1, falls with how
near the second one is, or an anchor, and with how much the distance of the anchors has changed.  Of calls that were
seen, the other end says more: only functions that it calls, or that call it, are asked then.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import inf

from hugealign.elf.calls import Calls
from hugealign.elf.symbols import Functions

#: Trusted less, a guess is none.  Of PostgreSQL 13's functions without names, found in PostgreSQL 15 with this trust or
#: more, docs/fleet.md says how many were right.
LEAST = 0.5
#: Functions that are looked at for calls, of all that are lost together.  Between anchors there are few; but a file of
#: counts can have two anchors and millions of lost functions, all called by one that calls thousands.
_MOST_LINKED = 1 << 26


@dataclass(slots=True)
class Lost:
    """A function at an *address* of the other build: of which source *file*, if that is known, and who calls whom.

    *callers* and *callees* are functions of our build.
    """

    address: int
    file: str = ""
    callers: set[int] = field(default_factory=set)
    callees: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Guess:
    """A function of our build, by index, and how far it can be trusted, 0 to 1."""

    index: int
    trust: float


def found(anchors: Mapping[int, int], lost: Collection[Lost], functions: Functions, calls: Calls) -> dict[int, Guess]:
    """Return guesses for those of *lost*, by address, that can be made; *anchors* are indices by address.

    None of ours is two of theirs.  (To take what was found for anchors again found little more, and most of it wrong.)
    """
    free = _Free(functions, {*anchors.values()})
    ahead = sorted(anchors)
    made = [(guess, one.address) for one in lost for guess in _guess(one, ahead, anchors, free, calls)]
    guesses: dict[int, Guess] = {}
    taken: set[int] = set()
    for guess, address in sorted(made, key=lambda pair: (-pair[0].trust, pair[1])):
        if guess.trust >= LEAST and guess.index not in taken:
            taken.add(guess.index)
            guesses[address] = guess
    return guesses


class _Free:
    """The local functions that are nothing else's: all others have names in a stripped file, too."""

    def __init__(self, functions: Functions, taken: Collection[int]) -> None:
        self.functions = functions
        local = range(len(functions))
        self._indices = [n for n in local if functions.files[n] and n not in taken and not functions.cold_part_of(n)]
        self._member = frozenset(self._indices)
        self._left = _MOST_LINKED
        self._of_file: dict[str, list[int]] = {}
        for n in self._indices:
            self._of_file.setdefault(_base(functions.files[n]), []).append(n)

    def between(self, first: int, last: int, file: str) -> tuple[Sequence[int], int, int]:
        """Return where those between two functions are, of *file* if that is known: row, begin and end."""
        row = self._of_file.get(file, ()) if file else self._indices
        return row, bisect_right(row, first), bisect_left(row, last)

    def linked(self, one: Lost, calls: Calls, first: int, last: int) -> list[int]:
        """Return those between two functions that calls of *one* may lead to, or come from."""
        found: set[int] = set()
        for row in chain(map(calls.callees, one.callers), map(calls.callers, one.callees)):
            begin, end = bisect_right(row, first), bisect_left(row, last)
            self._left -= end - begin
            if self._left < 0:
                return []
            found.update(row[begin:end])
        return sorted(found & self._member)


def _guess(one: Lost, ahead: Sequence[int], known: Mapping[int, int], free: _Free, calls: Calls) -> Iterator[Guess]:
    """Yield what the function probably is, if anything."""
    at = bisect_left(ahead, one.address)
    if not 0 < at < len(ahead):
        return
    before, behind = ahead[at - 1], ahead[at]
    first, last = known[before], known[behind]
    if first >= last:
        return
    starts = free.functions.starts
    ours, theirs = starts[last] - starts[first], behind - before
    place = starts[first] + (one.address - before) * ours / theirs
    row, begin, end = free.between(first, last, one.file)
    if linked := free.linked(one, calls, first, last):
        row = [n for n in linked if not one.file or _base(free.functions.files[n]) == one.file]
        begin, end = 0, len(row)
    if begin >= end:
        return
    near, second, best = _nearest(row, begin, end, place, starts)
    second = min(second, place - starts[first], starts[last] - place)
    if near < second:
        yield Guess(best, (1 - near / second) * max(0.0, 1 - abs(ours - theirs) / theirs))


def _nearest(row: Sequence[int], begin: int, end: int, place: float, starts: Sequence[int]) -> tuple[float, float, int]:
    """Return how near to *place* the nearest and the second of a part of *row* begin, and the nearest; they ascend."""
    at = bisect_left(row, place, begin, end, key=starts.__getitem__)
    some = sorted((abs(starts[n] - place), n) for n in row[max(begin, at - 2) : min(end, at + 2)])
    return some[0][0], some[1][0] if len(some) > 1 else inf, some[0][1]


def _base(path: str) -> str:
    return path.rpartition("/")[2]
