"""Whether what ran is enough for an order: samples for the size of the program, names to place functions by."""

from dataclasses import replace

import pytest

from hugealign.elf.symbols import Functions
from hugealign.ordering import unseen
from hugealign.ordering.order import ThinError, check_evidence, check_names
from hugealign.profile.match import Matched, placeable
from hugealign.profile.ran import MismatchError, Ran
from hugealign.system.budget import Budget, budget_of

SMALL, HUGE = budget_of(windows=0), budget_of(windows=7)


def program(count: int, nameless: int = 0) -> Functions:
    """Return *count* functions of 64 bytes, the first *nameless* of them without a name."""
    names = ["" if index < nameless else f"f{index}" for index in range(count)]
    by_name = {name: [index] for index, name in enumerate(names) if name}
    return Functions([4096 + 64 * n for n in range(count)], [64] * count, names, [""] * count, by_name)


def ran(functions: Functions, samples: dict[int, int], form: str = "perf.data") -> Ran:
    total = sum(samples.values())
    matched = placeable(Matched(samples, {(0, 1, None): 1}, total, total), functions)
    return Ran("program", functions, matched, [("p", form)])


@pytest.mark.parametrize(
    ("functions", "samples", "budget", "enough"),
    [
        (10, 100, SMALL, True),
        (10, 99, SMALL, False),
        (100_000, 300, SMALL, False),
        (100_000, 1000, SMALL, True),
        (100_000, 300, HUGE, True),
    ],
)
def test_enough_samples_for_the_program(functions: int, samples: int, budget: Budget, enough: bool) -> None:
    """The message has the number that is enough."""
    known = ran(program(functions), {0: samples})
    output: list[str] = []
    if enough:
        check_evidence(known, budget, False, output.append)
        assert not output
        return
    with pytest.raises(ThinError, match=f"record at least {max(100, functions // 100)},"):
        check_evidence(known, budget, False, output.append)
    check_evidence(known, budget, True, output.append)
    assert len(output) == 1
    check_evidence(ran(program(functions), {0: samples}, "gcda"), budget, False, output.append)
    assert len(output) == 1


def test_what_has_no_name_counts_as_missed() -> None:
    """It is not placed, and its samples are in the share that was missed."""
    functions = program(10, nameless=2)
    known = ran(functions, {0: 30, 1: 10, 2: 50, 3: 8, 4: 1, 5: 1})
    assert {*known.matched.samples} == {2, 3, 4, 5}
    assert known.matched.nameless == 40
    assert not known.matched.arcs
    missed = unseen.missed(known.matched)
    assert missed is not None
    assert missed.times is None
    assert 0.4 <= missed.unseen.low <= missed.unseen.share <= missed.unseen.high
    output: list[str] = []
    check_names(known, False, output.append)
    assert "40.0%" in output[0]


def test_most_of_what_ran_has_no_name() -> None:
    known = ran(program(10, nameless=2), {0: 51, 2: 49})
    with pytest.raises(MismatchError, match="without a name"):
        check_names(known, False, lambda _: None)
    output: list[str] = []
    check_names(known, True, output.append)
    assert len(output) == 1
    check_names(ran(program(10), {0: 51, 2: 49}), False, output.append)
    assert len(output) == 1


def test_small_pages_get_no_more_than_was_probably_missed() -> None:
    """A profile that missed 1 % gets a hundredth of its bytes, however large what it saw once is."""
    functions = replace(program(1000), sizes=[64] * 900 + [6400] * 100)
    often = dict.fromkeys(range(100), 100)
    once = {900 + index: 1 for index in range(100)}
    matched = ran(functions, often | once).matched
    ran_bytes = sum(functions.sizes[index] for index in matched.samples)
    assert unseen.room(matched, functions) > ran_bytes
    assert 0 < unseen.small_room(matched, functions) < ran_bytes / 90
    # One that missed most is bounded by what it saw, too.
    assert unseen.small_room(ran(functions, dict.fromkeys(range(50), 1) | {60: 2}).matched, functions) > 0
