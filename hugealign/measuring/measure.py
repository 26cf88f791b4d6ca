"""`hugealign measure` as a function: a command by turns on small pages, on huge ones, and from other builds."""

import math
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

from hugealign.diagnosis.refusal import RefusalError
from hugealign.diagnosis.values import COMMAND, Diagnosis
from hugealign.environment import as_given
from hugealign.errors import HugealignError, NotRunnableError
from hugealign.io.execution import binary, which
from hugealign.io.regular import opened
from hugealign.io.units import printable
from hugealign.measuring.interval import Ratio, effects, of_copies
from hugealign.measuring.runner import Cost, Overlay, RunError, Runner, Work
from hugealign.pagecache import diagnose
from hugealign.pagecache import measure as cached
from hugealign.pagecache.warm import WarmOptions, cool, warm
from hugealign.process import processes
from hugealign.run import copies, launch
from hugealign.run.copies import StagedFile
from hugealign.run.launch import LaunchOptions
from hugealign.system import namespace

#: The names of the first sides; others are paths.
SMALL, HUGE = "small pages", "huge pages"
COPIES, WITHIN, SECONDS = 4, 0.01, 60.0
_LEAST_ROUNDS, _LEAST_COPIES = 3, 2
_BATCH = 0.1  # seconds of processor time from which a single run is measured: shorter ones are run several times
_MOST_RUNS = 200  # of a batch
_LOOK = 0.01  # seconds between looks at a process

Progress = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """What to measure, and for how long.

    Attributes:
        files: Which files are copied, as `hugealign run` would: its *libs*, *files* and *fix*.
        builds: Other builds of the program to compare, each one or more files: placements of the same code.
        load: A command that the program, a server, serves; then only what the server spends meanwhile counts.
        copies: How many copies of each file to make for each side.
        rounds: How many rounds to run; by default until the interval is narrow, or the seconds are over.
        seconds: After this time no further round begins, except for the least number of rounds.
        within: Half the width of the interval that is narrow enough, as a share of the ratio.
    """

    files: LaunchOptions = field(default_factory=LaunchOptions)
    builds: tuple[tuple[str, ...], ...] = ()
    load: tuple[str, ...] = ()
    copies: int = COPIES
    rounds: int | None = None
    seconds: float = SECONDS
    within: float = WITHIN


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison, and what it cost."""

    name: str
    windows: int
    """Windows of text in its copies."""
    huge: int
    """Of these, those that the page cache holds as huge pages."""
    seen: int | None
    """Huge windows in one process of the command; None if all ended before a look."""
    cpu: float
    """The median processor time of a run, in seconds."""
    wall: float
    """The median time of a run on the clock, in seconds."""
    faults: float
    """The mean number of page faults of a run."""
    spread: float
    """By how much the processor time of identical copies differs, as a share."""
    of_first: Ratio | None = None
    """Its processor time by that of the first side; None for the first."""
    wall_of_first: Ratio | None = None
    """Its time on the clock by that of the first side; None for the first."""

    JSON = "name windows huge huge_seen=seen cpu wall faults spread cpu_of_first=of_first wall_of_first"


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a command took on small pages, on huge pages, and from other builds."""

    command: tuple[str, ...]
    sides: tuple[Side, ...]
    """Small pages, huge pages, then each other build."""
    files: int
    """How many files were copied, or made huge in place."""
    copies: int
    """How many copies of each file a side had."""
    rounds: int
    """How many times each copy was measured."""
    runs: int
    """How many runs of the command one measurement has."""
    in_place: bool = False
    """Whether no copies could be made, so that the files themselves were made huge and small by turns."""

    SCHEMA = "hugealign.measure/1"
    JSON = "command faster sides files copies rounds runs in_place"

    @property
    def faster(self) -> bool:
        """Whether some side is shown to be faster than the first."""
        return any(side.of_first is not None and side.of_first.high < 1 for side in self.sides)


@dataclass(slots=True)
class _Trial:
    """A side while it is measured: its *runners*, one for each copy.

    Where there are no copies, *prepare* makes the files themselves huge or small; it returns how many windows are huge.
    """

    name: str
    runners: list[Runner]
    prepare: Callable[[], int] | None = None
    prepared: int = 0
    seen: int | None = None

    def cost(self, runner: Runner, runs: int, seen: Callable[[int], object] = lambda _: None) -> Cost:
        """Run the command so often on *runner*; *seen* is called with the PID of the first run."""
        if self.prepare:
            self.prepared = self.prepare()
        return runner.run(runs, seen)

    @property
    def huge(self) -> int:
        """How many windows of the files are huge."""
        return self.prepared if self.prepare else min(runner.huge for runner in self.runners)


