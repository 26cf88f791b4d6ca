"""Turn heat and counters into one answer: would huge text gain?  Pure.

The limits come from comparing answers with simulated misses (docs/measured/advise.md, which names the cases where they
are wrong).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from hugealign.diagnosis.values import Diagnosis
from hugealign.profile.missing_mass import Estimate
from hugealign.watch import heat
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


@dataclass(frozen=True, slots=True)
class Entries:
    """First-level TLB entries of *cpu* for pages of 4 KiB (*small*) and 2 MiB (*huge*), and *why* that processor."""

    small: int
    huge: int
    cpu: str
    why: str


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

    *share* is the number that decides, between *low* and *high*; *diagnosis* is what it says.  *cause* is why the
    hottest part is on small pages, if that is known.  One of the two has the remedy.
    """

    answer: Answer
    share: float
    low: float
    high: float
    diagnosis: Diagnosis
    small: Estimate
    huge: Estimate
    cause: Diagnosis | None = None


def judge(
    counts: Mapping[Page, int],
    spread: Heat,
    entries: Entries,
    in_huge: float = 0.0,
    counted: Counted | None = None,
    subject: str = "",
) -> Judged:
    """Return the answer about *subject* for all samples *spread*.

    *counts* are those in small pages, by page; *in_huge* of all are in huge windows.
    """
    small, huge = heat.beyond(counts, entries.small), heat.beyond(heat.by_window(counts), entries.huge)
    rest = 1 - in_huge
    small = Estimate(small.share * rest, small.low * rest, small.high * rest)
    answer, code, facts, number = (
        _by_counters(counted) if counted else _by_samples(spread, heat.heat(counts), entries, in_huge, small, huge)
    )
    return Judged(answer, number.share, number.low, number.high, Diagnosis(code, subject, facts), small, huge)


_Reason = tuple[Answer, str, dict[str, int | str], Estimate]


def _by_samples(
    spread: Heat, small_spread: Heat, entries: Entries, in_huge: float, small: Estimate, huge: Estimate
) -> _Reason:
    if spread.samples < _ENOUGH and small.low < _EXCEEDS:
        return Answer.UNKNOWN, "tlb.few-samples", {"samples": spread.samples}, small
    if in_huge >= _HUGE:
        return Answer.DONE, "tlb.huge-already", {"percent": round(100 * in_huge)}, small
    facts: dict[str, int | str] = {"entries": entries.small, "pages": small_spread.pages[-1]}
    if small.high < _FITS and small_spread.pages[-1] <= _FILLED * entries.small:
        return Answer.NO, "tlb.fits", facts, small
    if small.high < _FITS:
        return Answer.MAYBE, "tlb.nearly-full", facts, small
    facts = {"percent": round(100 * small.share), "entries": entries.small}
    if huge.low > small.high / 2:
        return Answer.MAYBE, "tlb.scattered", {**facts, "beyond": round(100 * huge.share)}, small
    if small.low > _EXCEEDS:
        return Answer.YES, "tlb.exceeded", {**facts, "windows": spread.windows[-1]}, small
    return Answer.MAYBE, "tlb.exceeded", facts, small


def _by_counters(counted: Counted) -> _Reason:
    code = "tlb.misses"
    facts: dict[str, int | str] = {"misses": round(1000 * counted.misses), "event": counted.events[0]}
    number, limits = counted.misses, _MISSES
    if counted.cycles is not None:
        code, facts = "tlb.walks", {"walks": round(1000 * counted.cycles), "event": counted.events[0]}
        number, limits = counted.cycles, _WALKS
    answer = Answer.NO if number < limits[0] else Answer.YES if number > limits[1] else Answer.MAYBE
    return answer, code, facts, Estimate(number, number, number)
