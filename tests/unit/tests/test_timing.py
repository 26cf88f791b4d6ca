"""What may be claimed of times taken in turn: Student's interval of the logarithms of ratios, on numbers known."""

import math
import random

import pytest

from tests.bench.timing import Cost, in_turn, paired, student


def test_known_interval() -> None:
    """Ratios of e^0.1, e^0.2, e^0.3: mean 0.2, deviation 0.1; t of two degrees of freedom is 4.303 (any table)."""
    found = paired([1, 2, 4], [math.exp(0.1), 2 * math.exp(0.2), 4 * math.exp(0.3)])
    reach = 4.303 * 0.1 / math.sqrt(3)
    expected = (math.exp(0.2), math.exp(0.2 - reach), math.exp(0.2 + reach))
    assert (found.ratio, found.low, found.high) == pytest.approx(expected, rel=1e-4)
    assert not found.claim
    assert str(found) == "1.221 (0.953 to 1.566), no claim"


@pytest.mark.parametrize(
    ("confidence", "freedom", "t"),
    [
        (0.95, 1, 12.706), (0.95, 2, 4.303), (0.95, 3, 3.182), (0.95, 4, 2.776), (0.95, 9, 2.262), (0.95, 10, 2.228),
        (0.95, 29, 2.045), (0.95, 30, 2.042), (0.95, 120, 1.980), (0.99, 1, 63.657), (0.99, 5, 4.032),
        (0.99, 20, 2.845), (0.999, 6, 5.959), (0.5, 7, 0.711),
    ],
)  # fmt: skip
def test_t_is_that_of_the_tables(confidence: float, freedom: int, t: float) -> None:
    assert student(confidence, freedom) == pytest.approx(t, abs=6e-4)


def test_all_intervals_hold_together() -> None:
    """Of 1000 times six comparisons, one or more of the intervals misses its ratio in 5 % at most."""
    chance, missed, one = random.Random(7), 0, 0
    for _ in range(1000):
        plain = [chance.lognormvariate(0, 0.05) for _ in range(6)]
        others = [[chance.lognormvariate(0, 0.05) for _ in plain] for _ in range(6)]
        missed += any(paired(plain, other, 6).claim for other in others)
        one += any(paired(plain, other).claim for other in others)
    assert missed / 1000 < 0.065
    assert one / 1000 > 0.12


def test_more_pairs_of_the_same_spread_tell_more() -> None:
    few, many = (paired([1.0] * 2 * n, [1.02, 1.10] * n) for n in (2, 20))
    assert few.ratio == pytest.approx(many.ratio)
    assert (few.claim, many.claim) == (False, True)
    assert 1 < many.low < many.ratio < many.high < few.high


def test_the_same_both_ways_round() -> None:
    plain, ours = [1.0, 2.0, 3.0, 5.0], [1.1, 1.9, 3.3, 5.6]
    there, back = paired(plain, ours), paired(ours, plain)
    assert (1 / back.ratio, 1 / back.high, 1 / back.low) == pytest.approx((there.ratio, there.low, there.high))


def test_what_slows_down_both_drops_out() -> None:
    found = paired([1.0, 10.0, 3.0], [1.05, 10.5, 3.15])
    assert (found.low, found.ratio, found.high) == pytest.approx((1.05, 1.05, 1.05))
    assert found.claim


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """Of 2000 times, drawn with a true ratio of 1.05, 95 % hold it: give or take four standard deviations."""
    chance = random.Random(5)
    held = 0
    for _ in range(2000):
        plain = [chance.lognormvariate(0, 0.05) for _ in range(6)]
        found = paired(plain, [1.05 * chance.lognormvariate(0, 0.05) for _ in plain])
        held += found.low <= 1.05 <= found.high
    assert abs(held / 2000 - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 2000)


@pytest.mark.parametrize(("plain", "ours"), [([1.0], [1.0]), ([1.0, 2.0], [1.0]), ([], [])])
def test_too_few(plain: list[float], ours: list[float]) -> None:
    with pytest.raises(ValueError, match="two or more pairs"):
        paired(plain, ours)


def test_in_turn() -> None:
    """Once each for nothing, then to and fro, so that neither always follows the other."""
    said: list[str] = []

    def command(name: str) -> Cost:
        said.append(name)
        return Cost(len(said), 0)

    costs = in_turn([lambda: command("a"), lambda: command("b")], 3)
    assert "".join(said) == "ab" + "ab" + "ba" + "ab"
    assert [[one.wall for one in side] for side in costs] == [[3, 6, 7], [4, 5, 8]]
