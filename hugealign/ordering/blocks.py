"""The order of a function's blocks: those that ran first, and the rest apart.

With a list of the blocks that ran, clang (``-fbasic-block-sections=list=``) keeps those in the function's section and
puts the others into a section of their own.

The blocks that leave a function are placed like a function.  So they also get an index: `Functions` as `divided`
returns them are the functions of the file, with their indices, and behind these the part that leaves each divided
function, in the order of `kept_blocks`.  `KeptBlocks.part` has that index, and only `kept_blocks` computes it;
`Problem.parts` maps a function's index to it.  Tables by index that readers of the file make (calls, references,
samples) know nothing of parts.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from hugealign.code.blockmap import MOST_OF_FUNCTION, Block, fit
from hugealign.elf.symbols import Functions
from hugealign.ordering.blockruns import BlockRuns, count
from hugealign.ordering.exttsp import FlowGraph, orders
from hugealign.profile.match import Matched
from hugealign.profile.model import Flow
from hugealign.wrapper.block_lists import sayable, sayable_unit, together

#: Samples that a function needs, per block that was seen once, before its unseen blocks are taken for cold.
_ENOUGH = 10_000
#: Counts are of executions if at least this many blocks ran this often, and all but this share of them were left as
#: often as entered.  Samples break that at both ends of the 16 or 32 branches that a processor keeps.
_OFTEN, _BLOCKS, _BROKEN = 100, 8, Fraction(1, 10)
_NOWHERE = (1 << 64) - 1  # an address without any alignment
_NO_UNITS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class KeptBlocks:
    """The blocks of one function that stay: their *numbers* in order, and their total *size* in bytes.

    *pieces* are sorted: the present offset of each from the function's start, its bytes, and its future offset.
    *leaves* is the number of bytes that leave; *part* is their index as a function of their own.  *unit* is the
    compilation unit, if that tells the function from others of the same name.
    """

    numbers: tuple[int, ...]
    size: int
    pieces: tuple[tuple[int, int, int], ...]
    leaves: int = 0
    part: int = -1
    unit: str = ""

    def at(self, offset: int) -> int | None:
        """Return where the byte at *offset* of the function will lie, None if it does not stay."""
        index = bisect_right(self.pieces, offset, key=lambda piece: piece[0]) - 1
        if index < 0:
            return None
        begin, size, to = self.pieces[index]
        return to + offset - begin if offset < begin + max(size, 1) else None

    def apart(self, offset: int) -> int:
        """Return how many of the leaving bytes lie before *offset*, which leaves too."""
        return offset - sum(size for begin, size, _ in self.pieces if begin < offset)


def share_names(blocks: Mapping[int, Sequence[Block]], functions: Functions, matched: Matched) -> bool:
    """Return whether any function that ran and has more than one block shares its name with another."""
    several = (index for index in matched.samples if len(blocks.get(functions.starts[index], ())) > 1)
    return any(len(functions.having(functions.names[index])) > 1 for index in several)


def kept_blocks(
    flow: Flow,
    blocks: Mapping[int, Sequence[Block]],
    functions: Functions,
    matched: Matched,
    units: Mapping[str, str] = _NO_UNITS,
    counted: Sequence[BlockRuns] | None = None,
) -> dict[int, KeptBlocks]:
    """Return, by index, the order of the blocks of the functions that *flow* tells enough about.

    *blocks* are the functions' blocks by address, *units* the names of compilation units by file.  *counted* says how
    often blocks ran, if *flow* is of another build.
    """
    complete = flow.complete and counted is None  # not of another build: a function that this one lacked may be hot
    if counted is None:
        counted = chosen(flow, blocks, functions, matched)
    stays = [_stays(function) for function in counted]
    graphs = [_graph(function, kept) for function, kept in zip(counted, stays, strict=True)]
    orders_by_index = {
        function.index: tuple(function.blocks[kept[place]].number for place in order)
        for function, kept, order in zip(counted, stays, orders(graphs), strict=True)
    }
    undivided = None
    if complete:  # a single block always stays
        others = (index for index in matched.samples if index not in orders_by_index)
        undivided = {index for index in others if len(blocks.get(functions.starts[index], ())) != 1}
    groups: dict[str, list[int]] = {}
    for index in orders_by_index:
        groups.setdefault(functions.names[index], []).append(index)
    apart = _apart(groups, functions, units)
    agreed = _agreed(orders_by_index, groups, functions, undivided, apart)
    result: dict[int, KeptBlocks] = {}
    for function in counted:
        if function.index not in agreed:
            continue
        numbers, ranges = agreed[function.index], _ranges(function.blocks)
        start, at, pieces = functions.starts[function.index], 0, []
        for number in numbers:
            if number in ranges:
                begin, end = ranges[number]
                pieces.append((begin - start, end - begin, at))
                at += end - begin
        leaves = max(0, functions.sizes[function.index] - at)
        part = len(functions) + len(result)
        unit = apart.get(function.index, "")
        result[function.index] = KeptBlocks(numbers, at, tuple(sorted(pieces)), leaves, part, unit)
    return result


def _ranges(blocks: Sequence[Block]) -> dict[int, tuple[int, int]]:
    """Return, by number, the range of each block of a function, including the alignment padding before it."""
    ranges: dict[int, tuple[int, int]] = {}
    behind = None
    for block in sorted(blocks, key=lambda block: (block.address, block.size)):
        end = block.address + block.size
        ranges[block.number] = (block.address if behind is None else min(behind, block.address)), end
        behind = end if behind is None else max(behind, end)
    return ranges


def _apart(groups: Mapping[str, list[int]], functions: Functions, units: Mapping[str, str]) -> dict[int, str]:
    """Return the units of functions that share their names, if all functions of a name have a unit.

    *groups* are functions by name.
    """
    result: dict[int, str] = {}
    for name, indices in groups.items():
        named = {index: units.get(functions.files[index], "") for index in indices}
        if len(functions.having(name)) > 1 and all(map(sayable_unit, named.values())):
            result.update(named)
    return result


def _agreed(
    orders: Mapping[int, tuple[int, ...]],
    groups: Mapping[str, list[int]],
    functions: Functions,
    undivided: set[int] | None,
    apart: Mapping[int, str],
) -> dict[int, tuple[int, ...]]:
    """Return the numbers of the blocks that stay, the same for all functions of one name, without whole functions.

    Clang's list identifies functions by name, and *apart* ones by name and unit.  Copies that a compiler made in
    several units differ by what it inlined in each, so copies that cannot be distinguished keep the numbers that ran in
    any.  All of them stay whole if one of them is *undivided*, or if *undivided* is None, for an incomplete record: a
    copy that was not seen could be hot.
    """
    agreed: dict[int, tuple[int, ...]] = {}
    for name, indices in groups.items():
        alike: dict[str, list[int]] = {}
        for index in indices:
            alike.setdefault(apart.get(index, ""), []).append(index)
        others = functions.having(name)
        if "" in alike and len(others) > 1 and (undivided is None or not undivided.isdisjoint(others)):
            continue
        for same in alike.values():
            numbers = together(orders[index] for index in same)
            if len(numbers) <= MOST_OF_FUNCTION:
                agreed.update(dict.fromkeys(same, numbers))
    return agreed


def divided(functions: Functions, kept: Mapping[int, KeptBlocks]) -> Functions:
    """Return *functions* as they will be: reduced to the blocks that stay, then the parts that leave."""
    sizes = [kept[index].size if index in kept else size for index, size in enumerate(functions.sizes)]
    names = [f"{functions.names[index]}.cold" for index in kept]
    return replace(
        functions,
        starts=[*functions.starts, *(_NOWHERE for _ in kept)],
        sizes=[*sizes, *(part.leaves for part in kept.values())],
        names=[*functions.names, *names],
        files=[*functions.files, *("" for _ in kept)],
    )


def chosen(
    flow: Flow, blocks: Mapping[int, Sequence[Block]], functions: Functions, matched: Matched
) -> list[BlockRuns]:
    """Return how often blocks ran, for the functions that can be divided and that *flow* tells enough about."""
    candidates = ((index, blocks.get(functions.starts[index], ())) for index in sorted(matched.samples))
    counted = count(flow, [(index, mapped) for index, mapped in candidates if divisible(index, mapped, functions)])
    exact = flow.complete or _exact(counted)
    return [function for function in counted if _enough(function, flow, exact)]


def only_entered(flow: Flow, functions: Functions, candidates: Container[int]) -> int:
    """Return how many of *candidates* an incomplete *flow* only says were entered."""
    entered: set[int] = set()
    inside: set[int] = set()
    for start, end in () if flow.complete else flow.runs:
        index = functions.at(start)
        if index in candidates:
            at_entry = start == functions.starts[index] and end - start == 1
            (entered if at_entry else inside).add(index)
    return len(entered - inside)


def divisible(index: int, blocks: Sequence[Block], functions: Functions) -> bool:
    """Return whether the *blocks* of the function *index* fit the file, and clang's list can contain them."""
    name = functions.names[index]
    return sayable(name) and name in functions.by_name and fit(blocks, functions.starts[index], functions.sizes[index])


