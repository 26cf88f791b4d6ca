"""Which blocks of a function are there again in another build of it.  Pure.

A block is recognised by its keys, the strict ones first, if no other block has them.  The blocks beside it are then
recognised by the same keys even if others have them, because most changes leave long stretches alone.  Between two
recognised blocks the rest is paired by place, if there are as many in both builds.  (Hashes of blocks for profiles of
another build: Ayupov, Panchenko, Pupyrev, "Stale Profile Matching", CC 2024, arXiv:2401.17168.)
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise

#: What a block is recognised by: one key or more, the strictest first, as many for each block.
Keys = tuple[Hashable, ...]


def partners(old: Sequence[Keys], new: Sequence[Keys]) -> dict[int, int]:
    """Return the place in *new* of each block of *old* that is there, by its place; both begin with the entry."""
    if not old or not new:
        return {}
    pairs = _Pairs(len(old), len(new))
    pairs.add(0, 0)
    for level in range(min(len(old[0]), len(new[0]))):
        ours, theirs = [keys[level] for keys in old], [keys[level] for keys in new]
        _unique(pairs, ours, theirs)
        _beside(pairs, lambda one, other, ours=ours, theirs=theirs: ours[one] == theirs[other])  # type: ignore[misc]
    _between(pairs)
    return pairs.found


class _Pairs:
    """The pairs found so far, and how many blocks there are in either build."""

    def __init__(self, old: int, new: int) -> None:
        self.old, self.new = old, new
        self.found: dict[int, int] = {}
        self.taken: set[int] = set()

    def add(self, one: int, other: int) -> None:
        self.found[one] = other
        self.taken.add(other)

    def free(self, one: int, other: int) -> bool:
        """Whether both blocks exist and neither has a partner."""
        return 0 <= one < self.old and 0 <= other < self.new and one not in self.found and other not in self.taken


def _unique(pairs: _Pairs, old: Sequence[Hashable], new: Sequence[Hashable]) -> None:
    """Pair blocks whose key no other block without a partner has, in either build."""
    ours = Counter(key for place, key in enumerate(old) if place not in pairs.found)
    theirs = Counter(key for place, key in enumerate(new) if place not in pairs.taken)
    places = {key: place for place, key in enumerate(new) if place not in pairs.taken and theirs[key] == 1}
    for place, key in enumerate(old):
        if ours[key] == 1 and key in places and pairs.free(place, places[key]):
            pairs.add(place, places[key])


def _beside(pairs: _Pairs, alike: Callable[[int, int], bool]) -> None:
    """Pair blocks that are *alike* and follow a pair, or lie before one."""
    for step, places in ((1, range(pairs.old)), (-1, range(pairs.old - 1, -1, -1))):
        for place in places:
            if place in pairs.found:
                one, other = place + step, pairs.found[place] + step
                if pairs.free(one, other) and alike(one, other):
                    pairs.add(one, other)


def _between(pairs: _Pairs) -> None:
    """Pair the blocks between two pairs, or behind the last one, if there are as many in both builds."""
    known = [*sorted(pairs.found.items()), (pairs.old, pairs.new)]
    for (one, other), (behind, beyond) in pairwise(known):
        gap = behind - one
        if gap > 1 and beyond - other == gap and not any(at in pairs.taken for at in range(other + 1, beyond)):
            for step in range(1, gap):
                pairs.add(one + step, other + step)
