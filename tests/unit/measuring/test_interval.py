"""Ratios of times and their intervals."""

import math
import random
import statistics

import pytest

from hugealign.measuring.interval import effects, of_copies, paired, student


@pytest.mark.parametrize(
    ("freedom", "expected"), [(1, 12.706), (2, 4.303), (3, 3.182), (6, 2.447), (10, 2.228), (30, 2.042)]
)
def test_student_as_tables_have_it(freedom: int, expected: float) -> None:
    assert student(0.95, freedom) == pytest.approx(expected, abs=0.001)


def test_what_slows_a_pair_cancels() -> None:
    ratio = paired([1.0, 5.0, 2.0], [0.9, 4.5, 1.8])
    assert (ratio.ratio, ratio.low, ratio.high) == pytest.approx((0.9, 0.9, 0.9))
    assert ratio.claim


def test_a_slow_round_and_a_disturbed_run_do_not_count() -> None:
    rounds = [[2.0, 1.0], [20.0, 10.0], [2.0, 1.0], [2.0, 50.0], [2.0, 1.0]]
    first, second = effects(rounds)
    assert math.exp(first - second) == pytest.approx(2.0)


def test_intervals_hold_what_copies_differ_by() -> None:
    """Copies that differ by some per cent, all the time: of 400 intervals, 95 % hold the truth."""
    chance = random.Random(1)
    held = 0
    for _ in range(400):
        sides = [[middle + chance.gauss(0, 0.03) for _ in range(4)] for middle in (0.0, math.log(0.97))]
        ratio = of_copies(*sides)
        held += ratio.low <= 0.97 <= ratio.high
    assert 0.92 <= held / 400 <= 0.99


def test_more_rounds_of_the_same_copies_claim_no_more() -> None:
    """Two identical builds, whose copies happen to lie differently: a thousand rounds show no difference."""
    chance = random.Random(2)
    places = [chance.gauss(0, 0.03) for _ in range(8)]
    rounds = [[math.exp(place + chance.gauss(0, 0.01)) for place in places] for _ in range(1000)]
    by_copy = effects(rounds)
    assert not of_copies(by_copy[:4], by_copy[4:]).claim
    of_one_copy = paired([times[0] for times in rounds], [times[4] for times in rounds])
    assert of_one_copy.claim  # so the copy is the unit
    assert statistics.pstdev(by_copy) == pytest.approx(statistics.pstdev(places), rel=0.1)
