"""One sentence from heat and counters."""

import pytest

from hugealign.watch.advise_verdict import Answer, Counted, Judged, judge
from hugealign.watch.entries import Entries
from hugealign.watch.heat import Page, heat

CPU = Entries(64, 8, "some", "made up")


def answer(pages: dict[Page, int], in_huge: float = 0.0, counted: Counted | None = None) -> Judged:
    return judge(pages, heat(pages), CPU, in_huge, counted)


def even(pages: int, samples: int, step: int = 1) -> dict[Page, int]:
    return {("/srv/app", step * number): samples // pages for number in range(pages)}


@pytest.mark.parametrize(
    ("pages", "in_huge", "expected", "words"),
    [
        (even(10, 5000), 0.0, Answer.NO, "No: the 64 entries for 4 KiB pages hold what runs; 10 pages have 99 % of it"),
        (even(60, 6000), 0.0, Answer.MAYBE, "Perhaps, and not much: 60 pages have 99 % of the running time"),
        (even(500, 50000), 0.0, Answer.YES, "Yes: 8"),
        (even(75, 75000), 0.0, Answer.MAYBE, "Perhaps, and not much: 15 % of the running time"),
        (even(500, 50000, 512), 0.0, Answer.MAYBE, "Only if it is reordered: "),
        (even(500, 50000), 0.95, Answer.DONE, "95% of the running time is in huge pages already"),
        (even(10, 100), 0.0, Answer.UNKNOWN, "only 100 samples: it was idle"),
        ({}, 0.0, Answer.UNKNOWN, "only 0 samples"),
    ],
)
def test_answers(pages: dict[Page, int], in_huge: float, expected: Answer, words: str) -> None:
    found = answer(pages, in_huge)
    assert found.answer == expected
    assert found.sentence.startswith(words)
    assert found.low <= found.share <= found.high


@pytest.mark.parametrize(
    ("cycles", "misses", "expected", "words"),
    [
        (0.06, 9.0, Answer.YES, "Yes: 6.0 % of the cycles go into page walks for code (WALK_ACTIVE)"),
        (0.001, 0.1, Answer.NO, "No: only 0.1 % of the cycles go into page walks"),
        (0.01, 1.0, Answer.MAYBE, "Perhaps, and not much: 1.0 % of the cycles"),
        (None, 9.0, Answer.YES, "Yes: 9.00 instruction-TLB misses for each thousand instructions"),
        (None, 0.1, Answer.NO, "No: only 0.10 instruction-TLB misses"),
    ],
)
def test_counters_count_before_samples(cycles: float | None, misses: float, expected: Answer, words: str) -> None:
    found = answer(even(500, 50000), 0.0, Counted(cycles, misses, ("WALK_ACTIVE",), "a source"))
    assert (found.answer, found.sentence.startswith(words)) == (expected, True)
