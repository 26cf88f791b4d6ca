"""An order for a profile that saw only a part of what runs, by the calls that the code has.  Pure.

Samples without stacks say nothing of who calls whom, and a thousand samples with stacks say little.  The code does say
which calls there are.  How often one is made is guessed from how hot both of its ends are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any

from hugealign.elf.calls import Calls
from hugealign.elf.symbols import Functions
from hugealign.ordering.cdsort import cdsort
from hugealign.ordering.chains import Arc
from hugealign.ordering.knapsack import UNSEEN
from hugealign.profile import goodturing
from hugealign.profile.goodturing import Estimate
from hugealign.profile.match import Matched

#: A profile is taken for complete if less than this share of what runs is in functions that it did not see.
_COMPLETE = 1 / 1000
#: One in this many of the functions that are likely to run does.
_LIKELY = 4
#: At most this many are taken for missed for each that was seen once, where none was seen twice.
_MOST_MISSED = 4
#: How much a call that the profile did not see weighs at most, of the least of those that it saw, if it saw any.
_SHARE = 0.5
#: One in so many of the functions that ran has to be at an end of a call for calls to be known.
_THROUGHOUT = 8
#: Neighbours run together if the next to one that ran did so this many times as often as any.
_TOGETHER = 2
_SCALE = 1000  # weights are whole numbers


def incomplete(matched: Matched) -> bool:
    """Say whether functions may run, or calls, that the profile did not see.

    In a record of all none do; of calls, without any, it saw too few.  Else the counts tell: what was never seen runs
    about as often as what was seen a single time (Good, Biometrika 40, 1953, page 237).
    """
    if matched.complete:
        return False
    least = _least(matched.samples)
    total = sum(matched.samples.values())
    single = sum(count == least for count in matched.samples.values())
    return not _has_calls(matched) or single * least > total * _COMPLETE


@dataclass(frozen=True, slots=True)
class Missed:
    """What is probably *unseen* of all that runs; so many *times* the samples would halve that, None if unknown."""

    unseen: Estimate
    times: float | None


def missed(matched: Matched) -> Missed | None:
    """Return what the samples have missed, None if they are a record of all, or no samples but a list."""
    hits = [count for count in matched.samples.values() if count > 0]
    if not incomplete(matched) or not hits or min(hits) == max(hits):
        return None
    sample = gcd(*hits)  # what one counts for
    return Missed(goodturing.unseen(hits, sample), goodturing.halving(hits, sample))


def room(matched: Matched, functions: Functions) -> int:
    """Return how many bytes of likely functions have those among them that the profile missed; 0 if it is complete.

    For each that was seen once as many were missed as half of those seen once are more than those seen twice (Chao,
    Scandinavian Journal of Statistics 11, 1984, page 268, in the form without bias).
    """
    if not incomplete(matched):
        return 0
    least = _least(matched.samples)
    once = [index for index, count in matched.samples.items() if count == least]
    twice = sum(count == 2 * least for count in matched.samples.values())
    missed = min((len(once) - 1) / (2 * (twice + 1)), _MOST_MISSED)
    return int(_LIKELY * missed * sum(functions.sizes[index] for index in once))


def scattered(matched: Matched, count: int) -> bool:
    """Say whether what ran, all of which is known, lies about anywhere among the *count* functions.

    If a function beside one that ran did not run much more often than any other, a place beside others that may run is
    better for it.  Where neighbours run together, it would lack in their pages.
    """
    ran = matched.samples.keys()
    beside = sum(index + 1 in ran for index in ran)
    return not incomplete(matched) and beside * count < _TOGETHER * len(ran) ** 2


def within(likely: Mapping[int, float], room: int, functions: Functions) -> dict[int, float]:
    """Return the first of *likely* that have room."""
    found = {}
    for index, chance in likely.items():
        room -= functions.sizes[index]
        if room < 0:
            break
        found[index] = chance
    return found


def order(
    hot: Iterable[int], likely: Mapping[int, float], matched: Matched, functions: Functions, calls: Calls
) -> list[int]:
    """Return the functions *hot*, which ran, and those that are *likely* to run, by how likely, in one order.

    They are sorted by CDSort.  A call that the profile has not, but the code has, weighs the geometric mean of what its
    ends are worth; where the profile has calls, at most half of the least of them.  Without any call there is no order.
    """
    least, least_call = _least(matched.samples), _least(matched.arcs)
    worth = {index: matched.samples[index] / least + UNSEEN for index in hot}
    worth.update((index, UNSEEN * chance) for index, chance in likely.items())
    nodes = sorted(worth)
    number = {index: at for at, index in enumerate(nodes)}
    arcs = [Arc(arc.caller, arc.callee, _SCALE * arc.weight // least_call, arc.offset) for arc in seen(matched, number)]
    known = {(nodes[arc.caller], nodes[arc.callee]) for arc in arcs}
    most = _SHARE if _has_calls(matched) else float("inf")
    for caller in nodes:
        for callee in calls.callees(caller):
            if callee in number and (caller, callee) not in known:
                weight = min(most, (worth[caller] * worth[callee]) ** 0.5)
                arcs.append(Arc(number[caller], number[callee], max(1, int(_SCALE * weight))))
    called, total = sum(arc.weight for arc in arcs), sum(worth.values())
    counts = [max(1, int(worth[index] * called / total)) for index in nodes]
    return [nodes[at] for at in cdsort([functions.sizes[index] for index in nodes], counts, arcs)] if arcs else []


def _has_calls(matched: Matched) -> bool:
    """Whether the profile has calls throughout, not just some, as chains of frames without frame pointers have."""
    known = {index for caller, callee, _ in matched.arcs for index in (caller, callee)}
    return len(known) * _THROUGHOUT >= len(matched.samples) and bool(known)


def seen(matched: Matched, number: Mapping[int, int]) -> list[Arc]:
    """Return the calls of the profile between the functions that have a *number*, by these, always in one order."""
    return [
        Arc(number[caller], number[callee], weight, offset)
        for (caller, callee, offset), weight in sorted(
            matched.arcs.items(), key=lambda item: (item[0][0], item[0][1], -1 if item[0][2] is None else item[0][2])
        )
        if weight and caller in number and callee in number
    ]


def _least(counts: Mapping[Any, int]) -> int:
    """Return the least count that is one: a single sample, whatever it stands for."""
    return min((count for count in counts.values() if count > 0), default=1)
