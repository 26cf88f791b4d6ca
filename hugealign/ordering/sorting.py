"""The functions that ran, in order, and what each is worth."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from hugealign.code.calls import Calls
from hugealign.elf.symbols import Functions
from hugealign.ordering import unseen
from hugealign.ordering.cdsort import cdsort
from hugealign.profile.match import Matched

#: Bytes of a run.  Between 32 and 256 KiB, the misses of a traced clang differed by at most 8 %.
_RUN = 128 << 10


@dataclass(frozen=True, slots=True)
class Sorted:
    """The functions that ran, as indices, in order: *hot* ones, and the *cold* parts that follow them."""

    hot: Sequence[int]
    cold: Sequence[int] = ()


def sort(matched: Matched, functions: Functions, calls: Calls | None = None) -> Sorted:
    """Return the functions that ran in order.

    *calls* are the calls in the code; they help where the profile saw only a part of what runs.  Cold parts
    (``f.cold``) follow the order of their functions: they ran, but are not expected to run again.
    """
    touched = sorted(matched.samples)
    cold = [index for index in touched if functions.cold_part_of(index) is not None]
    apart = set(cold)
    hot = [index for index in touched if index not in apart]
    order = unseen.order(hot, {}, matched, functions, calls) if calls and unseen.incomplete(matched) else []
    order = order or (_by_calls if matched.arcs else _by_density)(hot, matched, functions)
    rank = {functions.names[index]: number for number, index in enumerate(order)}
    cold.sort(key=lambda index: (rank.get(functions.cold_part_of(index) or "", len(order)), index))
    return Sorted(order, cold)


def worth(hot: Sequence[int], matched: Matched, functions: Functions) -> dict[int, float]:
    """Return what each touched function is worth in a huge window; *hot* is in the order of `sort`.

    From an incomplete profile: its samples, or the calls from and to it if those are more.  From a complete profile
    with calls: how often it is entered and returned to, because each time the processor looks up its page, however long
    it then runs.  Taken out of the order it would leave the page of its callers, so the density of the stretch (run) of
    the order that it lies in counts as much as its own.
    """
    looked_up = Counter[int]()
    for (caller, callee, _), weight in matched.arcs.items():
        if caller != callee:
            looked_up[caller] += weight
            looked_up[callee] += weight
    if not matched.arcs or unseen.incomplete(matched):
        return {index: float(max(samples, looked_up[index])) for index, samples in matched.samples.items()}
    calls, samples = looked_up.total() / 2, sum(matched.samples.values())
    values = {
        index: float(looked_up[index] or (count * calls / samples if samples else 0))  # callbacks have no known calls
        for index, count in matched.samples.items()
    }
    run: list[int] = []
    size = 0
    for index in hot:
        if index in values:  # an order file can name other functions too
            run.append(index)
        size += functions.sizes[index]
        if size >= _RUN or index == hot[-1]:
            density = sum(values[function] for function in run) / max(size, 1)
            values.update(
                (function, sqrt(values[function] * density * max(functions.sizes[function], 1))) for function in run
            )
            run, size = [], 0
    return values


def _by_calls(hot: list[int], matched: Matched, functions: Functions) -> list[int]:
    """Sort by CDSort, with entries for heat: each entry looks up the function's page, however long it then runs.

    Functions without known calls, such as callbacks, have their samples instead, scaled to the unit of the calls.
    """
    number = {index: at for at, index in enumerate(hot)}
    arcs = unseen.seen(matched, number)
    calls, samples = sum(arc.weight for arc in arcs), sum(matched.samples[index] for index in hot)
    entered = Counter[int]()
    for arc in arcs:
        if arc.caller != arc.callee:
            entered[arc.callee] += arc.weight
    counts = [
        entered[at] or (-(-matched.samples[index] * calls // samples) if samples else 0) for at, index in enumerate(hot)
    ]
    return [hot[at] for at in cdsort([functions.sizes[index] for index in hot], counts, arcs)]


def _by_density(hot: list[int], matched: Matched, functions: Functions) -> list[int]:
    """Sort by powers of two of samples per byte, and in the linker's order within each.

    Nothing says who calls whom, but neighbours in a source file often call each other.  A plain sort by density
    separates them, and misses more in a TLB of 4 KiB pages than the linker's order.
    """

    def octave(index: int) -> int:
        return ((matched.samples[index] << 32) // max(functions.sizes[index], 1)).bit_length()

    return sorted(hot, key=lambda index: (-octave(index), index))
