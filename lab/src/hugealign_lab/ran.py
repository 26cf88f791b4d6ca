"""What ran of a program, by a trace: the same record as from a profile, but complete and in instructions."""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hugealign.elf.symbols import Functions, functions_of
from hugealign.io.progress import silent
from hugealign.io.units import printable
from hugealign.profile.match import Matched
from hugealign.profile.model import Flow
from hugealign.profile.ran import MismatchError, Ran, check_rate
from hugealign_lab.files import find
from hugealign_lab.replay import ELSEWHERE, FUNCTION, NO_FUNCTION, Replay
from hugealign_lab.tracefile import Trace, open_trace


@dataclass(frozen=True, slots=True)
class Traced:
    """A *trace*, and what *ran* of the file with number *file* in it."""

    trace: Trace
    file: int
    ran: Ran


def traced(
    path: str,
    binary: str | None = None,
    *,
    force: bool = False,
    warn: Callable[[str], None] = silent,
    progress: Callable[[str], None] = silent,
    flow: Flow | None = None,
    instead: str = "",
) -> Traced:
    """Return what ran of *binary*, by default the program that was traced; warnings go to *warn*.

    What ran inside functions is added to *flow*, if there is one.
    Raises HugealignError, which names the file, and says *instead* how to give another build; MismatchError if too
    little is found in the binary.
    """
    trace = open_trace(path)
    description = trace.description
    binary = description.files[description.program].path if binary is None else binary
    file = find(description.files, binary, instead)
    functions = functions_of(binary)
    matched, uncounted = profile(trace, file, functions, lambda percent: progress(f"{percent} % read"), flow)
    if not matched.samples:
        raise MismatchError(f"{printable(path)}: no function of {printable(binary)} runs in this trace")
    ran = Ran(binary, functions, matched, [(path, "trace")], "instructions")
    check_rate(ran, force, warn)
    for remark in description.remarks():
        warn(f"{printable(path)}: {remark}")
    if uncounted:
        warn(f"{printable(path)}: {uncounted} calls are left out: too many different ones")
    return Traced(trace, file, ran)


def profile(
    trace: Trace,
    file: int,
    functions: Functions,
    progress: Callable[[int], None] = silent,
    flow: Flow | None = None,
) -> tuple[Matched, int]:
    """Return what ran of file number *file*, in the form of a profile, and how many calls there was no room for.

    What ran inside functions is added to *flow*, if there is one.

    Samples are instructions.  A call enters a function at its first address from another function, directly or through
    the PLT; its offset is the last byte of the block that it leaves.  Raises TraceError.
    """
    owners, entries = array("I"), bytearray()
    for address, number, _, _ in trace.block_rows():
        index = functions.at(address) if number == file else -1
        owners.append(index + FUNCTION if index >= 0 else NO_FUNCTION if number == file else ELSEWHERE)
        entries.append(index >= 0 and functions.starts[index] == address)
    with Replay(trace) as replay:
        replay.count_calls(owners, bytes(entries), branches=flow is not None)
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
            matched.hits += times * instructions
            matched.samples[owner - FUNCTION] = matched.samples.get(owner - FUNCTION, 0) + times * instructions
    if matched.hits < matched.total:
        matched.missing = [("(no function)", matched.total - matched.hits)]
    if flow is not None:
        calls = _within(flow, trace, owners, executions, calls)
    ends = [address + size for address, _, size, _ in trace.block_rows()]
    for (block, entered), times in calls.items():
        caller, callee = owners[block] - FUNCTION, owners[entered] - FUNCTION
        offset = ends[block] - 1 - functions.starts[caller]
        key = caller, callee, offset if offset < functions.sizes[caller] else None
        matched.arcs[key] = matched.arcs.get(key, 0) + times
    return matched, uncounted


def _within(
    flow: Flow, trace: Trace, owners: "array[int]", executions: Sequence[int], pairs: dict[tuple[int, int], int]
) -> dict[tuple[int, int], int]:
    """Add to *flow* what ran inside functions; return those *pairs* of blocks that are calls."""
    rows = list(trace.block_rows())
    flow.complete = True
    calls, arrived = {}, list(executions)
    for (block, other), times in pairs.items():
        if owners[block] == owners[other]:
            flow.jump(rows[block][0] + rows[block][2] - 1, rows[other][0], times)
            arrived[other] -= times
        else:
            calls[block, other] = times
    for (address, _, size, _), owner, times, came in zip(rows, owners, executions, arrived, strict=True):
        if owner >= FUNCTION and times:
            flow.run(address, address + size, times)
            if came > 0:
                flow.back(address, came)
    return calls
