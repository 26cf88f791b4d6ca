"""What huge text saves of a program's processor time: its cost in small pages, less that in huge ones.  Pure.

Three things about text cost time: page faults, when a process touches it for the first time; page walks, once more
pages are in use than the last level of the TLB holds; and misses of the first level, on some processors.
"""

from dataclasses import dataclass
from statistics import median
from typing import Self

from hugealign.system.textcosts import VISIBLE, TextCosts

#: The share from which a saving is worth anything.
WORTH = 0.01


@dataclass(frozen=True, slots=True)
class Saving:
    """A share of the processor time: most likely *value*, between *low* and *high*."""

    low: float
    value: float
    high: float

    JSON = "low value high"

    def __add__(self, other: Self) -> "Saving":
        """Return the saving of both."""
        return Saving(self.low + other.low, self.value + other.value, min(1.0, self.high + other.high))

    @property
    def worth(self) -> bool | None:
        """Whether it is worth anything; None if that is not certain."""
        return True if self.low > WORTH else False if self.high < WORTH else None


NOTHING = Saving(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Faults:
    """The page faults of a command's text: *small* of them would not happen, *huge* others would, in *cpu* seconds.

    *most* is the number of pages that one process has touched at most.
    """

    small: int
    huge: int
    cpu: float
    most: int


def of_faults(costs: TextCosts, faults: Faults) -> Saving:
    """Return what is saved of the faults, all of them counted."""
    if not faults.small or faults.cpu <= 0:
        return NOTHING
    other = costs.huge_fault or costs.fault
    time = 1e9 * faults.cpu
    low, value, high = sorted(  # what a fault of a huge page costs is as uncertain
        min(1.0, max(0.0, faults.small * small - faults.huge * huge) / time)
        for small, huge in (
            (costs.fault.low, other.low),
            (costs.fault.value, other.value),
            (costs.fault.high, other.high),
        )
    )
    return Saving(low, value, high)


def of_samples(costs: TextCosts, beyond_first: float, beyond_last: float) -> Saving:
    """Return a bound for what is saved of misses.

    The arguments are the shares of the time on pages beyond those that the first level holds, and beyond `reach`.  On
    these, no program misses more often than one that only goes from page to page, which the costs are from; how often
    it does is unknown, so the least is nothing.
    """
    return Saving(0.0, 0.0, min(1.0, beyond_first * costs.first_share + beyond_last * costs.walk_share))


def of_walk_cycles(share: float) -> Saving:
    """Return what is saved if a *share* of the cycles is spent in page walks for code.

    A processor can do other work meanwhile, in the best case half of the time.
    """
    return Saving(share / 2, share, share)


def windows(costs: TextCosts | None, budget: int, needed: int, pages: int = 0) -> int:
    """Return how many of *needed* windows should be huge, where the first level of the TLB holds *budget* of them.

    Windows beyond that cost misses, and each miss can cause another.  They are worth it where misses cost nothing, or
    less than the small *pages* of these windows would.  Without *costs*, nothing beyond the budget is known to be.
    """
    beyond = [point.huge - point.small for point in costs.windows if point.count > budget] if costs else []
    if costs is None or not beyond or needed <= budget:
        return min(needed, budget)
    walks = costs.walk.value if costs.walk and pages > costs.reach else 0.0
    return needed if 2 * median(beyond) <= max(VISIBLE, costs.first.value + walks) else budget
