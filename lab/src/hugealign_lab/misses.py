"""How many windows should be huge, by the misses that a simulation counted for each number.  Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hugealign.io.units import printable
from hugealign.ordering.order import WindowChoice

_HARDLY = 3  # per cent more misses, for which no further window is taken: memory also costs


@dataclass(frozen=True, slots=True)
class Misses:
    """*counts* by the number of huge windows, from 0 on, for each of the *cpus*; *rule* is the choice without them.

    *chosen* is the smallest number, at least 1, with hardly more misses on all processors together than the *fewest*.
    """

    cpus: Sequence[str]
    counts: Sequence[Sequence[int]]
    rule: int

    @property
    def chosen(self) -> int:
        """The number of windows."""
        most = self.total(self.fewest) * (100 + _HARDLY) // 100
        return next((count for count in range(1, len(self.counts)) if self.total(count) <= most), 1)

    @property
    def fewest(self) -> int:
        """The smallest number of windows, at least 1, with the fewest misses."""
        return min(range(1, len(self.counts)), key=lambda count: (self.total(count), count), default=1)

    def total(self, count: int) -> int:
        """Return the misses on all processors with *count* huge windows; past the last number, those of the last."""
        return sum(self.counts[min(count, len(self.counts) - 1)])


def lines(misses: Misses) -> Iterator[str]:
    """Yield a table of the numbers and their misses; equal neighbours share a line, and the chosen number is marked."""
    names = [printable(name) for name in misses.cpus]
    widths = [max(15, len(name)) for name in names]
    yield "huge windows  " + "  ".join(f"{name:>{wide}}" for name, wide in zip(names, widths, strict=True))
    rows = misses.counts
    begins = [count for count in range(len(rows)) if not count or rows[count] != rows[count - 1] or count == 1]
    for first, behind in zip(begins, [*begins[1:], len(rows)], strict=True):
        label = f"{first}" if behind - first == 1 else f"{first} to {behind - 1}"
        mark = "*" if first <= misses.chosen < behind else " "
        counts = "  ".join(f"{count:{wide},}" for count, wide in zip(rows[first], widths, strict=True))
        yield f"{mark} {label:>10}  {counts}"


def why(misses: Misses) -> str:
    """Return the reason for the choice, and what the rule would have chosen."""
    total = misses.total(misses.chosen)
    most = len(misses.counts) - 1
    fewest = f"{total:,} misses"
    if misses.chosen != misses.fewest:
        fewest += f", within {_HARDLY} % of the fewest of 1 to {most} ({misses.total(misses.fewest):,})"
    elif most > 1:
        fewest += f", the fewest of 1 to {most}"
    if misses.total(0) < total:
        fewest += f" (none at all: {misses.total(0):,})"
    rule = "the same" if misses.rule == misses.chosen else f"{misses.rule}, {misses.total(misses.rule):,} misses"
    return f"{fewest}; min(needed, budget): {rule}"


def simulated(misses: Misses) -> WindowChoice:
    """Return the choice as the report of an order shows it."""
    document = {
        "rule": misses.rule,
        "cpus": list(misses.cpus),
        "misses": [{"windows": count, "misses": list(row)} for count, row in enumerate(misses.counts)],
    }
    return WindowChoice(why(misses), list(lines(misses)), document)
