"""`hugealign order-trace` as a function: it chooses the number of huge windows that misses least in a simulation.

Without a processor nothing is simulated, and the number is the same as for a profile.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from hugealign.code.calls import Calls
from hugealign.code.references import References
from hugealign.io.progress import silent
from hugealign.io.units import printable
from hugealign.ordering.blocks import KeptBlocks
from hugealign.ordering.order import Order, OrderOptions, carry, check_names, of_blocks, of_ran, parts
from hugealign.ordering.problem import Problem, of_sorted
from hugealign.ordering.sorting import Sorted, sort
from hugealign.ordering.windows import WindowRoom
from hugealign.profile.debugfiles import DebugFiles
from hugealign.profile.match import placeable
from hugealign.profile.model import Flow
from hugealign.system.budget import RESERVE, Budget, budget_of, of_entries
from hugealign_lab.geometry import Geometry, named
from hugealign_lab.misses import Misses, simulated
from hugealign_lab.placement import WINDOW, ordered
from hugealign_lab.ran import Traced, traced
from hugealign_lab.simulate import simulate, without

_MOST = 128  # numbers of huge windows to simulate


def order_of_trace(
    trace: str,
    cpus: Sequence[str],
    binary: str | None = None,
    *,
    budget: Budget | None = None,
    fill: bool = True,
    blocks: bool = False,
    old_binary: str | None = None,
    force: bool = False,
    warn: Callable[[str], None] = silent,
    progress: Callable[[str], None] = silent,
) -> Order:
    """Return the order that the *trace* gives the functions of *binary*, by default the program that was traced.

    *cpus* are names of processors, or geometries such as ``4k=128/8,2m=8``; an entry of each is left to others.  By
    default the *budget* is the smallest processor's.  Without *cpus* nothing is simulated: as many windows should be
    huge as the functions that are placed need, within the budget.  The other parameters are those of
    `hugealign.ordering.order`.  Raises HugealignError.
    """
    processors = [named(word) for word in dict.fromkeys(cpus)]
    budgets = [of_entries(_entries(cpu), printable(cpu.name)) for cpu in processors]
    budget = budget or (min(budgets, key=lambda budget: budget.windows) if budgets else budget_of())
    flow = Flow() if blocks else None
    what_ran = traced(
        trace,
        binary if old_binary is None else old_binary,
        force=force,
        warn=warn,
        progress=progress,
        flow=flow,
        instead="with --old-binary",
    )
    whole = what_ran.ran
    if binary is not None and old_binary is not None:  # of this build nothing can be replayed
        whole, build = carry(whole, binary, DebugFiles([]), flow, force, warn)
        return of_ran(whole, OrderOptions(page_size=WINDOW, budget=budget, fill=fill), flow, build, warn)
    whole = replace(whole, matched=placeable(whole.matched, whole.functions))
    check_names(whole, force, warn)
    ran, kept = (whole, None) if flow is None else of_blocks(whole, flow, warn)
    problem = Problem(ran.matched, ran.functions, WindowRoom(WINDOW, budget.windows), parts=parts(kept))
    sequence = sort(ran.matched, ran.functions)
    misses = _simulated(what_ran, kept, problem, sequence, processors, progress) if processors else None
    if fill:
        code = ran.binary, whole.functions
        problem = replace(problem, fill=Calls(*code), references=References(*code))
    plan = of_sorted(problem, sequence, misses.chosen if misses else None)
    return Order(ran, budget, plan, simulated(misses) if misses else None, kept)


def _entries(cpu: Geometry) -> int:
    table = cpu.first.table(huge=True)
    return table.sets * table.ways


def _simulated(
    traced: Traced,
    kept: Mapping[int, KeptBlocks] | None,
    problem: Problem,
    sequence: Sorted,
    cpus: Sequence[Geometry],
    progress: Callable[[str], None],
) -> Misses:
    """Return the misses by number of huge windows, up to twice what any of *cpus* holds, each with its own order."""
    rule = of_sorted(problem, sequence)
    most = min(2 * max(map(_entries, cpus)), _MOST)
    layouts = []
    for count in range(min(most, rule.needed) + 1):  # more windows than needed change nothing
        order = [placed.index for placed in of_sorted(problem, sequence, count).placed]
        placement = ordered(traced.trace, traced.file, "order", traced.ran.functions, order, kept)
        layouts.append((placement, range(count, most + 1 if count == rule.needed else count + 1)))
    done = simulate(
        traced.trace,
        layouts,
        [without(cpu, RESERVE) for cpu in cpus],
        lambda percent: progress(f"{percent} % simulated"),
    )
    misses: dict[int, list[int]] = {}
    for row in done.rows:  # by number of windows, then in the order of the processors
        misses.setdefault(row.windows, []).append(row.misses)
    return Misses([cpu.name for cpu in cpus], list(misses.values()), rule.count)
