"""How much of what runs a profile has missed, by what it has seen only once.  Pure.

Things never seen run about as often as things seen a single time (Good, Biometrika 40, 1953, page 237, who had it from
Turing).  For the error, see Esty, "A normal limit law for a nonparametric estimator of the coverage of a random
sample", Annals of Statistics 11, 1983, page 905.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import log, sqrt

_DEVIATIONS = 1.96  # 95 of 100 times
_PART = 4  # a fourth of the samples
_LEAST = 1.1  # a fourth must have missed this many times as much, or the fall of the share is not known


@dataclass(frozen=True, slots=True)
class Estimate:
    """A *share* estimated from samples, with a 95 % confidence interval from *low* to *high*."""

    share: float
    low: float
    high: float

    JSON = "value=share low high"

    def __str__(self) -> str:
        """Return ``3.1 % (2.0 to 4.2)``."""
        return f"{100 * self.share:.1f} % ({100 * self.low:.1f} to {100 * self.high:.1f})"


def unseen(counts: Iterable[int], unit: int = 1) -> Estimate:
    """Return the share of what runs in kinds that no sample hit; *counts* are of the kinds hit; a sample counts *unit*.

    Without any samples everything is unseen.
    """
    hits = [count // unit for count in counts if count >= unit]
    total = sum(hits)
    if not total:
        return Estimate(1.0, 0.0, 1.0)
    once, twice = hits.count(1), hits.count(2)
    share = once / total
    # With a single kind seen once, or none, the formula gives certainty; the rule of three does not.
    reach = max(_DEVIATIONS * sqrt(max(0.0, once * (1 - share) + 2 * twice)) / total, 3 / total if not once else 0.0)
    return Estimate(share, max(0.0, share - reach), min(1.0, share + reach))


def halving(counts: Iterable[int], unit: int = 1) -> float | None:
    """Return how many times as many samples would miss half as much; None if nothing is missed, or if it is unknown.

    The result is the geometric mean of two answers, which traces of real programs confirm (docs/explanation/order.md).
    If all missed things were equally rare, the missed share would fall as a geometric series, which follows from what
    was seen once and twice (Chao and Jost, Ecology 93, 2012, page 2533).  That gives too few samples, since some things
    are rarer.  If what runs followed Zipf's law without an end, the share would be a power of the number of samples,
    known at two points: what a fourth of the samples would have missed follows from the samples (Good and Toulmin,
    Biometrika 43, 1956, page 45).  That gives too many samples, since a program does end.
    """
    hits = Counter(count // unit for count in counts if count >= unit)
    total = sum(hit * often for hit, often in hits.items())
    once, twice = hits[1], hits[2]
    before = sum(often * hit * (1 - 1 / _PART) ** (hit - 1) for hit, often in hits.items())
    if not once or before <= once * _LEAST or total < _PART:
        return None
    even = 1 + log(2) * once / (2 * max(twice, 1))
    zipf = 2 ** (log(_PART) / log(before / once))
    return sqrt(even * zipf)
