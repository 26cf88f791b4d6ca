"""What ran of one build, in terms of another: for a program that has changed since it was profiled.

Functions are found by their names, as in any profile.  Clang's list wants the numbers of blocks, which only one
compilation has.  So blocks are recognised one by one (`partners`): by the hashes in clang's map if both builds have
them (``-mllvm -emit-bb-hash``), else by their code.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from hugealign.code.blockmap import Block, require_blocks
from hugealign.code.digests import block_digests
from hugealign.elf.symbols import Functions
from hugealign.errors import HugealignError
from hugealign.io.units import printable
from hugealign.ordering.blockruns import BlockRuns
from hugealign.ordering.blocks import chosen, divisible
from hugealign.ordering.partners import BlockKeys, partners
from hugealign.profile.match import Matched, indices, match
from hugealign.profile.model import NOWHERE, Flow, Profile
from hugealign.profile.ran import MismatchError, Ran

#: The least share of a function's samples that must be found again in the new build; with less it is not split.
_LEAST = Fraction(1, 2)
#: Clang's hash has four parts of 16 bits (llvm/CodeGen/MachineBlockHashInfo.h), from the lowest: the block's offset,
#: its instructions without operands, the same with operands, and its neighbours' instructions.  Offset and neighbours
#: change with any change nearby: SQLite 3.46 in the order of 3.40's profile misses 943 times on a Skylake if the
#: neighbours do not count, 1,023 times if they do.
_OPCODES, _INSTRUCTIONS = 0xFFFF << 16, 0xFFFFFFFF << 16
_NO_NAME = "(no name)"


@dataclass(frozen=True, slots=True)
class MovedBlocks:
    """The blocks of the new build."""

    counted: Sequence[BlockRuns]
    maps: Mapping[int, Sequence[Block]]
    """By the addresses of functions."""
    ran: int = 0
    """How many ran in functions that could be split."""
    kept: int = 0
    """How many of them are in the new build."""
    whole: int = 0
    """How many functions have changed too much to be split."""

    JSON = "ran matched=kept functions_whole=whole"


@dataclass(frozen=True, slots=True)
class Carried:
    """How much of an old build is in the new one."""

    before: str
    """The path of the old one."""
    ran: int
    """How many of its functions ran."""
    kept: int
    """How many of them are in the new build."""
    moved: MovedBlocks | None = None
    """What became of blocks; None unless functions are to be divided."""

    JSON = "path=before ran matched=kept blocks=moved"


@dataclass(slots=True)
class BlockPair:
    """The blocks of a function in the old build and in the new one, and places in the new one by those in the old."""

    old: Sequence[Block]
    new: Sequence[Block]
    places: dict[int, int] = field(default_factory=dict)


def carried(old: Ran, binary: str, functions: Functions, flow: Flow | None = None) -> tuple[Ran, Carried]:
    """Return what *old* says about *functions*, of another build at *binary*; with *flow*, about their blocks.

    Raises MismatchError if no function is there again, HugealignError if one of the builds has no map of blocks that
    can be read, or no code.
    """
    before = old.functions
    partners = _same_functions(before, [index for index in old.matched.samples if before.names[index]], functions)
    if not partners:
        raise MismatchError(f"no function that ran in {printable(old.binary)} is in {printable(binary)}")
    pairs: dict[int, BlockPair] = {}
    moved = None
    if flow is not None:
        was = require_blocks(old.binary, {before.starts[index] for index in partners})
        maps = require_blocks(binary, {functions.starts[index] for index in partners.values()})
        counted = [runs for runs in chosen(flow, was, before, old.matched) if runs.index in partners]
        pairs = _paired(old, counted, partners, maps, binary, functions)
        same = {index for index, other in partners.items() if _identity(before, index) == _identity(functions, other)}
        moved = _moved(counted, partners, same, pairs, maps)
    ran = Ran(binary, functions, _matched(old, partners, pairs, functions), old.sources, old.unit)
    return ran, Carried(old.binary, len(old.matched.samples), len(partners), moved)


def _same_functions(before: Functions, touched: Sequence[int], functions: Functions) -> dict[int, int]:
    """Return the functions that are also in another build, by their index there: *touched* ones of *before*."""
    theirs = indices([(before.names[index], before.files[index]) for index in touched], functions)
    partners = {old: other for old, other in zip(touched, theirs, strict=True) if other >= 0}
    # Local functions of one name and file keep their order if none was added or removed.
    names = {before.names[index] for index in touched if len(before.having(before.names[index])) > 1}
    ours, others = _alike(before, names), _alike(functions, names)
    for identity, mine in ours.items():
        if 1 < len(mine) == len(others.get(identity, ())):
            partners |= {old: other for old, other in zip(mine, others[identity], strict=True) if old in partners}
    return partners


def _alike(functions: Functions, names: Iterable[str]) -> dict[tuple[str, str], list[int]]:
    alike: dict[tuple[str, str], list[int]] = {}
    for name in names:
        for index in dict.fromkeys(functions.having(name)):
            alike.setdefault((name, _identity(functions, index)[1]), []).append(index)
    return alike


def _identity(functions: Functions, index: int) -> tuple[str, str]:
    """Return what identifies a function in another build: its name, and that of its file without directories."""
    return functions.names[index], functions.files[index].rpartition("/")[2]


def _paired(
    old: Ran,
    counted: Sequence[BlockRuns],
    partner_of: Mapping[int, int],
    maps: Mapping[int, Sequence[Block]],
    binary: str,
    functions: Functions,
) -> dict[int, BlockPair]:
    """Return the pairs of blocks of those functions that can be divided in both builds, by the index in the old one."""
    pairs = {}
    for function in counted:
        other = partner_of[function.index]
        blocks = maps.get(functions.starts[other], ())
        if divisible(other, blocks, functions):
            pairs[function.index] = BlockPair(function.blocks, blocks)
    plain = {index: pair for index, pair in pairs.items() if not all(block.hash for block in (*pair.old, *pair.new))}
    ours = block_digests(old.binary, old.functions, {index: pair.old for index, pair in plain.items()})
    theirs = block_digests(binary, functions, {partner_of[index]: pair.new for index, pair in plain.items()})
    for path, digests in ((old.binary, ours), (binary, theirs)):
        if plain and not digests:
            raise HugealignError(
                f"{printable(path)}: has no code to recognise blocks by; give the program, not its debug file"
            )
    for index, pair in pairs.items():
        if index not in plain:
            pair.places = partners([_hashes(block) for block in pair.old], [_hashes(block) for block in pair.new])
        elif index in ours and partner_of[index] in theirs:
            pair.places = partners(digested(ours[index], pair.old), digested(theirs[partner_of[index]], pair.new))
    return pairs


def _hashes(block: Block) -> BlockKeys:
    return BlockKeys(block.hash & _INSTRUCTIONS, block.hash & _OPCODES)


def digested(digests: Sequence[bytes], blocks: Sequence[Block]) -> list[BlockKeys]:
    """Return what *blocks* with these *digests* are recognised by."""
    return [BlockKeys(digest, block.size) for digest, block in zip(digests, blocks, strict=True)]


def _moved(
    counted: Sequence[BlockRuns],
    partners: Mapping[int, int],
    same: Collection[int],
    pairs: Mapping[int, BlockPair],
    maps: Mapping[int, Sequence[Block]],
) -> MovedBlocks:
    seen = kept = whole = 0
    recounted: dict[int, tuple[tuple[bool, int], BlockRuns]] = {}
    for old in counted:
        pair = pairs.get(old.index, BlockPair((), ()))
        runs = {place: old.runs(place) for place in range(len(old.blocks))}
        seen += sum(times > 0 for times in runs.values())
        kept += sum(runs[place] > 0 for place in pair.places)
        total = sum(runs.values())
        if sum(runs[place] for place in pair.places) < _LEAST * total:
            whole += old.index not in pairs or bool(pair.places)  # code that cannot be read may be the same
            continue
        # If several are one function in the new build, the one with its name and file counts, or else the hottest.
        other, rank = partners[old.index], (old.index in same, total)
        if other not in recounted or recounted[other][0] < rank:
            recounted[other] = rank, _recounted(old, other, pair)
    return MovedBlocks([new for _, new in recounted.values()], maps, seen, kept, whole)


def _recounted(function: BlockRuns, index: int, pair: BlockPair) -> BlockRuns:
    """Return how often the blocks of the new build ran, as far as the old one tells."""
    places = pair.places
    new = BlockRuns(index, pair.new)
    new.begun = {places[place]: times for place, times in function.begun.items() if place in places}
    new.entered = {places[place]: times for place, times in function.entered.items() if place in places}
    new.jumps = {
        (places[source], places[target]): times
        for (source, target), times in function.jumps.items()
        if source in places and target in places
    }
    # New blocks stay: a cold block that stays costs less than a hot one that leaves.
    known = set(places.values())
    new.begun |= {place: 1 for place in range(len(pair.new)) if place not in known}
    return new


def _matched(old: Ran, partners: Mapping[int, int], pairs: Mapping[int, BlockPair], functions: Functions) -> Matched:
    """Return the samples and calls of *old* in terms of *functions*."""
    before, matched = old.functions, old.matched
    profile = Profile(foreign=matched.foreign)
    place = {
        index: partners.get(index, (before.names[index] or _NO_NAME, before.files[index])) for index in matched.samples
    }
    for index, count in matched.samples.items():
        profile.add(place[index], count)
    profile.add(NOWHERE, matched.total - matched.hits)
    for (caller, callee, offset), count in matched.arcs.items():
        if caller in partners and callee in partners:
            there = offset
            if offset is not None and caller in pairs:
                there = offset_in(pairs[caller], offset, before.starts[caller], functions.starts[partners[caller]])
            profile.call(place[caller], place[callee], count, there)
    return replace(match(profile, functions), complete=matched.complete, builds=matched.builds)


def offset_in(pair: BlockPair, offset: int, old: int, new: int) -> int | None:
    """Return where the byte at *offset* of a function lies in the new build; it begins at *old*, there at *new*."""
    place = bisect_right(pair.old, old + offset, key=lambda block: block.address) - 1
    if place not in pair.places:
        return None
    there = pair.new[pair.places[place]]
    return there.address - new + min(old + offset - pair.old[place].address, max(there.size - 1, 0))
