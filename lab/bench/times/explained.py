"""What explains a build's time: instructions, taken branches, cache lines, pages and misses of one run of it."""

import dataclasses
from array import array
from pathlib import Path

from hugealign_lab.files import find
from hugealign_lab.replay import ELSEWHERE, FUNCTION, Replay
from hugealign_lab.tracefile import open_trace
from lab.bench import timing
from lab.bench.times.builds import Run
from tests.support import HUGEALIGN

_LINE, _PAGE = 64, 4096


@dataclasses.dataclass(frozen=True, slots=True)
class Explained:
    """A run of a build.

    Attributes:
        instructions: Those that ran, in thousands, with those of libraries.
        branches: The taken branches, calls and returns of the program itself, in thousands.
        lines: The cache lines of its code that ran.
        pages: The pages of 4 KiB of its code that ran.
    """

    instructions: int
    branches: int
    lines: int
    pages: int


def explain(path: Path, run: Run, directory: Path) -> Explained:
    """Record the *run* with *path* in *directory*, and count."""
    record = directory / "explained.trace"
    timing.cost(run.words(str(HUGEALIGN), "trace", "-o", record.name, "--", str(path)), directory)
    trace = open_trace(str(record))
    file = find(trace.description.files, str(path))
    rows = list(trace.block_rows())
    owners = array("I", (FUNCTION if number == file else ELSEWHERE for _, number, _, _ in rows))
    with Replay(trace) as replay:
        replay.count_calls(owners, bytes(len(rows)), branches=True)
        replay.run()
        executions, (pairs, _) = replay.executions(), replay.calls()
        instructions = replay.totals()[1]
    record.unlink()
    taken = sum(times for (one, other), times in pairs.items() if rows[one][0] + rows[one][2] != rows[other][0])
    ran = [
        (at, at + size - 1)
        for (at, number, size, _), times in zip(rows, executions, strict=True)
        if times and number == file
    ]
    lines, pages = (
        len({unit for low, high in ran for unit in range(low // size, high // size + 1)}) for size in (_LINE, _PAGE)
    )
    return Explained(instructions // 1000, taken // 1000, lines, pages)
