"""`hugealign order --drift` with a trace: the misses of the present order, and of a new one, in a simulation."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from hugealign.lab.files import find
from hugealign.lab.geometry import named
from hugealign.lab.placement import ordered
from hugealign.lab.simulate import simulate, without
from hugealign.lab.tracefile import open_trace
from hugealign.ordering.drift import Drift, ReplayedMisses
from hugealign.progress import silent


def with_misses(
    found: Drift, trace: str, cpus: Sequence[str], reserve: int = 1, progress: Callable[[str], None] = silent
) -> Drift:
    """Return *found* with the misses of each of *cpus* in a replay of the file at *trace* under both orders.

    *reserve* entries of each are left to others.  Raises HugealignError.
    """
    opened = open_trace(trace)
    file = find(opened.description.files, found.ran.binary)
    layouts = [
        (ordered(opened, file, name, found.ran.functions, order), [found.windows])
        for name, order in zip(("current", "new"), found.orders, strict=True)
    ]
    done = simulate(
        opened,
        layouts,
        [without(named(cpu), reserve) for cpu in dict.fromkeys(cpus)],
        lambda percent: progress(f"{percent} % simulated"),
    )
    counts: dict[str, dict[str, int]] = {}
    for row in done.rows:
        counts.setdefault(row.cpu, {})[row.layout] = row.misses
    return replace(found, misses=[ReplayedMisses(cpu, one["current"], one["new"]) for cpu, one in counts.items()])
