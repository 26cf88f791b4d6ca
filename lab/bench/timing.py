"""Times two commands side by side, decides what the result supports, and prints it."""

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from hugealign.measuring.interval import Ratio, paired
from tests.support import HUGEALIGN, environment

_HEADER = f"{'milliseconds (medians)':34} {'plain':>9} {'hugealign':>9} {'more':>8} {'ratio':>8} {'of min':>8}  95 %"

PROCESSOR_TIME = ", processor time"  # behind the title of a row


def interval(ratio: Ratio) -> str:
    """Return ``1.012 to 1.057``, marked if nothing follows from it."""
    return f"{ratio.low:.3f} to {ratio.high:.3f}{'' if ratio.claim else ', no claim'}"


def claimed(ratio: Ratio) -> str:
    """Return ``1.034 (1.012 to 1.057)``, marked if nothing follows from it."""
    return str(ratio) if ratio.claim else f"{ratio}, no claim"


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
        older = f"; of the older {claimed(self.older)}" if self.older else ""
        return f"{self.title:34} {times}  {interval(self.versus)}{older}"


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
