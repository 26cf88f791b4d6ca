"""What references add to orders that fill huge windows: ``python -m lab.bench.references PROGRAM...``.

For samples of the first run, and for all of it, it prints the misses with references divided by those without: the
geometric mean of all processors and numbers of windows, the least and the most.  The programs and traces come from
`lab.bench.peers`, which has to run first.  Layouts are simulated, not linked, and divide no functions.
"""

import argparse
from statistics import geometric_mean

from hugealign.ordering.problem import Problem, plan
from hugealign.ordering.windows import WindowRoom
from hugealign.profile.match import Matched
from hugealign_lab.placement import WINDOW, Placement
from hugealign_lab.simulate import simulate
from lab.bench.filling import SAMPLES, Loaded
from lab.bench.peers.figures import processors

COUNTS = (1, 2, 4, 8, 16)


def main() -> None:
    """Simulate, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.references")
    parser.add_argument("programs", nargs="+", metavar="PROGRAM")
    print(f"| program | {' | '.join(f'{samples:,} samples' for samples in SAMPLES)} | full |")
    print(f"|---|{'---|' * (len(SAMPLES) + 1)}")
    for program in parser.parse_args().programs:
        item = Loaded(program)
        profiles = [*map(item.sampled, SAMPLES), item.ran]
        print(f"| {program} | {' | '.join(ratios(item, seen) for seen in profiles)} |", flush=True)


def ratios(one: Loaded, seen: Matched) -> str:
    """Return the cell of a profile."""
    cpus = list(processors().values())
    layouts: list[tuple[Placement, list[int]]] = []
    for name, references in (("without", None), ("with", one.references)):
        for count in COUNTS:
            problem = Problem(seen, one.functions, WindowRoom(WINDOW, count), one.calls, one.calls, references)
            layouts.append((one.placed(name, [placed.index for placed in plan(problem).placed]), [count]))
    misses: dict[str, list[int]] = {"without": [], "with": []}
    for row in sorted(simulate(one.test, layouts, cpus).rows, key=lambda row: (row.cpu, row.windows)):
        misses[row.layout].append(row.misses)
    result = [max(1, after) / max(1, before) for before, after in zip(*misses.values(), strict=True)]
    return f"{geometric_mean(result):.2f} ({min(result):.2f} to {max(result):.2f})"


if __name__ == "__main__":
    main()
