"""Which functions are worth a place in a huge window: those that ran, and those that probably do.  Pure.

Windows are few, so that the functions that are worth the most per byte get the room (the greedy rule for knapsacks).  A
profile of some thousand samples does not see most of what runs.  What it missed is often called by what it saw, or lies
beside it, since compilers and linkers keep together what was written together.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping
from itertools import chain

from hugealign.elf.symbols import Functions
from hugealign.elf.windows import align_up

#: How likely a function runs because one does that calls it or lies next to it.  docs/order.md has what others gave.
_LIKELY = 0.5
#: What it is worth that a function ran, beside how much, in what the least of those that ran much or little is worth.
_UNSEEN = 0.5

Calls = Callable[[int], Iterable[int]]


def densest(
    functions: Functions, worth: Mapping[int, float], room: int, usual: int, calls: Calls | None = None
) -> list[int]:
    """Return the functions that are worth the most per byte and fit into *room* bytes, aligned to *usual* ones.

    *worth* has all functions that ran.  With *calls*, the callees of a function, functions that are likely to run are
    among them too.
    """
    unseen = _UNSEEN * min((value for value in worth.values() if value > 0), default=1.0)
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


def likely(functions: Functions, ran: Iterable[int], room: int, usual: int, calls: Calls) -> list[int]:
    """Return functions that are likely to run because those do that *ran*, without these, and fit into *room* bytes."""
    return _chosen(functions, [], dict.fromkeys(ran), 1.0, room, usual, calls)


def _sizes(functions: Functions, usual: int) -> Callable[[int], int]:
    return lambda index: max(align_up(functions.sizes[index], usual), usual)


def _chosen(
    functions: Functions,
    heap: list[tuple[float, int, float]],
    ran: Mapping[int, object],
    worth: float,
    room: int,
    usual: int,
    calls: Calls | None,
) -> list[int]:
    """Take the densest functions that fit; *heap* has some that *ran*, each as (minus its density, index, 1).

    Others are *worth* so much when it is sure that they run.  Each that ran or was taken makes its neighbours and
    callees likelier; what two make likely stays away only if both are wrong.
    """
    size = _sizes(functions, usual)
    chances: dict[int, float] = {}

    def spread(index: int, chance: float) -> None:
        for other in chain((index - 1, index + 1), calls(index) if calls else ()):
            if 0 <= other < len(functions) and other not in ran and chances.get(other, 0.0) < 1.0:
                chances[other] = 1.0 - (1.0 - chances.get(other, 0.0)) * (1.0 - _LIKELY * chance)
                heapq.heappush(heap, (-worth * chances[other] / size(other), other, chances[other]))

    if calls:
        for index in sorted(ran):
            spread(index, 1.0)
    taken = []
    while heap and room >= usual:
        _, index, chance = heapq.heappop(heap)
        seen = index in ran
        if not seen and (chances[index] != chance or functions.cold_part_of(index) is not None):
            continue  # an older entry; a part that compilers expect not to run
        if size(index) > room:
            continue
        room -= size(index)
        taken.append(index)
        if not seen:
            chances[index] = 1.0  # nothing makes it likelier any more
            spread(index, chance)
    return taken
