"""Which functions are worth a place in a huge window: those that ran, and those that probably do.  Pure.

Windows are few, so that the functions that are worth the most per byte get the room (the greedy rule for knapsacks).  A
profile of some thousand samples does not see most of what runs.  What it missed often calls what it saw or is called by
it, or lies near it, since compilers and linkers keep together what was written together.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping

from hugealign.elf.calls import Calls
from hugealign.elf.symbols import Functions
from hugealign.elf.windows import align_up

#: How likely a function runs because one does that is the next to it, or the next but one, and so on, on either side;
#: and because one does that calls it, or that it calls.  Somebody does call what ran, so that all callers of a function
#: share that.  tests/bench/filling.py and docs/order.md have what others gave.
_BESIDE = (0.2, 0.14, 0.1, 0.07)
_CALLED = _CALLS = 0.25
_CALLERS = 32  # of more, each is next to nothing
#: So much of that goes on from what is only likely.
_PASSED_ON = 0.5
#: What it is worth that a function ran, beside how much, in what the least of those that ran much or little is worth.
UNSEEN = 0.5


def densest(
    functions: Functions, worth: Mapping[int, float], room: int, usual: int, calls: Calls | None = None
) -> dict[int, float]:
    """Return the functions that are worth the most per byte and fit into *room* bytes, aligned to *usual* ones.

    *worth* has all functions that ran.  With *calls*, functions that are likely to run are among them too.  The densest
    come first, each with how likely it runs, which is 1 for those that did.
    """
    unseen = UNSEEN * min((value for value in worth.values() if value > 0), default=1.0)
    size = _sizes(functions, usual)
    heap = [(-(value + unseen) / size(index), index, 1.0) for index, value in worth.items()]
    heap.sort()
    left = room
    for density, index, _ in heap:
        left -= size(index)
        if left < 0 and -density >= unseen / usual:
            calls = None  # nothing that did not run comes before those that fill the room
            break
    return _chosen(functions, heap, worth, unseen, room, usual, calls)


def likely(functions: Functions, ran: Iterable[int], room: int, usual: int, calls: Calls) -> dict[int, float]:
    """Return functions that are likely to run because those do that *ran*, without these, and fit into *room* bytes.

    The densest come first, each with how likely it runs.
    """
    return _chosen(functions, [], dict.fromkeys(ran), 1.0, room, usual, calls)


def _sizes(functions: Functions, usual: int) -> Callable[[int], int]:
    return lambda index: max(align_up(functions.sizes[index], usual), usual)


def _reasons(index: int, calls: Calls) -> Iterator[tuple[int, float]]:
    """Yield what is likely to run because function *index* does, and how likely; some of it beyond the functions."""
    for distance, chance in enumerate(_BESIDE, 1):
        yield index - distance, chance
        yield index + distance, chance
    for callee in calls.callees(index):
        yield callee, _CALLED
    callers = calls.callers(index)
    if len(callers) <= _CALLERS:
        for caller in callers:
            yield caller, _CALLS / len(callers)


def _chosen(
    functions: Functions,
    heap: list[tuple[float, int, float]],
    ran: Mapping[int, object],
    worth: float,
    room: int,
    usual: int,
    calls: Calls | None,
) -> dict[int, float]:
    """Take the densest functions that fit; *heap* has some that *ran*, each as (minus its density, index, 1).

    Others are *worth* so much when it is sure that they run.  Each that ran or was taken makes some of them likelier;
    what two make likely stays away only if both are wrong.
    """
    size = _sizes(functions, usual)
    count = len(functions)
    chances: dict[int, float] = {}

    def spread(index: int, calls: Calls, share: float) -> None:
        for other, chance in _reasons(index, calls):
            if 0 <= other < count and other not in ran and chances.get(other, 0.0) < 1.0:
                chances[other] = 1.0 - (1.0 - chances.get(other, 0.0)) * (1.0 - chance * share)
                heapq.heappush(heap, (-worth * chances[other] / size(other), other, chances[other]))

    if calls:
        for index in sorted(ran):
            spread(index, calls, 1.0)
    taken = {}
    while heap and room >= usual:
        _, index, chance = heapq.heappop(heap)
        seen = index in ran
        if not seen and (chances[index] != chance or functions.cold_part_of(index) is not None):
            continue  # an older entry; a part that compilers expect not to run
        if size(index) > room:
            continue
        room -= size(index)
        taken[index] = chance
        if calls and not seen:
            chances[index] = 1.0  # nothing makes it likelier any more
            spread(index, calls, chance * _PASSED_ON)
    return taken
