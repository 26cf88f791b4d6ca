"""Judge a process by its smaps and page map: pure functions, no I/O."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, replace
from itertools import pairwise

from hugealign.io.units import are, counted, format_size, printable
from hugealign.process.pagemap import State
from hugealign.process.processes import Process
from hugealign.process.smaps import Mapping, coverage
from hugealign.watch import runtimes
from hugealign.watch.parts import CodeKind, CodePart, split
from hugealign.watch.runtimes import Runtime
from hugealign.watch.staged import OLDER, REPLACED

RESTART = "start it again"
DELETED = "its file was deleted or replaced since it started"
_OUTDATED = {
    REPLACED: f"{DELETED}: it runs from a staged copy of the old one",
    OLDER: "its staged copy is of an older file",
}


@dataclass(frozen=True, slots=True)
class Hints:
    """Where to look for remedies: *cure* for a file without a whole window, *runtime* for code without a file.

    *start* starts the process again so that the file at a path is huge.
    """

    cure: Callable[[str], str]
    runtime: Runtime | None = None
    start: Callable[[str], str] | None = None


@dataclass(frozen=True, slots=True)
class Beside:
    """A large *part* of a process besides its program: its *name* for people, and the same facts as in a `Verdict`."""

    part: CodePart
    name: str
    windows: int
    possible: int
    reason: str
    mend: str

    @property
    def line(self) -> str:
        """The part and its state for people, without the remedy."""
        count = len(self.part.mappings)
        pieces = f" in {count} mappings" if count > 1 else ""
        state = f"{self.windows} of {self.possible} windows huge" if self.possible else "no window can be huge"
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.name}, {format_size(self.part.text)}{pieces}: {state}{reason}"


@dataclass(frozen=True, slots=True)
class WindowRun:
    """Adjacent windows that are alike: *count* of them from the address *start*.

    *reason* says why they are not huge, *mend* what to do; both fit a terminal, and are empty for huge windows.
    *beyond*: the build of the file does not ask for these windows.
    """

    start: int
    count: int
    state: State
    reason: str
    mend: str
    beyond: bool = False


@dataclass(frozen=True, slots=True)
class Rodata:
    """Read-only data: *size* and *huge* are bytes, *windows* is the number of huge windows, *possible* that of all."""

    mappings: tuple[Mapping, ...]
    size: int
    huge: int
    windows: int
    possible: int

    @property
    def line(self) -> str:
        """The same for people."""
        size = f"{format_size(self.huge)} of {format_size(self.size)}"
        return f"read-only data: {self.windows} of {self.possible} windows {are(self.windows)} huge ({size})"


def rodata(mappings: tuple[Mapping, ...], page_size: int) -> Rodata:
    """Return the state of the read-only *mappings*; they never count as text."""
    return Rodata(
        mappings,
        sum(m.size for m in mappings),
        sum(m.huge for m in mappings),
        sum(m.windows_huge(page_size) for m in mappings),
        sum(m.windows_possible(page_size) for m in mappings),
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of one process.

    *text* and *huge* are bytes.  *windows* is the number of huge windows, *possible* the number of all windows;
    *wanted* is the number that the builds of the files ask for, which is all unless an order says otherwise, and *held*
    is how many of these are huge.  *met*: the process has as much huge text as was asked for.

    *reasons* say why windows are not huge and what to do, each with its number of windows, the largest first; empty if
    all are huge.  *runs* are the windows of each mapping, or None where only counts are known.  *staged* has, by
    address, the state of each mapping of a staged copy (`hugealign.watch.staged`).  *besides* are large parts that were
    not asked for, and *rodata*, None if not asked for, is the read-only data; neither counts in any other field.
    *without* is how many bytes of the text are in files that have no window, though others have.
    """

    process: Process
    mappings: tuple[Mapping, ...]
    text: int
    huge: int
    windows: int
    possible: int
    wanted: int
    held: int
    met: bool
    reasons: tuple[tuple[int, str, str], ...]
    runs: tuple[tuple[WindowRun, ...] | None, ...]
    staged: MappingOf[int, str]
    besides: tuple[Beside, ...] = ()
    rodata: Rodata | None = None
    without: int = 0

    @property
    def reason(self) -> str:
        """The reason why most of the small windows are not huge."""
        return self.reasons[0][1] if self.reasons else ""

    @property
    def mend(self) -> str:
        """What to do about `reason`."""
        return self.reasons[0][2] if self.reasons else ""

    @property
    def line(self) -> str:
        """The verdict in words, with reasons and remedies on lines of their own."""
        name = f"{printable(self.process.comm)}[{self.process.pid}]"
        if not self.possible:
            head = f"{name}: no window can be huge"
        else:
            which, rest = "windows", ""
            if self.wanted < self.possible:
                which, rest = "windows that its build asks for", f" (it has {self.possible})"
            share = "all" if self.held == self.wanted else f"{self.held} of"
            head = f"{name}: {share} {self.wanted} {which} {are(self.held)} huge{rest}"
            if self.held == self.wanted == 1:
                one = f"the one window{which.removeprefix('windows')}" if rest else "its one window"
                head = f"{name}: {one} is huge{rest}"
        if self.without:
            head += f"; {format_size(self.without)} of text have none"
        several = len(self.reasons) > 1
        lines = [head]
        for count, reason, mend in self.reasons:
            lines.append(f"  {counted(count, 'window')}: {reason}" if several and count else f"  {reason}")
            if mend:
                lines.append(f"  {mend}")
        outdated = [_OUTDATED[state] for state in (REPLACED, OLDER) if state in self.staged.values()]
        if outdated and not any(mend == RESTART for _, _, mend in self.reasons):
            lines += [f"  {outdated[0]}", f"  {RESTART}"]
        for beside in self.besides:
            lines += [f"  besides: {beside.line}", *([f"    {beside.mend}"] if beside.mend else [])]
        return "\n".join(lines)


