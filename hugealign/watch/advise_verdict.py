"""Turn heat and counters into one answer: would huge text gain?  Pure.

The limits come from comparing answers with simulated misses (docs/results/advise.md, which names the cases where they
are wrong).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from hugealign.io import units
from hugealign.profile.goodturing import Estimate
from hugealign.watch import heat
from hugealign.watch.entries import Entries
from hugealign.watch.heat import Heat, Page

#: Shares of samples: below the first the text fits the TLB; above the second the overflow is large enough to show.
_FITS, _EXCEEDS = 0.03, 0.25
#: The share of the entries that the pages with 99 % of the samples may fill: a loop over slightly more pages than a
#: table has entries misses all the time, however hot the pages are.
_FILLED = 0.8
#: Limits for the share of cycles in page walks for code, and for first-level misses per thousand instructions.
_WALKS = (0.005, 0.02)
_MISSES = (0.5, 2.0)
_ENOUGH = 500  # samples
_HUGE = 0.9  # share of the samples in huge windows from which there is nothing left to do


class Answer(StrEnum):
    """Whether the program would gain from huge text."""

    YES = "yes"
    MAYBE = "maybe"
    NO = "no"
    DONE = "done"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Counted:
    """What the hardware counters say: the share of *cycles* in page walks for code, None where no event counts these.

    *misses* is the number of first-level instruction TLB misses per thousand instructions.  *source* says where the
    encodings of the *events* are published.
    """

    cycles: float | None
    misses: float
    events: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Judged:
    """The *answer*, and the heat it rests on: the share beyond the entries for *small* pages and for *huge* ones.

    *share* is the number that decides, between *low* and *high*; *sentence* puts the answer in words.
    """

    answer: Answer
    share: float
    low: float
    high: float
    sentence: str
    small: Estimate
    huge: Estimate


def judge(
    counts: Mapping[Page, int], found: Heat, entries: Entries, in_huge: float = 0.0, counted: Counted | None = None
) -> Judged:
    """Return the answer for samples *counts* by small page; a share *in_huge* of all samples is in huge windows."""
    small, huge = heat.beyond(counts, entries.small), heat.beyond(heat.by_window(counts), entries.huge)
    rest = 1 - in_huge
    small = Estimate(small.share * rest, small.low * rest, small.high * rest)

    def made(answer: Answer, sentence: str, number: Estimate = small) -> Judged:
        return Judged(answer, number.share, number.low, number.high, sentence, small, huge)

    if counted is not None:
        return _by_counters(counted, made)
    if found.samples < _ENOUGH and small.low < _EXCEEDS:
        return made(Answer.UNKNOWN, f"only {found.samples} samples: it was idle, or too short; take more")
    if in_huge >= _HUGE:
        return made(Answer.DONE, f"{in_huge:.0%} of the running time is in huge pages already")
    held = f"the {entries.small} entries for 4 KiB pages"
    if small.high < _FITS and found.pages[-1] <= _FILLED * entries.small:
        pages = found.pages[-1]
        words = f"No: {held} hold what runs; {pages} {'page has' if pages == 1 else 'pages have'} 99 % of it"
        return made(Answer.NO, words)
    if small.high < _FITS:
        words = f"Perhaps, and not much: {found.pages[-1]} pages have 99 % of the running time, about as many as {held}"
        return made(Answer.MAYBE, words)
    spread = f"{100 * small.share:.0f} % of the running time is on pages beyond {held}"
    if huge.low > small.high / 2:
        return made(
            Answer.MAYBE, f"Only if it is reordered: {spread}, and {huge} beyond the windows that would be huge"
        )
    if small.low > _EXCEEDS:
        return made(
            Answer.YES, f"Yes: {spread}; {units.counted(found.windows[-1], 'window')} of 2 MiB would have 99 % of it"
        )
    return made(Answer.MAYBE, f"Perhaps, and not much: {spread}")


def _by_counters(counted: Counted, made: Callable[..., Judged]) -> Judged:
    if counted.cycles is not None:
        number, limits = counted.cycles, _WALKS
        words = f"{100 * number:.1f} % of the cycles go into page walks for code ({counted.events[0]})"
    else:
        number, limits = counted.misses, _MISSES
        words = f"{number:.2f} instruction-TLB misses for each thousand instructions"
    beyond = Estimate(number, number, number)
    if number < limits[0]:
        return made(Answer.NO, f"No: only {words}", beyond)
    if number > limits[1]:
        return made(Answer.YES, f"Yes: {words}", beyond)
    return made(Answer.MAYBE, f"Perhaps, and not much: {words}", beyond)
