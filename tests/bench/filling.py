"""What fills windows best: ``python -m tests.bench.filling`` prints the table of docs/order.md.

The programs, traces and samples are those of `tests.bench.peers`, which has to have run.  Layouts are simulated, not
linked: misses of a Skylake's first-level instruction TLB.
"""

from collections.abc import Iterator
from typing import Any
from unittest import mock

from hugealign.elf.calls import Calls
from hugealign.elf.symbols import Functions, read_functions
from hugealign.order import choose, hot, windows
from hugealign.profile.match import Matched
from hugealign.trace.files import find
from hugealign.trace.placement import WINDOW, Placement, ordered
from hugealign.trace.simulate import profile, simulate
from hugealign.trace.tracefile import open_trace
from tests.bench.peers.figures import processors
from tests.bench.peers.profiles import sampled
from tests.bench.peers.programs import WORK

PROGRAMS = ("clang", "generated")
SAMPLES = (1000, 10_000)
COUNTS = (1, 2, 4, 8)
SCALES = (0.5, 2.0)
_CHANCES = ("_BESIDE", "_CALLED", "_CALLS")


def ways() -> Iterator[tuple[str, dict[str, float]]]:
    """Yield what is compared: its name, and by how much to multiply how likely something is for each reason."""
    yield "what lies near", {"_CALLED": 0.0, "_CALLS": 0.0}
    yield "and callees", {"_CALLS": 0.0}
    yield "and callers", {}
    for scale in SCALES:
        yield f"all, {scale} times as likely", dict.fromkeys(_CHANCES, scale)


def changed(scales: dict[str, float]) -> dict[str, Any]:
    """Return the chances of `choose` multiplied so."""
    beside, called, calls = (scales.get(name, 1.0) for name in _CHANCES)
    return {
        "_BESIDE": tuple(chance * beside for chance in choose._BESIDE),
        "_CALLED": choose._CALLED * called,
        "_CALLS": choose._CALLS * calls,
    }


def tried(functions: Functions, ran: Matched, calls: Calls) -> Iterator[tuple[str, int, list[int]]]:
    """Yield each way's name, a number of windows, and the order that it gives for so many."""
    found = *hot.hot_and_cold(ran, functions), ran, functions, WINDOW
    for count in COUNTS:
        plan = windows.plan(*found, count, None, count)
        yield "samples alone", count, [placed.index for placed in plan.placed]
        for name, scales in ways():
            with mock.patch.multiple(choose, **changed(scales)):
                plan = windows.plan(*found, count, calls, count)
            yield name, count, [placed.index for placed in plan.placed]


def main() -> None:
    """Simulate, and print the table."""
    skylake = next(cpu for names, cpu in processors().items() if "skylake" in names)
    print(f"| program, samples | filled with | {' | '.join(map(str, COUNTS))} |")
    print(f"|---|---|{'--:|' * len(COUNTS)}")
    for program in PROGRAMS:
        binary = str(WORK / program / "plain.bfd")
        train, test = (open_trace(str(WORK / program / f"{name}.trace")) for name in ("train", "test"))
        functions = read_functions(binary)
        ran, _ = profile(train, find(train.description.files, binary), functions)
        file = find(test.description.files, binary)
        calls = Calls(binary, functions)
        for samples in SAMPLES:
            drawn = sampled(ran, samples)
            layouts: list[tuple[Placement, list[int]]] = [
                (ordered(test, file, name, functions, order), [count])
                for name, count, order in tried(functions, Matched(drawn.samples), calls)
            ]
            misses = {(row.layout, row.windows): row.misses for row in simulate(test, layouts, [skylake]).rows}
            for name in dict.fromkeys(placement.name for placement, _ in layouts):
                cells = " | ".join(f"{misses[name, count]:,}" for count in COUNTS)
                print(f"| {program}, {drawn.name} | {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
