"""Which functions are worth a place in a huge window: those that ran, and those that probably do.  Pure.

Windows are few, so that the functions that are worth the most per byte get the room (the greedy rule for knapsacks).  A
profile of some thousand samples does not see most of what runs.  What it missed often calls what it saw or is called by
it, or lies near it, since compilers and linkers keep together what was written together.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from math import frexp

from hugealign.elf.calls import Calls
from hugealign.elf.symbols import Functions
from hugealign.elf.windows import align_up

#: How likely a function runs because one does that is the next to it, or the next but one, and so on, on either side;
#: and because one does that calls it, or that it calls.  Somebody does call what ran, so that all callers of a function
#: share that.  tests/bench/filling.py prints what others give.
_BESIDE = (0.2, 0.14, 0.1, 0.07)
_NEAR = [(side * distance, chance) for distance, chance in enumerate(_BESIDE, 1) for side in (-1, 1)]
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
    heap = [(-(value + unseen) / size[index], index, 1.0) for index, value in worth.items()]
    heap.sort()
    left = room
    for density, index, _ in heap:
        left -= size[index]
        if left < 0 and -density >= unseen / usual:
            calls = None  # nothing that did not run comes before those that fill the room
            break
    return _chosen(functions, heap, worth, unseen, room, size, calls)


def likely(functions: Functions, ran: Iterable[int], room: int, usual: int, calls: Calls) -> dict[int, float]:
    """Return functions that are likely to run because those do that *ran*, without these, and fit into *room* bytes.

    The densest come first, each with how likely it runs.
    """
    return _chosen(functions, [], dict.fromkeys(ran), 1.0, room, _sizes(functions, usual), calls)


def smallest(functions: Functions, parts: Iterable[int], room: int) -> set[int]:
    """Return the smallest of *parts*, which leave functions that ran, as many as fit into *room* bytes.

    Per byte they are the likeliest to run: of those of at most 64 bytes over ten times as many a kilobyte did, in the
    second run of docs/results/peers.md's backends, as of those of a kilobyte and more.
    """
    found = set()
    for part in sorted(parts, key=functions.sizes.__getitem__):
        room -= functions.sizes[part]
        if room < 0:
            break
        found.add(part)
    return found


def by_density(functions: Functions, likely: Mapping[int, float], usual: int) -> list[int]:
    """Return the functions *likely* to run by powers of eight of that per byte, and in the linker's order within each.

    On small pages the small ones among them would otherwise each take a page of their own.  Finer steps tear apart
    neighbours, which run together; with coarser ones too much lies between what runs.
    """
    size = _sizes(functions, usual)
    return sorted(likely, key=lambda index: (-((frexp(likely[index] / size[index])[1] - 1) // 3), index))


def _sizes(functions: Functions, usual: int) -> list[int]:
    """Return the bytes that each function takes if it begins on a multiple of *usual*."""
    return [align_up(max(size, 1), usual) for size in functions.sizes]


def _chosen(
    functions: Functions,
    heap: list[tuple[float, int, float]],
    ran: Mapping[int, object],
    worth: float,
    room: int,
    size: Sequence[int],
    calls: Calls | None,
) -> dict[int, float]:
    """Take the densest functions that fit; *heap* has some that *ran*, each as (minus its density, index, 1).

    Others are *worth* so much when it is sure that they run, and take the bytes in *size*.  Each that ran or was taken
    makes some of them likelier; what two make likely stays away only if both are wrong.
    """
    chances: dict[int, float] = {}
    # 1 for what neither ran nor was taken; the end is for neighbours that are not there, also of the first functions.
    waiting = bytearray(b"\1") * len(functions) + bytes(len(_BESIDE))
    for index in ran:
        waiting[index] = 0

    def spread(index: int, calls: Calls, share: float) -> list[int]:
        """Note what is likelier because function *index* runs; return it."""
        reasons = [(index + at, chance) for at, chance in _NEAR if waiting[index + at]]
        reasons += [(callee, _CALLED) for callee in calls.callees(index) if waiting[callee]]
        callers = calls.callers(index)
        if len(callers) <= _CALLERS:
            reasons += [(caller, _CALLS / len(callers)) for caller in callers if waiting[caller]]
        for other, chance in reasons:
            chances[other] = 1.0 - (1.0 - chances.get(other, 0.0)) * (1.0 - chance * share)
        return [other for other, _ in reasons]

    def entry(index: int) -> tuple[float, int, float]:
        return -worth * chances[index] / size[index], index, chances[index]

    least = min(size, default=1)
    if calls and room >= least and 1 in waiting:
        for index in sorted(ran):
            spread(index, calls, 1.0)
        heap += map(entry, chances)
        heapq.heapify(heap)
    taken = {}
    while heap and room >= least:
        _, index, chance = heapq.heappop(heap)
        seen = index in ran
        if not seen and (not waiting[index] or chances[index] != chance or functions.cold_part_of(index) is not None):
            continue  # taken; an older entry; a part that compilers expect not to run
        if size[index] > room:
            continue
        room -= size[index]
        taken[index] = chance
        if calls and not seen:
            waiting[index] = 0
            for other in spread(index, calls, chance * _PASSED_ON):
                heapq.heappush(heap, entry(other))
    return taken