def measure(
    command: Sequence[str], options: MeasureOptions | None = None, progress: Progress = lambda _: None
) -> Measurement:
    """Run *command* by turns on small and on huge pages, and return what that does to its time.

    Both sides run from copies of the same bytes at the same path, several copies of each, in random order.

    Args:
        command: The program and its arguments.  It has to succeed, and to need neither input nor a terminal.
        options: What to measure, and for how long.
        progress: Called with a line of text as the rounds go on.

    Raises:
        RunError: The command fails, or leaves processes behind.
        HugealignError: There is nothing to compare, or no copies can be made.
    """
    options = options or MeasureOptions()
    work = Work(command, as_given(), options.load)
    if which(command[0]) is None:
        raise NotRunnableError(f"{printable(command[0])}: command not found", 127)
    with ExitStack() as stack:
        program = binary(command[0])
        files = launch.originals(stack, program, options.files)
        if not files and not options.builds:
            raise RefusalError.of(_nothing(command[0], program, options.files))
        if cached.huge_pages_disabled():
            raise RefusalError.of(diagnose.disabled(os.path.realpath(program or command[0])))
        in_place = bool(namespace.refusal())
        trials = list(
            _in_place(stack, work, files, options) if in_place else _copied(stack, work, program, files, options)
        )
        runs = _warm_up(trials, progress)
        rounds = _rounds(trials, runs, options, progress)
        count = len(files) or 1
        return Measurement(
            tuple(command), _sides(trials, rounds), count, len(trials[0].runners), len(rounds), runs, in_place
        )


def _nothing(word: str, program: str | None, options: LaunchOptions) -> Diagnosis:
    path = os.path.realpath(program) if program else word
    named = [word for name in options.files for word in ("--file", name)]
    fix = () if options.fix else ("--fix",)
    return copies.without_windows(path, "hugealign", "measure", *fix, *named, "--", needs=COMMAND)


def _copied(
    stack: ExitStack, work: Work, program: str | None, files: Sequence[StagedFile], options: MeasureOptions
) -> Iterator[_Trial]:
    """Yield the sides that run from copies, which go with *stack*."""
    same, path = [Overlay(file.path, file) for file in files], os.path.realpath(program or "")
    if options.builds and path not in (overlay.path for overlay in same):
        if program is None:
            raise RunError(f"{printable(work.words[0])}: not a program that another build can replace")
        same.append(Overlay(path, _build(stack, path, options.files)))  # the copies of each also lie elsewhere
    sides = ((SMALL, False), (HUGE, True)) if files else ((SMALL, False),)
    for name, huge in sides:
        runners = [stack.enter_context(Runner(work, same, huge=huge)) for _ in range(options.copies)]
        yield _Trial(name, runners)
    others = [overlay for overlay in same if overlay.path != path]
    for build in options.builds:
        placed = [Overlay(path, _build(stack, other, options.files)) for other in build]
        runners = [
            stack.enter_context(Runner(work, [placed[number % len(placed)], *others], huge=True))
            for number in range(max(options.copies, len(placed)))
        ]
        yield _Trial(build[0], runners)


def _build(stack: ExitStack, path: str, options: LaunchOptions) -> StagedFile:
    fd = stack.enter_context(opened(path))
    fixes = copies.Fixes() if options.fix else None
    return copies.source(os.path.realpath(path), fd, fixes) or StagedFile(path, fd, os.fstat(fd), 0)


def _in_place(stack: ExitStack, work: Work, files: Sequence[StagedFile], options: MeasureOptions) -> Iterator[_Trial]:
    """Yield the sides where no mounts are allowed: the page cache holds the files in huge pages, or in small ones.

    Each time their pages are read anew, and lie elsewhere, so each round counts as a copy.
    """
    refusal = namespace.refusal()
    if refusal and (options.builds or options.files.fix):
        raise RefusalError.of(refusal)
    runner = stack.enter_context(Runner(work, (), huge=False))
    paths = [file.path for file in files]
    runner.windows = sum(file.windows for file in files)

    def huge() -> int:
        return sum(warm(path, WarmOptions(explain=False)).huge for path in paths)

    def small() -> int:
        done = [cool(path) for path in paths]
        for text in done:
            if text.huge and text.diagnosis:
                raise RefusalError.of(text.diagnosis)
        return sum(text.huge for text in done)

    were_huge = [path for path in paths if warm(path, WarmOptions(check=True, explain=False)).huge]
    stack.callback(lambda: [cool(path) if path not in were_huge else warm(path) for path in paths])
    yield _Trial(SMALL, [runner], small)
    yield _Trial(HUGE, [runner], huge)


def _warm_up(trials: Sequence[_Trial], progress: Progress) -> int:
    """Run each copy once, and return how many runs one measurement takes."""
    most = 0.0
    for trial in trials:
        for runner in trial.runners:
            progress(f"warming up, {trial.name}")
            before = time.perf_counter()

            def look(pid: int, trial: _Trial = trial, runner: Runner = runner) -> None:
                _look(pid, trial, runner)

            cost = trial.cost(runner, 1, look)
            most = max(most, cost.cpu, time.perf_counter() - before)
    return max(1, min(_MOST_RUNS, math.ceil(_BATCH / max(most, 1e-4))))


