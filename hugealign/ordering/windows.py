"""Which windows the ordered functions fill, how many are to be huge, and what fills the room that is left.  Pure.

Mapping more windows than the processor has entries for costs more misses than it saves; within the entries each further
window saves some.  So as many are mapped as the hot functions need, and never more than the budget.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass

from hugealign.elf.calls import Calls
from hugealign.elf.symbols import Functions
from hugealign.errors import HugealignError
from hugealign.orderfile import COLD, FILL, HOT
from hugealign.ordering import choose, guess
from hugealign.ordering import hot as hot_functions
from hugealign.ordering.alignment import alignment, place
from hugealign.profile.match import Matched

_LIMIT = 1 << 16  # windows: 128 GiB of functions


@dataclass(frozen=True, slots=True)
class Placed:
    """One function in the order: its index, why it is there, and the number of the window it begins in, from 1."""

    index: int
    kind: str
    window: int


@dataclass(frozen=True, slots=True)
class Window:
    """One line of the table: bytes that are used, those of them *filled*, functions and samples that begin here."""

    number: int
    used: int
    filled: int
    functions: int
    samples: int
    huge: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """The order and its windows.

    *needed* windows hold what ran, *count* are to be huge; *whole* says that all of the text is, *text* windows.
    """

    placed: Sequence[Placed]
    windows: Sequence[Window]
    page_size: int
    budget: int
    needed: int
    count: int
    text: int
    whole: bool


def plan(
    hot: Sequence[int],
    cold: Sequence[int],
    matched: Matched,
    functions: Functions,
    page_size: int,
    budget: int,
    fill: Calls | None = None,
    count: int | None = None,
) -> Plan:
    """Return where *hot*, then *cold* functions lie in windows of *page_size* bytes, of which *budget* may be huge.

    With *count*, so many are to be huge, whatever the budget.  Where those that ran need more, the ones that are worth
    the most per byte come first.  With *fill*, which says who calls whom, others that are likely to run get the room
    that is left, and if nothing or everything is huge, a place beside those that ran.  Raises HugealignError for
    functions of absurd size.
    """
    text = max(1, -(-functions.text // page_size))
    whole = count is None and text <= budget
    most = budget if count is None else count
    usual = alignment(functions)
    kinds = [(index, HOT) for index in hot] + [(index, COLD) for index in cold]
    ends = _ends(kinds, functions, usual)
    end = ends[-1] if ends else functions.lead
    needed = max(1, -(-end // page_size))
    if needed > _LIMIT:
        raise HugealignError(f"functions of {needed} windows: more than any program has; the file is damaged")
    if fill or end > most * page_size:
        # Where all is to be huge, the order is for the day when it is not: the kernel may have no huge page left.
        kinds = _within(kinds, matched, functions, 0 if whole else most * page_size, end, usual, fill)
        ends = _ends(kinds, functions, usual)
    placed = [
        Placed(index, kind, (stop - functions.sizes[index]) // page_size + 1)
        for (index, kind), stop in zip(kinds, ends, strict=True)
    ]
    if count is None:
        used = max(1, -(-ends[-1] // page_size)) if ends else 1
        count = text if whole else min(used, budget)
    return Plan(
        placed,
        _table(placed, ends, matched, functions, page_size, count),
        page_size,
        budget,
        needed,
        count,
        text,
        whole,
    )


def _within(
    kinds: list[tuple[int, str]],
    matched: Matched,
    functions: Functions,
    space: int,
    end: int,
    usual: int,
    fill: Calls | None,
) -> list[tuple[int, str]]:
    """Return the functions with those first that are to lie in the first *space* bytes, 0 if no window is huge.

    As *kinds* has them they reach to *end*.  On either side of the border they are in one order, in which functions
    that call each other are beside each other.  The likeliest of what fills up is among them, as much as the profile
    seems to have missed, and the rest behind.
    """
    room = guess.room(matched, functions) if fill else 0
    inside: Container[int] | None = None
    likely: dict[int, float] = {}
    if end > space > 0:
        worth = hot_functions.worth([index for index, kind in kinds if kind == HOT], matched, functions)
        inside = choose.densest(functions, worth, space - functions.lead, usual, fill)
        likely = {index: chance for index, chance in inside.items() if index not in matched.samples}
    elif fill:
        likely = choose.likely(functions, matched.samples, space - end if space else room, usual, fill)
    among = guess.within(likely, room, functions)
    if fill and among:
        hot = (index for index, kind in kinds if kind == HOT)
        if mixed := guess.order(hot, among, matched, functions, fill):
            cold = [one for one in kinds if one[1] == COLD]
            kinds = [(index, FILL if index in among else HOT) for index in mixed] + cold
            likely = {index: chance for index, chance in likely.items() if index not in among}
    kinds = kinds + [(index, FILL) for index in sorted(likely)]
    if inside is None:
        return kinds
    return [one for one in kinds if one[0] in inside] + [one for one in kinds if one[0] not in inside]


def _ends(kinds: Sequence[tuple[int, str]], functions: Functions, usual: int) -> list[int]:
    """Return where each function ends, in bytes from the start of the first window; *usual* is the alignment."""
    indices = [index for index, _ in kinds]
    placed = place(functions.starts, functions.sizes, indices, functions.lead, usual)
    return [start + functions.sizes[index] for index, start in zip(indices, placed, strict=True)]


def _table(
    placed: Sequence[Placed], ends: Sequence[int], matched: Matched, functions: Functions, page_size: int, count: int
) -> list[Window]:
    number = -(-ends[-1] // page_size) if ends else 0
    filled, functions_in, samples = [0] * number, [0] * number, [0] * number
    for one, end in zip(placed, ends, strict=True):
        functions_in[one.window - 1] += 1
        samples[one.window - 1] += matched.samples.get(one.index, 0)
        if one.kind == FILL:
            start = end - functions.sizes[one.index]
            while start < end:  # a function can reach into the next windows
                stop = min(end, (start // page_size + 1) * page_size)
                filled[start // page_size] += stop - start
                start = stop
    return [
        Window(i + 1, min(page_size, ends[-1] - i * page_size), filled[i], functions_in[i], samples[i], i < count)
        for i in range(number)
    ]
