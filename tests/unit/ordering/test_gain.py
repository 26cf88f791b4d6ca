"""What an order can save, by what pages cost, of programs that are made up."""

import pytest

from hugealign.ordering import report
from hugealign.ordering.gain import ONE, SAME, Gain, gain
from hugealign.ordering.order import Order
from hugealign.ordering.problem import Problem, plan
from hugealign.ordering.windows import WindowRoom
from hugealign.profile.ran import Ran
from hugealign.system import budget as budgets
from hugealign.system import saving, textcosts
from hugealign.system.budget import Budget, Reported, budget_of
from tests.costs import COSTS, windows
from tests.unit.ordering.test_order import PAGE, matched, program


def ordered(sizes: list[int], samples: dict[int, int], budget: Budget) -> Order:
    functions, ran = program(sizes), matched(samples)
    made = plan(Problem(ran, functions, WindowRoom(PAGE, budget.windows, budget.costs)))
    return Order(Ran("program", functions, ran, [("p", "perf.data")]), budget, made)


def of(sizes: list[int], samples: dict[int, int], budget: Budget | None = None) -> Gain:
    return gain(ordered(sizes, samples, budget or Budget(7, "", costs=COSTS, reach=COSTS.reach)))


def test_what_fits_costs_no_walk_but_can_still_gain() -> None:
    """One function of a kilobyte in each of 500 pages: 125 pages as ordered."""
    made = of([1024, 3072] * 500, {2 * number: 9 for number in range(500)})
    assert (made.linked, made.ordered, made.nothing) == (500, 125, "")
    assert made.saving
    assert made.saving.worth is False


def test_the_bound_is_what_ran_beyond_the_pages_that_are_free() -> None:
    made = of([1024, 3072] * 1024, {2 * number: 9 for number in range(1024)})
    assert made.linked == 1024
    assert made.saving
    assert made.saving.high == pytest.approx(0.5 * 0.25)
    assert made.saving.low == 0.0


def test_without_costs_the_table_says_what_is_free() -> None:
    made = of([1024, 3072] * 8, {0: 1, 2: 1}, budget_of("skylake"))
    assert (made.saving, made.reach) == (None, 1536)
    assert of([64] * 8, {0: 1, 2: 1}, budget_of(windows=7)).reach == 0


@pytest.mark.parametrize(
    ("samples", "nothing"),
    [
        ({3: 5}, ONE),
        ({3: 512, 4: 64, 5: 8}, SAME),
        ({3: 8, 4: 64, 5: 512}, ""),  # the other way round
        ({3: 512, 5: 8}, ""),  # a function between them
    ],
)
def test_an_order_that_can_gain_nothing(samples: dict[int, int], nothing: str) -> None:
    made = ordered([128] * 9, samples, Budget(7, ""))
    assert gain(made).nothing == nothing
    assert ("gain     none: " in report.text(made)) == bool(nothing)
    assert made.file().entries  # it is written all the same


@pytest.mark.parametrize(
    ("cost", "needed", "pages", "huge"),
    [
        (0.0, 7, 0, 7),
        (0.0, 30, 0, 30),  # more windows cost nothing
        (0.04, 30, 0, 30),  # nothing that can be measured
        (3.0, 30, 0, 8),
        (3.0, 30, 513, 30),  # a walk costs 8 ns, two misses of windows 6
        (3.0, 30, 512, 8),
        (5.0, 30, 4000, 8),
    ],
)
def test_windows_beyond_the_entries(cost: float, needed: int, pages: int, huge: int) -> None:
    assert saving.windows(windows(cost), 8, needed, pages) == huge
    assert saving.windows(None, 8, needed, pages) == min(8, needed)
    assert saving.windows(COSTS, 8, needed, pages) == min(8, needed)  # they were not measured


def test_an_order_gets_the_windows_that_are_worth_it() -> None:
    sizes, samples = [PAGE] * 20, dict.fromkeys(range(12), 100)
    for cost, count in ((0.0, 12), (5.0, 7)):
        made = ordered(sizes, samples, Budget(7, "", 8, costs=windows(cost), reach=512))
        assert (made.plan.count, made.plan.budget) == (count, count)
        assert ("; more windows cost less" in report.text(made)) == (count == 12)


def test_what_was_measured_replaces_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a processor that is not listed and does not say what it has; else it only adds the pages."""
    for answer, costs, expected in (
        (Reported(64, 64, "zen9", "AMD", 2048), None, (63, 2048)),
        (Reported(64, 64, "zen9", "AMD", 256), windows(3.0), (63, 512)),
        (Reported(64, 64, "zen9", "AMD", 2048), windows(3.0), (63, 2048)),  # what disturbed is not a limit
        (Reported(0, 0, "", "new"), windows(3.0, over=16), (15, 512)),
        (Reported(0, 0, "", "new"), COSTS, (7, 512)),
        (None, None, (7, 0)),
    ):
        monkeypatch.setattr(budgets, "reported", lambda _, answer=answer: answer)
        monkeypatch.setattr(textcosts, "cached", lambda costs=costs: costs)
        made = budget_of()
        assert (made.windows, made.reach) == expected
