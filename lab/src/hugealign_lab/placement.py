"""The addresses of a trace's blocks under a layout.  Pure.

Each file has a region of its own, far from the others, so its addresses keep their places in windows and sets; only the
file that is laid out has huge windows.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hugealign.elf.symbols import Functions
from hugealign.elf.windows import align_down
from hugealign.errors import HugealignError
from hugealign.ordering.blocks import KeptBlocks
from hugealign.ordering.windows import alignment, place
from hugealign_lab.tracefile import Trace

WINDOW = 2 << 20  # the huge page size that instruction TLBs are published for
REGION = 48  # bits of an address within one file


@dataclass(frozen=True, slots=True)
class Placement:
    """*addresses* of the blocks, by number; the laid-out text has so many *windows*, from number *first* on."""

    name: str
    addresses: "array[int]"
    first: int
    windows: int


def original(trace: Trace, file: int, name: str = "original") -> Placement:
    """Return the placement of the blocks in the files as they are.  Raises HugealignError if *file* has no text."""
    base = _text(trace, file)
    addresses = array("Q", (address + (number << REGION) for address, number, _, _ in trace.block_rows()))
    ends = [s.p_vaddr + s.p_memsz for s in trace.description.files[file].segments if s.executable]
    first = base // WINDOW
    return Placement(name, addresses, first + (file << REGION) // WINDOW, -(-max(ends) // WINDOW) - first)


def ordered(
    trace: Trace,
    file: int,
    name: str,
    functions: Functions,
    order: Sequence[int],
    kept: Mapping[int, KeptBlocks] | None = None,
) -> Placement:
    """Return the placement of the blocks if a linker puts the functions *order* first, and the rest behind as it was.

    The text then begins on a window, with the sections that linkers put before functions (``.init``, ``.plt``).  Code
    between two functions stays with the first; code behind all functions stays there.  If the blocks of a function are
    *kept* out, those that leave it lie where *order* puts them, or behind the order.
    """
    kept = kept or {}
    base = _text(trace, file)
    behind = functions.starts[-1] + functions.sizes[-1]
    starts, sizes = [*functions.starts, behind], [*functions.sizes, 0]
    for index, blocks in kept.items():
        sizes[index] = blocks.size
    owners = array("q")
    for address, number, size, _ in trace.block_rows():
        owner = bisect_right(starts, address) - 1 if number == file else -1
        owners.append(owner)
        if owner >= 0 and owner not in kept:
            sizes[owner] = max(sizes[owner], address + size - starts[owner])
    begin = align_down(base, WINDOW)
    end = begin + max(0, starts[0] - base)
    # Parts that leave functions are numbered after all functions, and lie behind the order if that has no place for
    # them.
    shift = 1  # for the code behind all functions
    leaving = {blocks.part + shift: blocks.leaves for blocks in kept.values()}
    order = [index + shift if index >= len(functions) else index for index in order]
    sequence = list(dict.fromkeys((*order, *leaving, *range(len(starts)))))
    all_starts, all_sizes = [*starts, *(1 for _ in leaving)], [*sizes, *leaving.values()]
    placed = place(all_starts, all_sizes, sequence, end, alignment(functions, divided=bool(kept)))
    end = placed[-1] + all_sizes[sequence[-1]]
    moved = dict(zip(sequence, placed, strict=True))
    addresses = array("Q")
    for (address, number, _, _), owner in zip(trace.block_rows(), owners, strict=True):
        by = moved[owner] - starts[owner] if owner >= 0 else begin - base if number == file else 0
        if owner in kept:
            offset = address - starts[owner]
            to = kept[owner].at(offset)
            if to is None:
                by = moved[kept[owner].part + shift] + kept[owner].apart(offset) - address
            else:
                by = moved[owner] + to - address
        addresses.append(address + by + (number << REGION))
    first = begin // WINDOW
    return Placement(name, addresses, first + (file << REGION) // WINDOW, -(-end // WINDOW) - first)


def _text(trace: Trace, file: int) -> int:
    """Return the address at which the text of a file begins."""
    starts = [s.p_vaddr for s in trace.description.files[file].segments if s.executable and s.p_memsz]
    if not starts:
        raise HugealignError("the trace knows no text of the program: it was gone when the recording ended")
    return min(starts)


@dataclass(frozen=True, slots=True)
class Pages:
    """The 4 KiB pages of a placement, numbered densely: *first* and *last* of each block; *numbers* by address."""

    first: "array[int]"
    last: "array[int]"
    numbers: Sequence[int]


def pages(trace: Trace, placement: Placement) -> Pages:
    """Return the pages that the blocks lie in."""
    dense: dict[int, int] = {}
    first, last = array("I"), array("I")
    for address, (_, _, size, _) in zip(placement.addresses, trace.block_rows(), strict=True):
        page, end = address >> 12, (address + size - 1 if size else address) >> 12
        first.append(dense.setdefault(page, len(dense)))
        last.append(dense.setdefault(end, len(dense)) if end != page else first[-1])
    return Pages(first, last, tuple(dense))


@dataclass(frozen=True, slots=True)
class Keys:
    """What a TLB looks up: *key_of* each dense page; by key, the *numbers* of pages and whether they are *huge*."""

    key_of: "array[int]"
    numbers: "array[int]"
    huge: bytes


def keys(pages_of: Pages, placement: Placement, windows: int) -> Keys:
    """Return the keys if the leading *windows* are huge."""
    end = placement.first + min(windows, placement.windows)
    shift = WINDOW.bit_length() - 13
    pages = ((page, page >> shift) for page in pages_of.numbers)
    return keyed((window, True) if placement.first <= window < end else (page, False) for page, window in pages)


def keyed(pages: Iterable[tuple[int, bool]]) -> Keys:
    """Return the keys of *pages*: the number of each, or that of its window, and whether it is huge."""
    dense: dict[tuple[int, bool], int] = {}
    key_of = array("I", (dense.setdefault(page, len(dense)) for page in pages))
    return Keys(key_of, array("Q", (number for number, _ in dense)), bytes(huge for _, huge in dense))
