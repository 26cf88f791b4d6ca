"""What is computed on many words at once is what a loop computes, also where a word could carry into the next."""

import itertools
import random
from array import array

import pytest

from hugealign.elf import wordarrays
from hugealign.elf.wordarrays import added, aligned, rise, steps

#: Words that carry or borrow, and others.
_WORDS = (0, 1, 7, 8, (1 << 32) - 1, 1 << 32, (1 << 56) - 1, 1 << 56, (1 << 63) + 5, (1 << 64) - 8, (1 << 64) - 1)


@pytest.fixture(params=[1, 3, 4096], autouse=True)
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute that many words at once."""
    monkeypatch.setattr(wordarrays, "_BLOCK", request.param)


def _arrays(seed: int, count: int = 250) -> "list[list[int]]":
    chance = random.Random(seed)
    near = [value for word in _WORDS for value in range(word - 2, word + 3) if 0 <= value < 1 << 64]
    mixed = [chance.choices(near, k=chance.randrange(6)) for _ in range(count)]
    return [*mixed, *map(sorted, mixed), list(range(0, 45_000, 9))]


@pytest.mark.parametrize("number", [0, 1, 24, -1, -24, 1 << 32, (1 << 56) - 1, 1 << 56, -(1 << 56), 1 << 63, 1 << 64])
def test_added(number: int) -> None:
    for words in _arrays(number):
        sums = [word + number for word in words]
        if all(0 <= total < 1 << 64 for total in sums):
            assert list(added(array("Q", words), number)) == sums
        else:
            with pytest.raises(OverflowError):
                added(array("Q", words), number)


def test_steps() -> None:
    found = 0
    for words in _arrays(1):
        expected = [after - before for before, after in itertools.pairwise(words)]
        made = steps(array("Q", words))
        if made is None:
            assert max(words) >= 1 << 56 or not all(0 <= step < 1 << 32 for step in expected)
        else:
            assert list(made) == expected
            found += bool(expected)
    assert found


@pytest.mark.parametrize("least", [1, 8])
def test_rise(least: int) -> None:
    found = set()
    for words in _arrays(least):
        differences = [after - before for before, after in itertools.pairwise(words)]
        if rise(array("Q", words), least):
            assert all(difference >= least for difference in differences)
        else:  # in doubt also
            assert max(words) >= 1 << 56 or not all(
                least <= difference < (1 << 32) + least for difference in differences
            )
        found.add(rise(array("Q", words), least))
    assert found == {True, False}


def test_aligned() -> None:
    for words in _arrays(2):
        assert aligned(array("Q", words)) == all(word % 8 == 0 for word in words)
