"""The windows that functions in order fill, and how many of them should be huge.  Pure.

As many are made huge as the functions that are placed need, and never more than the budget: beyond the processor's
entries a window costs misses, which can be more than it saves.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from hugealign.elf.symbols import Functions
from hugealign.elf.windows import align_up
from hugealign.orderfile import COLD, FILL, HOT
from hugealign.profile.match import Matched
from hugealign.system import saving
from hugealign.system.textcosts import TextCosts
from hugealign.wrapper.block_lists import ALIGNMENT

#: The size of a small page, the smallest that any processor has.
BASE_PAGE = 4096


@dataclass(frozen=True, slots=True)
class WindowRoom:
    """How many *windows* of *page_size* bytes may be huge: more if small pages cost more, by the *costs* if known."""

    page_size: int
    windows: int
    costs: TextCosts | None = None

    def enough_for(self, needed: int) -> Self:
        """Return the room for *needed* windows."""
        pages = (needed - self.windows) * self.page_size // BASE_PAGE
        return replace(self, windows=max(self.windows, saving.windows(self.costs, self.windows, needed, pages)))


@dataclass(frozen=True, slots=True)
class PlacedFunction:
    """One function in the order: its index, why it is there, and the number of the window it begins in, from 1."""

    index: int
    kind: str
    window: int


@dataclass(frozen=True, slots=True)
class WindowLine:
    """One line of the table of windows."""

    number: int
    used: int
    """Bytes of functions."""
    filled: int
    """Bytes of functions that did not run."""
    functions: int
    """How many functions begin here."""
    samples: int
    """Their samples."""
    huge: bool

    JSON = "number huge bytes=used filled functions samples"


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """The order and its windows."""

    placed: Sequence[PlacedFunction]
    windows: Sequence[WindowLine]
    """The windows of the ordered functions."""
    page_size: int
    budget: int
    needed: int
    """How many windows hold what ran."""
    count: int
    """How many windows should be huge."""
    text: int
    """How many windows all of the text needs."""
    whole: bool
    """Whether all of the text should be huge, whatever the order."""

    @property
    def kinds(self) -> dict[str, int]:
        """How many functions there are of each kind."""
        counts = Counter(placed.kind for placed in self.placed)
        return {kind: counts[kind] for kind in (HOT, COLD, FILL)}


#: A function, as its index, and why it is in the order: HOT, COLD or FILL.
Kinds = Sequence[tuple[int, str]]


def laid_out(
    kinds: Kinds,
    ends: Sequence[int],
    matched: Matched,
    functions: Functions,
    room: WindowRoom,
    needed: int,
    count: int | None = None,
) -> WindowPlan:
    """Return the windows of the functions *kinds*, which follow one another and end at *ends*.

    *needed* windows hold what ran.  *count* windows should be huge, by default all that are used, as *room* permits.
    """
    placed = [
        PlacedFunction(index, kind, (stop - functions.sizes[index]) // room.page_size + 1)
        for (index, kind), stop in zip(kinds, ends, strict=True)
    ]
    text = windows_of(functions.text, room.page_size)
    whole = count is None and text <= room.windows
    if count is None:
        count = text if whole else min(windows_of(ends[-1] if ends else 0, room.page_size), room.windows)
    table = _table(placed, ends, matched, functions, room.page_size, count)
    return WindowPlan(placed, table, room.page_size, room.windows, needed, count, text, whole)


def windows_of(size: int, page_size: int) -> int:
    """Return how many windows *size* bytes take, at least 1."""
    return max(1, -(-size // page_size))


def ends_of(kinds: Kinds, functions: Functions, usual: int) -> list[int]:
    """Return where each function ends, in bytes from the start of the first window; *usual* is the alignment."""
    indices = [index for index, _ in kinds]
    placed = place(functions.starts, functions.sizes, indices, functions.lead, usual)
    return [start + functions.sizes[index] for index, start in zip(indices, placed, strict=True)]


def _table(
    placed: Sequence[PlacedFunction],
    ends: Sequence[int],
    matched: Matched,
    functions: Functions,
    page_size: int,
    count: int,
) -> list[WindowLine]:
    number = -(-ends[-1] // page_size) if ends else 0
    filled, functions_in, samples = [0] * number, [0] * number, [0] * number
    for function, end in zip(placed, ends, strict=True):
        functions_in[function.window - 1] += 1
        samples[function.window - 1] += matched.samples.get(function.index, 0)
        if function.kind == FILL:
            start = end - functions.sizes[function.index]
            while start < end:  # a function can reach into the following windows
                stop = min(end, (start // page_size + 1) * page_size)
                filled[start // page_size] += stop - start
                start = stop
    return [
        WindowLine(i + 1, min(page_size, ends[-1] - i * page_size), filled[i], functions_in[i], samples[i], i < count)
        for i in range(number)
    ]


def alignment(functions: Functions, *, divided: bool = False) -> int:
    """Return the alignment that the compiler gave functions: most have it, and more than by chance (half lie on 2).

    If they will be *divided*, clang compiles them again and aligns them to at most `ALIGNMENT`.
    """
    rests = Counter(map((15).__and__, functions.starts))
    for index, name in enumerate(functions.names):
        if ".cold" in name and functions.cold_part_of(index) is not None:
            rests[functions.starts[index] & 15] -= 1
    for candidate in (16, 8, 4, 2):
        if sum(rests[rest] for rest in range(0, 16, candidate)) * 8 > rests.total() * 5:
            return min(candidate, ALIGNMENT) if divided else candidate
    return 1


def place(starts: Sequence[int], sizes: Sequence[int], order: Iterable[int], begin: int, most: int) -> list[int]:
    """Return where each function of *order* begins if they follow one another from the address *begin* on.

    *starts* are their present addresses: each function keeps the alignment that it has there, up to *most*.
    """
    placed = []
    for index in order:
        start = starts[index]
        own = start & -start
        begin = align_up(begin, own if 0 < own < most else most)
        placed.append(begin)
        begin += sizes[index]
    return placed