def _exact(counted: Sequence[BlockRuns]) -> bool:
    """Return whether the profile counts executions, as BOLT's instrumentation does, not samples."""
    entered: Counter[tuple[int, int]] = Counter()
    left: Counter[tuple[int, int]] = Counter()
    for at, function in enumerate(counted):
        for (source, target), times in function.jumps.items():
            left[at, source] += times
            entered[at, target] += times
    # Others enter a function at its first block, and it ends in blocks that none follows.
    often = [block for block, times in entered.items() if times >= _OFTEN and block[1] and block in left]
    broken = sum(entered[block] != left[block] for block in often)
    return len(often) >= _BLOCKS and broken <= _BROKEN * len(often)


def _enough(function: BlockRuns, flow: Flow, exact: bool) -> bool:
    """Return whether unseen blocks are cold: in an *exact* record, or if many samples hit few blocks only once.

    Things never seen run about as often as things seen a single time (Good, Biometrika 40, 1953, page 237).  A function
    that was entered, with nothing known of its inside, may be hot all the same: BOLT does not instrument functions with
    indirect tail calls, or with jump tables that it does not understand.
    """
    runs = [function.runs(place) for place in range(len(function.blocks))]
    if not any(runs) or not (function.inside or flow.complete):
        return False
    return exact or sum(runs) >= _ENOUGH * (1 + sum(count == 1 for count in runs))


def _stays(function: BlockRuns) -> list[int]:
    """Return the places of the blocks that stay, the entry first.

    Landing pads have to lie in one section, so all of them stay or none.
    """
    pads = {place for place, block in enumerate(function.blocks) if block.landing_pad}
    if all(function.runs(place) for place in pads):
        pads = set()
    return [place for place in range(len(function.blocks)) if not place or (place not in pads and function.runs(place))]


def _graph(function: BlockRuns, stays: Sequence[int]) -> FlowGraph:
    number = {place: at for at, place in enumerate(stays)}
    jumps = {
        (number[source], number[target]): count
        for (source, target), count in (function.jumps or _fallen_through(function)).items()
        if source in number and target in number and target
    }
    return FlowGraph([function.blocks[place].size for place in stays], [function.runs(place) for place in stays], jumps)


def _fallen_through(function: BlockRuns) -> dict[tuple[int, int], int]:
    """Return how often one block followed another if only their own runs are known: as the compiler expected.

    Without that their order would be by heat alone, and each would have to jump to the next.
    """
    pairs = ((place, min(function.runs(place), function.runs(place + 1))) for place in range(len(function.blocks) - 1))
    return {(place, place + 1): count for place, count in pairs if count}
