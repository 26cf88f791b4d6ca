"""Blocks of a function recognised in another build of it."""

import random

import pytest

from hugealign.ordering.partners import BlockKeys, partners
from tests.support import steps


def blocks(text: str) -> list[BlockKeys]:
    """One block for each letter: the letter is its code, and whether it is a capital its size."""
    return [BlockKeys(letter, letter.isupper()) for letter in text]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("abc", "abc", {0: 0, 1: 1, 2: 2}),
        ("abc", "axbc", {0: 0, 1: 2, 2: 3}),  # one is new
        ("axbc", "abc", {0: 0, 2: 1, 3: 2}),  # one is gone
        ("abcd", "acbd", {0: 0, 1: 2, 2: 1, 3: 3}),  # moved by the compiler
        ("azzb", "azzzb", {0: 0, 1: 1, 2: 2, 3: 4}),  # several are alike: the neighbours of those that are known
        ("zzzz", "zzzz", {0: 0, 1: 1, 2: 2, 3: 3}),  # all are
        ("axYb", "apqRb", {0: 0, 1: 2, 2: 3, 3: 4}),  # changed: by size
        ("axyb", "apqb", {0: 0, 1: 1, 2: 2, 3: 3}),  # changed, as many: by place
        ("axyb", "aPQb", {0: 0, 1: 1, 2: 2, 3: 3}),  # of other sizes, too
        ("abxy", "abPQ", {0: 0, 1: 1, 2: 2, 3: 3}),  # behind the last
        ("axb", "aPQb", {0: 0, 2: 3}),  # neither
        ("axcyb", "aPcQRb", {0: 0, 1: 1, 2: 2, 4: 5}),
        ("abcxd", "acYbd", {0: 0, 1: 3, 2: 1, 4: 4}),  # what lies between them has a partner elsewhere
        ("x", "y", {0: 0}),  # the entry is the entry
        ("", "abc", {}),
        ("abc", "", {}),
    ],
)
def test_partners(old: str, new: str, expected: dict[int, int]) -> None:
    assert partners(blocks(old), blocks(new)) == expected


@pytest.mark.parametrize("seed", range(50))
def test_no_block_has_two_partners(seed: int) -> None:
    chance = random.Random(seed)
    old, new = (blocks("".join(chance.choice("abCD") for _ in range(chance.randrange(1, 40)))) for _ in range(2))
    result = partners(old, new)
    assert len({*result.values()}) == len(result)
    assert all(0 <= one < len(old) and 0 <= other < len(new) for one, other in result.items())
    assert partners(old, old) == {place: place for place in range(len(old))}


@pytest.mark.parametrize("kind", ["alike", "two", "different", "stretches"])
def test_the_work_is_bounded(kind: str) -> None:
    """In proportion to the number of blocks: all alike, alternating, or none the same in both builds; or stretches of
    256 that differ, whose sizes alternate.
    """
    count = 1 << 12

    def key(side: int, place: int) -> BlockKeys:
        if kind == "stretches":
            return BlockKeys((side if place % 257 else 2, place), place % 257 % 2 * (2 + side))
        return BlockKeys({"alike": 0, "two": place % 2, "different": (side, place)}[kind], place % 3)

    old, new = ([key(side, place) for place in range(count)] for side in range(2))
    assert steps(lambda: partners(old, new[1:])) < 40 * count
