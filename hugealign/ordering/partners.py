"""Which blocks of a function are also in another build of it.  Pure.

A block is recognised by its key if no other block has the same.  The blocks beside it are then recognised by their keys
even if others have them, because most changes leave long stretches alone.  Between two recognised blocks the rest is
aligned by a looser key, such as the size; the last ones are paired by place, if there are as many in both builds.  What
lies behind the last recognised block counts as between two.
(Hashes of blocks for profiles of another build: Ayupov, Panchenko, Pupyrev, "Stale Profile Matching", CC 2024,
arXiv:2401.17168.)
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import NamedTuple

_ALIGNED = 1 << 12  # pairs of blocks between two recognised ones that are looked at: the work is their square


class BlockKeys(NamedTuple):
    """What a block is recognised by: alone, and between two blocks that are known."""

    strict: Hashable
    loose: Hashable


def partners(old: Sequence[BlockKeys], new: Sequence[BlockKeys]) -> dict[int, int]:
    """Return the place in *new* of each block of *old* that is there, by its place; both begin with the entry."""
    if not old or not new:
        return {}
    pairs = _Pairs(old, new)
    pairs.add(0, 0)
    pairs.unique()
    pairs.beside()
    pairs.aligned()
    pairs.by_place()
    return pairs.partner


class _Pairs:
    """The pairs found so far of the blocks *old* and *new*."""

    def __init__(self, old: Sequence[BlockKeys], new: Sequence[BlockKeys]) -> None:
        self.old, self.new = old, new
        self.partner: dict[int, int] = {}
        self.taken: set[int] = set()

    def add(self, old: int, other: int) -> None:
        self.partner[old] = other
        self.taken.add(other)

    def free(self, old: int, other: int) -> bool:
        """Return whether both blocks exist and neither has a partner."""
        inside = 0 <= old < len(self.old) and 0 <= other < len(self.new)
        return inside and old not in self.partner and other not in self.taken

    def unique(self) -> None:
        """Pair blocks whose strict key no other block has, in either build."""
        ours, theirs = (Counter(keys.strict for keys in side) for side in (self.old, self.new))
        places = {keys.strict: place for place, keys in enumerate(self.new) if theirs[keys.strict] == 1}
        for place, keys in enumerate(self.old):
            if ours[keys.strict] == 1 and keys.strict in places and self.free(place, places[keys.strict]):
                self.add(place, places[keys.strict])

    def beside(self) -> None:
        """Pair blocks of the same strict key that follow a pair, or lie before one."""
        last = len(self.old) - 1
        for step, places in ((1, range(last + 1)), (-1, range(last, -1, -1))):
            for place in places:
                if place in self.partner:
                    old, other = place + step, self.partner[place] + step
                    if self.free(old, other) and self.old[old].strict == self.new[other].strict:
                        self.add(old, other)

    def aligned(self) -> None:
        """Pair blocks of the same loose key in the same order, between two pairs."""
        for ours, theirs in list(self._gaps()):
            if len(ours) * len(theirs) <= _ALIGNED:
                sides = [self.old[place].loose for place in ours], [self.new[place].loose for place in theirs]
                for old, other, count in SequenceMatcher(None, *sides, autojunk=False).get_matching_blocks():
                    for step in range(count):
                        self.add(ours[old + step], theirs[other + step])

    def by_place(self) -> None:
        """Pair the blocks between two pairs if there are as many in both builds."""
        for ours, theirs in list(self._gaps()):
            if len(ours) == len(theirs):
                for old, other in zip(ours, theirs, strict=True):
                    self.add(old, other)

    def _gaps(self) -> Iterator[tuple[range, range]]:
        """Yield the blocks between two pairs, or behind the last, in either build, if none of them has a partner."""
        known = [*sorted(self.partner.items()), (len(self.old), len(self.new))]
        for (old, other), (behind, beyond) in pairwise(known):
            ours, theirs = range(old + 1, behind), range(other + 1, beyond)
            if ours and theirs and self.taken.isdisjoint(theirs):
                yield ours, theirs
