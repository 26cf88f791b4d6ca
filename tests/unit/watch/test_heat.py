"""How heat is spread, and what is beyond the entries of a TLB."""

import random
from collections import Counter

from hugealign.watch.heat import Page, beyond, by_window, heat


def pages(*counts: int) -> dict[Page, int]:
    return {("/srv/app", number): count for number, count in enumerate(counts)}


def test_pages_and_windows_that_hold_shares() -> None:
    result = heat(pages(50, 30, 15, 4, 1))
    assert (result.samples, result.pages, result.windows) == (100, (1, 3, 4), (1, 1, 1))
    assert result.unseen.share == 0.01
    assert heat({}).pages == (0, 0, 0)


def test_windows_are_of_one_file_each() -> None:
    counts = {("/a", 511): 1, ("/a", 512): 2, ("/b", 0): 4, ("", 512): 8}
    assert by_window(counts) == {("/a", 0): 1, ("/a", 1): 2, ("/b", 0): 4, ("", 1): 8}


def test_what_fits_is_not_beyond() -> None:
    result = beyond(pages(*[100] * 10), 10)
    assert (result.share, result.low) == (0, 0)
    assert result.high < 0.01


def test_half_of_it_fits() -> None:
    result = beyond(pages(*[1000] * 20), 10)
    assert result.low < 0.5 < result.high
    assert result.high - result.low < 0.1


def test_interval_holds_the_real_share() -> None:
    """Of pages whose heat falls like 1/n: what is beyond the 64 really hottest, from a sample of 3,000."""
    weights = [1 / (n + 1) for n in range(2000)]
    real = sum(weights[64:]) / sum(weights)
    held = 0
    for seed in range(20):
        seen = Counter(("", n) for n in random.Random(seed).choices(range(2000), weights, k=3000))
        result = beyond(seen, 64)
        held += result.low <= real <= result.high
    assert held >= 19
