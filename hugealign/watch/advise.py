"""`hugealign advise` as functions: whether a command or a process would gain from huge text."""

import os
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from hugealign.diagnosis.values import COMMAND, Diagnosis, Remedy
from hugealign.errors import HugealignError, UsageError
from hugealign.io.execution import binary
from hugealign.io.regular import opened
from hugealign.io.units import printable
from hugealign.process import command_samples, naming, perf_events, perf_samples, processes, procfs, smaps
from hugealign.process.command_samples import CommandSamples, Space
from hugealign.process.perf_samples import Samples
from hugealign.process.processes import GoneError
from hugealign.run import copies
from hugealign.system import hardware_events as events
from hugealign.system import kernel, textcosts
from hugealign.system import processors as table
from hugealign.system.budget import budget_of, query, reported
from hugealign.system.saving import WORTH, Faults
from hugealign.system.textcosts import TextCosts
from hugealign.watch import advise_verdict as verdict
from hugealign.watch import heat, ranking, runtimes, top
from hugealign.watch.advise_verdict import Answer, Counted, Demand, Entries, Judged
from hugealign.watch.heat import Heat, Page
from hugealign.watch.parts import CodeKind
from hugealign.watch.remedies import Remedies

SECONDS = 10.0
FREQUENCY = 997  # Hz; no divisor of the usual clocks
_DEFAULT = "skylake"  # the most common in servers; its first level for huge pages is among the smallest
_WORTH = 0.02  # share of the samples, or of the faults, from which a file is worth a copy
_RUN = 0.2  # seconds of processor time that `run` itself takes, with some files to fix: from there on it is worth it


@dataclass(frozen=True, slots=True)
class AdviseOptions:
    """How to sample and judge.

    Attributes:
        seconds: How long to sample a process.
        frequency: Samples per second.
        cpu: The name of the processor to judge for; by default this machine's.
        limit: The most seconds to sample a command, which is else sampled until it ends.
    """

    seconds: float = SECONDS
    frequency: int = FREQUENCY
    cpu: str | None = None
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Launched:
    """`hugealign run` in front of a command: its *options* as words, with *fix* and the *files* among them.

    *prepare* does what it does before it becomes the command, as `command_samples.sample_command` expects.
    """

    options: tuple[str, ...]
    fix: bool
    files: tuple[str, ...]
    prepare: Callable[[], tuple[str, Mapping[bytes, bytes]]]


@dataclass(frozen=True, slots=True)
class Advice:
    """The advice about a command or a process.  Shares are from 0 to 1, intervals hold with 95 % confidence."""

    what: str
    """The command, or the process."""
    judged: Judged
    """The verdict."""
    heat: Heat
    """What is behind the verdict."""
    entries: Entries
    """The TLB entries that the heat was compared with."""
    hottest: str
    """The file with the most samples, empty for code without one."""
    in_huge: float
    """The share of the samples that are already in huge windows."""
    counted: Counted | None = None
    status: int | None = None
    """The exit status of the command; None for a process."""
    lost: int = 0
    """How many samples were lost because the buffer was full."""
    files: tuple[str, ...] = ()
    """Files that a command runs from small pages and whose copies would have windows, most to gain first; since 1.1."""

    SCHEMA = "hugealign.advise/1"
    JSON = (
        "what answer=judged.answer diagnosis=judged.diagnosis cause=judged.cause number=judged.number "
        "samples=heat.samples lost pages=heat.pages_by_share windows=heat.windows_by_share saving=judged.saving "
        "saving_of_faults=judged.starts beyond_small=judged.small beyond_huge=judged.huge unseen=heat.unseen in_huge "
        "hottest? files entries counters=counted status"
    )


def entries_of(cpu: str | None = None) -> Entries:
    """Return the TLB entries of the processor named *cpu*, or else of this machine's.  Raises UsageError."""
    if cpu is not None:
        return _published(table.find(cpu), "as requested")
    known = reported(query())
    if known and known.small and known.huge:
        return Entries(known.small, known.huge, known.cpu, f"this machine, {known.cpu or printable(known.brand)}")
    return _published(table.find(_DEFAULT), "the default; this machine's processor does not say (--cpu)")


