"""The functions that ran, in the order that they are to lie, and what each is worth."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from hugealign.elf.calls import Calls
from hugealign.elf.symbols import Functions
from hugealign.ordering import unseen
from hugealign.ordering.cdsort import cdsort
from hugealign.profile.match import Matched

#: Bytes of a run.  32 to 256 KiB gave the same misses of clang, traced, but for 8 %.
_RUN = 128 << 10


@dataclass(frozen=True, slots=True)
class Sorted:
    """The functions that ran, as indices, in order: *hot* ones, and the *cold* parts that follow them."""

    hot: Sequence[int]
    cold: Sequence[int] = ()


def sort(matched: Matched, functions: Functions, calls: Calls | None = None) -> Sorted:
    """Return the functions that ran in order.

    *calls*, those that the code has, help where the profile saw only a part of what runs.  Cold parts (``f.cold``)
    follow the order of their functions: they ran, but are not expected to run again.
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

    From an incomplete profile, its samples, or the calls that it saw from and to it if those are more.  From a complete
    one with calls, how often it is entered and returned to: its page is looked up then, however long it runs then.
    Torn out of the order it would leave the page of those that call it, so the density of the run of the order that it
    lies in counts as much as its own.
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
        index: float(looked_up[index] or (count * calls / samples if samples else 0))  # of callbacks no call is known
        for index, count in matched.samples.items()
    }
    run: list[int] = []
    size = 0
    for index in hot:
        if index in values:  # an order file can name others, too
            run.append(index)
        size += functions.sizes[index]
        if size >= _RUN or index == hot[-1]:
            density = sum(values[one] for one in run) / max(size, 1)
            values.update((one, sqrt(values[one] * density * max(functions.sizes[one], 1))) for one in run)
            run, size = [], 0
    return values


def _by_calls(hot: list[int], matched: Matched, functions: Functions) -> list[int]:
    """Sort by CDSort, each function as hot as often as it is entered: its page is looked up then, however long it runs.

    Those that no call is known of, as callbacks, have their samples, in the unit of the calls.
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

    Nothing says who calls whom; but neighbours in a source file often do, and a plain sort by density, which tears them
    apart, misses more in a TLB of 4 KiB pages than the linker's order.
    """

    def octave(index: int) -> int:
        return ((matched.samples[index] << 32) // max(functions.sizes[index], 1)).bit_length()

    return sorted(hot, key=lambda index: (-octave(index), index))
