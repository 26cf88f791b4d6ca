"""Which functions are worth a place in a huge window: those that ran, and those that probably do.  Pure.

Windows are few, so the functions that are worth the most per byte get the room (the greedy rule for knapsacks).  A
profile of some thousand samples misses most of the functions that run.  A missed function often calls a seen one, is
called by one or lies near one, since compilers and linkers keep together what was written together.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from math import frexp

from hugealign.code.calls import Calls
from hugealign.code.references import References
from hugealign.elf.symbols import Functions

#: How likely a function is to run because its neighbour on either side does, or the next but one, and so on; and
#: because a function that calls it, or that it calls, does.  Some caller of a function that ran did run, so all its
#: callers share that chance.  lab/bench/filling.py prints the results of other values.
_BESIDE = (0.2, 0.14, 0.1, 0.07)
_NEAR = [(side * distance, chance) for distance, chance in enumerate(_BESIDE, 1) for side in (-1, 1)]
_CALLED = _CALLS = 0.25
_CALLERS = 32  # with more, the share of each is next to nothing
#: How likely a function is to run because one that ran refers to it without calling it: one of many in a table does.
#: Those that refer to a function that ran share the chance of callers, since it was reached through one of them.
_REFERRED = 0.05
#: The share of its own chance that a function which is only likely to run passes on.
_PASSED_ON = 0.5
#: What a function that ran is worth for that alone, in units of the least worth; how often it ran comes on top.
UNSEEN = 0.5


def densest(
    functions: Functions,
    worth: Mapping[int, float],
    room: int,
    usual: int,
    calls: Calls | None = None,
    references: References | None = None,
) -> dict[int, float]:
    """Return the functions that are worth the most per byte and fit into *room* bytes, aligned to *usual* bytes.

    *worth* has all functions that ran.  With *calls*, and *references*, functions that are likely to run compete too.
    The densest come first, each with the probability that it runs: 1 for a function that ran.
    """
    unseen = UNSEEN * min((value for value in worth.values() if value > 0), default=1.0)
    size = _sizes(functions, usual)
    heap = [(-(value + unseen) / size[index], index, 1.0) for index, value in worth.items()]
    heap.sort()
    left = room
    for density, index, _ in heap:
        left -= size[index]
        if left < 0 and -density >= unseen / usual:
            calls = None  # the functions that ran fill the room
            break
    return _chosen(functions, heap, worth, unseen, room, size, calls, references)


def likely(
    functions: Functions,
    ran: Iterable[int],
    room: int,
    usual: int,
    calls: Calls,
    references: References | None = None,
) -> dict[int, float]:
    """Return functions that are likely to run, given those that *ran*, which are left out; they fit into *room* bytes.

    The densest come first, each with the probability that it runs.
    """
    return _chosen(functions, [], dict.fromkeys(ran), 1.0, room, _sizes(functions, usual), calls, references)


def smallest(functions: Functions, parts: Iterable[int], room: int) -> set[int]:
    """Return the smallest of *parts*, which leave functions that ran: as many as fit into *room* bytes.

    Per byte they are the likeliest to run: in the second run of docs/measured/peers.md's backends, over ten times as
    many parts ran per kilobyte of parts of at most 64 bytes as of parts of a kilobyte and more.
    """
    chosen = set()
    for part in sorted(parts, key=functions.sizes.__getitem__):
        room -= functions.sizes[part]
        if room < 0:
            break
        chosen.add(part)
    return chosen


def by_density(functions: Functions, likely: Mapping[int, float], usual: int) -> list[int]:
    """Return the functions *likely* to run by powers of eight of likelihood per byte, each power in the linker's order.

    Otherwise the small ones would each take a small page of their own.  Finer steps separate neighbours, which run
    together; coarser ones put too much between the functions that run.
    """
    size = _sizes(functions, usual)
    return sorted(likely, key=lambda index: (-((frexp(likely[index] / size[index])[1] - 1) // 3), index))


def _welcome(index: int, functions: Functions) -> bool:
    """Return whether a function may fill room: it has a name, and the compiler expects it to run."""
    return bool(functions.names[index]) and functions.cold_part_of(index) is None


def _sizes(functions: Functions, usual: int) -> list[int]:
    """Return the bytes that each function takes if it begins at a multiple of *usual*."""
    return [((size or 1) + usual - 1) & -usual for size in functions.sizes]  # `align_up`: a call of each takes longest


def _chosen(
    functions: Functions,
    heap: list[tuple[float, int, float]],
    ran: Mapping[int, object],
    worth: float,
    room: int,
    size: Sequence[int],
    calls: Calls | None,
    references: References | None,
) -> dict[int, float]:
    """Take the densest functions that fit; *heap* has some that *ran*, each as (minus its density, index, 1).

    Any other would be *worth* that much if it were sure to run; *size* has the bytes of each.  Each function that ran
    or was taken makes some of the others likelier, and independently: the chances that they do not run multiply.
    """
    chances: dict[int, float] = {}
    # 1 for functions that neither ran nor were taken; the end stands for neighbours past either end of the functions.
    waiting = bytearray(b"\1") * len(functions) + bytes(len(_BESIDE))
    for index in ran:
        waiting[index] = 0

    def spread(index: int, calls: Calls, share: float) -> list[int]:
        """Note the functions that are likelier because function *index* runs, and return them."""
        reasons = [(index + at, chance) for at, chance in _NEAR if waiting[index + at]]
        reasons += [(callee, _CALLED) for callee in calls.callees(index) if waiting[callee]]
        origins = [calls.callers(index)]
        if references:
            reasons += [(other, _REFERRED) for other in references.targets(index) if waiting[other]]
            origins.append(references.referrers(index))
        for those in origins:
            if len(those) <= _CALLERS:
                reasons += [(neighbour, _CALLS / len(those)) for neighbour in those if waiting[neighbour]]
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
        if not seen and (not waiting[index] or chances[index] != chance or not _welcome(index, functions)):
            continue  # already taken, or an outdated entry
        if size[index] > room:
            continue
        room -= size[index]
        taken[index] = chance
        if calls and not seen:
            waiting[index] = 0
            for other in spread(index, calls, chance * _PASSED_ON):
                heapq.heappush(heap, entry(other))
    return taken