def _published(cpu: table.Cpu, why: str) -> Entries:
    if cpu.l1_4k is None or cpu.l1_2m is None:
        raise UsageError(f"--cpu: no source gives both instruction TLBs of {cpu.name}")
    return Entries(cpu.l1_4k.entries, cpu.l1_2m.entries, cpu.name, f"{cpu.name}, {why}")


def advise(command: Sequence[str], options: AdviseOptions | None = None, launched: Launched | None = None) -> Advice:
    """Run a command, sample it, and judge whether it would gain from huge text.

    Args:
        command: The program and its arguments.
        options: How to sample and judge.
        launched: What `hugealign run` gives the command, if it starts it: then the question is whether more would help.

    Raises:
        HugealignError: The command cannot be started or sampled.
    """
    options = options or AdviseOptions()
    held = entries_of(options.cpu)
    counting: list[perf_events.Counters] = []

    def count(pid: int) -> None:
        if options.cpu is None and (made := start_counters(pid, held)):
            counting.append(made)

    try:
        prepare = {"prepare": launched.prepare} if launched else {}
        sampled = command_samples.sample_command(command, options.limit, options.frequency, count, **prepare)
        counted = read_counters(counting[0], held) if counting else None
    finally:
        for counter in counting:
            counter.close()
    spread = heat.heat(sampled.pages)
    small = sampled.small(kernel.huge_page_size())
    in_huge = 1 - small.total() / sampled.pages.total() if sampled.pages else 0.0
    gains = _gains(small, sampled.faults, sampled.windows)
    demand = Demand(small, spread, in_huge, _faults(sampled, gains), counted)
    judged = verdict.judge(demand, held, _costs(options), _binary(command))
    judged = _with_remedy(judged, _for_command(command, judged, small, gains, demand, launched))
    words = _words(command, launched.options if launched else None)
    name, hottest = printable(shlex.join(words)), _hottest(sampled.pages)
    files = tuple(sorted(gains, key=lambda path: (-gains[path].samples - gains[path].faults, path)))
    return Advice(name, judged, spread, held, hottest, in_huge, counted, sampled.status, sampled.lost, files)