def judge(
    process: Process,
    mappings: tuple[Mapping, ...],
    page_size: int,
    min_coverage: float | None = None,
    cached: MappingOf[int, bool] | None = None,
    asked: MappingOf[int, int] | None = None,
    staged: MappingOf[int, str] | None = None,
    hints: Hints | None = None,
) -> Verdict:
    """Return the verdict on *mappings* of *process*.

    It is met if there are windows of *page_size* bytes and all are huge; with *min_coverage*, if that many per cent of
    the text bytes are.  Three arguments map addresses: *cached* says whether the page cache has a window huge, *asked*
    how many leading windows of a mapping have to be huge, if not all, and *staged* which kind of copy a mapping is.
    With *hints*, the verdict on a process without a possible window says how to get one.
    """
    asked = asked or {}
    text = sum(m.size for m in mappings)
    huge = sum(m.huge for m in mappings)
    windows = sum(m.windows_huge(page_size) for m in mappings)
    possible = sum(m.windows_possible(page_size) for m in mappings)
    wanted = held = 0
    for m in mappings:
        leading = min(asked.get(m.start, m.windows_possible(page_size)), m.windows_possible(page_size))
        wanted += leading
        known = m.touched(page_size)
        if known is None:
            held += min(m.windows_huge(page_size), leading)
        else:
            behind = m.leading(page_size, leading)
            held += sum(state == State.HUGE for index, state in known.items() if index < behind)
    full = 0 < wanted == held
    # A file that has no window at all is in none of these numbers.
    without = [p for p in split(process.exe, mappings) if possible and p.text >= page_size > 0 == p.possible(page_size)]
    enough = full and not without
    met = enough if min_coverage is None else text > 0 and coverage(huge, text) >= min_coverage
    runs = tuple(_runs(process, m, page_size, cached or {}, asked.get(m.start), hints) for m in mappings)
    reasons: tuple[tuple[int, str, str], ...] = ()
    if not full:
        exact = possible and None not in runs
        reasons = _grouped(runs) if exact else ((wanted - held, *_shortfall(process, mappings, page_size, hints)),)
    reasons += tuple((0, *_shortfall(process, part.mappings, page_size, hints)) for part in without)
    return Verdict(
        process,
        mappings,
        text,
        huge,
        windows,
        possible,
        wanted,
        held,
        met,
        reasons,
        runs,
        staged or {},
        without=sum(part.text for part in without),
    )


