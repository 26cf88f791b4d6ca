"""`hugealign adapt` as functions: make the hottest windows of running processes huge, within a limit.

The idea comes from kernels that cap the huge text of a process.  This does it on a stock kernel, from outside, for all
code: in files that the kernel can collapse, in staged copies, and from a JIT.
"""

import errno
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.errors import HugealignError
from hugealign.pagecache import diagnose
from hugealign.process import naming, pagemap, perf_samples, processes
from hugealign.process.advice import AdviceError, Adviser
from hugealign.process.pagemap import State
from hugealign.process.perf_samples import Samples
from hugealign.process.processes import GoneError, Process
from hugealign.process.smaps import Mapping
from hugealign.system import kernel, memory, saving
from hugealign.system.budget import budget_of
from hugealign.system.textcosts import TextCosts
from hugealign.watch import ranking, runtimes
from hugealign.watch.parts import CodeKind, CodePart, split
from hugealign.watch.ranking import Window
from hugealign.watch.reasons import Observed
from hugealign.watch.remedies import Owner, Remedies
from hugealign.watch.verdict import judge_part

SECONDS = 2.0  # of sampling
RATE = 8.0  # windows per second, at most
_WORK = 0.2  # share of the time that collapsing may take
_STEPS = 3  # most changes per window in a round
_AGAIN, _MOMENT = 4, 0.005  # more tries at splitting a window, and seconds before each; some never split

#: A window of memory that processes share: device and inode, and offset.
_Shared = tuple[tuple[int, int], int, int]


@dataclass(frozen=True, slots=True)
class AdaptOptions:
    """How many windows may be huge, how long to sample, and how fast to change windows.

    Attributes:
        windows: The most windows of executable memory that may be huge; None for as many as the processor keeps
            (`budget_of`), or more where these are known to cost nothing.
        seconds: How long to sample.
        rate: The most windows to change per second.
    """

    windows: int | None = None
    seconds: float = SECONDS
    rate: float = RATE


@dataclass(frozen=True, slots=True)
class Change:
    """The outcome for one window."""

    window: Window
    """The window as it was."""
    state: State
    """Its state now."""
    diagnosis: Diagnosis | None = None
    """Why that is not the intended state."""
    seconds: float = 0.0
    """How long the kernel took."""

    JSON = "start=window.start part=window.part samples=window.heat before=window.state after=state diagnosis"


@dataclass(frozen=True, slots=True)
class Adapted:
    """The outcome for one process."""

    pid: int
    comm: str
    most: int
    """How many windows may be huge."""
    samples: int
    windows: tuple[Window, ...] = ()
    """The windows that have a page or a sample, as they were, the hottest first."""
    changes: tuple[Change, ...] = ()
    """An entry for each window that `adapt` tried to change."""
    huge: int = 0
    """How many windows are huge now."""
    before: float = 0.0
    """The share of the samples in windows that were huge."""
    after: float = 0.0
    """The share of the same samples in windows that are huge now."""
    runtime: str = ""
    """The name of what compiled its code without a file."""
    diagnosis: Diagnosis | None = None
    """Why that code, or any, cannot be huge."""
    error: HugealignError | None = None
    """Why nothing could be done."""

    JSON = (
        "pid name=comm most windows_huge=huge samples share_before=before share_after=after met runtime? diagnosis "
        "windows=outcomes"
    )

    @property
    def outcomes(self) -> tuple[Change, ...]:
        """What became of each window."""
        changed = {change.window.start: change for change in self.changes}
        return tuple(changed.get(window.start) or Change(window, window.state) for window in self.windows)

    @property
    def met(self) -> bool:
        """Whether *most* windows are huge or no change failed, and nothing else prevented it."""
        done = self.huge == self.most or not any(change.diagnosis for change in self.changes)
        return done and not self.error and not self.diagnosis


def adapt(targets: Sequence[str], options: AdaptOptions | None = None) -> tuple[Adapted, ...]:
    """Make the hottest windows of running processes huge, once.

    Args:
        targets: PIDs, names of programs, or systemd services.
        options: What to allow; by default what the processor keeps.

    Returns:
        The outcome for each process, with a `Change` for each window.

    Raises:
        HugealignError: A target is not there, or the kernel does not allow it.
    """
    return _adapter(options).round(_find(targets))


