"""`hugealign ps` as functions: look at processes once, until they reach a goal, or repeatedly."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.errors import HugealignError
from hugealign.process import containers, groups, naming, running, starts
from hugealign.process import processes as proc
from hugealign.process.processes import Process
from hugealign.process.smaps import Mapping
from hugealign.records import Record
from hugealign.system import kernel
from hugealign.watch import observing, staged
from hugealign.watch.parts import CodeKind, CodePart, split
from hugealign.watch.verdict import Verdict, judge

_PAUSE = 0.1  # seconds between looks while waiting

Errors = tuple[tuple[str, HugealignError], ...]


class PsOptions(Record):
    """What counts as text, and how much of it has to be huge.

    Attributes:
        all: Count all that a process executes, in libraries and without a file, not the program's text alone.
        min_coverage: The share of the bytes that has to be huge, in per cent; without it, all windows.
    """

    all: bool = False
    min_coverage: float | None = None

    def look(self, pid: int) -> Process:
        """Look at one process.  Raises ProcessError."""
        process = proc.read(pid, self.all, self.all)
        coded = proc.with_code(process, process.text(self.all, self.all))
        by_start = {mapping.start: mapping for mapping in coded}
        return process.changed(mappings=tuple(by_start.get(m.start, m) for m in process.mappings))


class Seen(Record):
    """The *verdicts* on the processes that were found, and in *errors* each target that failed, with the reason.

    *little* are the PIDs of a service's processes that do not count: they have less text than a window.
    """

    verdicts: tuple[Verdict, ...]
    errors: Errors = ()
    little: tuple[int, ...] = ()

    @property
    def met(self) -> bool:
        """Whether all these processes have enough huge text."""
        return all(verdict.met for verdict in self.verdicts)


def processes(targets: Sequence[str], options: PsOptions | None = None, wait: float = 0.0) -> Seen:
    """Look at running processes.

    Args:
        targets: PIDs, or names of programs.
        options: What counts.
        wait: The most seconds to look again and again, until all have enough huge text.

    Returns:
        A verdict for each process, and the targets that failed.
    """
    options = options or PsOptions()
    end = time.monotonic() + wait
    while True:
        seen, errors, coming, little = _find(targets, options)
        left = end - time.monotonic()
        # Waiting helps with windows, and with names that no process has yet; with nothing else.
        hopeless = left <= 0 or (errors and not coming)
        if hopeless or (not errors and all(_judge(options, process).met for process in seen)):
            return _explained(options, seen, errors, little)
        time.sleep(min(_PAUSE, left))


def command(words: Sequence[str], options: PsOptions | None = None, wait: float | None = None) -> Seen:
    """Run the command *words* and return the last look at it, see `hugealign.process.running.look_until`.

    With *wait*, look for up to that many seconds, until enough is huge, and end it.  Raises ProcessError.
    """
    options = options or PsOptions()

    def enough(process: Process) -> bool:
        return _judge(options, process).met

    return _explained(options, [running.look_until(words, wait, enough if wait is not None else None, options.look)])


def watch(targets: Sequence[str], interval: float, options: PsOptions | None = None) -> Iterator[Seen]:
    """Yield the state of *targets* every *interval* seconds until they have ended; at least once."""
    options = options or PsOptions()
    known: dict[int, float] = {}
    seen, errors, _, little = _find(targets, options)
    yield _explained(options, seen, errors, little)
    while seen:
        known |= {process.pid: process.started for process in seen}
        time.sleep(interval)
        processes, _, _, little = _find(targets, options)
        # A PID in *targets* means the process that had it first.
        seen = [p for p in processes if known.get(p.pid, p.started) == p.started or str(p.pid) not in targets]
        if seen:
            yield _explained(options, seen, little=little)


def watch_command(words: Sequence[str], interval: float, options: PsOptions | None = None) -> Iterator[Seen]:
    """Run the command *words* and yield a look at it every *interval* seconds until it ends.  Raises ProcessError."""
    options = options or PsOptions()
    for process in running.look_every(words, interval, options.look):
        yield _explained(options, [process])


def _find(targets: Sequence[str], options: PsOptions) -> tuple[list[Process], Errors, bool, list[Process]]:
    """Return the processes, the errors, whether all errors are names that no process has yet, and what does not count.

    A service also has helpers, scripts mostly, whose interpreter has little text: they do not count beside its server.
    """
    seen: dict[int, Process] = {}
    little: dict[int, Process] = {}
    errors: list[tuple[str, HugealignError]] = []
    coming = True
    for target in targets:
        try:
            pids = naming.find(target)
        except HugealignError as error:
            errors.append((target, error))
            coming &= isinstance(error, proc.GoneError)
            continue
        named = [str(pid) for pid in pids] != [target]
        failed: list[tuple[str, HugealignError]] = []
        for pid in pids:
            try:
                seen[pid] = options.look(pid)
            except proc.GoneError as error:
                # Some processes of a name may end meanwhile.  If all do, the last one reports it.
                if not named or (pid == pids[-1] and not failed and not seen.keys() & set(pids)):
                    failed.append((target, error))
            except HugealignError as error:
                failed.append((target, error))
        coming &= not failed
        errors += failed
        if named:
            of_service = [seen[pid] for pid in naming.of_service(target, pids) if pid in seen]
            small = [process for process in of_service if _has_little(process, options)]
            if len(small) < len(of_service):
                little |= {process.pid: seen.pop(process.pid) for process in small}
    return list(seen.values()), tuple(errors), coming, list(little.values())


def _has_little(process: Process, options: PsOptions) -> bool:
    text, window = process.text(options.all, options.all), kernel.huge_page_size()
    return sum(m.size for m in text) < window and not any(m.windows_possible for m in text)


def _explained(
    options: PsOptions, seen: Sequence[Process], errors: Errors = (), little: Sequence[Process] = ()
) -> Seen:
    verdicts = tuple(_judge(options, process, explain=True) for process in seen)
    return Seen(verdicts, errors, tuple(process.pid for process in little))


def _judge(options: PsOptions, process: Process, *, explain: bool = False) -> Verdict:
    """Judge *process*; with *explain*, also read the page cache for the reasons, and look at other large parts."""
    mappings = process.text(options.all, options.all)
    observed = observing.observe(process, mappings, observing.CHECKED if explain else 0)
    verdict = judge(process, mappings, options.min_coverage, observed)
    if not explain:
        return verdict
    others = tuple(observing.glance(process, part) for part in _other_parts(process, mappings))
    general = list(verdict.general)
    outdated = any(state != staged.CURRENT for state in verdict.staged.values())
    if outdated and all(each.wanted_huge >= each.wanted for each in verdict.parts):
        general.append(Diagnosis("copy.outdated", process.exe, {}))  # huge, but of an earlier file
    if general and not options.all and not mappings:
        look = Remedy("look", ("hugealign", "ps", "--all", str(process.pid)))
        general[0] = general[0].changed(remedy=look)
    if process.elsewhere and not verdict.met and (missed := containers.missed(process.pid)):
        general.append(missed.about(process.exe))
    machine = _of_machine(process, verdict)
    verdict = verdict.changed(others=others, general=tuple(general), machine=machine)
    return _remedied(verdict)


def _of_machine(process: Process, verdict: Verdict) -> dict[int, str]:
    """Return the names of the parts of the machine, by address of the mappings of *verdict* that are of them."""
    from hugealign.machine import state  # most users never see one
    from hugealign.services import oci

    result: dict[int, str] = {}
    with suppress(HugealignError):
        if known := state.read():
            service = groups.service(groups.of_process(process.pid))
            places = {path: one.part.name for one in known.in_place() for path in one.part.files}
            hooked = {inode: one.part.name for one in known.hooked() for inode in oci.inodes(one.identities)}
            for mapping in verdict.mappings:
                if mapping.start in verdict.staged and service in known.services():
                    result[mapping.start] = service
                elif mapping.start in verdict.staged and process.elsewhere and mapping.inode in hooked:
                    result[mapping.start] = hooked[mapping.inode]
                elif mapping.path in places and not process.elsewhere and not mapping.deleted:
                    result[mapping.start] = places[mapping.path]
    return result


def _other_parts(process: Process, shown: Sequence[Mapping]) -> list[CodePart]:
    """Return the large parts of *process* without the mappings that are *shown* already."""
    starts_shown = {mapping.start for mapping in shown}
    parts = split(process.exe, [mapping for mapping in process.mappings if mapping.start not in starts_shown])
    large = [part for part in parts if part.kind != CodeKind.PROGRAM and part.text >= kernel.huge_page_size()]
    with suppress(OSError, HugealignError):
        return [part.changed(mappings=proc.with_windows(process, part.mappings)) for part in large]
    return []


def _remedied(verdict: Verdict) -> Verdict:
    """Return *verdict* with a remedy for each diagnosis, and one command for all that a start helps."""
    all_parts = (*verdict.parts, *verdict.others)
    if not verdict.general and not any(each.diagnoses for each in all_parts):
        return verdict
    from hugealign.watch.remedies import Owner, Remedies, together  # only if a window is missing

    process = verdict.process
    owner = Owner.of(process.changed(called=starts.called(process.pid, process.exe_id)))
    remedies = Remedies()
    lacks, kept = [], []
    for each in all_parts:
        some = [remedies.find(owner, each.part, diagnosis, each.wanted) for diagnosis in each.diagnoses]
        start = None if any(lack.start for lack in some) else remedies.kept(owner, each.part)
        lacks += some
        kept += [start] if start else []
    remedied = iter(together(lacks, kept))
    parts = [each.changed(diagnoses=tuple(next(remedied).diagnosis for _ in each.diagnoses)) for each in all_parts]
    count = len(verdict.parts)
    general = tuple(
        remedies.find(owner, verdict.parts[0].part, diagnosis, 0).diagnosis
        if diagnosis.code == "copy.outdated"
        else diagnosis
        for diagnosis in verdict.general
    )
    return verdict.changed(parts=tuple(parts[:count]), others=tuple(parts[count:]), general=general)
