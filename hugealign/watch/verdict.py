"""Judge the text of a process by its smaps and page map: pure functions, no I/O."""

from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingOf
from itertools import pairwise

from hugealign.diagnosis.values import Diagnosis
from hugealign.process.pagemap import State
from hugealign.process.processes import Process
from hugealign.process.smaps import Mapping, coverage
from hugealign.records import Record
from hugealign.system import kernel
from hugealign.watch.parts import CodeKind, CodePart, split
from hugealign.watch.reasons import NOTHING, Observed, SmallWindow, why_small


class WindowRun(Record):
    """Adjacent windows that are alike."""

    start: int
    """The address of the first."""
    count: int
    state: State
    diagnosis: Diagnosis | None = None
    """Why they are not huge."""
    wanted: bool = True
    """Whether the build of the file requests them."""

    JSON = "start count state wanted code=diagnosis.code"


class PartVerdict(Record):
    """The state of one part of a process."""

    part: CodePart
    windows: int
    """How many windows are huge."""
    possible: int
    """How many windows there are."""
    wanted: int
    """How many the build of the file requests."""
    wanted_huge: int
    """How many of these are huge."""
    diagnoses: tuple[Diagnosis, ...]
    """Why not all of these are, with the number of ``windows``, largest first; or why no window is possible."""
    runs: tuple[tuple[WindowRun, ...] | None, ...]
    """The windows of each mapping; None where only counts are known."""

    JSON = (
        "kind=part.kind path=part.path mappings=part.count text_bytes=part.text windows_huge=windows "
        "windows_possible=possible diagnoses"
    )


class MappingVerdict(Record):
    """The state of one mapping."""

    mapping: Mapping
    windows: tuple[WindowRun, ...] | None
    """Adjacent windows that are alike, by address; None where only counts are known."""
    staged: str | None
    """One of `current`, `older`, `replaced`: it is of a staged copy of the file as it is, as it was, or of another."""
    machine: str | None
    """The part of `enable --all` that it is of, a file or a service; none for who may not see that; since 1.1."""

    JSON = (
        "path=mapping.path start=mapping.start end=mapping.end offset=mapping.offset text_bytes=mapping.size "
        "huge_bytes=mapping.huge small_bytes=mapping.small head_bytes tail_bytes windows_huge windows_possible "
        "how=mapping.how? staged machine windows_source windows"
    )

    @property
    def head_bytes(self) -> int:
        """Bytes before the first window."""
        return self.mapping.ends[0]

    @property
    def tail_bytes(self) -> int:
        """Bytes after the last window."""
        return self.mapping.ends[1]

    @property
    def windows_huge(self) -> int:
        """How many windows are huge."""
        return self.mapping.windows_huge

    @property
    def windows_possible(self) -> int:
        """How many windows there are."""
        return self.mapping.windows_possible

    @property
    def windows_source(self) -> str:
        """One of `pagemap_scan`, `smaps` (only counts are known)."""
        return "smaps" if self.windows is None else "pagemap_scan"