def keep_adapting(
    targets: Sequence[str], interval: float, options: AdaptOptions | None = None
) -> Iterator[tuple[Adapted, ...]]:
    """Do as `adapt` does every *interval* seconds while the caller iterates, for the processes that exist by then."""
    adapter = _adapter(options)
    while True:
        began = time.monotonic()
        try:
            done = adapter.round(_find(targets))
        except GoneError:  # it may come back
            done = ()
        yield done
        time.sleep(max(0.0, interval - (time.monotonic() - began)))


def _adapter(options: AdaptOptions | None) -> "_Adapter":
    """Return an adapter for *options*; it asks the processor, which does not change, once for all rounds."""
    options = options or AdaptOptions()
    if options.windows is not None:
        return _Adapter(options, options.windows)
    budget = budget_of()
    return _Adapter(options, budget.windows, budget.costs)


def undo(targets: Sequence[str]) -> tuple[Adapted, ...]:
    """Split the huge windows of code without a file of the processes that *targets* name.  Raises HugealignError."""
    adapter = _Adapter(AdaptOptions(), 0)
    return tuple(adapted for pid in _find(targets) if (adapted := adapter.adapt(pid, Samples(Counter()))))


def _find(targets: Sequence[str]) -> list[int]:
    return list(dict.fromkeys(pid for target in targets for pid in naming.find(target)))


