"""Places of addresses come in any order, and leave in order."""

import random
from array import array

import pytest

from hugealign.diagnosis.refusal import RefusalError
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
