"""What a curve of jumps from page to page says about a machine."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from hugealign.system.textcosts import _COUNTS, _WINDOWS, Point, Range, TextCosts, judge

FAULT = Range(5000.0, 6000.0, 9000.0)


def curve(small: Callable[[int], float], huge: Callable[[int], float] = lambda _: 0.0) -> list[Point]:
    """Return points of a chain that takes a nanosecond, and *small* and *huge* more."""
    return [Point(count, 1.0 + small(count), 1.0 + huge(count)) for count in _COUNTS]


def judged(points: list[Point]) -> TextCosts:
    return judge(0.3, FAULT, None, 65536, points)


def test_only_walks_cost() -> None:
    """As on AMD's Zen 3 and 5: the second level hides the first; what both sides pay for is not the TLB's."""

    def caches(count: int) -> float:
        return 2.0 if count > 256 else 0.0

    costs = judged(curve(lambda count: caches(count) + (8.0 if count > 512 else 0.0), caches))
    assert (costs.first.value, costs.first_share, costs.reach) == (0.0, 0.0, 512)
    assert costs.walk == Range(8.0, 8.0, 8.0)
    assert costs.walk_share == pytest.approx(8 / 11)


def test_a_first_level_that_costs() -> None:
    costs = judged(curve(lambda count: 10.0 if count > 1536 else 2.0 if count > 64 else 0.0))
    assert costs.first == Range(2.0, 2.0, 2.0)
    assert costs.first_share == pytest.approx(2 / 3)
    assert costs.walk
    assert costs.walk.high == 10.0


def test_a_single_point_is_a_disturbance() -> None:
    costs = judged(curve(lambda count: 9.0 if count in (384, 4096, 6144, 8192) else 0.0))
    assert costs.reach == 3072


def test_noise_is_no_cost() -> None:
    costs = judged(curve(lambda count: 0.04 if count % 3 else 0.0, lambda count: 0.05 if count % 3 == 0 else 0.0))
    assert (costs.reach, costs.walk, costs.walk_share) == (0, None, 0.0)
    assert costs.first.low == 0.0
    assert costs.first_share < 0.05


@pytest.mark.parametrize(
    ("costly", "held"), [((), 96), ((64, 80, 96), 48), ((12, 16, 24, 32, 48, 64, 80, 96), 8), ((24, 80), 96)]
)
def test_how_many_windows_cost_nothing(costly: tuple[int, ...], held: int) -> None:
    """A single costly number is a disturbance."""
    windows = tuple(Point(count, 1.0, 8.0 if count in costly else 1.05) for count in _WINDOWS)
    assert replace(judged(curve(lambda _: 0.0)), windows=windows).windows_held == held


def test_json_and_back() -> None:
    from dataclasses import asdict

    costs = judged(curve(lambda count: 9.0 if count > 1000 else 0.0))
    assert TextCosts.from_json(asdict(costs)) == costs
