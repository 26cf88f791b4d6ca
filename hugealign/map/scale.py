"""Turn samples into steps of a logarithmic scale.  Pure."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

NONE = -1  # the step of no samples


@dataclass(frozen=True, slots=True)
class Scale:
    """Steps by shares of the *total*.

    Step 0 is for at least ``limits[0]``, the last step for anything below the other limits.
    """

    total: int
    limits: tuple[tuple[int, int], ...]  # each a numerator and a denominator

    def step(self, samples: int) -> int:
        """Return the step of *samples*, NONE for 0."""
        if not samples:
            return NONE
        for step, (share, of) in enumerate(self.limits):
            if samples * of >= share * self.total:
                return step
        return len(self.limits)

    def labels(self) -> list[str]:
        """Return the meaning of each step, in per cent of the total."""
        percent = [f"{plain(share * 100 / of)} %" for share, of in self.limits]
        return [*percent, "less"]


def tenth(share: int, of: int) -> tuple[int, int]:
    """Return the limit below *share* / *of* on a scale of powers of ten."""
    return share, of * 10


def scale(cells: Iterable[int], total: int, steps: int, below: Callable[[int, int], tuple[int, int]] = tenth) -> Scale:
    """Return a scale of *steps* that begins with the hottest of *cells*; *below* returns the limit below a limit.

    The hottest hundredth of the cells does not count: one cell with a whole loop would leave one step for the others.
    """
    ranked = sorted(filter(None, cells), reverse=True)
    hottest = ranked[len(ranked) // 100] if ranked else 0
    limits = [(1, 1)]
    while total and hottest and limits[-1][0] * total > hottest * limits[-1][1]:
        limits.append(below(*limits[-1]))
    limits = limits[-1:]
    while len(limits) < steps - 1:
        limits.append(below(*limits[-1]))
    return Scale(total, tuple(limits))


def plain(number: float) -> str:
    """Return *number*, 0 or more, with one significant digit or all before the point, never with an exponent."""
    digits = max(0, -math.floor(math.log10(number))) if number > 0 else 0
    return f"{number:.{digits}f}"