@dataclass(slots=True)
class _Adapter:
    """Make at most *most* windows huge; remember between rounds what the kernel refused, and when the last change was.

    More are huge where these cost nothing by *costs*, if they are known.
    *forbidden* says of mappings whether the program wants no huge pages there, as far as that was looked up in this
    round.  *shared* are the huge windows of shared memory.  A process that has not touched such a window since does not
    show it as huge.
    """

    options: AdaptOptions
    most: int
    costs: TextCosts | None = None
    refused: dict[tuple[int, float, int | str], int] = field(default_factory=dict)
    shared: set[_Shared] = field(default_factory=set)
    forbidden: dict[tuple[int, float, int], bool] = field(default_factory=dict)
    worked: float = 0.0
    pause: float = 0.0
    sleep: Callable[[float], None] = time.sleep

    def round(self, pids: Sequence[int]) -> tuple[Adapted, ...]:
        """Sample *pids* together, then adapt them one by one."""
        try:
            samples = perf_samples.sample_all(list(pids), self.options.seconds) if pids else {}
        except ProcessLookupError:
            samples = {}
        self.refused = {key: number for key, number in self.refused.items() if key[0] in samples}
        self.forbidden.clear()
        together = self._together(samples) if len(samples) > 1 else samples
        done = [adapted for pid, counts in together.items() if (adapted := self.adapt(pid, counts))]
        if pids and not done:
            raise GoneError.of_pid(pids[0])
        return tuple(done)

    def _together(self, samples: dict[int, Samples]) -> dict[int, Samples]:
        """Return *samples*, with samples in code that processes share counted for all of them.

        PHP's workers share the code that the JIT compiled: a window of it is huge for all or for none, so they have to
        agree on the windows.
        """
        heat: dict[tuple[tuple[int, int], int], Counter[int]] = {}
        mapped: dict[int, list[Mapping]] = {}
        self.shared.clear()
        for pid, counts in samples.items():
            with suppress(OSError, HugealignError):
                seen = _look(pid)
                mapped[pid] = [mapping for mapping in seen.mappings if _common(mapping)]
                huge = (start for start, state in _windows(seen).items() if state == State.HUGE)
                self.shared |= {key for start in huge if (key := _shared(seen, start))}
            for mapping in mapped.get(pid, ()):
                into = heat.setdefault((mapping.device, mapping.inode), Counter())
                for address, count in counts.addresses.items():
                    if mapping.start <= address < mapping.end:
                        into[address - mapping.start + mapping.offset] += count
        together = {}
        for pid, counts in samples.items():
            addresses = counts.addresses.copy()
            for mapping in mapped.get(pid, ()):
                for offset, count in heat[mapping.device, mapping.inode].items():
                    if mapping.offset <= offset < mapping.offset + mapping.size:
                        addresses[offset - mapping.offset + mapping.start] = count
            together[pid] = replace(counts, addresses=addresses)
        return together

    def adapt(self, pid: int, samples: Samples) -> Adapted | None:
        """Make the hottest windows of *pid* huge; return None if it is gone."""
        try:
            seen = _look(pid)
            with Adviser(pid) as adviser:
                if _look(pid).started != seen.started:  # another process has this PID now
                    return None
                return self._adapt(adviser, seen, samples)
        except (OSError, GoneError):
            return None
        except HugealignError as error:
            return Adapted(pid, "", self.most, samples.total, error=error)

    def _adapt(self, adviser: Adviser, seen: Process, samples: Samples) -> Adapted:
        runtime = runtimes.runtime(seen.exe, seen.files)
        windows = [
            replace(window, state=State.HUGE) if _shared(seen, window.start) in self.shared else window
            for window in ranking.windows(seen.mappings, samples.addresses)
        ]
        hot = sum(window.heat > 0 for window in windows)
        most = max(self.most, saving.windows(self.costs, self.most, hot))
        now = {window.start: window for window in windows}
        changes: dict[int, Change] = {}
        for _ in range(_STEPS * len(windows)):
            refused = frozenset(w.start for w in windows if self._key(seen, w) in self.refused)
            plan = ranking.plan(list(now.values()), most, refused)
            if not plan.split and not plan.collapse:
                break
            window, wanted = (plan.split[0], State.SMALL) if plan.split else (plan.collapse[0], State.HUGE)
            change = self._change(adviser, seen, window, wanted)
            changes[window.start] = change
            if key := _shared(seen, window.start):
                (self.shared.add if change.state == State.HUGE else self.shared.discard)(key)
            # A window that could not be split stays huge, and takes the place of another.
            now[window.start] = replace(window, state=change.state, ours=window.ours and not change.diagnosis)
        states = _states(adviser.pid)
        parts = [part for part in split(seen.exe, seen.mappings) if not part.possible()]
        nothing = not any(mapping.windows_possible for mapping in seen.mappings)
        none = next((part for part in parts if nothing or part.kind == CodeKind.CODE), None)
        diagnosis = None
        if none:
            diagnosis = self._remedied(seen, none, judge_part(none, Observed(seen.exe, runtime=runtime)).diagnoses[0])
        return Adapted(
            adviser.pid,
            seen.comm,
            most,
            samples.total,
            tuple(windows),
            tuple(changes.values()),
            sum(state == State.HUGE for state in states.values()),
            ranking.share(windows, samples.total),
            ranking.share(windows, samples.total, states),
            runtime.name if runtime else "",
            diagnosis,
        )

    def _change(self, adviser: Adviser, seen: Process, window: Window, wanted: State) -> Change:
        """Bring *window* into the state *wanted* if it is still the same memory, and read back the result."""
        size = kernel.huge_page_size()
        self._wait()
        before = _look(adviser.pid)
        if (before.exe, before.started) != (seen.exe, seen.started) or not _has(before, window.start):
            self.refused[self._key(seen, window)] = 0
            return Change(window, State.UNTOUCHED, Diagnosis("process.remapped", seen.exe, {}))
        began = time.monotonic()
        number = adviser.collapse(window.start, size) if wanted == State.HUGE else adviser.split(window.start)
        state = _states(adviser.pid).get(window.start, State.UNTOUCHED)
        # The kernel reports nothing if a process holds one of the pages at that moment, as it does itself at times
        # (split_folio in mm/madvise.c, madvise_cold_or_pageout_pte_range).  It has unmapped shared memory by then,
        # which is huge again when it is touched (unmap_folio and remap_page in mm/huge_memory.c).
        for _ in range(_AGAIN if wanted != State.HUGE else 0):
            if number or state not in (State.HUGE, State.UNTOUCHED):
                break
            self.sleep(_MOMENT)
            if state == State.HUGE:
                number = adviser.split(window.start)
            state = _states(adviser.pid).get(window.start, State.UNTOUCHED)
        self.worked = time.monotonic()
        took = self.worked - began
        self.pause = max(1 / self.options.rate, took / _WORK)
        if (state == State.HUGE) == (wanted == State.HUGE):
            return Change(window, state, seconds=took)
        if wanted == State.HUGE:
            self.refused[self._key(seen, window)] = number
            return Change(window, state, self._why_small(seen, window, number), took)
        diagnosis = _refused(seen.exe, number)
        with suppress(OSError):
            if pagemap.mapped_by_others(adviser.pid, window.start):
                diagnosis = Diagnosis("process.shared-window", seen.exe, {})
        return Change(window, state, diagnosis, took)

    def _why_small(self, seen: Process, window: Window, number: int) -> Diagnosis:
        """Return why the *window* of *seen* stayed small although it was collapsed, with the kernel's answer *number*.

        The kernel has one answer for many reasons (madvise_collapse_errno in mm/khugepaged.c), so look first.
        """
        part = next(
            part
            for part in split(seen.exe, seen.mappings)
            if any(m.start <= window.start < m.end for m in part.mappings)
        )
        mapping = next(m for m in part.mappings if m.start <= window.start < m.end)
        subject = part.path or seen.exe
        with suppress(OSError, HugealignError):
            if processes.thp_disabled(seen):
                return self._remedied(seen, part, Diagnosis("process.thp-disabled", subject, {}))
            if self._forbids(seen, mapping):
                return Diagnosis("program.small-pages", subject, {})
            if not _has(_look(seen.pid), window.start):
                return Diagnosis("process.remapped", subject, {})
        if mapping.is_file and not mapping.without_file and number == errno.EINVAL:
            start = self._remedied(seen, part, Diagnosis("cache.small-pages", subject, {}))
            return _refused(subject, number).changed(remedy=start.remedy)
        if _common(mapping) and kernel.thp_mode("shmem_enabled") == "deny":
            return diagnose.denied(subject)
        return diagnose.fragmented(subject) if memory.free_huge_pages() == 0 else _refused(subject, number)

    def _remedied(self, seen: Process, part: CodePart, diagnosis: Diagnosis) -> Diagnosis:
        owner = Owner.of(seen)
        return Remedies().find(owner, part, diagnosis, part.possible()).diagnosis

    def _forbids(self, seen: Process, mapping: Mapping) -> bool:
        """Say whether the program forbids huge pages in *mapping*; looked up once, as that may walk a large heap."""
        key = seen.pid, seen.started, mapping.start
        if key not in self.forbidden:
            self.forbidden[key] = processes.no_huge(seen.pid, mapping.start)
        return self.forbidden[key]

    def _key(self, seen: Process, window: Window) -> tuple[int, float, int | str]:
        """Return the key of a refusal: one for all windows of a file, since the file system is the reason."""
        return seen.pid, seen.started, window.part or window.start

    def _wait(self) -> None:
        self.sleep(max(0.0, self.worked + self.pause - time.monotonic()))


