"""`hugealign top` as functions: the large text of all processes, by program, with what to do about each part."""

import os
import time
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field

from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.process import groups
from hugealign.process.processes import Process
from hugealign.system import kernel, saving
from hugealign.system.budget import Budget, of_this_machine, query
from hugealign.system.saving import Faults, Saving
from hugealign.system.textcosts import TextCosts
from hugealign.watch import observing, runtimes, survey
from hugealign.watch.parts import CodeKind, CodePart, split
from hugealign.watch.remedies import Owner, Remedied, Remedies, Start, together
from hugealign.watch.runtimes import Runtime

_PAUSE = 5.0  # seconds between looks
_BASE_PAGE = 4096  # on which `TextCosts.reach` is measured
_SHARE = 100  # a look may take one per cent of one processor


@dataclass(frozen=True, slots=True)
class TopOptions:
    """How to look at all processes.

    Attributes:
        seconds: Count processor time over this many seconds, not over the life of each process.
        containers: Make a row of its own for a program in each container.
    """

    seconds: float | None = None
    containers: bool = False


@dataclass(frozen=True, slots=True)
class ProgramRow:
    """One part of one program, in all of its processes together.  All names are untrusted text."""

    program: str
    """The path of its executable."""
    container: str
    kind: CodeKind
    part: str
    """The path of the file; of code without one, the name of the runtime, empty if that is not known."""
    pids: tuple[int, ...]
    cpu: float
    """The share of one processor that the processes use."""
    text: int
    """Bytes of text."""
    huge: int
    """Bytes of text in huge pages."""
    windows_huge: int
    windows_possible: int
    """How many windows can be huge with the files as they are."""
    windows_reachable: int
    """How many windows could be huge after the remedy."""
    diagnosis: Diagnosis | None = None
    """Why not all is huge, and what to do next; None if all is."""
    files: frozenset[tuple[str, int]] = frozenset()
    """Which rows have the same text in memory: path and inode of each file, without the device (overlayfs has many)."""
    saving: Saving | None = None
    """The share of their processor time that the remedy saves; None if the costs of text are unknown; since 1.1."""

    JSON = (
        "program container? kind part pids cpu text_bytes=text huge_bytes=huge windows_huge windows_possible "
        "windows_reachable saving diagnosis"
    )

    @property
    def remedy(self) -> Remedy | None:
        """What to do next; None if there is nothing."""
        return self.diagnosis.remedy if self.diagnosis else None

    @property
    def gain(self) -> tuple[float, int]:
        """The sort key: the processor time that could be saved; then how many windows could become huge.

        Without costs, all processor time counts, times the share of windows that could become huge.
        """
        more = self.windows_reachable - self.windows_huge
        if more <= 0 or not self.remedy:
            return 0.0, 0
        return self.cpu * (self.saving.high if self.saving else more / self.windows_reachable), more


@dataclass(frozen=True, slots=True)
class Machine:
    """The text that all processes run from."""

    rows: tuple[ProgramRow, ...]
    """Those with the most to gain come first."""
    processes: int
    """How many have large text."""
    others: int
    """How many have less than a window of it in each file, kernel threads among them."""
    hidden: int
    """How many may not be looked at without more privileges."""
    silent: tuple[int, ...]
    """The PIDs that did not answer."""
    budget: Budget
    page_size: int
    """Bytes of a window."""
    time: float
    """When it was looked at, in seconds since 1970."""
    seconds: float
    """How long the look took."""
    interval: float
    """The seconds over which processor time was counted, 0 for the life of each process."""
    privileged: bool
    """Whether root looked."""

    SCHEMA = "hugealign.top/1"
    JSON = (
        "time seconds interval page_size entries=budget.entries entries_why=budget.why processes others hidden silent "
        "rows"
    )


