"""An order for a profile that saw only a part of what runs, by the calls in the code.  Pure.

Samples without stacks do not say who calls whom, and a thousand samples with stacks say little.  The code does say
which calls there are.  `order` guesses how often a call is made from how hot both of its ends are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any

from hugealign.code.calls import Calls
from hugealign.elf.symbols import Functions
from hugealign.ordering.cdsort import Arc, cdsort
from hugealign.ordering.knapsack import UNSEEN
from hugealign.profile import missing_mass
from hugealign.profile.match import Matched
from hugealign.profile.missing_mass import Estimate

#: A profile counts as complete if less than this share of what runs is in functions that it did not see.
_COMPLETE = 1 / 1000
#: One in this many functions that are likely to run does run.
_LIKELY = 4
_MOST_SHARE = 0.9  # of what runs: with more missed, nothing is known
#: The most functions that count as missed for each one seen once, where no function was seen twice.
_MOST_MISSED = 4
#: The most that a call unseen by the profile weighs, as a share of the lightest seen call, if there is one.
_SHARE = 0.5
#: A profile has calls throughout if at least one in this many of the functions that ran calls or is called.
_THROUGHOUT = 8
#: Neighbours run together if a function beside one that ran ran this many times as often as any other function.
_TOGETHER = 2
_SCALE = 1000  # weights are integers


def incomplete(matched: Matched) -> bool:
    """Return whether functions or calls may have run that the profile did not see.

    A complete record misses nothing; a profile without calls lacks calls.  Otherwise the counts tell: things
    never seen run about as often as things seen a single time (Good, Biometrika 40, 1953, page 237).
    """
    if matched.complete:
        return False
    least = _least(matched.samples)
    total = sum(matched.samples.values())
    single = sum(count == least for count in matched.samples.values())
    return not calls_throughout(matched) or single * least > total * _COMPLETE


@dataclass(frozen=True, slots=True)
class Missed:
    """How much of what runs is probably in functions without a sample or a name."""

    unseen: Estimate
    times: float | None
    """How many times as many samples would miss half as much; None if unknown, or if names are missing."""

    JSON = "share=unseen.share low=unseen.low high=unseen.high times_to_halve=times"


def missed(matched: Matched) -> Missed | None:
    """Return what the samples have missed, None for a complete record, and for a list without counts."""
    hits = [count for count in matched.samples.values() if count > 0]
    nameless = matched.nameless / matched.hits if matched.hits else 0.0
    if not incomplete(matched) or not hits or (min(hits) == max(hits) and not nameless):
        return None
    sample = gcd(*hits)  # the weight of one sample
    estimate = missing_mass.unseen(hits, sample)
    if nameless:
        share, low, high = (nameless + (1 - nameless) * part for part in (estimate.share, estimate.low, estimate.high))
        return Missed(Estimate(share, low, high), None)
    return Missed(estimate, missing_mass.halving(hits, sample))


def room(matched: Matched, functions: Functions) -> int:
    """Return how many bytes of likely functions contain those that the profile missed; 0 if it is complete.

    For each function seen once, half the ratio of functions seen once to those seen twice were missed (Chao,
    Scandinavian Journal of Statistics 11, 1984, page 268, in the form without bias).
    """
    if not incomplete(matched):
        return 0
    least = _least(matched.samples)
    once = [index for index, count in matched.samples.items() if count == least]
    twice = sum(count == 2 * least for count in matched.samples.values())
    missed = min((len(once) - 1) / (2 * (twice + 1)), _MOST_MISSED)
    return int(_LIKELY * missed * sum(functions.sizes[index] for index in once))


def small_room(matched: Matched, functions: Functions) -> int:
    """Return how many bytes of likely functions small pages may take: no more than `room`, nor than the profile missed.

    What fills them lies among what ran, and costs pages that run in any case.  So it takes at most as many bytes as the
    missed share of the samples would take if it were as dense as the rest.  Twice as many gained more in a run like the
    one learned from, and cost up to 1.8 times the misses in one unlike it (docs/measured/orders.md).
    """
    estimate = missed(matched)
    if estimate is None:
        return room(matched, functions)
    share = min(estimate.unseen.share, _MOST_SHARE)
    ran = sum(functions.sizes[index] for index in matched.samples)
    return min(room(matched, functions), int(ran * share / (1 - share)))


def scattered(matched: Matched, count: int) -> bool:
    """Return whether the functions that ran, if all are known, are scattered among the *count* functions.

    If the neighbours of functions that ran did not run much more often than others, a function that may run is better
    placed beside others of its kind.  Where neighbours run together, it would be missing from their pages.
    """
    ran = matched.samples.keys()
    beside = sum(index + 1 in ran for index in ran)
    return not incomplete(matched) and beside * count < _TOGETHER * len(ran) ** 2


def within(likely: Mapping[int, float], room: int, functions: Functions) -> dict[int, float]:
    """Return the first of *likely* that fit into *room* bytes."""
    chosen = {}
    for index, chance in likely.items():
        room -= functions.sizes[index]
        if room < 0:
            break
        chosen[index] = chance
    return chosen


def order(
    hot: Iterable[int], likely: Mapping[int, float], matched: Matched, functions: Functions, calls: Calls
) -> list[int]:
    """Return one order of the functions *hot*, which ran, and of the *likely* ones, which map to their probabilities.

    CDSort sorts them.  A call that is in the code but not in the profile weighs the geometric mean of what its ends are
    worth; where the profile has calls, at most half as much as the lightest.  Without any call there is no order.
    """
    least, least_call = _least(matched.samples), _least(matched.arcs)
    worth = {index: matched.samples[index] / least + UNSEEN for index in hot}
    worth.update((index, UNSEEN * chance) for index, chance in likely.items())
    nodes = sorted(worth)
    number = {index: at for at, index in enumerate(nodes)}
    arcs = [Arc(arc.caller, arc.callee, _SCALE * arc.weight // least_call, arc.offset) for arc in seen(matched, number)]
    known = {(nodes[arc.caller], nodes[arc.callee]) for arc in arcs}
    most = _SHARE if calls_throughout(matched) else float("inf")
    for caller in nodes:
        for callee in calls.callees(caller):
            if callee in number and (caller, callee) not in known:
                weight = min(most, (worth[caller] * worth[callee]) ** 0.5)
                arcs.append(Arc(number[caller], number[callee], max(1, int(_SCALE * weight))))
    called, total = sum(arc.weight for arc in arcs), sum(worth.values())
    counts = [max(1, int(worth[index] * called / total)) for index in nodes]
    return [nodes[at] for at in cdsort([functions.sizes[index] for index in nodes], counts, arcs)] if arcs else []


def calls_throughout(matched: Matched) -> bool:
    """Return whether the profile has calls throughout, not only a few, as from programs without frame pointers."""
    known = {index for caller, callee, _ in matched.arcs for index in (caller, callee)}
    return len(known) * _THROUGHOUT >= len(matched.samples) and bool(known)


def seen(matched: Matched, number: Mapping[int, int]) -> list[Arc]:
    """Return the profile's calls between the functions that have a *number*, by these numbers, in a fixed order."""
    return [
        Arc(number[caller], number[callee], weight, offset)
        for (caller, callee, offset), weight in sorted(
            matched.arcs.items(), key=lambda item: (item[0][0], item[0][1], -1 if item[0][2] is None else item[0][2])
        )
        if weight and caller in number and callee in number
    ]


def _least(counts: Mapping[Any, int]) -> int:
    """Return the least positive count, which a single sample has."""
    return min((count for count in counts.values() if count > 0), default=1)
