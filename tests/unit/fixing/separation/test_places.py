"""Places of addresses come in any order, and leave in order."""

import random
from array import array

import pytest

from hugealign.diagnosis.refusal import RefusalError
from hugealign.fixing.separation import places
from hugealign.fixing.separation.places import Words, ascending


@pytest.mark.parametrize("kind", ["ascending", "descending", "runs", "random", "equal", "few", "none"])
def test_ascending(kind: str) -> None:
    chance = random.Random(kind)
    many = range(0, 3_000_000, 8)
    numbers = {
        "ascending": list(many),
        "descending": list(reversed(many)),
        "runs": [*many[::2], *many[1::2], *many[::3]],
        "random": [chance.randrange(1 << 40) for _ in range(200_000)],
        "equal": [7] * 200_000,
        "few": [9, 1, 9, (1 << 64) - 1],
        "none": [],
    }[kind]
    assert list(ascending(array("Q", numbers))) == sorted(set(numbers))


@pytest.mark.parametrize("other", [8, 16])
def test_words_that_overlap(other: int) -> None:
    words = Words()
    words.add(8, [100, 200])
    words.add(0, [101])  # nothing changes
    words.sort()
    words.add(other, [193])
    with pytest.raises(RefusalError):
        words.sort()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Join and sort few places at once."""
    monkeypatch.setattr(places, "_BLOCK", 4)
    monkeypatch.setattr(places, "_SAMPLE", 2)


_PART = list(range(800, 1600, 8))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "parts",
    [
        [_PART, [8, 16], list(range(3200, 4800, 8))],
        [_PART[::2], _PART[1::2], [0]],
        [_PART, [4800, 24], _PART[5:]],
        [_PART[::-1], [2400]],
        [[], _PART, [(1 << 63) + 8]],
        [_PART, [808, 816, 824, 832], [840, 848, 856, 864], [1600]],
    ],
)
def test_parts(parts: list[list[int]]) -> None:
    words = Words()
    for part in parts:
        words.add(8, part)
    words.sort()
    assert list(words.places[8]) == sorted({place for part in parts for place in part})


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("place", [_PART[0] - 7, _PART[0] + 1, _PART[-1] - 4, _PART[-1] + 7])
@pytest.mark.parametrize("far", [[], [16], [4800]])
def test_parts_that_overlap(place: int, far: list[int]) -> None:
    words = Words()
    for part in (_PART, [*far, place]):
        words.add(8, part)
    with pytest.raises(RefusalError):
        words.sort()
