"""From what ran inside of functions to the order of their blocks: those that ran, and the rest apart.

A compiler that is told (clang's ``-fbasic-block-sections=list=``) puts the blocks that ran into the function's section,
and the others into one of its own, which no order names.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hugealign.compiling.lists import sayable, sayable_unit, together
from hugealign.elf.blockmap import Block
from hugealign.elf.symbols import Functions
from hugealign.ordering.exttsp import FlowGraph, orders
from hugealign.profile.match import Matched
from hugealign.profile.model import Flow

#: Samples of a function, for each of its blocks that was seen once, for the unseen ones to be taken for cold.
_ENOUGH = 10_000
_NOWHERE = (1 << 64) - 1  # an address that is aligned to nothing
_LIST_LIMIT = 1 << 16  # blocks of one function
_NO_UNITS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Laid:
    """The blocks of one function that stay: their *numbers* in order, *size* in bytes of all of them.

    *pieces* are sorted: where each lies now, counted from the function's start, its bytes, and where it will lie.
    *leaves* are the bytes of what leaves, *part* is the index of that as a function of its own.  *unit* is the
    compilation unit, if that tells the function from others of its name.
    """

    numbers: tuple[int, ...]
    size: int
    pieces: tuple[tuple[int, int, int], ...]
    leaves: int = 0
    part: int = -1
    unit: str = ""

    def at(self, offset: int) -> int | None:
        """Return where the byte at *offset* of the function will lie, None if it is not among what stays."""
        index = bisect_right(self.pieces, offset, key=lambda piece: piece[0]) - 1
        if index < 0:
            return None
        begin, size, to = self.pieces[index]
        return to + offset - begin if offset < begin + max(size, 1) else None

    def apart(self, offset: int) -> int:
        """Return how many bytes of what leaves lie before *offset* of the function, which is one of these."""
        return offset - sum(size for begin, size, _ in self.pieces if begin < offset)


@dataclass(slots=True)
class _Counted:
    """How often the blocks of one function ran, and which was followed by which, by their places in *blocks*."""

    index: int
    blocks: Sequence[Block]
    begun: dict[int, int] = field(default_factory=dict)
    entered: dict[int, int] = field(default_factory=dict)  # behind their beginning, after a call
    jumps: dict[tuple[int, int], int] = field(default_factory=dict)

    def follow(self, one: int, other: int, count: int) -> None:
        self.jumps[one, other] = self.jumps.get((one, other), 0) + count

    def runs(self, place: int) -> int:
        return max(self.begun.get(place, 0), self.entered.get(place, 0))


class _Places:
    """All blocks of the functions in question, by address."""

    def __init__(self, counted: Sequence[_Counted]) -> None:
        # Of blocks at one address all but the last are empty.
        rows = sorted(
            (block.address, block.size, n, k) for n, one in enumerate(counted) for k, block in enumerate(one.blocks)
        )
        self.starts = [row[0] for row in rows]
        self.rows = [row[2:] for row in rows]
        self.counted = counted

    def at(self, address: int) -> tuple[_Counted, int, int] | None:
        """Return the function and the place of the block that *address* lies in, and its number among all.

        Before a block may lie what aligns it, and is no block's: whoever runs into that runs into the block.
        """
        at = bisect_right(self.starts, address) - 1
        if at < 0:
            return None
        n, k = self.rows[at]
        one = self.counted[n]
        if address < one.blocks[k].address + one.blocks[k].size:
            return one, k, at
        if at + 1 < len(self.rows) and self.rows[at + 1][0] == n:
            return one, self.rows[at + 1][1], at + 1
        return None

    def begun_at(self, address: int) -> tuple[_Counted, int, int] | None:
        """Return the same for a block that begins at *address*, or behind what aligns it there."""
        found = self.at(address)
        return found if found and address <= found[0].blocks[found[1]].address else None

    def run(self, start: int, end: int, count: int) -> None:
        """Count what a piece of code runs through."""
        found = self.at(start)
        if found is None:
            return
        one, k, at = found
        if start <= one.blocks[k].address:
            one.begun[k] = one.begun.get(k, 0) + count
        else:
            one.entered[k] = max(one.entered.get(k, 0), count)
        while at + 1 < len(self.starts) and self.starts[at + 1] < end:
            at += 1
            n, following = self.rows[at]
            if self.counted[n] is not one:
                return
            one.follow(k, following, count)
            one.begun[following] = one.begun.get(following, 0) + count
            k = following

    def jump(self, source: int, target: int, count: int) -> None:
        """Count a jump within a function, which leads to the beginning of a block."""
        one, other = self.at(source), self.begun_at(target)
        if one and other and one[0] is other[0]:
            one[0].follow(one[1], other[1], count)

    def back(self, address: int, count: int) -> None:
        """Count a return: the block that it goes to lies behind one that ends with the call."""
        other = self.begun_at(address)
        if other is None or other[0].blocks[other[1]].landing_pad:
            return
        one = self.at(address - 1)
        if one and one[0] is other[0]:
            one[0].follow(one[1], other[1], count)


def share_names(blocks: Mapping[int, Sequence[Block]], functions: Functions, matched: Matched) -> bool:
    """Whether functions that ran, and have more than one block, have names that others have."""
    several = (index for index in matched.samples if len(blocks.get(functions.starts[index], ())) > 1)
    return any(len(functions.having(functions.names[index])) > 1 for index in several)


def laid(
    flow: Flow,
    blocks: Mapping[int, Sequence[Block]],
    functions: Functions,
    matched: Matched,
    units: Mapping[str, str] = _NO_UNITS,
) -> dict[int, Laid]:
    """Return the order of the blocks of those functions that *flow* says enough of, by index.

    *blocks* are those of the functions by their addresses, *units* the names of compilation units by their files.
    """
    counted = [_Counted(index, found) for index, found in _candidates(blocks, functions, matched)]
    places = _Places(counted)
    for (start, end), count in flow.runs.items():
        places.run(start, end, count)
    for (source, target), count in flow.jumps.items():
        places.jump(source, target, count)
    for address, count in flow.returns.items():
        places.back(address, count)
    chosen = [one for one in counted if _enough(one, flow)]
    stays = [_stays(one) for one in chosen]
    graphs = [_graph(one, kept) for one, kept in zip(chosen, stays, strict=True)]
    told = {
        one.index: tuple(one.blocks[kept[place]].number for place in order)
        for one, kept, order in zip(chosen, stays, orders(graphs), strict=True)
    }
    undivided = None
    if flow.complete:  # a single block always stays
        others = (index for index in matched.samples if index not in told)
        undivided = {index for index in others if len(blocks.get(functions.starts[index], ())) != 1}
    groups: dict[str, list[int]] = {}
    for index in told:
        groups.setdefault(functions.names[index], []).append(index)
    apart = _apart(groups, functions, units)
    agreed = _agreed(told, groups, functions, undivided, apart)
    found: dict[int, Laid] = {}
    for one in chosen:
        if one.index not in agreed:
            continue
        numbers, ranges = agreed[one.index], _ranges(one.blocks)
        start, at, pieces = functions.starts[one.index], 0, []
        for number in numbers:
            if number in ranges:
                begin, end = ranges[number]
                pieces.append((begin - start, end - begin, at))
                at += end - begin
        leaves = max(0, functions.sizes[one.index] - at)
        part = len(functions) + len(found)
        found[one.index] = Laid(numbers, at, tuple(sorted(pieces)), leaves, part, apart.get(one.index, ""))
    return found


def _ranges(blocks: Sequence[Block]) -> dict[int, tuple[int, int]]:
    """Return from where to where each of the blocks of a function reaches, with what lies before it to align it."""
    found: dict[int, tuple[int, int]] = {}
    behind = None
    for block in sorted(blocks, key=lambda block: (block.address, block.size)):
        end = block.address + block.size
        found[block.number] = (block.address if behind is None else min(behind, block.address)), end
        behind = end if behind is None else max(behind, end)
    return found


def _apart(groups: Mapping[str, list[int]], functions: Functions, units: Mapping[str, str]) -> dict[int, str]:
    """Return the units of the functions that have to be told from others of their names, if all of a name have one.

    *groups* are functions by their names.
    """
    found: dict[int, str] = {}
    for name, indices in groups.items():
        named = {index: units.get(functions.files[index], "") for index in indices}
        if len(functions.having(name)) > 1 and all(map(sayable_unit, named.values())):
            found.update(named)
    return found


def _agreed(
    told: Mapping[int, tuple[int, ...]],
    groups: Mapping[str, list[int]],
    functions: Functions,
    undivided: set[int] | None,
    apart: Mapping[int, str],
) -> dict[int, tuple[int, ...]]:
    """Return the numbers of the blocks that stay, for functions of one name the same; without those that stay whole.

    Clang's list tells functions by their names, and, where they have a unit, *apart*.  Copies that a compiler made in
    several units differ by what it inlined in each, so those that are not told apart keep the numbers that ran in any.
    All of them stay whole if one of them is *undivided*, or if the record is not complete, which is None: one could be
    hot that was not seen.
    """
    agreed: dict[int, tuple[int, ...]] = {}
    for name, indices in groups.items():
        alike: dict[str, list[int]] = {}
        for index in indices:
            alike.setdefault(apart.get(index, ""), []).append(index)
        others = functions.having(name)
        if "" in alike and len(others) > 1 and (undivided is None or others & undivided):
            continue
        for same in alike.values():
            numbers = together(told[index] for index in same)
            if len(numbers) <= _LIST_LIMIT:
                agreed.update(dict.fromkeys(same, numbers))
    return agreed


def divided(functions: Functions, laid: Mapping[int, Laid]) -> Functions:
    """Return *functions* as they will be: as small as what stays of them, and behind them the parts that leave."""
    sizes = [laid[index].size if index in laid else size for index, size in enumerate(functions.sizes)]
    names = [f"{functions.names[index]}.cold" for index in laid]
    return replace(
        functions,
        starts=[*functions.starts, *(_NOWHERE for _ in laid)],
        sizes=[*sizes, *(one.leaves for one in laid.values())],
        names=[*functions.names, *names],
        files=[*functions.files, *("" for _ in laid)],
    )


def _candidates(
    blocks: Mapping[int, Sequence[Block]], functions: Functions, matched: Matched
) -> Iterator[tuple[int, Sequence[Block]]]:
    """Yield the functions that ran, with their blocks, if these are what the file has, and the compiler can be told."""
    for index in sorted(matched.samples):
        name, start, end = (
            functions.names[index],
            functions.starts[index],
            functions.starts[index] + functions.sizes[index],
        )
        found = blocks.get(start, ())
        if (
            1 < len(found) <= _LIST_LIMIT
            and sayable(name)
            and name in functions.by_name
            and found[0].number == 0
            and len({block.number for block in found}) == len(found)
            and all(start <= block.address and block.address + block.size <= end for block in found)
        ):
            yield index, found


def _enough(one: _Counted, flow: Flow) -> bool:
    """Whether blocks that were not seen are cold: in a complete record, else where many samples saw few blocks once.

    What was never seen runs about as often as what was seen a single time (Good, Biometrika 40, 1953, page 237).
    """
    runs = [one.runs(place) for place in range(len(one.blocks))]
    return any(runs) and (flow.complete or sum(runs) >= _ENOUGH * (1 + sum(count == 1 for count in runs)))


def _stays(one: _Counted) -> list[int]:
    """Return the places of the blocks that stay, the entry first.

    Landing pads have to lie in one section, so that all of them stay or none.
    """
    pads = {place for place, block in enumerate(one.blocks) if block.landing_pad}
    if all(one.runs(place) for place in pads):
        pads = set()
    return [place for place in range(len(one.blocks)) if not place or (place not in pads and one.runs(place))]


def _graph(one: _Counted, stays: Sequence[int]) -> FlowGraph:
    number = {place: at for at, place in enumerate(stays)}
    jumps = {
        (number[source], number[target]): count
        for (source, target), count in one.jumps.items()
        if source in number and target in number and target
    }
    return FlowGraph([one.blocks[place].size for place in stays], [one.runs(place) for place in stays], jumps)
