"""Turn what is known of a program and of the machine into one answer: would huge text save time?  Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from hugealign.diagnosis.values import Diagnosis
from hugealign.profile.missing_mass import Estimate
from hugealign.system import saving
from hugealign.system.saving import Faults, Saving
from hugealign.system.textcosts import TextCosts
from hugealign.watch import heat
from hugealign.watch.heat import Heat, Page

#: Without costs, a share of the samples below this is nothing.
_FITS = 0.03
_ENOUGH = 500  # samples
_HUGE = 0.9  # share of the samples in huge windows from which there is nothing left to do


@dataclass(frozen=True, slots=True)
class Entries:
    """The first-level TLB entries of a processor."""

    small: int
    """For pages of 4 KiB."""
    huge: int
    """For pages of 2 MiB."""
    cpu: str
    why: str
    """Why that processor."""

    JSON = "small huge why"


class Answer(StrEnum):
    """Whether the program would gain from huge text; MAYBE: it has to be measured."""

    YES = "yes"
    MAYBE = "maybe"
    NO = "no"
    DONE = "done"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Counted:
    """What the hardware counters say."""

    cycles: float | None
    """The share of cycles in page walks for code; None where no event counts these."""
    misses: float
    """First-level instruction TLB misses per thousand instructions."""
    events: tuple[str, ...]
    source: str
    """Where the encodings of the events are published."""

    JSON = "walk_cycles=cycles misses_per_1000=misses events source"


@dataclass(frozen=True, slots=True)
class Demand:
    """What is known of a program's demand for text.

    Attributes:
        counts: Samples in small pages, by page.
        heat: How all samples are spread.
        in_huge: The share of all samples that is in huge windows.
        faults: The page faults that huge text would save, of a command; None of a process.
        counted: What hardware counters say.
    """

    counts: Mapping[Page, int]
    heat: Heat
    in_huge: float = 0.0
    faults: Faults | None = None
    counted: Counted | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """The answer, and what it rests on."""

    answer: Answer
    share: float
    """The share of the running time on pages beyond the first level's entries for small pages.

    With hardware counters: the share of the cycles in page walks, or the misses per thousand instructions.
    """
    low: float
    """The least that it can be."""
    high: float
    """The most that it can be."""
    diagnosis: Diagnosis
    """What the answer says; the remedy is in it, or in the cause."""
    small: Estimate
    """The share of the samples beyond the entries for 4 KiB."""
    huge: Estimate
    """The share of the samples that would be beyond the entries for 2 MiB."""
    saving: Saving | None = None
    """The share of the processor time that huge text saves; None without the costs of this machine; since 1.1."""
    starts: Saving | None = None
    """The part of it from page faults; None for a process; since 1.1."""
    cause: Diagnosis | None = None
    """Why the hottest part that can be helped is on small pages, if that is known."""

    @property
    def number(self) -> Estimate:
        """What the answer rests on: a share of the time or of cycles, or misses per thousand instructions."""
        return Estimate(self.share, self.low, self.high)


def judge(demand: Demand, entries: Entries, costs: TextCosts | None, subject: str = "") -> Judged:
    """Return the answer about *subject*; without *costs*, it is not in time, and cannot be a yes."""
    small, huge = heat.beyond(demand.counts, entries.small), heat.beyond(heat.by_window(demand.counts), entries.huge)
    small = _part(small, 1 - demand.in_huge)
    starts = saving.of_faults(costs, demand.faults) if costs and demand.faults else None
    whole = _saving(demand, costs, small, starts)
    answer, code, facts = _answer(demand, entries, small, whole, starts)
    number = small.share, small.low, small.high
    if demand.counted:
        number = (demand.counted.misses if demand.counted.cycles is None else demand.counted.cycles,) * 3
    return Judged(answer, *number, Diagnosis(code, subject, facts), small, huge, whole, starts)


def _part(estimate: Estimate, rest: float) -> Estimate:
    return Estimate(estimate.share * rest, estimate.low * rest, estimate.high * rest)


def _saving(demand: Demand, costs: TextCosts | None, small: Estimate, starts: Saving | None) -> Saving | None:
    counted = demand.counted
    if counted and counted.cycles is not None:
        running = saving.of_walk_cycles(counted.cycles)
    elif costs is None:
        return None
    else:
        last = _part(heat.beyond(demand.counts, costs.reach), 1 - demand.in_huge).high if costs.reach else 0.0
        if demand.faults and demand.faults.most * costs.around <= costs.reach << 12:
            last = 0.0  # no process has touched more pages than cost nothing
        running = saving.of_samples(costs, small.high, last)
    return running + starts if starts else running


_Reason = tuple[Answer, str, dict[str, int | str]]


def _answer(demand: Demand, entries: Entries, small: Estimate, whole: Saving | None, starts: Saving | None) -> _Reason:
    if demand.in_huge >= _HUGE and not (starts and starts.worth):
        return Answer.DONE, "tlb.huge-already", {"percent": round(100 * demand.in_huge)}
    if whole is None:
        facts: dict[str, int | str] = {"percent": round(100 * small.share), "entries": entries.small}
        fits = small.high < _FITS and demand.heat.samples >= _ENOUGH
        return (Answer.NO, "tlb.fits", _fitting(demand, entries)) if fits else (Answer.MAYBE, "saving.no-costs", facts)
    facts = {name: _percent(getattr(whole, name)) for name in ("low", "value", "high")}
    if whole.worth:
        faults = demand.faults.small if demand.faults else 0
        return Answer.YES, "saving.yes", {**facts, "faults": faults}
    if whole.worth is False:
        return Answer.NO, "saving.no", facts
    if demand.faults is None and demand.heat.samples < _ENOUGH:
        return Answer.UNKNOWN, "tlb.few-samples", {"samples": demand.heat.samples}
    return Answer.MAYBE, "saving.measure", facts


def _fitting(demand: Demand, entries: Entries) -> dict[str, int | str]:
    return {"entries": entries.small, "pages": heat.heat(demand.counts).pages[-1]}


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:.0f}" if percent >= 10 else f"{percent:.1f}"
