"""What a profile has not seen, by what it saw once."""

import random
from collections import Counter

import pytest

from hugealign.profile.missing_mass import halving, unseen


def test_by_hand() -> None:
    result = unseen([1, 1, 2, 6])
    assert result.share == 0.2
    assert result.low < 0.2 < result.high
    assert str(unseen([1] * 10 + [90])) == "10.0 % (4.1 to 15.9)"


def test_nothing_is_known_without_samples_and_nothing_is_certain_with_some() -> None:
    assert (unseen([]).share, unseen([]).high) == (1.0, 1.0)
    assert unseen([3, 3]).share == 0
    assert unseen([3, 3]).high == 0.5
    assert unseen([1, 1]).share == 1.0


def test_a_sample_may_count_for_more() -> None:
    assert unseen([1000, 2000, 7000], 1000) == unseen([1, 2, 7])


@pytest.mark.parametrize("size", [300, 3000])
def test_it_is_what_is_really_missed(size: int) -> None:
    """Of kinds whose chances fall like 1/n the interval holds what was missed, nearly always."""
    weights = [1 / (n + 1) for n in range(5000)]
    total, held = sum(weights), 0
    for seed in range(20):
        seen = Counter(random.Random(seed).choices(range(5000), weights, k=size))
        missed = 1 - sum(weights[kind] for kind in seen) / total
        result = unseen(seen.values())
        held += result.low <= missed <= result.high
    assert held >= 17


def test_what_would_halve_it() -> None:
    """Where weights are known, so is the number of samples that halves what is missed."""
    chance = random.Random(27)
    weights = [1 / (rank + 1) ** 1.3 for rank in range(5000)]
    for samples in (1000, 10_000):
        hits = Counter(chance.choices(range(len(weights)), weights, k=samples)).values()
        result = halving(hits)
        assert result is not None
        needed = _needed(weights, samples)
        assert needed / 1.5 < result < needed * 1.5
        assert halving([7 * count for count in hits], 7) == result
    assert halving([]) is halving([5, 9]) is halving([1]) is halving([1, 1, 1]) is None


def _needed(weights: list[float], samples: int) -> float:
    """Return by how much the samples must grow for half of what is missed, from the weights themselves."""
    total = sum(weights)

    def missed(many: float) -> float:
        return sum(weight * float((1 - weight / total) ** many) for weight in weights)

    goal, low, high = missed(samples) / 2, 1.0, 1000.0
    for _ in range(40):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if missed(samples * middle) > goal else (low, middle)
    return low