@dataclass(slots=True)
class Group:
    """The same part in all processes of a program: *members* pairs each process with its part.

    *cpu* is the share of one processor that these processes have used in total.
    """

    container: str
    runtime: Runtime | None
    cpu: float = 0.0
    members: list[tuple[Process, CodePart]] = field(default_factory=list)

    @property
    def part(self) -> CodePart:
        """The part of the first process."""
        return self.members[0][1]

    def lacking(self) -> tuple[Process, CodePart]:
        """Return the process that lacks the most, and its part: replaced files first, then windows in use."""

        def lack(member: tuple[Process, CodePart]) -> tuple[bool, int, int]:
            part, huge = member[1], member[1].huge()
            return part.deleted, part.touched() - huge, part.possible() - huge

        return max(self.members, key=lack) if len(self.members) > 1 else self.members[0]


def top(options: TopOptions | None = None) -> Machine:
    """Look at all processes once, or twice: before and after the seconds that *options* request."""
    options = options or TopOptions()
    looks = watch(options, options.seconds)
    first = next(looks)
    return first if options.seconds is None else next(looks)


def watch(options: TopOptions | None = None, interval: float | None = None) -> Iterator[Machine]:
    """Yield the state of the machine every *interval* seconds, forever.

    Without an interval the pace costs at most one per cent of a processor.
    """
    options = options or TopOptions()
    window = kernel.huge_page_size()
    reading = query()  # the processor answers while the survey runs
    began = time.process_time()
    current, before = survey.survey(), None
    budget = of_this_machine(reading)
    remedies = Remedies()
    while True:
        used = shares(current.executed, before.executed if before else None, current.at, before.at if before else 0.0)
        groups = group(current.executed, used, containers=options.containers)
        rows = ranked(groups, remedies, budget.windows, budget.costs)
        yield Machine(
            rows,
            len(current.executed),
            current.others,
            current.hidden,
            current.silent,
            budget,
            window,
            time.time(),
            round(current.seconds, 6),
            round(current.at - before.at, 3) if before else 0.0,
            os.geteuid() == 0,
        )
        cost = time.process_time() - began
        time.sleep(max(_PAUSE, _SHARE * cost) if interval is None else interval)
        began = time.process_time()
        before, current = current, survey.survey()


def shares(now: Sequence[Process], before: Sequence[Process] | None, at: float, earlier: float) -> dict[int, float]:
    """Return the share of a processor that each process has used since the look *earlier*, or else since its start.

    *at* and *earlier* are seconds since boot.
    """
    known = {(process.pid, process.started): process.used for process in before or ()}
    result = {}
    for process in now:
        then = known.get((process.pid, process.started))
        since, used = (process.started, process.used) if then is None else (earlier, process.used - then)
        result[process.pid] = max(0.0, used) / max(at - since, 0.01)
    return result


def group(executed: Sequence[Process], used: MappingOf[int, float], *, containers: bool = False) -> list[Group]:
    """Return the parts of *executed* by program; *used* is the share of a processor by PID."""
    by_key: dict[tuple[str, ...], Group] = {}
    for process in executed:
        inside = groups.container(groups.of_process(process.pid)) if containers else ""
        runtime = runtimes.runtime(process.exe, process.files)
        for part in split(process.exe, process.mappings):
            key = process.exe, inside, part.kind, part.path, process.program
            into = by_key.setdefault(key, Group(inside, runtime))
            into.cpu += used.get(process.pid, 0.0)
            into.members.append((process, part))
    return list(by_key.values())


def ranked(
    groups: Sequence[Group], remedies: Remedies, most: int, costs: TextCosts | None = None
) -> tuple[ProgramRow, ...]:
    """Return the rows of the groups *groups*, those with the most to gain first, equal ones by name.

    *most* is the number of windows that the processor can hold; *costs* are those of this machine, if they are known.
    """
    kept: list[Start] = []
    lacks: list[Remedied | None] = []
    huge = [sum(part.huge() for _, part in entry.members) for entry in groups]
    for entry, count in zip(groups, huge, strict=True):
        lack, start = _lack(entry, count, remedies, most, costs)
        lacks.append(lack)
        kept += [start] if start else []
    merged = iter(together([lack for lack in lacks if lack], kept))
    rows = [
        _row(entry, count, next(merged).diagnosis if lack else None, costs)
        for entry, count, lack in zip(groups, huge, lacks, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: (*(-part for part in row.gain), -row.cpu, row.program, row.part)))


