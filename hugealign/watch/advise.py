"""`hugealign advise` as functions: whether a command or a process would gain from huge text."""

import os
import shlex
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.errors import HugealignError, UsageError
from hugealign.io.execution import binary
from hugealign.io.regular import opened
from hugealign.io.units import printable
from hugealign.process import command_samples, perf_events, perf_samples, processes, procfs, smaps
from hugealign.process.perf_samples import Samples
from hugealign.process.processes import GoneError
from hugealign.run import copies
from hugealign.system import hardware_events as events
from hugealign.system import kernel
from hugealign.system import processors as table
from hugealign.system.budget import answer, ask, budget_of
from hugealign.watch import advise_verdict as verdict
from hugealign.watch import heat, ranking, runtimes, top
from hugealign.watch.advise_verdict import Answer, Counted, Entries, Judged
from hugealign.watch.heat import Heat, Page
from hugealign.watch.parts import CodeKind
from hugealign.watch.remedies import Remedies

SECONDS = 10.0
FREQUENCY = 997  # Hz; no divisor of the usual clocks
_DEFAULT = "skylake"  # the most common in servers; its first level for huge pages is among the smallest
_WORTH = 0.02  # share of the samples from which a file is worth a copy


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
    """The advice about *what*: the verdict *judged*, the *heat* behind it, and the TLB *entries* it was compared with.

    *hottest* is the file with the most samples, empty for code without one.  *in_huge* is the share of the samples that
    are already in huge windows.  *status* is the exit status of the
    command, None for a process.  *lost* is the number of samples lost because the buffer was full.
    """

    what: str
    judged: Judged
    heat: Heat
    entries: Entries
    hottest: str
    in_huge: float
    counted: Counted | None = None
    status: int | None = None
    lost: int = 0


def entries_of(cpu: str | None = None) -> Entries:
    """Return the TLB entries of the processor named *cpu*, or else of this machine's.  Raises UsageError."""
    if cpu is not None:
        return _published(table.find(cpu), "as requested")
    reported = answer(ask())
    if reported and reported.small and reported.huge:
        return Entries(
            reported.small, reported.huge, reported.cpu, f"this machine, {reported.cpu or printable(reported.brand)}"
        )
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
    words = _words(command, launched.options if launched else None)
    judged = verdict.judge(small, spread, held, in_huge, counted, _binary(command))
    judged = _with_remedy(
        judged, _for_command(command, judged.answer, small, spread, held, options.frequency, launched)
    )
    name, hottest = printable(shlex.join(words)), _hottest(sampled.pages)
    return Advice(name, judged, spread, held, hottest, in_huge, counted, sampled.status, sampled.lost)


def advise_process(target: str, options: AdviseOptions | None = None) -> Advice:
    """Sample a running process, and judge whether it would gain from huge text.

    Args:
        target: A PID, or the name of one running program.
        options: How to sample and judge.

    Raises:
        HugealignError: There is no such process, or it cannot be sampled.
    """
    options = options or AdviseOptions()
    pids = processes.find(target)
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
    judged = verdict.judge(small, spread, held, in_huge, counted, hottest)
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
        processes.look(pid)  # it is a kernel thread, or
        raise GoneError.of_pid(pid)
    starts = [mapping.start for mapping in mappings]
    pages: Counter[Page] = Counter()
    for address, count in samples.addresses.items():
        at = bisect_right(starts, address) - 1
        mapping = mappings[at] if at >= 0 and address < mappings[at].end else None
        if mapping is None or not mapping.is_file or mapping.without_file:
            pages["", address >> 12] += count
        else:
            pages[mapping.path, (address - mapping.start + mapping.offset) >> 12] += count
    return pages, processes.comm(pid)


