"""How few samples are worse than none: ``python -m lab.bench.thin [PROGRAM]...``.

It compares orders from few samples with the linker's order, by the misses of another run: the least and the most of
DRAWS draws, on two processors.  In a small program each is the mean over several places of its libraries.  Programs,
traces and places come from `lab.bench.peers`, which has to run first.  Layouts are simulated, not linked.  It prints
the table of docs/measured/orders.md.
"""

import argparse
import random
from collections import Counter
from collections.abc import Iterator, Sequence

from hugealign.code.calls import Calls
from hugealign.elf.symbols import read_functions
from hugealign.ordering.problem import Problem, plan
from hugealign.ordering.windows import WindowRoom
from hugealign.profile.match import Matched
from hugealign_lab.files import find
from hugealign_lab.geometry import Geometry, named
from hugealign_lab.placement import WINDOW, Placement, ordered, original
from hugealign_lab.tracefile import open_trace
from lab.bench.peers.figures import drawn, missed
from lab.bench.peers.measure import spots_of
from lab.bench.peers.program import WORK
from lab.bench.peers.programs import PROGRAMS

SAMPLES = (3, 10, 30, 100, 300, 1000)
DRAWS = 5
COUNTS = (0, 1, 4)
_PROCESSORS = ("skylake", "zen3")


def main() -> None:
    """Simulate, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.thin")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="default: all that have been traced")
    wanted = parser.parse_args().programs or [name for name in PROGRAMS if (WORK / name / "train.trace").exists()]
    cpus = [named(name) for name in _PROCESSORS]
    titles = [f"{cpu.name}, {count}" for cpu in cpus for count in COUNTS]
    print(f"| program | samples | {' | '.join(titles)} |")
    print(f"|---|--:|{'---|' * len(titles)}")
    for program in wanted:
        for row in _rows(program, cpus):
            print(row, flush=True)


def _rows(program: str, cpus: Sequence[Geometry]) -> Iterator[str]:
    """Yield a row for each number of samples."""
    binary = str(WORK / program / "plain.bfd")
    train, test = (open_trace(str(WORK / program / f"{name}.trace")) for name in ("train", "test"))
    functions = read_functions(binary)
    file = find(test.description.files, binary)
    calls = Calls(binary, functions)
    spots = spots_of(train, find(train.description.files, binary), functions)
    where, weights = list(spots), list(spots.values())

    def misses(layout: Placement, counts: Sequence[int]) -> list[list[int]]:
        result, _ = missed(drawn(test, file, layout, functions.text), test, counts, cpus)
        return [result[cpu.name] for cpu in cpus]

    linked = misses(original(test, file), COUNTS)
    for samples in SAMPLES:
        ratios: list[list[float]] = [[] for _ in range(len(cpus) * len(COUNTS))]
        for draw in range(DRAWS):
            chance = random.Random(samples * DRAWS + draw)
            sampled = Counter(index for index, _ in chance.choices(where, weights, k=samples))
            ran = Matched(dict(sampled), {}, samples, samples)
            for at, count in enumerate(COUNTS):
                problem = Problem(ran, functions, WindowRoom(WINDOW, count), calls, calls)
                order = [placed.index for placed in plan(problem).placed]
                result = misses(ordered(test, file, "ordered", functions, order), [count])
                for cpu, (times,) in enumerate(result):
                    ratios[cpu * len(COUNTS) + at].append(times / max(1, linked[cpu][at]))
        cells = [f"{min(result):.2f} to {max(result):.2f}" for result in ratios]
        yield f"| {program} | {samples} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