def _look(pid: int, trial: _Trial, runner: Runner) -> None:
    """Count the huge windows that the process *pid* has at most, as long as it runs."""
    pause = _LOOK / 8
    while runner.running:
        with suppress(OSError, HugealignError):
            seen = processes.read(pid, libraries=True)
            huge = sum(mapping.windows_huge for mapping in seen.mappings)
            trial.seen = max(trial.seen or 0, huge)
        time.sleep(pause)
        pause = min(2 * pause, 0.5)


_Round = Mapping[tuple[int, int], Cost]


def _rounds(trials: Sequence[_Trial], runs: int, options: MeasureOptions, progress: Progress) -> list[_Round]:
    """Run all copies of all sides in random order, round by round, until there are enough."""
    order = [(side, copy) for side, trial in enumerate(trials) for copy in range(len(trial.runners))]
    rounds: list[_Round] = []
    chance, began = random.Random(), time.monotonic()  # noqa: S311  # an order of runs
    least = options.rounds or _LEAST_ROUNDS
    try:
        while len(rounds) < least or not _enough(trials, rounds, options, time.monotonic() - began):
            chance.shuffle(order)
            costs: dict[tuple[int, int], Cost] = {}
            for side, copy in order:
                progress(_state(trials, rounds, len(costs), len(order)))
                costs[side, copy] = trials[side].cost(trials[side].runners[copy], runs)
            rounds.append(costs)
    except KeyboardInterrupt:  # what is known by now is the result
        if len(rounds) < _LEAST_COPIES:
            raise
    return rounds


def _enough(trials: Sequence[_Trial], rounds: Sequence[_Round], options: MeasureOptions, passed: float) -> bool:
    if options.rounds:
        return True
    ratios = [ratio for ratio in _ratios(trials, rounds, _cpu) if ratio]
    return passed >= options.seconds or all(ratio.reach <= options.within for ratio in ratios)


def _state(trials: Sequence[_Trial], rounds: Sequence[_Round], done: int, total: int) -> str:
    text = f"round {len(rounds) + 1}, {done} of {total} runs"
    if len(rounds) >= _LEAST_COPIES:
        now = ", ".join(f"{ratio}" for ratio in _ratios(trials, rounds, _cpu) if ratio)
        text += f"; of the time on small pages: {now}"
    return text


def _cpu(cost: Cost) -> float:
    return max(cost.cpu, 1e-9)


def _wall(cost: Cost) -> float:
    return max(cost.wall, 1e-9)


def _ratios(trials: Sequence[_Trial], rounds: Sequence[_Round], of: Callable[[Cost], float]) -> list[Ratio | None]:
    """Return for each side its time by that of the first; None for the first."""
    sides = _effects(trials, rounds, of)
    return [None, *(of_copies(sides[0], side) for side in sides[1:])]


def _effects(trials: Sequence[_Trial], rounds: Sequence[_Round], of: Callable[[Cost], float]) -> list[list[float]]:
    """Return the `effects` of the copies of each side."""
    if all(len(trial.runners) == 1 for trial in trials):  # in place: each round has copies of its own
        return [[math.log(of(costs[side, 0]) / of(costs[0, 0])) for costs in rounds] for side in range(len(trials))]
    keys = sorted(rounds[0])
    by_key = dict(zip(keys, effects([[of(costs[key]) for key in keys] for costs in rounds]), strict=True))
    return [[by_key[side, copy] for copy in range(len(trial.runners))] for side, trial in enumerate(trials)]


def _sides(trials: Sequence[_Trial], rounds: Sequence[_Round]) -> tuple[Side, ...]:
    spread = [max(side) - min(side) for side in _effects(trials, rounds, _cpu)]
    ratios = zip(_ratios(trials, rounds, _cpu), _ratios(trials, rounds, _wall), strict=True)
    sides = []
    for number, (trial, (cpu, wall)) in enumerate(zip(trials, ratios, strict=True)):
        costs = [cost for one in rounds for (side, _), cost in one.items() if side == number]
        # Only huge pages make mmap(2) place libraries at windows (`measure.text_windows`); the bytes are the same.
        same = trials[1] if number == 0 and len(trials) > 1 and trials[1].name == HUGE else trial
        sides.append(
            Side(
                trial.name,
                same.runners[0].windows,
                trial.huge,
                trial.seen,
                statistics.median(cost.cpu for cost in costs),
                statistics.median(cost.wall for cost in costs),
                statistics.fmean(cost.faults for cost in costs),
                math.expm1(spread[number]),
                cpu,
                wall,
            )
        )
    return tuple(sides)