class Verdict(Record):
    """The state of one process."""

    process: Process
    parts: tuple[PartVerdict, ...]
    """The requested parts, its program first."""
    min_coverage: float | None = None
    """The share of the text that has to be huge, in per cent; without it, all windows have to be."""
    general: tuple[Diagnosis, ...] = ()
    """Diagnoses of no part."""
    staged: MappingOf[int, str] = NOTHING
    """By address, the state of each mapping of a staged copy (`hugealign.watch.staged`)."""
    others: tuple[PartVerdict, ...] = ()
    """Large libraries, and code without a file, that were not requested and count in no number."""
    machine: MappingOf[int, str] = NOTHING
    """By address, the part of `hugealign enable --all` that a mapping is of."""

    JSON = (
        "pid=process.pid inner_pids=process.inner_pids name=process.comm program=process.exe "
        "elsewhere=process.elsewhere deleted thp_disabled=process.thp_disabled met text_bytes=text huge_bytes=huge "
        "windows_huge=windows windows_possible=possible windows_wanted=wanted diagnoses mappings=by_mapping others"
    )

    @property
    def page_size(self) -> int:
        """Bytes of a window."""
        return kernel.huge_page_size()

    @property
    def deleted(self) -> bool:
        """Whether a file of its text is gone."""
        return any(mapping.deleted for mapping in self.mappings)

    @property
    def by_mapping(self) -> tuple[MappingVerdict, ...]:
        """The state of each mapping."""
        return tuple(
            MappingVerdict(mapping, runs, self.staged.get(mapping.start), self.machine.get(mapping.start))
            for part in self.parts
            for mapping, runs in zip(part.part.mappings, part.runs, strict=True)
        )

    @property
    def mappings(self) -> tuple[Mapping, ...]:
        """The mappings of all parts."""
        return tuple(mapping for part in self.parts for mapping in part.part.mappings)

    @property
    def text(self) -> int:
        """Bytes of text."""
        return sum(mapping.size for mapping in self.mappings)

    @property
    def huge(self) -> int:
        """Bytes of text in huge pages."""
        return sum(mapping.huge for mapping in self.mappings)

    @property
    def windows(self) -> int:
        """The number of huge windows."""
        return sum(part.windows for part in self.parts)

    @property
    def possible(self) -> int:
        """The number of all windows."""
        return sum(part.possible for part in self.parts)

    @property
    def wanted(self) -> int:
        """The number of windows that the builds of the files request."""
        return sum(part.wanted for part in self.parts)

    @property
    def wanted_huge(self) -> int:
        """How many of the `wanted` windows are huge."""
        return sum(part.wanted_huge for part in self.parts)

    @property
    def without(self) -> int:
        """Bytes of the text that are in large files without a window, though others have one."""
        return sum(part.part.text for part in self.parts if self.possible and self._lacks(part))

    @property
    def met(self) -> bool:
        """Whether the process has as much huge text as was requested."""
        if self.min_coverage is None:
            return 0 < self.wanted == self.wanted_huge and not self.without
        return self.text > 0 and coverage(self.huge, self.text) >= self.min_coverage

    @property
    def diagnoses(self) -> tuple[Diagnosis, ...]:
        """Why not all is huge; empty if all is."""
        if self.possible or not self.parts:
            shown = [part for part in self.parts if part.possible or self._lacks(part)]
            return (*(diagnosis for part in shown for diagnosis in part.diagnoses), *self.general)
        # The program goes before its libraries, unless only these are large enough to have windows.
        worst = max(self.parts, key=lambda part: (self._lacks(part), part.part.kind == CodeKind.PROGRAM))
        return worst.diagnoses + self.general

    def _lacks(self, part: PartVerdict) -> bool:
        return not part.possible and part.part.text >= kernel.huge_page_size()


def judge(
    process: Process,
    mappings: Sequence[Mapping],
    min_coverage: float | None = None,
    observed: Observed | None = None,
) -> Verdict:
    """Return the verdict on *mappings* of *process*."""
    observed = observed or Observed(process.exe, process.thp_disabled is True)
    parts = tuple(judge_part(part, observed) for part in split(process.exe, mappings))
    general = () if parts else (Diagnosis("process.no-text", process.exe, {"process": process.pid}),)
    return Verdict(process, parts, min_coverage, general, observed.staged)


def judge_part(part: CodePart, observed: Observed) -> PartVerdict:
    """Return the state of a *part*, see `judge`."""
    possible = windows = wanted = held = 0
    runs: list[tuple[WindowRun, ...] | None] = []
    for m in part.mappings:
        count, known = m.windows_possible, m.touched()
        leading = min(observed.wanted.get(m.start, count), count)
        if known is None:
            huge = m.windows_huge
            held += min(huge, leading)
        else:
            huge = sum(state == State.HUGE for state in known.values())
            behind = m.leading(leading)
            held += sum(state == State.HUGE for index, state in known.items() if index < behind)
        possible, windows, wanted = possible + count, windows + huge, wanted + leading
        runs.append(None if known is None else _runs(m, known, observed))
    if not possible:
        diagnoses: tuple[Diagnosis, ...] = (_why_none(part, observed),)
    elif held >= wanted:
        diagnoses = ()
    elif None in runs:
        why = _why_by_counts(part, observed)
        diagnoses = (why.changed(facts={**why.facts, "windows": wanted - held}),)
    else:
        diagnoses = _grouped(runs)
    return PartVerdict(part, windows, possible, wanted, held, diagnoses, tuple(runs))


