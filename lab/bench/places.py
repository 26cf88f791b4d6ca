"""What a page's boundaries decide: ``python -m lab.bench.places [--write FILE] [PROGRAM]...``.

Where no page is huge, what a build misses depends on where its code happens to lie within a page: each change of the
program in front of it moves it.  So one build is one draw.  This simulates the builds of `lab.bench.peers`, which
has to have run, for a full profile and no window, with the program's code at eight places 512 bytes apart; the
libraries lie as they do there.  It prints, for each processor, the mean of all eight, the least and the most, or
writes a page of it.
"""

import argparse
import datetime as dt
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hugealign.elf.symbols import read_functions
from hugealign.io import replacing
from hugealign_lab.files import find
from hugealign_lab.placement import Placement
from hugealign_lab.ran import profile
from hugealign_lab.tracefile import Trace
from lab.bench.peers import builds, figures, profiles
from lab.bench.peers.builds import Build
from lab.bench.peers.measure import bolted, machine, traced
from lab.bench.peers.program import WORK, Program
from lab.bench.peers.programs import PROGRAMS

PLACES = 8
_STEP = 4096 // PLACES  # 16 bytes, which functions are aligned to, divide it
_TITLES = (
    *("hugealign, blocks", "hugealign, bfd, order, fill", "hugealign, lld, order, fill"),
    *("BOLT, blocks", "BOLT, cdsort", "lld, cdsort", "lld, hfsort", "lld, list", "gold, list"),
)


def main() -> None:
    """Simulate, and print the table or write the page."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.places")
    parser.add_argument("--write", type=Path, metavar="FILE")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="default: all that have been traced")
    args = parser.parse_args()
    wanted = args.programs or [name for name in PROGRAMS if (WORK / name / "test.trace").exists()]
    names = [title.split(",")[0] for title in figures.processors()]
    lines = [f"| program | build | {' | '.join(names)} |", f"|---|---|{'---|' * len(names)}"]
    spreads: dict[str, list[list[float]]] = {}
    for name in wanted:
        for build, misses in _builds(PROGRAMS[name]()):
            lines.append(f"| {name} | {build} | {' | '.join(map(cell, misses))} |")
            spreads.setdefault(name, []).append([max(each) / max(1, min(each)) for each in misses])
    table = "\n".join(lines)
    if args.write is None:
        print(table)
        return
    day = dt.datetime.now(tz=dt.UTC).date().isoformat()
    command = f"`python -m lab.bench.places --write {' '.join([str(args.write), *args.programs])}`"
    made = f"{command} on {day}: {machine()}"
    replacing.write(str(args.write), page(names, spreads, table, made).encode(), 0o644)


def page(names: Sequence[str], spreads: Mapping[str, Sequence[Sequence[float]]], table: str, made: str) -> str:
    """Return the page: for each program, by how many times the misses of its builds differ; then *table*, folded."""
    largest = {name: [max(column) for column in zip(*builds, strict=True)] for name, builds in spreads.items()}
    most = max(max(columns) for columns in largest.values())
    rows = "".join(f"| {name} | {' | '.join(f'{n:.1f}' for n in columns)} |\n" for name, columns in largest.items())
    return f"""\
# One build, eight places within a page

Without a huge window, the place of a small program's code within a page changes its misses by up to {most:.1f} times.

The most misses of a build divided by its least, for the build of each program where they differ most:

| program | {" | ".join(names)} |
|---|{"--:|" * len(names)}
{rows}
Each change to a program moves its code. So one figure without a huge window says little about a small program.
[Against the peers](peers.md) has only one of these places.

## How it was made

Written by {made}. The builds are those of [Against the peers](peers.md) with the full profile, at {PLACES} places
{_STEP} bytes apart. The table has the simulated misses of the second run: the mean, and in brackets the least and the
most. Each processor stands for all that have its first level.

<details><summary>All builds</summary>

{table}

</details>
"""


def _builds(program: Program) -> Iterator[tuple[str, list[list[int]]]]:
    """Yield the title of each build, and for each processor its misses at all places."""
    base = program.directory / "plain.bfd"
    before = read_functions(base)
    train = traced(program, base, program.train, "train")
    test = traced(program, base, program.test, "test")
    ran, _ = profile(train, find(train.description.files, str(base)), before)
    alone = replace(program, budgets=(0,))
    learned = [profiles.full(ran)]
    made: list[Build] = [*builds.orders(alone, before, learned), *builds.ours(alone, base, before, learned)]
    made += [*builds.divided(alone, base, Path(train.path)), *bolted(alone, before, learned)]
    for build in made:
        if build.title in _TITLES:
            trace = traced(program, build.path, program.test, build.path.name) if build.rewritten else test
            file = find(trace.description.files, str(build.path)) if build.rewritten else trace.description.program
            # Which windows are the hottest does not matter here.
            lies = figures.lies(build, trace, file, before, ran.samples, None)
            yield build.title, list(misses_of(trace, file, lies.placement, before.text))


def misses_of(trace: Trace, file: int, placement: Placement, text: int) -> Iterator[list[int]]:
    """Yield the misses at all places, for each processor."""
    cpus = figures.processors().values()
    numbers = [number for _, number, _, _ in trace.block_rows()]
    by_place = []
    for place in range(PLACES):
        pairs = zip(placement.addresses, numbers, strict=True)
        moved = array("Q", (address + place * _STEP if number == file else address for address, number in pairs))
        draws = figures.drawn(trace, file, replace(placement, addresses=moved), text)
        by_place.append(figures.missed(draws, trace, (0,), cpus)[0])
    for cpu in cpus:
        yield [misses[cpu.name][0] for misses in by_place]


def cell(misses: list[int]) -> str:
    """Return the mean, the least and the most."""
    return f"{sum(misses) / PLACES:,.0f} ({min(misses):,} to {max(misses):,})"


if __name__ == "__main__":
    main()
