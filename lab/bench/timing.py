"""Times two commands side by side, decides what the result supports, and prints it."""

import math
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from tests.support import HUGEALIGN, environment

_HEADER = f"{'milliseconds (medians)':34} {'plain':>9} {'hugealign':>9} {'more':>8} {'ratio':>8} {'of min':>8}  95 %"

PROCESSOR_TIME = ", processor time"  # behind the title of a row


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as long one takes as the other, with its 95 % confidence interval, or as `paired` says."""

    ratio: float
    low: float
    high: float

    @property
    def claim(self) -> bool:
        """Whether the difference is significant: the interval excludes 1."""
        return not self.low <= 1 <= self.high

    @property
    def interval(self) -> str:
        """``1.012 to 1.057``, marked if nothing follows from it."""
        return f"{self.low:.3f} to {self.high:.3f}{'' if self.claim else ', no claim'}"

    def __str__(self) -> str:
        """Return ``1.034 (1.012 to 1.057)``, marked if nothing follows from it."""
        text = f"{self.ratio:.3f} ({self.low:.3f} to {self.high:.3f})"
        return text if self.claim else f"{text}, no claim"


def paired(plain: Sequence[float], ours: Sequence[float], comparisons: int = 1) -> Ratio:
    """Return *ours* by *plain*, taken in turn: the mean of the logarithms of the ratios, and Student's interval.

    A slowdown of the machine that outlasts a pair of runs cancels in a ratio; with logarithms, twice as long and half
    as long are equally far from equal.  With several *comparisons*, all intervals together hold their ratios with 95 %:
    each has a share of the other 5 % (Bonferroni).
    """
    if len(plain) != len(ours) or len(plain) < 2:
        raise ValueError("two or more pairs are needed")
    logs = [math.log(b / a) for a, b in zip(plain, ours, strict=True)]
    mean = statistics.fmean(logs)
    reach = student(1 - 0.05 / comparisons, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Ratio(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach))


def student(confidence: float, freedom: int) -> float:
    """Return the two-sided t of Student's distribution with *freedom* degrees for a *confidence*."""
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        low, high = (angle, high) if _within(angle, freedom) < confidence else (low, angle)
    return math.sqrt(freedom) * math.tan(low)


def _within(angle: float, freedom: int) -> float:
    """Return the probability that |t| < sqrt(*freedom*) tan(*angle*): Abramowitz and Stegun, 26.7.3, 26.7.4."""
    odd = freedom % 2
    term = total = math.cos(angle) * (freedom > 1) if odd else 1.0
    for at in range(1 + odd, freedom - 2, 2):
        term *= math.cos(angle) ** 2 * at / (at + 1)
        total += term
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a command: seconds on the clock, and of processor time, with all processes that it waited for.

    *memory* is the peak of the largest of these processes, in MiB.
    """

    wall: float
    cpu: float
    memory: int = 0


def cost(
    argv: Sequence[str], cwd: Path, env: dict[str, str] | None = None, output: int | IO[str] = subprocess.DEVNULL
) -> Cost:
    """Run a command that must succeed and return its cost; its standard output goes to *output*."""
    began = time.perf_counter()
    process = subprocess.Popen(
        list(argv),
        cwd=cwd,
        env=environment() if env is None else env,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
    )
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(argv))
    return Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss >> 10)


Timed = Callable[[], Cost]


def in_turn(commands: Sequence[Timed], rounds: int) -> list[list[Cost]]:
    """Run each of *commands* once uncounted, then all in turn, *rounds* times; return the costs of each."""
    for command in commands:
        command()
    costs: list[list[Cost]] = [[] for _ in commands]
    for number in range(rounds):
        # Every other round runs backwards: this shares out what each command leaves in caches.
        for at in range(len(commands)) if number % 2 == 0 else range(len(commands) - 1, -1, -1):
            costs[at].append(commands[at]())
    return costs


def milliseconds(argv: list[str], cwd: Path) -> float:
    """Run a command that must succeed and return its wall time."""
    return cost(argv, cwd).wall * 1000


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a benchmark: median milliseconds of a plain command, and of ours; *versus* compares the two.

    *of_shortest* is the ratio of the shortest times, and *older* compares ours with an older version of it.
    """

    title: str
    ours: float
    plain: float | None = None
    versus: Ratio | None = None
    of_shortest: float | None = None
    older: Ratio | None = None

    def __str__(self) -> str:
        """Return the line."""
        if self.plain is None or self.versus is None:
            return f"{self.title:34} {'--':>9} {self.ours:9.1f}"
        more, ratio = self.ours - self.plain, self.ours / self.plain
        times = f"{self.plain:9.1f} {self.ours:9.1f} {more:+8.1f} {ratio:8.3f} {self.of_shortest:8.3f}"
        older = f"; of the older {self.older}" if self.older else ""
        return f"{self.title:34} {times}  {self.versus.interval}{older}"


class Table:
    """The rows of a benchmark: printed as they come, below a header, and kept.

    With *older*, the command of an older hugealign, `compare` also runs that, in turn with the others.
    """

    def __init__(self, older: str = "") -> None:
        self.older = older
        self.rows: list[Row] = []
        print(_HEADER)

    def compare(self, title: str, plain: list[str], ours: list[str], runs: int, cwd: Path) -> None:
        """Run both in turn, in alternating order, and add a row.

        A command that always ran second would always find what the first left behind, such as pages to write back.
        """
        commands = [plain, ours]
        if self.older and str(HUGEALIGN) in ours and str(HUGEALIGN) not in plain:
            commands.append([self.older if word == str(HUGEALIGN) else word for word in ours])
        costs = in_turn([partial(cost, words, cwd) for words in commands], runs)
        self.show(title, *([item.wall * 1000 for item in side] for side in costs))

    def show(self, title: str, plain: Sequence[float], ours: Sequence[float], older: Sequence[float] = ()) -> None:
        """Add the row of *title*: milliseconds, taken in turn."""
        before = paired(older, ours) if older else None
        shortest = min(ours) / min(plain)
        self._add(Row(title, statistics.median(ours), statistics.median(plain), paired(plain, ours), shortest, before))

    def both(self, title: str, plain: Sequence[Cost], ours: Sequence[Cost]) -> None:
        """Add two rows of *title*: time on the clock, and processor time."""
        self.show(title, *([item.wall * 1000 for item in side] for side in (plain, ours)))
        self.show(f"{title}{PROCESSOR_TIME}", *([item.cpu * 1000 for item in side] for side in (plain, ours)))

    def alone(self, title: str, milliseconds: Sequence[float]) -> None:
        """Add a row without a comparison."""
        self._add(Row(title, statistics.median(milliseconds)))

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        print(row, flush=True)