def judge_beside(process: Process, part: CodePart, page_size: int, hints: Hints) -> Beside:
    """Return the facts about a large *part* of *process* that is not its program."""
    found = judge(process, part.mappings, page_size, hints=hints)
    name = runtimes.code_name(hints.runtime) if part.kind == CodeKind.CODE else printable(part.path.rpartition("/")[2])
    # The line begins with the name, so the reason need not repeat it.
    reason = found.reason.removeprefix(f"{name}, ").partition(", is ")[2] or found.reason
    return Beside(part, name, found.windows, found.possible, reason, found.mend)


def why_none(mapping: Mapping, page_size: int) -> str:
    """Return why *mapping* has no window that could be huge."""
    if mapping.size < page_size:
        return f"below {format_size(page_size)}"
    return "no whole window" if mapping.congruent(page_size) else "not aligned"


def _runs(
    process: Process,
    mapping: Mapping,
    page_size: int,
    cached: MappingOf[int, bool],
    asked: int | None,
    hints: Hints | None,
) -> tuple[WindowRun, ...] | None:
    known = mapping.touched(page_size)
    if known is None:
        return None
    first, whole = mapping.first_window(page_size), mapping.whole(page_size)
    runs: list[WindowRun] = []
    behind = None if asked is None else mapping.leading(page_size, asked)
    for index, end in (pair for part in whole for pair in _alike(known, cached, behind, first, part, page_size)):
        address, state = first + index * page_size, known.get(index, State.UNTOUCHED)
        if behind is not None and index >= behind and state != State.HUGE:
            run = WindowRun(address, end - index, state, "not asked for by its build", "", True)
        else:
            run = WindowRun(address, end - index, state, *_why(process, mapping, state, cached.get(address), hints))
        adjacent = runs and runs[-1].start + runs[-1].count * page_size == address
        if adjacent and replace(run, start=runs[-1].start, count=runs[-1].count) == runs[-1]:
            runs[-1] = replace(runs[-1], count=runs[-1].count + run.count)
        else:
            runs.append(run)
    return tuple(runs)


