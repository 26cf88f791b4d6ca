"""From what ran to windows: sort, select, fill, lay out, each a value that the next takes.  Pure, but for `Calls`."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hugealign.elf.calls import Calls
from hugealign.elf.symbols import Functions
from hugealign.errors import HugealignError
from hugealign.orderfile import COLD, FILL, HOT
from hugealign.ordering import knapsack, sorting, unseen
from hugealign.ordering.alignment import alignment
from hugealign.ordering.sorting import Sorted
from hugealign.ordering.windows import Kinds, WindowPlan, WindowRoom, ends_of, laid_out, windows_of
from hugealign.profile.match import Matched

_LIMIT = 1 << 16  # windows: 128 GiB of functions
_BEHIND = 2  # one byte of what may run behind so many of what ran, where no page is huge


@dataclass(frozen=True, slots=True)
class Problem:
    """Which *functions* are to be ordered, what *matched* of them, and the *room* that there is.

    *calls*, those that the code has, help to sort what an incomplete profile saw.  With *fill*, calls too, others that
    are likely to run get the room that is left, and if nothing or everything is huge, a place beside those that ran.
    """

    matched: Matched
    functions: Functions
    room: WindowRoom
    calls: Calls | None = None
    fill: Calls | None = None
    #: Of divided functions: what leaves each, as a function of its own.
    parts: Mapping[int, int] = field(default_factory=dict)


def plan(problem: Problem, count: int | None = None) -> WindowPlan:
    """Return the order and its windows; with *count*, that many are to be huge, whatever the budget.

    Raises HugealignError for functions of absurd size.
    """
    return of_sorted(problem, sorting.sort(problem.matched, problem.functions, problem.calls), count)


def of_sorted(problem: Problem, order: Sorted, count: int | None = None) -> WindowPlan:
    """Return the windows of functions in *order*; otherwise as `plan`.

    Where those that ran need more than may be huge, the ones that are worth the most per byte come first.
    """
    functions, room = problem.functions, problem.room
    kinds: Kinds = [(index, HOT) for index in order.hot] + [(index, COLD) for index in order.cold]
    usual = alignment(functions, divided=bool(problem.parts))
    ends = ends_of(kinds, functions, usual)
    end = ends[-1] if ends else functions.lead
    needed = windows_of(end, room.page_size)
    if needed > _LIMIT:
        raise HugealignError(f"functions of {needed} windows: more than any program has; the file is damaged")
    most = (room.windows if count is None else count) * room.page_size
    if problem.fill or end > most:
        # Where all is to be huge, the order is for the day when it is not: the kernel may have no huge page left.
        whole = count is None and windows_of(functions.text, room.page_size) <= room.windows
        selected = _select(problem, order, 0 if whole else most, end, usual)
        kinds = _filled(problem, order, kinds, selected, usual)
        ends = ends_of(kinds, functions, usual)
    return laid_out(kinds, ends, problem.matched, functions, room, needed, count)


@dataclass(frozen=True, slots=True)
class _Selected:
    """The functions *inside* of the huge windows, None where no border divides them; and those *likely* to run.

    *room* is what those that ran leave of the huge windows, in bytes.
    """

    inside: Container[int] | None
    likely: Mapping[int, float]
    room: int = 0


def _select(problem: Problem, order: Sorted, space: int, end: int, usual: int) -> _Selected:
    """Choose for the first *space* bytes, 0 if no window is huge; what ran reaches to *end*.

    If none is, what the profile has missed gets room; if it is complete, and neighbours do not run together, half as
    many bytes are chosen as ran: behind them the densest of what else may run share pages.
    """
    matched, functions, fill = problem.matched, problem.functions, problem.fill
    if end > space > 0:
        worth = sorting.worth(order.hot, matched, functions)
        inside = knapsack.densest(functions, worth, space - functions.lead, usual, fill)
        return _Selected(inside, {index: chance for index, chance in inside.items() if index not in matched.samples})
    if not fill:
        return _Selected(None, {})
    room = max(0, space - end)
    apart = sum(functions.sizes[part] for part in problem.parts.values())
    if space:
        left = max(0, room - apart)
    else:
        scattered = unseen.scattered(matched, len(functions) - len(problem.parts))
        left = end // _BEHIND if scattered else unseen.room(matched, functions)
    return _Selected(None, knapsack.likely(functions, matched.samples, left, usual, fill), room)


def _filled(problem: Problem, order: Sorted, kinds: Kinds, selected: _Selected, usual: int) -> Kinds:
    """Return the functions that ran, *kinds*, and what is likely to run, those inside of the huge windows first.

    On either side of that border they are in one order, in which functions that call each other are beside each other.
    The likeliest lie among those that ran, as many as the profile seems to have missed, and the rest behind.
    """
    matched, functions, likely = problem.matched, problem.functions, selected.likely
    among = unseen.within(likely, unseen.room(matched, functions), functions) if problem.fill else {}
    if problem.fill and among and (mixed := unseen.order(order.hot, among, matched, functions, problem.fill)):
        kinds = [(index, FILL if index in among else HOT) for index in mixed] + [(index, COLD) for index in order.cold]
    else:
        among = {}
    rest = {index: chance for index, chance in likely.items() if index not in among}
    leaving = [problem.parts[index] for index, _ in kinds if index in problem.parts] if problem.fill else []
    if selected.inside is not None:
        kinds = [*kinds, *((index, FILL) for index in sorted(rest))]
        within = [one for one in kinds if one[0] in selected.inside]
        behind = [one for one in kinds if one[0] not in selected.inside]
        return [*within, *behind, *((part, FILL) for part in leaving)]
    if selected.room:
        following = _following(problem, leaving, rest, selected.room)
    else:  # what leaves functions that ran is likelier to run than others
        following = [*leaving, *knapsack.by_density(functions, rest, usual)]
    return [*kinds, *((index, FILL) for index in following)]


def _following(problem: Problem, leaving: Sequence[int], rest: Iterable[int], room: int) -> list[int]:
    """Return, in order, what is *leaving* functions that ran and the *rest*, which is likely to run.

    That is behind what ran, which leaves *room* bytes of the huge windows.  The smallest of what leaves fills the last
    window of what ran.  The others follow in the linker's order: the processor may hold fewer windows than are huge,
    and neighbours, which run together, are in one.  Of what leaves, the largest may have no room, and is last.
    """
    fitting = knapsack.smallest(problem.functions, leaving, room)
    near = knapsack.smallest(problem.functions, fitting, room % problem.room.page_size)
    owner = {part: index for index, part in problem.parts.items()}
    beside = sorted([*(fitting - near), *rest], key=lambda index: owner.get(index, index))
    return [*(part for part in leaving if part in near), *beside, *(part for part in leaving if part not in fitting)]
