"""Times two commands side by side, decides what the result supports, and prints it."""

import math
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.support import environment

_COLUMNS = f"{'milliseconds (medians)':34} {'plain':>9} {'hugealign':>9} {'more':>8} {'ratio':>8} {'of min':>8}"
HEADER = f"{_COLUMNS}  95 % of the ratio"


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


def compare(title: str, plain: list[str], ours: list[str], runs: int, cwd: Path) -> None:
    """Run both in turn, in alternating order, and print a line.

    A command that always ran second would always find what the first left behind, such as pages to write back.
    """
    costs = in_turn([lambda: cost(plain, cwd), lambda: cost(ours, cwd)], runs)
    show(title, *([item.wall * 1000 for item in side] for side in costs))


def show(title: str, plain: Sequence[float], ours: Sequence[float]) -> None:
    """Print the line of *title*: milliseconds of both, taken in turn."""
    a, b = statistics.median(plain), statistics.median(ours)
    result = paired(plain, ours)
    within = f"{result.low:.3f} to {result.high:.3f}{'' if result.claim else ', no claim'}"
    low = min(ours) / min(plain)
    print(f"{title:34} {a:9.1f} {b:9.1f} {b - a:+8.1f} {b / a:8.3f} {low:8.3f}  {within}", flush=True)


def alone(title: str, argv: list[str], runs: int, cwd: Path) -> None:
    """Time one command and print a line."""
    median = statistics.median(milliseconds(argv, cwd) for _ in range(runs))
    print(f"{title:34} {'--':>9} {median:9.1f}", flush=True)
