"""Ratios of times, with intervals that hold what the placement of a file in memory does.  Pure.

Byte-identical copies of one file differ in speed by up to 6 per cent, all the time, because their pages lie elsewhere
in the caches.  So the unit of these intervals is the copy, not the run.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as long one takes as the other, with a 95 % confidence interval from *low* to *high*."""

    ratio: float
    low: float
    high: float

    JSON = "value=ratio low high"

    @property
    def claim(self) -> bool:
        """Whether the difference is significant: the interval excludes 1."""
        return not self.low <= 1 <= self.high

    @property
    def reach(self) -> float:
        """Half the width of the interval, as a share of the ratio."""
        return math.sqrt(self.high / self.low) - 1

    def __str__(self) -> str:
        """Return ``1.034 (1.012 to 1.057)``."""
        return f"{self.ratio:.3f} ({self.low:.3f} to {self.high:.3f})"


def paired(plain: Sequence[float], ours: Sequence[float], comparisons: int = 1) -> Ratio:
    """Return *ours* by *plain*, taken in turn: the mean of the logarithms of the ratios, and Student's interval.

    A slowdown of the machine that outlasts a pair of runs cancels in a ratio; with logarithms, twice as long and half
    as long are equally far from equal.  With several *comparisons*, all intervals together hold their ratios with 95 %:
    each has a share of the other 5 % (Bonferroni).
    """
    if len(plain) != len(ours) or len(plain) < 2:
        raise ValueError("two or more pairs are needed")
    logs = [math.log(b / a) for a, b in zip(plain, ours, strict=True)]
    error = statistics.stdev(logs) / math.sqrt(len(logs))
    return _ratio(statistics.fmean(logs), error, len(logs) - 1, 1 - 0.05 / comparisons)


def of_copies(base: Sequence[float], other: Sequence[float]) -> Ratio:
    """Return *other* by *base*, each the `effects` of two or more copies, by Welch's interval.

    See Welch, Biometrika 34, 1947, page 28; for the degrees of freedom, Satterthwaite, Biometrics Bulletin 2, 1946,
    page 110.
    """
    parts = [(statistics.variance(side) / len(side), len(side) - 1) for side in (base, other)]
    total = sum(part for part, _ in parts)
    freedom = total**2 / sum(part**2 / free for part, free in parts) if total else sum(free for _, free in parts)
    return _ratio(statistics.fmean(other) - statistics.fmean(base), math.sqrt(total), max(1, int(freedom)), 0.95)


def effects(rounds: Sequence[Sequence[float]]) -> list[float]:
    """Return for each copy the logarithm of its time by that of all; *rounds* have one time of each copy.

    What slows a whole round cancels, and a median leaves out single disturbed runs.
    """
    centred = []
    for times in rounds:
        logs = [math.log(time) for time in times]
        middle = statistics.median(logs)
        centred.append([log - middle for log in logs])
    return [statistics.median(column) for column in zip(*centred, strict=True)]


def _ratio(mean: float, error: float, freedom: int, confidence: float) -> Ratio:
    reach = student(confidence, freedom) * error
    return Ratio(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach))


def student(confidence: float, freedom: int) -> float:
    """Return the two-sided t of Student's distribution with *freedom* degrees for a *confidence*."""
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        low, high = (angle, high) if _within(angle, freedom) < confidence else (low, angle)
    return math.sqrt(freedom) * math.tan(low)


def _within(angle: float, freedom: int) -> float:
    """Return the probability that |t| < sqrt(*freedom*) tan(*angle*): Abramowitz and Stegun, 26.7.3, 26.7.4."""
    odd = freedom % 2
    term = total = math.cos(angle) * (freedom > 1) if odd else 1.0
    for at in range(1 + odd, freedom - 2, 2):
        term *= math.cos(angle) ** 2 * at / (at + 1)
        total += term
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total
