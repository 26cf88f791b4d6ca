"""From functions that ran to windows: sort, select, fill, lay out, in values passed on.  Pure, but for `Calls`."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hugealign.code.calls import Calls
from hugealign.code.references import References
from hugealign.elf.symbols import Functions
from hugealign.errors import HugealignError
from hugealign.orderfile import COLD, FILL, HOT
from hugealign.ordering import knapsack, sorting, unseen
from hugealign.ordering.sorting import Sorted
from hugealign.ordering.windows import Kinds, WindowPlan, WindowRoom, alignment, ends_of, laid_out, windows_of
from hugealign.profile.match import Matched

_LIMIT = 1 << 16  # windows: 128 GiB of functions
_BEHIND = 2  # if no page is huge, bytes of code that ran for each byte that may run


@dataclass(frozen=True, slots=True)
class Problem:
    """The *functions* to order, the samples *matched* to them, and the *room* that there is.

    *calls* are the calls in the code; they help to sort the functions of an incomplete profile.  With *fill*, calls
    too, other functions that are likely to run get the room that is left, or, if nothing or everything is huge, a place
    beside those that ran.  *references* tell more of these for huge windows; on small pages they did not help.
    """

    matched: Matched
    functions: Functions
    room: WindowRoom
    calls: Calls | None = None
    fill: Calls | None = None
    references: References | None = None
    #: The part that leaves each divided function, as a function of its own.
    parts: Mapping[int, int] = field(default_factory=dict)


def plan(problem: Problem, count: int | None = None) -> WindowPlan:
    """Return the order and its windows; with *count*, that many will be huge, whatever the budget.

    Raises HugealignError for functions of absurd size.
    """
    return of_sorted(problem, sorting.sort(problem.matched, problem.functions, problem.calls), count)


def of_sorted(problem: Problem, order: Sorted, count: int | None = None) -> WindowPlan:
    """Return the windows of functions in *order*; otherwise like `plan`.

    If the functions that ran need more windows than may be huge, those worth the most per byte come first.
    """
    functions, room = problem.functions, problem.room
    kinds: Kinds = [(index, HOT) for index in order.hot] + [(index, COLD) for index in order.cold]
    usual = alignment(functions, divided=bool(problem.parts))
    ends = ends_of(kinds, functions, usual)
    end = ends[-1] if ends else functions.lead
    needed = windows_of(end, room.page_size)
    if needed > _LIMIT:
        raise HugealignError(f"implausible function sizes ({needed} windows): the file is probably damaged")
    if count is None:
        room = room.enough_for(needed)
        problem = replace(problem, room=room)
    most = (room.windows if count is None else count) * room.page_size
    if problem.fill or end > most:
        # If everything should be huge, the order helps when the kernel has no huge page left.
        whole = count is None and windows_of(functions.text, room.page_size) <= room.windows
        selected = _select(problem, order, 0 if whole else most, end, usual)
        kinds = _filled(problem, order, kinds, selected, usual)
        ends = ends_of(kinds, functions, usual)
    return laid_out(kinds, ends, problem.matched, functions, room, needed, count)


@dataclass(frozen=True, slots=True)
class _Selected:
    """The functions *inside* the huge windows, None where no border divides them, and those *likely* to run.

    *room* is how many bytes of the huge windows the functions that ran leave free.
    """

    inside: Container[int] | None
    likely: Mapping[int, float]
    room: int = 0


def _select(problem: Problem, order: Sorted, space: int, end: int, usual: int) -> _Selected:
    """Choose functions for the first *space* bytes, 0 if no window is huge; the functions that ran reach to *end*.

    If no window is huge, functions that the profile has missed get room.  If the profile is complete and neighbours do
    not run together, the densest functions that may run, half as many bytes as ran, share pages behind those that
    did.
    """
    matched, functions, fill = problem.matched, problem.functions, problem.fill
    if end > space > 0:
        worth = sorting.worth(order.hot, matched, functions)
        inside = knapsack.densest(functions, worth, space - functions.lead, usual, fill, problem.references)
        return _Selected(inside, {index: chance for index, chance in inside.items() if index not in matched.samples})
    if not fill:
        return _Selected(None, {})
    room = max(0, space - end)
    apart = sum(functions.sizes[part] for part in problem.parts.values())
    if space:
        left = max(0, room - apart)
    else:
        scattered = unseen.scattered(matched, len(functions) - len(problem.parts))
        left = end // _BEHIND if scattered else unseen.small_room(matched, functions)
    references = problem.references if space else None
    return _Selected(None, knapsack.likely(functions, matched.samples, left, usual, fill, references), room)


def _filled(problem: Problem, order: Sorted, kinds: Kinds, selected: _Selected, usual: int) -> Kinds:
    """Return the functions that ran, *kinds*, and those likely to run; those inside the huge windows come first.

    Each side of that border has one order, in which functions that call each other are neighbours.  Of those likely to
    run, the likeliest lie among those that ran, as many as the profile seems to have missed, and the rest behind.
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
        within = [item for item in kinds if item[0] in selected.inside]
        behind = [item for item in kinds if item[0] not in selected.inside]
        return [*within, *behind, *((part, FILL) for part in leaving)]
    if selected.room:
        following = _following(problem, leaving, rest, selected.room)
    else:  # the parts that leave functions that ran are likelier to run than others
        following = [*leaving, *knapsack.by_density(functions, rest, usual)]
    return [*kinds, *((index, FILL) for index in following)]


def _following(problem: Problem, leaving: Sequence[int], rest: Iterable[int], room: int) -> list[int]:
    """Return the order of the parts *leaving* functions that ran, and of the *rest*, which is likely to run.

    They follow the functions that ran, which leave *room* bytes of the huge windows.  The smallest parts fill the last
    window of these functions.  The others follow in the linker's order: the processor may hold fewer windows than are
    huge, and neighbours, which run together, share one.  The largest parts may not fit, and come last.
    """
    fitting = knapsack.smallest(problem.functions, leaving, room)
    near = knapsack.smallest(problem.functions, fitting, room % problem.room.page_size)
    owner = {part: index for index, part in problem.parts.items()}
    beside = sorted([*(fitting - near), *rest], key=lambda index: owner.get(index, index))
    return [*(part for part in leaving if part in near), *beside, *(part for part in leaving if part not in fitting)]
