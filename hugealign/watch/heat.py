"""How widely the heat of a program is spread over pages and windows, compared with TLB entries.  Pure."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

from hugealign.profile.missing_mass import Estimate, unseen

#: A page of 4 KiB: the path of its file and its number there; for code without a file, an empty path and its number in
#: memory.
Page = tuple[str, int]
_WINDOW = 9  # log2 of the pages in a window of 2 MiB
SHARES = (0.5, 0.9, 0.99)
_DEVIATIONS = 1.96


@dataclass(frozen=True, slots=True)
class Heat:
    """How samples are spread."""

    samples: int
    pages: tuple[int, ...]
    """How many pages of 4 KiB hold each of `SHARES` of them."""
    windows: tuple[int, ...]
    """How many windows of 2 MiB do."""
    unseen: Estimate
    """The share of what runs that is on pages without a sample."""

    @property
    def pages_by_share(self) -> Mapping[str, int]:
        """How many pages of 4 KiB hold the share of the samples."""
        return dict(zip(map(str, SHARES), self.pages, strict=True))

    @property
    def windows_by_share(self) -> Mapping[str, int]:
        """How many windows of 2 MiB hold the share of the samples."""
        return dict(zip(map(str, SHARES), self.windows, strict=True))


def heat(counts: Mapping[Page, int]) -> Heat:
    """Return how the samples *counts* are spread."""
    windows = by_window(counts)
    return Heat(sum(counts.values()), _holding(counts), _holding(windows), unseen(counts.values()))


def by_window(counts: Mapping[Page, int]) -> "Counter[Page]":
    """Return the samples by window; the windows of a file are counted by its offsets."""
    windows: Counter[Page] = Counter()
    for (name, number), count in counts.items():
        windows[name, number >> _WINDOW] += count
    return windows


def _holding(counts: Mapping[Page, int]) -> tuple[int, ...]:
    """Return how many of the hottest keys hold each of `SHARES`."""
    ranked, total = sorted(counts.values(), reverse=True), sum(counts.values())
    holding: list[int] = []
    held = 0
    for at, count in enumerate(ranked, 1):
        held += count
        while len(holding) < len(SHARES) and held >= SHARES[len(holding)] * total:
            holding.append(at)
    return tuple(holding) + (0,) * (len(SHARES) - len(holding))


def beyond(counts: Mapping[Page, int], entries: int) -> Estimate:
    """Return the share of the heat that lies beyond the *entries* hottest pages.

    The hottest pages of a sample look hotter than they are, and unseen pages are missing, so the plain share is too
    small.  If one half of the samples picks the hottest pages and the other half measures their heat, the share is too
    large.  The real share lies between the two; this returns their mean.
    """
    total = sum(counts.values())
    if not total:
        return Estimate(0.0, 0.0, 1.0)
    chance = random.Random(1)  # noqa: S311 - a split, and always the same
    first = {page: sum(chance.random() < 0.5 for _ in range(count)) for page, count in counts.items()}
    second = {page: count - first[page] for page, count in counts.items()}
    halves = [_outside(a, b, entries) for a, b in ((first, second), (second, first))]
    upper = sum(halves) / 2
    lower = _outside(counts, counts, entries)
    share = (lower + upper) / 2
    reach = _DEVIATIONS * sqrt(max(share * (1 - share), 1 / total) / total)
    return Estimate(share, max(0.0, lower - reach), min(1.0, upper + reach))


def _outside(ranked: Mapping[Page, int], counted: Mapping[Page, int], entries: int) -> float:
    """Return the share of *counted* that is outside the *entries* hottest pages of *ranked*."""
    hottest = sorted((page for page in ranked if ranked[page]), key=lambda page: (-ranked[page], page))[:entries]
    total = sum(counted.values())
    return 1 - sum(counted[page] for page in hottest) / total if total else 0.0
