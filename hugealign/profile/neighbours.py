"""Finds functions of another build whose names are gone and whose code has changed, by neighbours and callers.

Linkers keep the order of objects, and compilers mostly keep the order of functions, so the same functions lie between
two functions that both builds have.  An address between two such anchors is taken for the function of our build that
begins nearest to the same relative place.  The trust in that, 0 to 1, falls the nearer the second-best function or an
anchor is, and the more the distance of the anchors has changed.  Recorded calls tell more: then only functions that the
other end calls, or that call it, are candidates.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import inf

from hugealign.code.calls import Calls
from hugealign.elf.symbols import Functions

#: A guess with less trust is dropped.  docs/explanation/releases.md says how many of the functions without names of
#: PostgreSQL 13, found in PostgreSQL 15 with this trust or more, were right.
LEAST = 0.5
#: Functions to look at for the calls of all lost functions together.  Few lie between anchors, but a file of counts can
#: have two anchors and millions of lost functions, all called by one that calls thousands.
_MOST_LINKED = 1 << 26


@dataclass(slots=True)
class Lost:
    """A function at an *address* of the other build, with its source *file*, if known.

    *callers* and *callees* are functions of our build.
    """

    address: int
    file: str = ""
    callers: set[int] = field(default_factory=set)
    callees: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Guess:
    """A function of our build, by index, and the trust in it, 0 to 1."""

    index: int
    trust: float


def guesses(anchors: Mapping[int, int], lost: Collection[Lost], functions: Functions, calls: Calls) -> dict[int, Guess]:
    """Return the possible guesses for *lost* functions, by address; *anchors* are indices by address.

    No function of our build is used twice.  (Taking the results as new anchors found little more, and most of it
    wrong.)
    """
    free = _Free(functions, {*anchors.values()})
    ahead = sorted(anchors)
    made = [(guess, function.address) for function in lost for guess in _guess(function, ahead, anchors, free, calls)]
    guesses: dict[int, Guess] = {}
    taken: set[int] = set()
    for guess, address in sorted(made, key=lambda pair: (-pair[0].trust, pair[1])):
        if guess.trust >= LEAST and guess.index not in taken:
            taken.add(guess.index)
            guesses[address] = guess
    return guesses


class _Free:
    """The local functions not taken yet; all others have names in a stripped file too."""

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
        """Return where the free functions between two are, of *file* if that is known: row, begin and end."""
        row = self._of_file.get(file, ()) if file else self._indices
        return row, bisect_right(row, first), bisect_left(row, last)

    def linked(self, function: Lost, calls: Calls, first: int, last: int) -> list[int]:
        """Return the free functions between two that may be *function*, by its callers and callees."""
        indices: set[int] = set()
        for row in chain(map(calls.callees, function.callers), map(calls.callers, function.callees)):
            begin, end = bisect_right(row, first), bisect_left(row, last)
            self._left -= end - begin
            if self._left < 0:
                return []
            indices.update(row[begin:end])
        return sorted(indices & self._member)


def _guess(
    function: Lost, ahead: Sequence[int], known: Mapping[int, int], free: _Free, calls: Calls
) -> Iterator[Guess]:
    """Yield the guess for *function*, if there is any."""
    at = bisect_left(ahead, function.address)
    if not 0 < at < len(ahead):
        return
    before, behind = ahead[at - 1], ahead[at]
    first, last = known[before], known[behind]
    if first >= last:
        return
    starts = free.functions.starts
    ours, theirs = starts[last] - starts[first], behind - before
    place = starts[first] + (function.address - before) * ours / theirs
    row, begin, end = free.between(first, last, function.file)
    if linked := free.linked(function, calls, first, last):
        row = [n for n in linked if not function.file or _base(free.functions.files[n]) == function.file]
        begin, end = 0, len(row)
    if begin >= end:
        return
    near, second, best = _nearest(row, begin, end, place, starts)
    second = min(second, place - starts[first], starts[last] - place)
    if near < second:
        yield Guess(best, (1 - near / second) * max(0.0, 1 - abs(ours - theirs) / theirs))


def _nearest(row: Sequence[int], begin: int, end: int, place: float, starts: Sequence[int]) -> tuple[float, float, int]:
    """Return the distances from *place* to the nearest and second of a part of ascending *row*, and the nearest."""
    at = bisect_left(row, place, begin, end, key=starts.__getitem__)
    some = sorted((abs(starts[n] - place), n) for n in row[max(begin, at - 2) : min(end, at + 2)])
    return some[0][0], some[1][0] if len(some) > 1 else inf, some[0][1]


def _base(path: str) -> str:
    return path.rpartition("/")[2]