def _why_none(part: CodePart, observed: Observed) -> Diagnosis:
    page_size = kernel.huge_page_size()
    worst = max(part.mappings, key=lambda m: m.size)
    if part.kind == CodeKind.CODE:
        runtime = observed.runtime
        option = (runtime.option or runtime.room) if runtime else ""
        return Diagnosis(
            "runtime.no-window", observed.exe, {"runtime": runtime.name if runtime else "", "option": option}
        )
    if part.deleted and worst.size >= page_size:
        return Diagnosis("file.replaced", part.path, {})
    return Diagnosis("text.no-window", part.path, {"page_size": page_size})


def _runs(mapping: Mapping, known: MappingOf[int, State], observed: Observed) -> tuple[WindowRun, ...]:
    page_size = kernel.huge_page_size()
    first, whole = mapping.first_window, mapping.whole
    runs: list[WindowRun] = []
    wanted = observed.wanted.get(mapping.start)
    behind = None if wanted is None else mapping.leading(wanted)
    for index, end in (p for part in whole for p in _alike(known, observed.cached, behind, first, part)):
        address, state = first + index * page_size, known.get(index, State.UNTOUCHED)
        run = WindowRun(address, end - index, state, wanted=behind is None or index < behind or state == State.HUGE)
        if run.wanted and state != State.HUGE:
            run = run.changed(diagnosis=why_small(SmallWindow(mapping, state, observed.cached.get(address), observed)))
        adjacent = runs and runs[-1].start + runs[-1].count * page_size == address
        if adjacent and run.changed(start=runs[-1].start, count=runs[-1].count) == runs[-1]:
            runs[-1] = runs[-1].changed(count=runs[-1].count + run.count)
        else:
            runs.append(run)
    return tuple(runs)


def _alike(
    known: MappingOf[int, State],
    cached: MappingOf[int, bool],
    wanted: int | None,
    first: int,
    numbers: range,
) -> Iterator[tuple[int, int]]:
    """Yield ranges of the windows *numbers* that are surely alike: the first number, and the number after the last.

    Untouched windows with nothing *cached* come as one range, since there may be millions of them.
    """
    indices = {*known, *((address - first) // kernel.huge_page_size() for address in cached)}
    ends = {edge for index in indices for edge in (index, index + 1)} | ({wanted} if wanted else set())
    return pairwise(sorted({edge for edge in ends if edge in numbers} | {numbers.start, numbers.stop}))


def _why_by_counts(part: CodePart, observed: Observed) -> Diagnosis:
    """Return why windows of a *part* are not huge where only their number is known."""
    short = [m for m in part.mappings if m.windows_huge < m.windows_possible]
    worst = max(short, key=lambda m: m.size)
    small = why_small(SmallWindow(worst, State.SMALL, None, observed))
    if observed.thp_disabled or worst.no_huge or worst.deleted:
        return small
    if not any(m.small for m in short):
        return small.changed(code="process.not-touched", facts={})
    if worst.is_file and all(m.small <= m.size - m.windows_possible * kernel.huge_page_size() for m in short):
        # The small pages may all be in head and tail.
        return small.changed(code="process.counts-only", facts={})
    return small


def _grouped(runs: Sequence[tuple[WindowRun, ...] | None]) -> tuple[Diagnosis, ...]:
    counts: Counter[Diagnosis] = Counter()
    for run in (run for of_mapping in runs for run in of_mapping or ()):
        if run.diagnosis:
            counts[run.diagnosis] += run.count
    return tuple(
        diagnosis.changed(facts={**diagnosis.facts, "windows": count}) for diagnosis, count in counts.most_common()
    )