def _refused(subject: str, number: int) -> Diagnosis:
    """Return that the kernel refused with the error *number*, or did nothing with 0."""
    if not number:
        return Diagnosis("thp.unchanged", subject, {}, Remedy("retry"))
    retry = Remedy("retry") if number in (errno.EAGAIN, errno.EBUSY) else None
    return Diagnosis("thp.refused", subject, {"error": errno.errorcode.get(number, str(number))}, retry)


def _shared(seen: Process, start: int) -> _Shared | None:
    """Return the key that other processes know the window at *start* by; None if only this process has it."""
    for mapping in seen.mappings:
        if mapping.start <= start < mapping.end:
            return (mapping.device, mapping.inode, start - mapping.start + mapping.offset) if _common(mapping) else None
    return None


def _common(mapping: Mapping) -> bool:
    return mapping.without_file and "s" in mapping.permissions


def _look(pid: int) -> Process:
    """Return what *pid* executes that is large enough for a window."""
    with processes.failures(pid):
        seen = processes.read_large(pid)
    if seen is None:
        raise AdviceError.of(processes.about("process.little-text", pid, page_size=kernel.huge_page_size()))
    return seen


def _windows(seen: Process) -> dict[int, State]:
    return {window.start: window.state for window in ranking.windows(seen.mappings, Counter())}


def _has(seen: Process, start: int) -> bool:
    """Say whether the window at *start* is whole and executable."""
    end = start + kernel.huge_page_size()
    return any(m.start <= start and end <= m.end and m.congruent for m in seen.mappings)


def _states(pid: int) -> dict[int, State]:
    with suppress(OSError, HugealignError):
        return _windows(_look(pid))
    return {}
