"""One answer from heat and counters."""

import pytest

from hugealign.watch.advise_verdict import Answer, Counted, Entries, Judged, judge
from hugealign.watch.heat import Page, heat

CPU = Entries(64, 8, "some", "made up")


def answer(pages: dict[Page, int], in_huge: float = 0.0, counted: Counted | None = None) -> Judged:
    return judge(pages, heat(pages), CPU, in_huge, counted)


def even(pages: int, samples: int, step: int = 1) -> dict[Page, int]:
    return {("/srv/app", step * number): samples // pages for number in range(pages)}


@pytest.mark.parametrize(
    ("pages", "in_huge", "expected", "code", "facts"),
    [
        (even(10, 5000), 0.0, Answer.NO, "tlb.fits", {"entries": 64, "pages": 10}),
        (even(60, 6000), 0.0, Answer.MAYBE, "tlb.nearly-full", {"entries": 64, "pages": 60}),
        (even(500, 50000), 0.0, Answer.YES, "tlb.exceeded", {"entries": 64, "windows": 1}),
        (even(75, 75000), 0.0, Answer.MAYBE, "tlb.exceeded", {"percent": 15, "entries": 64}),
        (even(500, 50000, 512), 0.0, Answer.MAYBE, "tlb.scattered", {"entries": 64}),
        (even(500, 50000), 0.95, Answer.DONE, "tlb.huge-already", {"percent": 95}),
        (even(10, 100), 0.0, Answer.UNKNOWN, "tlb.few-samples", {"samples": 100}),
        ({}, 0.0, Answer.UNKNOWN, "tlb.few-samples", {"samples": 0}),
    ],
)
def test_answers(pages: dict[Page, int], in_huge: float, expected: Answer, code: str, facts: dict[str, int]) -> None:
    result = answer(pages, in_huge)
    assert (result.answer, result.diagnosis.code) == (expected, code)
    assert facts.items() <= result.diagnosis.facts.items()
    assert result.low <= result.share <= result.high


def test_only_small_pages_fill_the_entries() -> None:
    """Half of the samples are in huge windows, on more pages than there are entries; the rest is on few."""
    small = even(10, 5000)
    everything = small | {("/srv/lib.so", number): 10 for number in range(500)}
    result = judge(small, heat(everything), CPU, 0.5)
    assert (result.answer, result.diagnosis.code) == (Answer.NO, "tlb.fits")
    assert result.diagnosis.facts == {"entries": 64, "pages": 10}


@pytest.mark.parametrize(
    ("cycles", "misses", "expected", "code", "facts"),
    [
        (0.06, 9.0, Answer.YES, "tlb.walks", {"walks": 60, "event": "WALK_ACTIVE"}),
        (0.001, 0.1, Answer.NO, "tlb.walks", {"walks": 1, "event": "WALK_ACTIVE"}),
        (0.01, 1.0, Answer.MAYBE, "tlb.walks", {"walks": 10, "event": "WALK_ACTIVE"}),
        (None, 9.0, Answer.YES, "tlb.misses", {"misses": 9000, "event": "WALK_ACTIVE"}),
        (None, 0.1, Answer.NO, "tlb.misses", {"misses": 100, "event": "WALK_ACTIVE"}),
    ],
)
def test_counters_count_before_samples(
    cycles: float | None, misses: float, expected: Answer, code: str, facts: dict[str, int | str]
) -> None:
    result = answer(even(500, 50000), 0.0, Counted(cycles, misses, ("WALK_ACTIVE",), "a source"))
    assert (result.answer, result.diagnosis.code, result.diagnosis.facts) == (expected, code, facts)