def _lack(
    entry: Group, huge: int, remedies: Remedies, most: int, costs: TextCosts | None
) -> tuple[Remedied | None, Start | None]:
    """Return the diagnosis of a group with the remedy that gains most, and the start that made it huge.

    *huge* of its windows are.
    """
    process, part = entry.lacking()
    first, count = entry.members[0][0], len(entry.members)
    name = os.path.basename(first.exe) if count > 1 else ""
    owner = Owner.of(process, name)
    judged = observing.glance(process, part)
    part = judged.part
    if not judged.diagnoses:
        return None, remedies.kept(owner, part)
    lacks = [remedies.find(owner, part, diagnosis, judged.wanted) for diagnosis in judged.diagnoses]
    lack = next((candidate for candidate in lacks if candidate.diagnosis.remedy), lacks[0])
    diagnosis, remedy = lack.diagnosis, lack.diagnosis.remedy
    if part.kind == CodeKind.CODE and diagnosis.code in ("runtime.small-pages", "process.not-touched"):
        reachable = sum(_keepable(process, part, most, costs) for process, part in entry.members)
        if reachable <= huge and remedy:
            diagnosis, remedy = diagnosis.changed(code="runtime.enough", facts={"most": most}), None
        remedy = remedy and remedy.changed(before=huge, after=reachable)
    elif remedy and part.kind == CodeKind.CODE and not judged.possible:
        after = sum(part.text // kernel.huge_page_size() for _, part in entry.members)
        remedy = remedy.changed(before=0, after=after)
    elif remedy and remedy.after is not None:
        remedy = remedy.changed(before=huge, after=remedy.after * count)
    kept = None if lack.start else remedies.kept(owner, part)
    return lack.changed(diagnosis=diagnosis.changed(remedy=remedy)), kept


def _keepable(process: Process, part: CodePart, most: int, costs: TextCosts | None) -> int:
    """Return how many of a part's windows in use, code without a file, can be huge in a TLB of *most* entries."""
    of_files = sum(m.windows_huge for m in process.mappings if not m.without_file)
    worth = saving.windows(costs, most, part.touched() + of_files)
    return max(part.huge(), worth - of_files)


def saved(entry: Group, costs: TextCosts) -> Saving:
    """Return what is saved if the part of *entry* becomes huge: at the start of each process, and as it runs.

    Where a process has more pages than cost nothing, how often it goes from page to page is unknown: at most as often
    as a program that does nothing else.
    """
    small = sum(mapping.small for _, part in entry.members for mapping in part.mappings)
    used = sum(process.used for process, _ in entry.members)
    if not small:
        return saving.NOTHING
    pages = max(sum(mapping.small for mapping in process.mappings) // _BASE_PAGE for process, _ in entry.members)
    windows = sum(part.touched() for _, part in entry.members)
    running = saving.of_samples(costs, 1.0, float(bool(costs.reach) and pages > costs.reach))
    if entry.part.kind == CodeKind.CODE:  # its pages come one by one, as it is compiled
        return running
    return saving.of_faults(costs, Faults(small // costs.around, windows, used, pages)) + running


def _row(entry: Group, huge: int, diagnosis: Diagnosis | None, costs: TextCosts | None) -> ProgramRow:
    parts = [part for _, part in entry.members]
    possible = sum(part.possible() for part in parts)
    reachable = huge
    if diagnosis and diagnosis.remedy:
        reachable = possible if diagnosis.remedy.after is None else diagnosis.remedy.after
    elif diagnosis and diagnosis.code == "process.not-touched" and entry.part.kind != CodeKind.CODE:
        reachable = min(possible, huge + int(diagnosis.facts["windows"]) * len(parts))
    return ProgramRow(
        entry.members[0][0].exe,
        entry.container,
        entry.part.kind,
        entry.part.path or (entry.runtime.name if entry.runtime else ""),
        tuple(process.pid for process, _ in entry.members),
        entry.cpu,
        sum(part.text for part in parts),
        huge * kernel.huge_page_size(),
        huge,
        possible,
        max(huge, reachable),
        diagnosis,
        frozenset((m.path, m.inode) for part in parts for m in part.mappings if part.kind != CodeKind.CODE),
        (saved(entry, costs) if reachable > huge else saving.NOTHING) if costs else None,
    )
