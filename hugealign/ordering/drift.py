"""Whether an order is out of date: the heat in its leading windows now, and in those of a new order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hugealign.code.calls import Calls
from hugealign.code.references import References
from hugealign.errors import HugealignError
from hugealign.io.progress import silent
from hugealign.io.units import printable
from hugealign.orderfile import load
from hugealign.ordering import named, sorting
from hugealign.ordering.problem import Problem, of_sorted
from hugealign.ordering.sorting import Sorted
from hugealign.ordering.windows import WindowPlan, WindowRoom
from hugealign.profile.ran import ProfileOptions, Ran, what_ran

_ALL = 1 << 15  # windows: more than any order has
_DEFAULT = ProfileOptions()


@dataclass(frozen=True, slots=True)
class Drift:
    """What an order is still worth."""

    ran: Ran
    """The heat."""
    windows: int
    """How many leading windows the order wants huge."""
    current: float
    """The share of the heat that they hold, 0 to 1."""
    new: float
    """The share that the leading windows of a new order would hold."""

    @property
    def lost(self) -> float:
        """The share that a new order would win back."""
        return max(0.0, self.new - self.current)


@dataclass(frozen=True, slots=True)
class Report:
    """What an order is still worth."""

    drift: Drift
    threshold: float
    """The share of the heat from which on an order is out of date."""

    SCHEMA = "hugealign.order-drift/1"
    JSON = "windows=drift.windows current=drift.current new=drift.new lost=drift.lost threshold out_of_date"

    @property
    def out_of_date(self) -> bool:
        """Whether more is lost than the threshold."""
        return self.drift.lost > self.threshold


def drift(
    order: str,
    profiles: Sequence[str],
    binary: str,
    options: ProfileOptions = _DEFAULT,
    *,
    warn: Callable[[str], None] = silent,
) -> Drift:
    """Return how good the order file at *order* still is for the file at *binary*, by what *profiles* say of it.

    Both orders get as many windows as the order file requests.  Warnings go to *warn*.  Raises HugealignError.
    """
    current = load(order)
    page_size = named.page_size(current, order)
    ran = what_ran(binary, profiles, options, warn=warn)
    count = named.windows(current)
    if not count:
        raise HugealignError(f"{printable(order)}: requests no huge windows, so there is nothing to compare")
    calls = Calls(binary, ran.functions)
    references = References(binary, ran.functions)
    problem = Problem(ran.matched, ran.functions, WindowRoom(page_size, count), calls, calls, references)
    indices = list(dict.fromkeys(named.indices(current, order, ran.functions, binary)))
    # The order file says what lies where; it is not planned again.
    old = of_sorted(Problem(ran.matched, ran.functions, WindowRoom(page_size, _ALL)), Sorted(indices))
    new = of_sorted(problem, sorting.sort(ran.matched, ran.functions, calls))
    return Drift(ran, count, _held(old, ran, count), _held(new, ran, count))


def _held(plan: WindowPlan, ran: Ran, count: int) -> float:
    """Return the share of the heat that lies in the first *count* windows."""
    if plan.text <= count:
        return 1.0
    return sum(window.samples for window in plan.windows[:count]) / max(1, ran.matched.hits)


def text(report: Report) -> str:
    """Return the report for people."""
    drift = report.drift
    windows = "leading window holds" if drift.windows == 1 else f"{drift.windows} leading windows hold"
    lines = [
        f"The order's {windows} {_percent(drift.current)} of the heat; a new order's would hold {_percent(drift.new)}"
    ]
    state = "out of date: link again" if report.out_of_date else "still good"
    lines.append(f"{state} (lost {_percent(drift.lost)}, threshold {_percent(report.threshold)})")
    return "".join(f"{line}\n" for line in lines)


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"
