"""Would it gain?  From heat and counters to one answer.  Pure.

The limits were drawn by holding the answers against simulated misses (docs/results/advise.md, which names the cases
where they are wrong).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from hugealign import units
from hugealign.live import heat
from hugealign.live.entries import Entries
from hugealign.live.heat import Heat, Page
from hugealign.profile.goodturing import Estimate

#: Of samples: below the first share the text fits the TLB; above the second so much does not that it shows.
_FITS, _EXCEEDS = 0.03, 0.25
#: Of the entries, that the pages with 99 % of the samples may fill: a loop over a few pages more than a table has
#: misses all the time, however hot they are.
_FILLED = 0.8
#: Of cycles in page walks for code; of first-level misses for each thousand instructions.
_WALKS = (0.005, 0.02)
_MISSES = (0.5, 2.0)
_ENOUGH = 500  # samples
_HUGE = 0.9  # of the samples in huge windows: then it is done


class Answer(StrEnum):
    """Whether huge text would gain."""

    YES = "yes"
    MAYBE = "maybe"
    NO = "no"
    DONE = "done"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Counted:
    """What hardware counters said: the share of *cycles* in page walks for code, None where nothing counts these.

    *misses* are those of the first-level instruction TLB for each thousand instructions.  *source* says where the
    encodings of the *events* are published.
    """

    cycles: float | None
    misses: float
    events: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Judged:
    """The *answer*, and the heat it rests on: beyond the entries for *small* pages, and for *huge* ones.

    *share* is the number that counts, *low* and *high* what it may be; *sentence* says it in words.
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
        return made(Answer.UNKNOWN, f"only {found.samples} samples: it was idle, or too short; sample for longer")
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
