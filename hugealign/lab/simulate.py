"""Replaying a trace under layouts, on processors: how often each would have missed."""

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from hugealign.elf.symbols import Functions
from hugealign.lab.geometry import Geometry, Level, Table
from hugealign.lab.placement import Placement, keys, pages
from hugealign.lab.replay import ELSEWHERE, FUNCTION, NO_FUNCTION, Replay
from hugealign.lab.tracefile import Trace
from hugealign.profile.match import Matched


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
    """All rows, and of the trace the blocks and *instructions* that ran, with those outside of any file *uncovered*.

    *threads* are those of which something counts, *ended* those whose part came to its end before they did.
    """

    rows: tuple[Row, ...]
    events: int
    instructions: int
    uncovered: int
    threads: int
    ended: int


def simulate(
    trace: Trace,
    layouts: Iterable[tuple[Placement, Sequence[int]]],
    cpus: Sequence[Geometry],
    progress: Callable[[int], None] = lambda _: None,
    marks: bytes | None = None,
) -> Simulation:
    """Return the misses for each layout, each of its numbers of huge windows, and each processor.

    Each thread counts as a processor of its own, whose TLBs are empty at first; with *marks* (`part.marks`) a part of
    it.  Raises TraceError.
    """
    with Replay(trace) as replay:
        if marks is not None:
            replay.part(marks)
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
        counted = replay.events, replay.instructions, uncovered, replay.threads, replay.ended
        return Simulation(tuple(rows), *counted)


def best(rows: Iterable[Row]) -> Row:
    """Return the row of the fewest misses; of equal ones that with the fewest windows."""
    return min(rows, key=lambda row: (row.misses, row.windows))


def best_windows(trace: Trace, placement: Placement, cpu: Geometry, most: int = 16) -> tuple[int, int]:
    """Return how many leading windows, at most *most*, are best made huge, and the misses that remain.

    Raises TraceError.
    """
    row = best(simulate(trace, [(placement, range(most + 1))], [cpu]).rows)
    return row.windows, row.misses


def without(cpu: Geometry, reserve: int) -> Geometry:
    """Return *cpu* with *reserve* of the first-level entries for huge pages taken by others for good, one being left.

    Where a table has sets nobody knows which those are in, so that each set loses as many as make up for *reserve*.
    """
    table = cpu.first.table(huge=True)
    left = Table(table.sets, max(1, table.ways - -(-reserve // table.sets)))
    return replace(cpu, first=Level(left, None) if cpu.first.huge is None else Level(cpu.first.small, left))


def executed(trace: Trace) -> list[int]:
    """Return how often each block of *trace* ran, by its number.  Raises TraceError."""
    with Replay(trace) as replay:
        replay.run()
        return replay.executions()


def heat(trace: Trace, file: int, functions: Functions) -> list[int]:
    """Return the instructions that ran in each of the *functions* of the file with that number.  Raises TraceError."""
    ran = profile(trace, file, functions)[0].samples
    return [ran.get(index, 0) for index in range(len(functions))]


def profile(
    trace: Trace, file: int, functions: Functions, progress: Callable[[int], None] = lambda _: None
) -> tuple[Matched, int]:
    """Return what ran of the file with that number, as a profile says it, and calls that there was no room for.

    Samples are instructions.  A call is what enters a function at its first address from another one, directly or
    through the PLT; its offset is that of the last byte of the block that it leaves.  Raises TraceError.
    """
    owners, entries = array("I"), bytearray()
    for address, number, _, _ in trace.block_rows():
        index = functions.at(address) if number == file else -1
        owners.append(index + FUNCTION if index >= 0 else NO_FUNCTION if number == file else ELSEWHERE)
        entries.append(index >= 0 and functions.starts[index] == address)
    with Replay(trace) as replay:
        replay.count_calls(owners, bytes(entries))
        replay.run(progress)
        executions = replay.executions()
        calls, uncounted = replay.calls()
    matched = Matched(complete=True)
    for times, owner, (_, _, _, instructions) in zip(executions, owners, trace.block_rows(), strict=True):
        if not times:
            continue
        if owner == ELSEWHERE:
            matched.foreign += times * instructions
            continue
        matched.total += times * instructions
        if owner >= FUNCTION:
            matched.found += times * instructions
            matched.samples[owner - FUNCTION] = matched.samples.get(owner - FUNCTION, 0) + times * instructions
    if matched.found < matched.total:
        matched.missing = [("(no function)", matched.total - matched.found)]
    ends = [address + size for address, _, size, _ in trace.block_rows()]
    for (block, entered), times in calls.items():
        caller, callee = owners[block] - FUNCTION, owners[entered] - FUNCTION
        offset = ends[block] - 1 - functions.starts[caller]
        key = caller, callee, offset if offset < functions.sizes[caller] else None
        matched.arcs[key] = matched.arcs.get(key, 0) + times
    return matched, uncounted
