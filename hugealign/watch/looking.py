"""`hugealign ps` as functions: look at processes once, until they meet a goal, or repeatedly."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hugealign.diagnosis import render
from hugealign.errors import HugealignError
from hugealign.io import mounts
from hugealign.process import groups, sampling, texts
from hugealign.process import processes as proc
from hugealign.process.processes import Process
from hugealign.system import kernel
from hugealign.watch import besides, mapped_files, staged
from hugealign.watch.start import MANAGERS, Start
from hugealign.watch.verdict import Hints, Verdict, judge, judge_beside, rodata

_PAUSE = 0.1  # seconds between looks while waiting

Errors = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PsOptions:
    """What counts as text besides the program's: *libraries*, *anonymous* code.  *rodata*: look at read-only data, too.

    *page_size* is the size of a window in bytes, 0 for the kernel's huge page size.  With *min_coverage*, that many per
    cent of the bytes have to be huge; without it, all windows.
    """

    libraries: bool = False
    anonymous: bool = False
    page_size: int = 0
    min_coverage: float | None = None
    rodata: bool = False

    @property
    def window(self) -> int:
        """The size of a window in bytes."""
        return self.page_size or kernel.huge_page_size()

    def look(self, pid: int) -> Process:
        """Look at one process.  Raises ProcessError."""
        seen = proc.look(pid, self.libraries or self.anonymous, self.anonymous, self.rodata)
        return mapped_files.with_code(seen, self.window)


@dataclass(frozen=True, slots=True)
class Seen:
    """The *verdicts* on the processes that were found, and in *errors* each target that failed, with the reason."""

    verdicts: tuple[Verdict, ...]
    errors: Errors = ()

    @property
    def met(self) -> bool:
        """Whether all these processes have enough huge text."""
        return all(verdict.met for verdict in self.verdicts)


def processes(targets: Sequence[str], options: PsOptions | None = None, wait: float = 0.0) -> Seen:
    """Look at the processes that *targets* name, by PID or name.

    Look again for at most *wait* seconds, until all have enough huge text.  Targets that fail are in the result.
    """
    options = options or PsOptions()
    end = time.monotonic() + wait
    while True:
        seen, errors, coming = _look(targets, options)
        left = end - time.monotonic()
        met = not errors and all(_judge(options, process).met for process in seen)
        # Waiting helps with windows, and with names that no process has yet; with nothing else.
        if met or left <= 0 or (errors and not coming):
            return _explained(options, seen, errors)
        time.sleep(min(_PAUSE, left))


def command(
    words: Sequence[str], options: PsOptions | None = None, after: float | None = None, wait: float | None = None
) -> Seen:
    """Run the command *words* and return the last look at it, see `hugealign.process.sampling.sample`.

    With *after*, look once, that many seconds later; with *wait*, look for up to that long, until enough is huge.
    Raises ProcessError.
    """
    options = options or PsOptions()

    def enough(process: Process) -> bool:
        return _judge(options, process).met

    limit = after if wait is None else wait
    seen = sampling.sample(words, limit, None if wait is None else enough, options.look)
    return _explained(options, [seen])


def watch(targets: Sequence[str], interval: float, options: PsOptions | None = None) -> Iterator[Seen]:
    """Yield the state of *targets* every *interval* seconds until they have ended; at least once."""
    options = options or PsOptions()
    known: dict[int, int] = {}
    seen, errors, _ = _look(targets, options)
    yield _explained(options, seen, errors)
    while seen:
        known |= {process.pid: process.started for process in seen}
        time.sleep(interval)
        found, _, _ = _look(targets, options)
        # A PID in *targets* means the process that had it first.
        seen = [p for p in found if known.get(p.pid, p.started) == p.started or str(p.pid) not in targets]
        if seen:
            yield _explained(options, seen)


def watch_command(words: Sequence[str], interval: float, options: PsOptions | None = None) -> Iterator[Seen]:
    """Run the command *words* and yield a look at it every *interval* seconds until it ends.  Raises ProcessError."""
    options = options or PsOptions()
    for process in sampling.follow(words, interval, options.look):
        yield _explained(options, [process])


def _explained(options: PsOptions, seen: Sequence[Process], errors: Errors = ()) -> Seen:
    return Seen(tuple(_judge(options, process, explain=True) for process in seen), errors)


def _judge(options: PsOptions, process: Process, *, explain: bool = False) -> Verdict:
    """Judge *process*; with *explain*, also read the page cache for the reasons, and look at other large parts."""
    window = options.window
    mappings = process.text(options.libraries or options.anonymous, options.anonymous)
    cached: dict[int, bool] = {}
    short = [m for m in mappings if m.windows_huge(window) < m.windows_possible(window)]
    asked = mapped_files.asked(process, mappings, window) if short else {}
    wanted = process.rodata(options.libraries or options.anonymous) if options.rodata else ()
    constants = rodata(wanted, window) if options.rodata else None
    if not explain:
        return replace(judge(process, mappings, window, options.min_coverage, cached, asked), rodata=constants)
    if not process.thp_disabled:
        for mapping in mappings:
            cached |= mapped_files.behind(process, mapping, mapping.missing(window), window)
    parts, runtime = besides.look(process, mappings, window)

    devices = {m.path: m.device for m in (*mappings, *(m for part in parts for m in part.mappings))}

    def reachable(path: str) -> str:
        """Return the path by which we reach the file, empty if a server would have to answer first."""
        on_server = path in devices and mounts.served(os.makedev(*devices[path]), process.pid)
        if on_server or process.served or mounts.behind_server(path):
            return ""
        return f"/proc/{process.pid}/root{path}" if process.elsewhere else path

    def start(path: str) -> str:
        from hugealign.fixing import remedies  # only if a window is missing

        if os.path.basename(process.exe) in MANAGERS:
            return ""
        inside = process.elsewhere and process.exe not in staged.covered(process.pid)
        service = groups.service(texts.control_groups(process.pid))
        files = () if path == process.exe else (path,)
        program = texts.called(process.pid, process.exe_id) or process.exe
        file = reachable(path)
        found = remedies.edit(file, window) if file else None
        command = Start(program, service, inside, found is not None, files).command
        return f"{command} ({render.effect(found)})" if found else command

    def cure(path: str) -> str:
        from hugealign.fixing import remedies

        if not reachable(path):
            return ""
        if remedies.edit(path, window):
            return start(path)
        found = remedies.diagnose(path, window)
        return render.remedy(found.remedy) if found.remedy else render.sentence(found)

    hints = Hints(cure, runtime, start)
    copies = staged.states(process, mappings)
    verdict = judge(process, mappings, window, options.min_coverage, cached, asked, copies, hints)
    beside = tuple(judge_beside(process, part, window, hints) for part in parts)
    return replace(verdict, besides=beside, rodata=constants)


def _look(targets: Sequence[str], options: PsOptions) -> tuple[list[Process], Errors, bool]:
    """Return the processes, the errors, and whether all errors are names that no process has yet."""
    seen: dict[int, Process] = {}
    errors: list[tuple[str, str]] = []
    coming = True
    for target in targets:
        try:
            found = proc.find(target)
        except HugealignError as error:
            errors.append((target, str(error)))
            coming &= isinstance(error, proc.GoneError)
            continue
        named = [str(pid) for pid in found] != [target]
        failed: list[tuple[str, str]] = []
        for pid in found:
            try:
                seen[pid] = options.look(pid)
            except proc.GoneError as error:
                # Some processes of a name may end meanwhile.  If all do, the last one reports it.
                if not named or (pid == found[-1] and not failed and not seen.keys() & set(found)):
                    failed.append((target, str(error)))
            except HugealignError as error:
                failed.append((target, str(error)))
        coming &= not failed
        errors += failed
    return list(seen.values()), tuple(errors), coming