def advise_process(target: str, options: AdviseOptions | None = None) -> Advice:
    """Sample a running process, and judge whether it would gain from huge text.

    Args:
        target: A PID, or the name of one running program.
        options: How to sample and judge.

    Raises:
        HugealignError: There is no such process, or it cannot be sampled.
    """
    options = options or AdviseOptions()
    pids = naming.find(target)
    if len(pids) > 1:
        pids = [max(pids, key=lambda pid: procfs.used(str(pid)))]  # the busiest
    (pid,) = pids
    held = entries_of(options.cpu)
    counting = start_counters(pid, held) if options.cpu is None else None
    try:
        with processes.failures(pid):
            samples = perf_samples.sample(pid, options.seconds, options.frequency)
            counted = read_counters(counting, held) if counting else None
            huge, size = _huge(pid), kernel.huge_page_size()
            pages, name = _resolved(pid, samples)
            rest = Counter({at: count for at, count in samples.addresses.items() if at // size not in huge})
            small, _ = _resolved(pid, Samples(rest))
    finally:
        if counting:
            counting.close()
    spread = heat.heat(pages)
    in_huge = 1 - rest.total() / samples.total if samples.total else 0.0
    hottest = _hottest(pages)
    judged = verdict.judge(Demand(small, spread, in_huge, counted=counted), held, _costs(options), hottest)
    judged = _with_remedy(judged, _for_process(pid, judged.answer, hottest, options.seconds))
    return Advice(f"{printable(name)}[{pid}]", judged, spread, held, hottest, in_huge, counted, None, samples.lost)


def _with_remedy(judged: Judged, outcome: Diagnosis | Remedy | None) -> Judged:
    """Return *judged* with *outcome*: a remedy, or the cause, which may have a remedy of its own."""
    cause, remedy = (outcome, outcome.remedy) if isinstance(outcome, Diagnosis) else (None, outcome)
    judged = replace(judged, cause=cause)
    if remedy is None and judged.answer in (Answer.YES, Answer.MAYBE):
        remedy = Remedy("none-known")
    if cause and cause.remedy == remedy:
        return judged
    return replace(judged, diagnosis=judged.diagnosis.changed(remedy=remedy))


def _resolved(pid: int, samples: Samples) -> tuple["Counter[Page]", str]:
    """Return the samples by page, and the name of the process."""
    mappings = list(smaps.parse(procfs.maps(pid), executable=True))
    if not mappings:
        processes.read(pid)  # it is a kernel thread, or
        raise GoneError.of_pid(pid)
    space, pages = Space(), Counter[Page]()
    for mapping in mappings:
        if mapping.is_file and not mapping.without_file:
            space.map(mapping.start, mapping.size, mapping.offset, mapping.path)
    for address, count in samples.addresses.items():
        pages[space.page(address)] += count
    return pages, processes.comm(pid)


def _huge(pid: int) -> set[int]:
    """Return the numbers of the windows of *pid* that are huge."""
    size = kernel.huge_page_size()
    with suppress(OSError, HugealignError):
        seen = processes.read_large(pid)
        if seen is not None:
            return {window.start // size for window in ranking.windows(seen.mappings, Counter()) if window.huge}
    return set()


def _hottest(pages: "Counter[Page]") -> str:
    files: Counter[str] = Counter()
    for (name, _), count in pages.items():
        files[name] += count
    return files.most_common(1)[0][0] if files else ""


def _words(command: Sequence[str], options: Sequence[str] | None) -> tuple[str, ...]:
    """Return *command*, with `hugealign run` and its *options* in front unless these are None."""
    return tuple(command) if options is None else ("hugealign", "run", *options, "--", *command)


@dataclass(frozen=True, slots=True)
class _Gain:
    """What a copy of a file gains: whether only a *fixed* one does, and how many *samples* and *faults* it is about.

    *windows* is how often a process touches one of its windows first.
    """

    fixed: bool
    samples: int
    faults: int
    windows: int


def _gains(samples: "Counter[Page]", faults: "Counter[Page]", windows: "Counter[Page]") -> dict[str, _Gain]:
    """Return what copies of the files gain that have their share of the *samples*, or of the *faults*, by path."""
    least = int(_WORTH * samples.total()), int(_WORTH * faults.total())
    by_file: dict[str, tuple[Counter[int], Counter[int], Counter[int]]] = {}
    for number, pages in enumerate((samples, faults, windows)):
        for (name, page), count in pages.items():
            if name:
                by_file.setdefault(name, (Counter(), Counter(), Counter()))[number][page] += count
    gains = {}
    for path, counts in by_file.items():
        if any(count.total() > at_least for count, at_least in zip(counts, least, strict=False)):
            gain = _gain(path, *counts)
            if gain and (gain.samples > least[0] or gain.faults > least[1]):
                gains[path] = gain
    return gains


def _gain(path: str, samples: "Counter[int]", faults: "Counter[int]", windows: "Counter[int]") -> _Gain | None:
    """Return what a copy of the file at *path* gains; None without a window."""
    with suppress(HugealignError, OSError), opened(path) as fd:
        origin = copies.source(path, fd, copies.Fixes())
        if origin is None:
            return None
        copies.check(origin)
        inside = copies.pages_inside(origin, {*samples, *faults})
        sampled, faulted = (sum(n for page, n in counts.items() if page in inside) for counts in (samples, faults))
        # Windows of the copy begin elsewhere than those of the file, but are as many.
        return _Gain(origin.output is not None, sampled, faulted, windows.total() if faulted else 0)
    return None


def _faults(sampled: CommandSamples, gains: Mapping[str, _Gain]) -> Faults:
    small = sum(gain.faults for gain in gains.values())
    return Faults(small, sum(gain.windows for gain in gains.values()), sampled.used, sampled.most)


def _costs(options: AdviseOptions) -> TextCosts | None:
    """Return the costs of this machine; None for another processor, or if they cannot be measured."""
    return textcosts.known() if options.cpu is None else None


def _for_command(
    command: Sequence[str],
    judged: Judged,
    small: "Counter[Page]",
    gains: Mapping[str, _Gain],
    demand: Demand,
    launched: Launched | None,
) -> Diagnosis | Remedy | None:
    """Return what to do next about *command*; None if nothing is known that helps."""
    if judged.answer not in (Answer.YES, Answer.MAYBE):
        return None
    if not _hottest(small) and demand.heat.samples:
        runtime = runtimes.runtime(_binary(command), tuple({name for name, _ in small}))
        if runtime and (option := runtime.option or runtime.room):
            return Diagnosis("runtime.small-pages", "", {"option": option}, Remedy("set-option"))
    if judged.starts is None or judged.starts.high < WORTH:  # it is about what runs, not about starts
        least = _WORTH * demand.heat.samples
        gains = {path: gain for path, gain in gains.items() if gain.samples > least}
    added = _to_gain(command, gains, launched)
    if added is None:
        return None
    fix, files = added
    saved = demand.faults.cpu * judged.saving.low if demand.faults and judged.saving else 0.0
    if judged.answer == Answer.YES and saved >= _RUN:
        more = ("--fix",) if fix and not (launched and launched.fix) else ()
        return Remedy("run", _words(command, (*(launched.options if launched else ()), *more, *_named(files))))
    if launched:
        fix, files = fix or launched.fix, (*launched.files, *files)
    libs = ("--libs",) if launched and "--libs" in launched.options else ()
    options = (*(("--fix",) if fix else ()), *libs, *_named(files))
    return Remedy("run", ("hugealign", "measure", *options, "--", *command))


def _named(files: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for path in files for word in ("--file", path))


def _to_gain(
    command: Sequence[str], gains: Mapping[str, _Gain], launched: Launched | None
) -> tuple[bool, tuple[str, ...]] | None:
    """Return what makes huge what *command* runs from small pages: whether to fix, and more files; None if nothing."""
    reached = {os.path.realpath(_binary(command) or "/"), *map(os.path.realpath, launched.files if launched else ())}
    wanted = {
        path: gain for path, gain in gains.items() if not (launched and path in reached and launched.fix >= gain.fixed)
    }
    if not wanted:
        return None
    ranked = sorted(wanted, key=lambda path: (-wanted[path].samples - wanted[path].faults, path))
    return any(gain.fixed for gain in wanted.values()), tuple(path for path in ranked if path not in reached)


def _binary(command: Sequence[str]) -> str:
    with suppress(HugealignError):
        return binary(command[0]) or ""
    return ""


def _for_process(pid: int, answer: Answer, hottest: str, seconds: float) -> Diagnosis | Remedy | None:
    """Return what to do next about the hottest part of *pid*: as `top` says, or to measure it."""
    if answer == Answer.UNKNOWN:
        return Remedy("run", ("hugealign", "advise", "--seconds", f"{max(60, 6 * seconds):g}", str(pid)))
    if answer not in (Answer.YES, Answer.MAYBE):
        return None
    if answer == Answer.MAYBE:
        file = ("--file", hottest) if hottest and hottest != _program(pid) else ()
        return Remedy("run", ("hugealign", "measure", "--fix", *file, "--"), COMMAND)
    with suppress(OSError, HugealignError):
        seen = processes.read_large(pid)
        budget = budget_of()
        rows = top.ranked(top.group([seen], {}), Remedies(), budget.windows, budget.costs) if seen else ()
        # The hottest part first; another one if that cannot be helped.
        first = sorted(rows, key=lambda row: ("" if row.kind == CodeKind.CODE else row.part) != hottest)
        return next((row.diagnosis for row in (*(row for row in first if row.remedy), *first)), None)
    return None


def _program(pid: int) -> str:
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/exe")
    return ""


def start_counters(pid: int, held: Entries) -> perf_events.Counters | None:
    """Begin to count the processor's events; return None if it has none or cannot count them."""
    wanted = events.of(held.cpu)
    if wanted is None:
        return None
    more = [event.config for event in (*((wanted.cycles,) if wanted.cycles else ()), *wanted.misses)]
    with suppress(OSError):
        return perf_events.Counters(pid, (perf_events.CYCLES, perf_events.INSTRUCTIONS, *map(perf_events.raw, more)))
    return None


def read_counters(counting: perf_events.Counters, held: Entries) -> Counted | None:
    """Return what *counting* has counted so far; None if it counted nothing."""
    wanted = events.of(held.cpu)
    cycles, instructed, *rest = counting.read()
    if wanted is None or not cycles or not instructed:
        return None
    walks = rest.pop(0) / cycles if wanted.cycles else None
    names = [event.name for event in (*((wanted.cycles,) if wanted.cycles else ()), *wanted.misses)]
    return Counted(walks, 1000 * sum(rest) / instructed, tuple(names), wanted.source)
