"""How often each block of a function ran, by what a profile says of code addresses."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from hugealign.code.blockmap import Block
from hugealign.profile.model import Flow


@dataclass(slots=True)
class BlockRuns:
    """How often the blocks of one function ran, and which followed which, by their places in *blocks*.

    *inside*: the profile says more of the function than that it was entered.
    """

    index: int
    blocks: Sequence[Block]
    begun: dict[int, int] = field(default_factory=dict)
    entered: dict[int, int] = field(default_factory=dict)  # past their beginning, after a call
    jumps: dict[tuple[int, int], int] = field(default_factory=dict)
    inside: bool = field(default=False, compare=False)

    def follow(self, block: int, other: int, count: int) -> None:
        """Count that the block at place *other* ran right after the one at place *block*."""
        self.jumps[block, other] = self.jumps.get((block, other), 0) + count

    def runs(self, place: int) -> int:
        """Return how often the block at *place* ran."""
        return max(self.begun.get(place, 0), self.entered.get(place, 0))


class _Places:
    """All blocks of the functions in question, by address."""

    def __init__(self, counted: Sequence[BlockRuns]) -> None:
        # Of blocks at one address all but the last are empty.
        rows = sorted(
            (block.address, block.size, n, k)
            for n, function in enumerate(counted)
            for k, block in enumerate(function.blocks)
        )
        self.starts = [row[0] for row in rows]
        self.rows = [row[2:] for row in rows]
        self.counted = counted
        self.behind = list(range(1, len(rows) + 1))  # the end of the rows of one function that follow each other
        for at in range(len(rows) - 2, -1, -1):
            if rows[at][2] == rows[at + 1][2]:
                self.behind[at] = self.behind[at + 1]
        # By row: how much oftener than the one before it came right after its predecessor.
        self.more = [0] * (len(rows) + 1)

    def at(self, address: int) -> tuple[BlockRuns, int, int] | None:
        """Return the function, the place and the overall number of the block at *address*.

        Padding in front of a block is part of no block: code that runs into the padding runs into the block.
        """
        at = bisect_right(self.starts, address) - 1
        if at < 0:
            return None
        n, k = self.rows[at]
        function = self.counted[n]
        if address < function.blocks[k].address + function.blocks[k].size:
            return function, k, at
        if at + 1 < len(self.rows) and self.rows[at + 1][0] == n:
            return function, self.rows[at + 1][1], at + 1
        return None

    def begun_at(self, address: int) -> tuple[BlockRuns, int, int] | None:
        """Return the same for a block that begins at *address*, or after the alignment padding there."""
        place = self.at(address)
        return place if place and address <= place[0].blocks[place[1]].address else None

    def run(self, start: int, end: int, count: int) -> None:
        """Count the blocks that a run from *start* to *end* passes through; `passed` counts all but the first."""
        place = self.at(start)
        if place is None:
            return
        function, k, at = place
        function.inside |= k > 0 or start > function.blocks[k].address or end - start > 1
        if start <= function.blocks[k].address:
            function.begun[k] = function.begun.get(k, 0) + count
        else:
            function.entered[k] = max(function.entered.get(k, 0), count)
        last = min(bisect_left(self.starts, end, at + 1), self.behind[at])
        self.more[at + 1] += count
        self.more[last] -= count

    def passed(self) -> None:
        """Count the blocks that runs came to from the block before."""
        for at, count in enumerate(accumulate(self.more[:-1])):
            if count:
                n, k = self.rows[at]
                function = self.counted[n]
                function.follow(self.rows[at - 1][1], k, count)
                function.begun[k] = function.begun.get(k, 0) + count

    def jump(self, source: int, target: int, count: int) -> None:
        """Count a jump within a function; it leads to the beginning of a block."""
        source_place, other = self.at(source), self.begun_at(target)
        if source_place and other and source_place[0] is other[0]:
            source_place[0].follow(source_place[1], other[1], count)
            source_place[0].inside = True

    def back(self, address: int, count: int) -> None:
        """Count a return: its target block follows the one that ends with the call."""
        other = self.begun_at(address)
        if other is None or other[0].blocks[other[1]].landing_pad:
            return
        place = self.at(address - 1)
        if place and place[0] is other[0]:
            place[0].follow(place[1], other[1], count)


def count(flow: Flow, functions: Sequence[tuple[int, Sequence[Block]]]) -> list[BlockRuns]:
    """Return how often the blocks of *functions*, each an index and its blocks, ran according to *flow*."""
    counted = [BlockRuns(index, blocks) for index, blocks in functions]
    places = _Places(counted)
    for (start, end), times in flow.runs.items():
        places.run(start, end, times)
    places.passed()
    for (source, target), times in flow.jumps.items():
        places.jump(source, target, times)
    for address, times in flow.returns.items():
        places.back(address, times)
    return counted
