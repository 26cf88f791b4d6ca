"""Replays a trace under layouts, on processors: how often each would have missed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from hugealign.io.progress import silent
from hugealign_lab.geometry import Geometry, Level, Table
from hugealign_lab.placement import Placement, keys, pages
from hugealign_lab.replay import Replay
from hugealign_lab.tracefile import Trace


@dataclass(frozen=True, slots=True)
class SimulatedRow:
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
    """All rows, and the blocks (*events*) and *instructions* that ran; *uncovered* of the blocks lie in no file.

    *threads* is the number of threads with a part that counts; in *ended* of them the part ended before the thread.
    """

    rows: tuple[SimulatedRow, ...]
    events: int
    instructions: int
    uncovered: int
    threads: int
    ended: int

    def mpki(self, row: SimulatedRow) -> float:
        """Return the misses of *row* per thousand instructions."""
        return row.misses * 1000 / self.instructions if self.instructions else 0.0

    def groups(self) -> dict[tuple[str, str], list[SimulatedRow]]:
        """Return the rows of each layout on each processor."""
        groups: dict[tuple[str, str], list[SimulatedRow]] = {}
        for row in self.rows:
            groups.setdefault((row.layout, row.cpu), []).append(row)
        return groups


def simulate(
    trace: Trace,
    layouts: Iterable[tuple[Placement, Sequence[int]]],
    cpus: Sequence[Geometry],
    progress: Callable[[int], None] = silent,
    marks: bytes | None = None,
) -> Simulation:
    """Return the misses for each layout, each of its numbers of huge windows, and each processor.

    Each thread counts as a processor of its own, with empty TLBs at first; with *marks* (`part.marks`), only a part of
    it counts.  Raises TraceError.
    """
    with Replay(trace) as replay:
        if marks is not None:
            replay.part(marks)
        machines: list[tuple[str, int, Geometry, int]] = []
        for placement, counts in layouts:
            keyed = pages(trace, placement)
            layout = replay.layout(keyed)
            for count in sorted({min(count, placement.windows) for count in counts}):
                variant = replay.variant(layout, keys(keyed, placement, count))
                machines += [(placement.name, count, cpu, replay.machine(variant, cpu)) for cpu in cpus]
        replay.run(progress)
        rows = []
        for name, count, cpu, machine in machines:
            misses, walks = replay.counts(machine)
            rows.append(SimulatedRow(name, cpu.name, count, misses, walks if cpu.second else None))
        executions = zip(replay.executions(), trace.block_rows(), strict=True)
        uncovered = sum(times for times, (_, file, _, _) in executions if not file)
        events, instructions, threads, ended = replay.totals()
        return Simulation(tuple(rows), events, instructions, uncovered, threads, ended)


def best(rows: Iterable[SimulatedRow]) -> SimulatedRow:
    """Return the row with the fewest misses; of equal rows, the one with the fewest windows."""
    return min(rows, key=lambda row: (row.misses, row.windows))


def without(cpu: Geometry, reserve: int) -> Geometry:
    """Return *cpu* without *reserve* first-level entries for huge pages, which others hold; at least one is left.

    In a table with sets it is unknown which sets hold them, so each set loses enough ways to make up for *reserve*.
    """
    table = cpu.first.table(huge=True)
    left = Table(table.sets, max(1, table.ways - -(-reserve // table.sets)))
    return replace(cpu, first=Level(left, None) if cpu.first.huge is None else Level(cpu.first.small, left))