def _huge(pid: int) -> set[int]:
    """Return the numbers of the windows of *pid* that are huge."""
    size = kernel.huge_page_size()
    with suppress(OSError, HugealignError):
        seen = processes.look_large(pid, size)
        if seen is not None:
            return {window.start // size for window in ranking.windows(seen.mappings, Counter(), size) if window.huge}
    return set()


def _hottest(pages: "Counter[Page]") -> str:
    files: Counter[str] = Counter()
    for (name, _), count in pages.items():
        files[name] += count
    return files.most_common(1)[0][0] if files else ""


def _words(command: Sequence[str], options: Sequence[str] | None) -> tuple[str, ...]:
    """Return *command*, with `hugealign run` and its *options* in front unless these are None."""
    return tuple(command) if options is None else ("hugealign", "run", *options, "--", *command)


def _for_command(
    command: Sequence[str],
    answer: Answer,
    small: "Counter[Page]",
    spread: Heat,
    held: Entries,
    frequency: int,
    launched: Launched | None,
) -> Diagnosis | Remedy | None:
    """Return what to do next about *command*; None if nothing is known that helps."""
    words = _words(command, launched.options if launched else None)
    if answer == Answer.UNKNOWN:
        more = min(4 * frequency, perf_samples.most_per_second())
        remedy = Remedy("run", ("hugealign", "advise", "--frequency", str(more), "--", *words))
        return remedy if more > frequency else None
    if answer not in (Answer.YES, Answer.MAYBE):
        return None
    hottest = _hottest(small)
    if spread.windows[-1] > held.huge and hottest:
        record = shlex.join(("perf", "record", "-e", "cpu-clock", "-g", "-o", "perf.data", "--", *words))
        order = shlex.join(("hugealign", "order", "perf.data", "-b", hottest, "-o", "hot.order"))
        return Remedy("run", ("sh", "-c", f"{record} && {order}"))
    if not hottest:
        runtime = runtimes.runtime(_binary(command), tuple({name for name, _ in small}))
        if runtime and (option := runtime.option or runtime.room):
            return Diagnosis("runtime.small-pages", "", {"option": option}, Remedy("set-option"))
    options = _to_gain(command, small, int(_WORTH * spread.samples), launched)
    return None if options is None else Remedy("run", _words(command, options))


def _to_gain(
    command: Sequence[str], small: "Counter[Page]", least: int, launched: Launched | None
) -> tuple[str, ...] | None:
    """Return the options of `hugealign run` that make huge what *command* runs from *small* pages; None if none do.

    A file needs *least* samples in the windows that a copy of it would have.
    """
    reached = {os.path.realpath(_binary(command) or "/"), *map(os.path.realpath, launched.files if launched else ())}
    fix, files, gains = False, [], False
    by_file: dict[str, Counter[int]] = {}
    for (name, page), count in small.items():
        by_file.setdefault(name, Counter())[page] += count
    for path in sorted(by_file, key=lambda path_of_file: -by_file[path_of_file].total()):
        gain = _gain(path, by_file[path], least)
        if gain is None or (launched and path in reached and launched.fix >= gain):
            continue
        gains, fix = True, fix or gain
        files += [path] if path not in reached else []
    if not gains:
        return None
    before = launched.options if launched else ()
    fixing = ("--fix",) if fix and not (launched and launched.fix) else ()
    return (*before, *fixing, *(word for path in files for word in ("--file", path)))


def _binary(command: Sequence[str]) -> str:
    with suppress(HugealignError):
        return binary(command[0]) or ""
    return ""


def _gain(path: str, pages: "Counter[int]", least: int) -> bool | None:
    """Return None unless a copy of the file at *path* has windows with *least* samples of its *pages* or more.

    Otherwise return whether only a fixed copy has.
    """
    if not path or pages.total() < least:
        return None
    with suppress(HugealignError, OSError), opened(path) as fd:
        origin = copies.source(path, fd, copies.Fixes())
        if origin:
            copies.check(origin)
            inside = copies.in_windows(origin, (page << 12 for page in pages))
            if sum(count for count, good in zip(pages.values(), inside, strict=True) if good) >= max(least, 1):
                return origin.output is not None
    return None


def _for_process(pid: int, answer: Answer, hottest: str, seconds: float) -> Diagnosis | Remedy | None:
    """Return what to do next about the hottest part of *pid*, as `top` says."""
    if answer == Answer.UNKNOWN:
        return Remedy("run", ("hugealign", "advise", "--seconds", f"{max(60, 6 * seconds):g}", str(pid)))
    if answer not in (Answer.YES, Answer.MAYBE):
        return None
    size = kernel.huge_page_size()
    with suppress(OSError, HugealignError):
        seen = processes.look_large(pid, size)
        rows = top.ranked(top.group([seen], {}), Remedies(size), size, budget_of().windows) if seen else ()
        # The hottest part first; another one if that cannot be helped.
        first = sorted(rows, key=lambda row: ("" if row.kind == CodeKind.CODE else row.part) != hottest)
        return next((row.diagnosis for row in (*(row for row in first if row.remedy), *first)), None)
    return None


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
