"""Replaying a trace under layouts, on processors: how often each would have missed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hugealign.elf.symbols import Functions
from hugealign.trace.geometry import Geometry
from hugealign.trace.placement import Placement, keys, pages
from hugealign.trace.replay import Replay
from hugealign.trace.tracefile import Trace


@dataclass(frozen=True, slots=True)
class Row:
    """One layout with its leading *windows* huge, on one processor: *misses* of the first level, and page *walks*.

    *walks* is None if the second level is not published.
    """

    layout: str
    cpu: str
    windows: int
    misses: int
    walks: int | None


@dataclass(frozen=True, slots=True)
class Simulation:
    """All rows, and of the trace the blocks and *instructions* that ran, with those outside of any file *uncovered*."""

    rows: tuple[Row, ...]
    events: int
    instructions: int
    uncovered: int


def simulate(
    trace: Trace,
    layouts: Iterable[tuple[Placement, Sequence[int]]],
    cpus: Sequence[Geometry],
    progress: Callable[[int], None] = lambda _: None,
) -> Simulation:
    """Return the misses for each layout, each of its numbers of huge windows, and each processor.

    Each thread counts as a processor of its own, whose TLBs are empty at first.  Raises TraceError.
    """
    with Replay(trace) as replay:
        machines: list[tuple[str, int, Geometry, int]] = []
        for placement, counts in layouts:
            found = pages(trace, placement)
            layout = replay.layout(found)
            for count in sorted({min(count, placement.windows) for count in counts}):
                variant = replay.variant(layout, keys(found, placement, count))
                machines += [(placement.name, count, cpu, replay.machine(variant, cpu)) for cpu in cpus]
        replay.run(progress)
        rows = []
        for name, count, cpu, machine in machines:
            misses, walks = replay.counts(machine)
            rows.append(Row(name, cpu.name, count, misses, walks if cpu.second else None))
        executions = zip(replay.executions(), trace.block_rows(), strict=True)
        uncovered = sum(times for times, (_, file, _, _) in executions if not file)
        return Simulation(tuple(rows), replay.events, replay.instructions, uncovered)


def best(rows: Iterable[Row]) -> Row:
    """Return the row of the fewest misses; of equal ones that with the fewest windows."""
    return min(rows, key=lambda row: (row.misses, row.windows))


def best_windows(trace: Trace, placement: Placement, cpu: Geometry, most: int = 16) -> tuple[int, int]:
    """Return how many leading windows, at most *most*, are best made huge, and the misses that remain.

    Raises TraceError.
    """
    row = best(simulate(trace, [(placement, range(most + 1))], [cpu]).rows)
    return row.windows, row.misses


def executed(trace: Trace) -> list[int]:
    """Return how often each block of *trace* ran, by its number.  Raises TraceError."""
    with Replay(trace) as replay:
        replay.run()
        return replay.executions()


def heat(trace: Trace, file: int, functions: Functions) -> list[int]:
    """Return the instructions that ran in each of the *functions* of the file with that number.  Raises TraceError."""
    sums = [0] * len(functions)
    for times, (address, number, _, instructions) in zip(executed(trace), trace.block_rows(), strict=True):
        if times and number == file and (index := functions.at(address)) >= 0:
            sums[index] += times * instructions
    return sums
