"""What an order can save: the pages that hold what ran, before and after, and what these cost.  Pure."""

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from hugealign.orderfile import FILL
from hugealign.ordering.order import Order
from hugealign.ordering.windows import BASE_PAGE, WindowPlan
from hugealign.profile.ran import Ran
from hugealign.system import saving
from hugealign.system.saving import Saving

#: Why an order can save nothing: a single function ran, or what ran lies together in this sequence already.
ONE, SAME = "one-function", "same-order"
_LINE = 64  # bytes of a cache line


@dataclass(frozen=True, slots=True)
class Gain:
    """What an order can save."""

    linked: int
    """How many small pages hold the functions that ran, as the program was linked."""
    ordered: int
    """How many hold them with the order."""
    reach: int
    """How many pages need no page walk, as the TLBs hold them; 0 if unknown."""
    saving: Saving | None
    """What page walks and first-level misses cost, the most that an order can save of them; None if unknown."""
    nothing: str
    """One of `one-function`, `same-order`: why the order can save nothing; empty if it can."""

    JSON = "pages_linked=linked pages_ordered=ordered pages_without_walks=reach? saving_at_most=saving.high nothing?"


def gain(order: Order) -> Gain:
    """Return what the *order* can save."""
    budget, samples = order.budget, order.ran.matched.samples
    heat: dict[int, float] = {}
    for index, pages in _pages(order):
        for page in pages:
            heat[page] = heat.get(page, 0.0) + samples.get(index, 0) / len(pages)
    total = sum(heat.values())
    beyond = sum(sorted(heat.values(), reverse=True)[budget.reach :]) / total if budget.reach and total else 0.0
    ordered = sum(window.used - window.filled for window in order.plan.windows)
    most = saving.of_samples(budget.costs, 1.0, beyond) if budget.costs else None
    return Gain(len(heat), -(-ordered // BASE_PAGE), budget.reach, most, _nothing(order.plan, order.ran, order.blocks))


def _pages(order: Order) -> Iterator[tuple[int, Collection[int]]]:
    """Yield each function that ran, and its pages as linked, or those of its blocks that stay."""
    functions = order.ran.functions
    for placed in order.plan.placed:
        if placed.kind != FILL:
            index = placed.index
            start, blocks = functions.starts[index], (order.blocks or {}).get(index)
            if blocks:
                yield index, {page for at, size, _ in blocks.pieces for page in _of(start + at, size)}
            else:
                yield index, _of(start, functions.sizes[index])


def _of(start: int, size: int) -> range:
    return range(start // BASE_PAGE, (start + max(size, 1) - 1) // BASE_PAGE + 1)


def _nothing(plan: WindowPlan, ran: Ran, blocks: object) -> str:
    if blocks:
        return ""
    indices = [placed.index for placed in plan.placed if placed.kind != FILL]
    starts, sizes = ran.functions.starts, ran.functions.sizes
    if len(indices) == 1:
        return ONE
    gaps = (starts[after] - starts[index] - sizes[index] for index, after in itertools.pairwise(indices))
    return SAME if all(0 <= gap < _LINE for gap in gaps) else ""
