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
from collections.abc import Iterator
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
    for name in wanted:
        lines += _rows(PROGRAMS[name]())
    table = "\n".join(lines)
    if args.write is None:
        print(table)
        return
    day = dt.datetime.now(tz=dt.UTC).date().isoformat()
    said = f"Written by `python -m lab.bench.places --write {' '.join([str(args.write), *args.programs])}`"
    text = f"# One build, eight places within a page\n\n{said} on {day}: {machine()}.\n\n{_ABOUT}\n{table}\n"
    replacing.write(str(args.write), text.encode(), 0o644)


_ABOUT = f"""\
Without a huge window, a build's misses depend on where in a page its code happens to lie, and each change to the
program moves it. [Against the peers](peers.md) has one of these places. The table has the same builds, with the full
profile, at {PLACES} places {_STEP} bytes apart: simulated misses of the second run, as the mean, the least and
the most. Each processor stands for all that have its first level.
"""


def _rows(program: Program) -> Iterator[str]:
    """Yield a row for each build."""
    base = program.directory / "plain.bfd"
    before = read_functions(base)
    train = traced(program, base, program.train, "train")
    test = traced(program, base, program.test, "test")
    ran, _ = profile(train, find(train.description.files, str(base)), before)
    alone = replace(program, budgets=(0,))
    learned = [profiles.full(ran)]
    found: list[Build] = [*builds.orders(alone, before, learned), *builds.ours(alone, base, before, learned)]
    found += [*builds.divided(alone, base, Path(train.path)), *bolted(alone, before, learned)]
    for build in found:
        if build.title in _TITLES:
            trace = traced(program, build.path, program.test, build.path.name) if build.rewritten else test
            file = find(trace.description.files, str(build.path)) if build.rewritten else trace.description.program
            # Which windows are the hottest matters to nobody here.
            lies = figures.lies(build, trace, file, before, ran.samples, None)
            found_misses = cells(trace, file, lies.placement, before.text)
            yield f"| {program.name} | {build.title} | {' | '.join(found_misses)} |"


def cells(trace: Trace, file: int, placement: Placement, text: int) -> Iterator[str]:
    """Yield a cell for each processor."""
    cpus = figures.processors().values()
    numbers = [number for _, number, _, _ in trace.block_rows()]
    found = []
    for place in range(PLACES):
        pairs = zip(placement.addresses, numbers, strict=True)
        moved = array("Q", (address + place * _STEP if number == file else address for address, number in pairs))
        draws = figures.drawn(trace, file, replace(placement, addresses=moved), text)
        found.append(figures.missed(draws, trace, (0,), cpus)[0])
    for cpu in cpus:
        misses = [one[cpu.name][0] for one in found]
        yield f"{sum(misses) / PLACES:,.0f} ({min(misses):,} to {max(misses):,})"


if __name__ == "__main__":
    main()