def _alike(
    known: MappingOf[int, State],
    cached: MappingOf[int, bool],
    asked: int | None,
    first: int,
    numbers: range,
    page_size: int,
) -> Iterator[tuple[int, int]]:
    """Yield ranges of the windows *numbers* that are surely alike: the first number, and the number after the last.

    Untouched windows with nothing *cached* come as one range, since there may be millions of them.
    """
    indices = {*known, *((address - first) // page_size for address in cached)}
    ends = {edge for index in indices for edge in (index, index + 1)} | ({asked} if asked else set())
    return pairwise(sorted({edge for edge in ends if edge in numbers} | {numbers.start, numbers.stop}))


def _why(process: Process, mapping: Mapping, state: State, cached: bool | None, hints: Hints | None) -> tuple[str, str]:
    """Return why a window in *state* is not huge, and the remedy; *cached*: whether the page cache has it huge."""
    if state == State.HUGE:
        return "", ""
    if process.thp_disabled:
        return "huge pages are disabled for it: prctl(PR_SET_THP_DISABLE)", "start it without that"
    if mapping.no_huge:
        return "the program asked for small pages: madvise(MADV_NOHUGEPAGE)", ""
    if state == State.WRITTEN:
        return "it has written to the text: a breakpoint, a probe or a relocation", RESTART
    if mapping.without_file:
        if state == State.UNTOUCHED:
            return "not touched yet", ""
        if mapping.own:
            return "its copy of its own text is on small pages", f"run: hugealign adapt {process.pid}"
        found = hints.runtime if hints else None
        return f"{runtimes.code_name(found)} is on small pages", runtimes.mend(found, str(process.pid), windows=True)
    if mapping.deleted and not cached:
        return DELETED, RESTART
    if state == State.UNTOUCHED:
        if cached is not False:
            return "not touched yet", "look again later"
        warm = _there(process, f"run: hugealign warm {_name(mapping)}")
        return "not touched yet, and not warmed", hints.start(mapping.path) if hints and hints.start else warm
    if cached:
        return "the page cache has it huge, but it was mapped in small pages", RESTART
    if hints and hints.start:
        return "the page cache holds its text in small pages", hints.start(mapping.path)
    warm = f"hugealign warm {_name(mapping)}"
    if process.elsewhere:
        return "the page cache holds its text in small pages", _there(process, f"stop it, then run: {warm}")
    return "the page cache holds its text in small pages", f"stop it, then: {warm}"


def _there(process: Process, words: str) -> str:
    return f"in its container or mount namespace, {words}" if process.elsewhere else words


def _base(mapping: Mapping) -> str:
    return printable(mapping.path.rpartition("/")[2])


def _name(mapping: Mapping) -> str:
    return printable(shlex.quote(mapping.path))


def _grouped(runs: tuple[tuple[WindowRun, ...] | None, ...]) -> tuple[tuple[int, str, str], ...]:
    counts: Counter[tuple[str, str]] = Counter()
    for run in (run for of_mapping in runs for run in of_mapping or ()):
        if run.reason and not run.beyond:
            counts[run.reason, run.mend] += run.count
    return tuple((count, *words) for words, count in counts.most_common())


def _shortfall(process: Process, mappings: tuple[Mapping, ...], page_size: int, hints: Hints | None) -> tuple[str, str]:
    """Return why windows are not huge, and the remedy, where no window is possible or only counts are known."""
    short = [m for m in mappings if m.windows_huge(page_size) < m.windows_possible(page_size)]
    # The program goes before its libraries, unless only these are large enough to have windows.
    worst = max(short or mappings, key=lambda m: (m.size >= page_size, process.is_program(m), m.size), default=None)
    if worst is None:
        return "it maps no text of its program", "look with --all: other code may have taken its place"
    if not short:
        if worst.without_file and not process.is_program(worst):
            found = hints.runtime if hints else None
            return runtimes.why_none(found), runtimes.mend(found, str(process.pid), windows=False)
        if worst.deleted and worst.size >= page_size:
            return DELETED, RESTART
        path = f"/proc/{process.pid}/root{worst.path}" if process.elsewhere else worst.path
        if worst.size < page_size:
            mend = ""
        elif hints and worst.is_file and not worst.deleted and not (process.elsewhere or process.served):
            mend = hints.cure(path)
        else:
            mend = f"see: hugealign verify {printable(shlex.quote(path))}"
        whose = "its text" if process.is_program(worst) or not worst.path else _base(worst)
        return f"{whose}, {format_size(worst.size)}, is {why_none(worst, page_size)}", mend
    if process.thp_disabled or worst.no_huge or worst.deleted:
        return _why(process, worst, State.SMALL, None, hints)
    if not any(m.small for m in short):
        return "what is in use is huge; the other windows were not touched yet", "look again later"
    if worst.is_file and all(m.small <= m.size - m.windows_possible(page_size) * page_size for m in short):
        # The small pages may all be in head and tail.
        check = f"see: hugealign warm --check {_name(worst)}"
        return "the others are in small pages, or not touched yet", _there(process, check)
    return _why(process, worst, State.SMALL, None, hints)
