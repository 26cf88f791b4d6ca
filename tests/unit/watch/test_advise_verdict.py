"""One answer from faults, heat, counters and the costs of a machine."""

from dataclasses import replace

import pytest

from hugealign.system.saving import Faults, of_faults
from hugealign.system.textcosts import Point, Range, TextCosts
from hugealign.watch.advise_verdict import Answer, Counted, Demand, Entries, Judged, judge
from hugealign.watch.heat import Page, heat

CPU = Entries(64, 8, "some", "made up")
FAULT, HUGE = Range(5000.0, 6000.0, 9000.0), Range(4000.0, 5000.0, 7000.0)
#: A first-level miss costs nothing, a walk up to a fourth of the time, from 512 pages on.
COSTS = TextCosts(0.3, FAULT, HUGE, 65536, Range(0.0, 0.0, 0.02), 0.0, 512, Range(3.0, 8.0, 12.0), 0.25)


def answer(
    pages: dict[Page, int],
    in_huge: float = 0.0,
    faults: Faults | None = None,
    counted: Counted | None = None,
    costs: TextCosts | None = COSTS,
) -> Judged:
    return judge(Demand(pages, heat(pages), in_huge, faults, counted), CPU, costs)


def even(pages: int, samples: int, step: int = 1) -> dict[Page, int]:
    return {("/srv/app", step * number): samples // pages for number in range(pages)}


@pytest.mark.parametrize(
    ("pages", "in_huge", "faults", "expected", "code"),
    [
        # Beyond the first level, which costs nothing here: what all answers were about before.
        (even(300, 60_000), 0.0, None, Answer.NO, "saving.no"),
        (even(10, 5000), 0.0, None, Answer.NO, "saving.no"),
        # Beyond all levels: samples cannot say how often it goes from page to page.
        (even(2000, 60_000), 0.0, None, Answer.MAYBE, "saving.measure"),
        (even(2000, 60_000), 0.97, None, Answer.DONE, "tlb.huge-already"),
        (even(10, 100), 0.0, None, Answer.NO, "saving.no"),
        (even(100, 100), 0.0, None, Answer.UNKNOWN, "tlb.few-samples"),
        (even(1000, 1000), 0.0, None, Answer.MAYBE, "saving.measure"),
        ({}, 0.0, None, Answer.UNKNOWN, "tlb.few-samples"),
        # A start of 10 ms with 300 faults fewer: 300 * 5 µs are 15 %.
        ({}, 0.0, Faults(300, 10, 0.01, 330), Answer.YES, "saving.yes"),
        # The same faults in a minute; too many for the pages that cost nothing, and few.
        (even(10, 60_000), 0.0, Faults(300, 10, 60.0, 330), Answer.NO, "saving.no"),
        ({}, 0.0, Faults(300, 10, 60.0, 330), Answer.MAYBE, "saving.measure"),
        ({}, 0.0, Faults(30, 2, 60.0, 32), Answer.NO, "saving.no"),
        # Starts of a program whose hot code is huge.
        (even(10, 100), 0.95, Faults(300, 10, 0.01, 330), Answer.YES, "saving.yes"),
    ],
)
def test_answers(pages: dict[Page, int], in_huge: float, faults: Faults | None, expected: Answer, code: str) -> None:
    result = answer(pages, in_huge, faults)
    assert (result.answer, result.diagnosis.code) == (expected, code)
    assert result.low <= result.share <= result.high
    assert result.saving
    assert 0 <= result.saving.low <= result.saving.value <= result.saving.high <= 1


def test_what_faults_save() -> None:
    result = answer({}, 0.0, Faults(300, 10, 0.01, 30))
    assert result.starts
    assert result.starts.low == pytest.approx((300 * 5000 - 10 * 4000) / 1e7)
    assert result.starts.value == pytest.approx((300 * 6000 - 10 * 5000) / 1e7)
    assert result.saving == result.starts  # a process that touches 30 * 16 pages has no walks
    assert result.diagnosis.facts == {"low": "15", "value": "18", "high": "26", "faults": 300}


def test_only_small_pages_count() -> None:
    """Half of the samples are in huge windows, on more pages than cost nothing; the rest is on few."""
    small = even(10, 5000)
    everything = small | {("/srv/lib.so", number): 10 for number in range(1000)}
    result = judge(Demand(small, heat(everything), 0.5), CPU, COSTS)
    assert (result.answer, result.diagnosis.code) == (Answer.NO, "saving.no")


@pytest.mark.parametrize(
    ("cycles", "expected"), [(0.06, Answer.YES), (0.001, Answer.NO), (0.015, Answer.MAYBE), (0.021, Answer.YES)]
)
def test_walks_that_are_counted_count_before_samples(cycles: float, expected: Answer) -> None:
    result = answer(even(10, 5000), 0.0, None, Counted(cycles, 1.0, ("WALK_ACTIVE",), "a source"))
    assert (result.answer, result.share) == (expected, cycles)
    assert result.saving
    assert (result.saving.low, result.saving.high) == (cycles / 2, cycles)


@pytest.mark.parametrize(
    ("pages", "expected", "code"),
    [
        (even(10, 5000), Answer.NO, "tlb.fits"),
        (even(10, 50), Answer.MAYBE, "saving.no-costs"),
        (even(500, 50_000), Answer.MAYBE, "saving.no-costs"),
    ],
)
def test_without_costs_nothing_is_promised(pages: dict[Page, int], expected: Answer, code: str) -> None:
    result = answer(pages, costs=None)
    assert (result.answer, result.diagnosis.code, result.saving) == (expected, code, None)


def test_a_first_level_that_costs_is_a_bound() -> None:
    """As on processors where the second level answers after some cycles."""
    costs = TextCosts(
        0.3, FAULT, HUGE, 65536, Range(1.5, 2.0, 2.5), 0.5, 1536, Range(3.0, 8.0, 12.0), 0.6, (Point(128, 2.0, 1.0),)
    )
    result = answer(even(500, 50_000), costs=costs)
    assert result.answer == Answer.MAYBE
    assert result.saving
    assert result.saving.low == 0
    assert 0.3 < result.saving.high < 0.5


def test_the_least_that_is_saved_is_not_above_the_most_likely() -> None:
    """What a fault costs in small and in huge pages is measured apart, and disturbed apart."""
    disturbed = replace(COSTS, fault=Range(5000.0, 5100.0, 9000.0), huge_fault=Range(1000.0, 90000.0, 95000.0))
    made = of_faults(disturbed, Faults(300, 10, 0.01, 330))
    assert 0.0 < made.low <= made.value <= made.high
