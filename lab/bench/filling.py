"""The value of orders from samples, and the best fillers for windows: ``python -m lab.bench.filling PROGRAM...``.

docs/measured/orders.md says how the numbers were chosen.  The programs, traces and samples come from
`lab.bench.peers`, which has to run first.  Layouts are simulated, not linked: misses of a Skylake's first-level
instruction TLB.
"""

import argparse
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any
from unittest import mock

from hugealign.code.calls import Calls
from hugealign.code.references import References
from hugealign.elf.symbols import Functions, read_functions
from hugealign.ordering import knapsack
from hugealign.ordering.problem import Problem, of_sorted
from hugealign.ordering.sorting import sort
from hugealign.ordering.windows import WindowRoom
from hugealign.profile.match import Matched
from hugealign_lab.files import find
from hugealign_lab.placement import WINDOW, Placement, ordered
from hugealign_lab.ran import profile
from hugealign_lab.simulate import simulate
from hugealign_lab.tracefile import open_trace
from lab.bench.peers.figures import processors
from lab.bench.peers.measure import spots_of
from lab.bench.peers.profiles import sampled
from lab.bench.peers.program import WORK

SAMPLES = (1000, 10_000)
COUNTS = (0, 1, 2, 4, 8, 16)
SCALES = (0.5, 2.0)
_CHANCES = ("_BESIDE", "_CALLED", "_CALLS", "_REFERRED")


def ways() -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the variants to compare: a name, and the factors for the chances that each reason gives."""
    yield "filled with what lies near", {"_CALLED": 0.0, "_CALLS": 0.0, "_REFERRED": 0.0}
    yield "and callees", {"_CALLS": 0.0, "_REFERRED": 0.0}
    yield "and callers", {"_REFERRED": 0.0}
    yield "and what refers to others", {}
    for scale in SCALES:
        yield f"all, {scale} times as likely", dict.fromkeys(_CHANCES, scale)


def with_callers(ran: Matched, flat: Matched) -> Matched:
    """Return the samples *flat* as a stack-walking profiler would have them: each with a caller, drawn by the calls."""
    callers: dict[int, Counter[tuple[int, int | None]]] = {}
    for (caller, callee, offset), count in ran.arcs.items():
        callers.setdefault(callee, Counter())[caller, offset] += count
    chance = random.Random(flat.total)
    result = Matched(dict(flat.samples), {}, flat.total, flat.hits)
    for callee, samples in flat.samples.items():
        if callee in callers:
            for caller, offset in chance.choices(*zip(*callers[callee].items(), strict=True), k=samples):
                result.samples.setdefault(caller, 0)
                result.arcs[caller, callee, offset] = result.arcs.get((caller, callee, offset), 0) + 1
    return result


def changed(scales: dict[str, float]) -> dict[str, Any]:
    """Return the chances of `knapsack`, multiplied by *scales*."""
    beside, called, calls, referred = (scales.get(name, 1.0) for name in _CHANCES)
    return {
        "_BESIDE": tuple(chance * beside for chance in knapsack._BESIDE),
        "_CALLED": knapsack._CALLED * called,
        "_CALLS": knapsack._CALLS * calls,
        "_REFERRED": knapsack._REFERRED * referred,
    }


def tried(
    functions: Functions, ran: Matched, calls: Calls, references: References
) -> Iterator[tuple[str, int, list[int]]]:
    """Yield the name of each variant, a number of windows, and its order for that number."""
    alone, result = sort(ran, functions), sort(ran, functions, calls)
    for count in COUNTS:
        room = WindowRoom(WINDOW, count)
        for name, order in (("what was sampled", alone), ("and the code's calls", result)):
            plan = of_sorted(Problem(ran, functions, room), order, count)
            yield name, count, [placed.index for placed in plan.placed]
        for name, scales in ways():
            with mock.patch.multiple(knapsack, **changed(scales)):
                given = references if scales.get("_REFERRED", 1.0) else None
                plan = of_sorted(Problem(ran, functions, room, fill=calls, references=given), result, count)
            yield name, count, [placed.index for placed in plan.placed]


class Loaded:
    """A *program* that was traced: what *ran* first and the *spots* of that, and the *test* of *file* that judges."""

    def __init__(self, program: str) -> None:
        binary = str(WORK / program / "plain.bfd")
        train, self.test = (open_trace(str(WORK / program / f"{name}.trace")) for name in ("train", "test"))
        self.functions = functions = read_functions(binary)
        learned = find(train.description.files, binary)
        self.ran, _ = profile(train, learned, functions)
        self.spots = spots_of(train, learned, functions)
        self.file = find(self.test.description.files, binary)
        self.calls, self.references = Calls(binary, functions), References(binary, functions)

    def sampled(self, count: int) -> Matched:
        """Return *count* flat samples of the first run."""
        return Matched(sampled(self.spots, count).samples, {}, count, count)

    def placed(self, name: str, order: list[int]) -> Placement:
        """Return the layout of the second run in that *order*."""
        return ordered(self.test, self.file, name, self.functions, order)


def main() -> None:
    """Simulate, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.filling")
    parser.add_argument("programs", nargs="+", metavar="PROGRAM")
    programs = parser.parse_args().programs
    skylake = next(cpu for names, cpu in processors().items() if "skylake" in names)
    print(f"| program, samples | order of | {' | '.join(map(str, COUNTS))} |")
    print(f"|---|---|{'--:|' * len(COUNTS)}")
    for program in programs:
        item = Loaded(program)
        for samples, stacks in ((samples, stacks) for samples in SAMPLES for stacks in (False, True)):
            flat = item.sampled(samples)
            title = f"{program}, {samples:,}{' with callers' if stacks else ''}"
            seen = with_callers(item.ran, flat) if stacks else flat
            layouts: list[tuple[Placement, list[int]]] = [
                (item.placed(name, order), [count])
                for name, count, order in tried(item.functions, seen, item.calls, item.references)
            ]
            misses = {(row.layout, row.windows): row.misses for row in simulate(item.test, layouts, [skylake]).rows}
            most = layouts[0][0].windows  # of the text
            for name in dict.fromkeys(placement.name for placement, _ in layouts):
                cells = " | ".join(f"{misses[name, min(count, most)]:,}" for count in COUNTS)
                print(f"| {title} | {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
