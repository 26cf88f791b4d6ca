"""What huge text saves of starts: compilers, interpreters and tools; whole builds and a configure script.

Run by ``python -m lab.bench.starts --write docs/measured/starts.md``, on a quiet machine, some twenty minutes.  The
configure script is that of a source package of Debian's.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hugealign.errors import HugealignError
from hugealign.io.units import printable
from hugealign.measuring.measure import Measurement, MeasureOptions, measure
from hugealign.run.launch import LaunchOptions
from lab.bench.advice import Program, asked, costs, starts
from lab.bench.sources import sources
from tests.support import made_here

SECONDS = 10.0  # for a program
FILES = 100  # of a build
PACKAGE = "gawk"

HEAD = """\
# What starts gain

{summary}

## How it was made

Written by `python -m lab.bench.starts --write docs/measured/starts.md` ({made}), at a load
of {load}. Each row is by `hugealign measure --fix`, with the files that `hugealign advise` names for the command: by
turns from four copies (of jobs, three) on small and on huge pages, of the same bytes at the same path. The interval
holds what identical copies differ by.

What text costs on this machine: {costs}

| start | processor time | on huge pages, by that on small ones | page faults | windows |
|---|--:|---|--:|--:|
"""


@dataclass(frozen=True)
class Row:
    """A row of the page: a *program*, and its measurement."""

    program: Program
    result: Measurement

    def __str__(self) -> str:
        """Return the row."""
        small, huge = self.result.sides
        ratio = huge.of_first
        time = f"{small.cpu:.2f} s" if small.cpu >= 1 else f"{1000 * small.cpu:.2f} ms"
        mark = "" if ratio is None or ratio.claim else ", no difference shown"
        return (
            f"| {self.program.name} | {time} | {ratio}{mark} | {small.faults:,.0f} to {huge.faults:,.0f} | "
            f"{huge.huge - small.huge} |"
        )


def jobs(work: Path, configure: Path | None) -> Iterator[Program]:
    """Yield jobs that consist of many starts."""
    for number in range(FILES):
        source = f'#include <stdio.h>\nint f{number}(void) {{ return puts("{number}"); }}\n'
        (work / f"f{number}.c").write_text(source, encoding="ascii")
    for compiler in ("gcc", "clang-19"):
        script = work / f"build-{compiler}"
        script.write_text(f"for each in {work}/f*.c; do {compiler} -O1 -c $each -o $each.o; done\n", encoding="ascii")
        if shutil.which(compiler):
            yield Program(f"{FILES} small files by {compiler}", ("sh", str(script)))
    if configure is not None:
        script = work / "configure"
        script.write_text(f"mkdir {work}/$$ && cd {work}/$$ && {configure} -q\n", encoding="ascii")
        yield Program(f"./configure of {PACKAGE}", ("sh", str(script)))


def row(program: Program, copies: int, rounds: int | None) -> Row | None:
    """Measure *program*; None if that fails."""
    try:
        files = asked(program.words).files
        options = MeasureOptions(LaunchOptions(fix=True, files=files), copies=copies, rounds=rounds, seconds=SECONDS)
        return Row(program, measure(program.words, options))
    except HugealignError as error:
        print(f"{program.name}: {printable(str(error))}", file=sys.stderr)
        return None


def summary(rows: list[Row]) -> str:
    """Return the sentence that begins the page."""
    ratios = [(row, row.result.sides[1].of_first) for row in rows]
    faster = sorted((ratio.ratio, row.program.name) for row, ratio in ratios if ratio and ratio.high < 1)
    slower = [row.program.name for row, ratio in ratios if ratio and ratio.low > 1]
    text = f"Of {len(rows)} commands, {len(faster)} take less processor time on huge text"
    if faster:
        least, most = 100 * (1 - faster[-1][0]), 100 * (1 - faster[0][0])
        text += f": {least:.0f} to {most:.0f} % less, most for {faster[0][1]}"
    return f"{text}; {len(slower)} take more{': ' if slower else ''}{', '.join(slower)}."


def main() -> None:
    """Measure, and write the document."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.starts", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", metavar="FILE", type=Path, help="the document")
    parser.add_argument("--sources", metavar="DIR", type=Path, help=f"where the source of {PACKAGE} is kept")
    parser.add_argument("words", nargs="*", metavar="NAME", help="only commands whose names contain this")
    args = parser.parse_args()
    rows, loads = [], []
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        work = Path(name)
        place = args.sources or work / "sources"
        place.mkdir(exist_ok=True)
        sources(place, [PACKAGE])
        configure = place / PACKAGE / "tree" / "configure"
        several = [(program, 4, None) for program in starts(work) if shutil.which(program.words[0])]
        few = [(program, 3, 2) for program in jobs(work, configure if configure.exists() else None)]
        for program, copies, rounds in several + few:
            if args.words and not any(word in program.name for word in args.words):
                continue
            made = row(program, copies, rounds)
            if made:
                rows.append(made)
                loads.append(os.getloadavg()[0])
                print(made, flush=True)
    fields = {
        "summary": summary(rows),
        "made": made_here(),
        "load": f"{min(loads):.1f} to {max(loads):.1f}",
        "costs": costs(),
    }
    if args.write:
        args.write.write_text(HEAD.format(**fields) + "".join(f"{each}\n" for each in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
