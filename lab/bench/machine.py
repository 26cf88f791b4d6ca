"""A machine that builds: what `enable --all` would make huge there, and what that saves of real builds.

Run by ``python -m lab.bench.machine --write FILE``, as root, on a quiet machine, some forty minutes.  The builds are a
C program with its configure script, a C++ program by CMake, and a page by Node.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hugealign.diagnosis import render
from hugealign.io.units import counted, format_size
from hugealign.machine import machine, report
from hugealign.machine.machine import Outcome
from hugealign.machine.machine_policy import Policy
from hugealign.measuring.measure import Measurement, MeasureOptions, measure
from hugealign.run.launch import LaunchOptions
from lab.bench.advice import Program, costs
from lab.bench.sources import sources
from tests.support import made_here

LOOK = 30.0  # seconds of a build
C, CXX = "less", "libjsoncpp"
SECONDS = 300.0  # of each measurement: a build takes some ten
VITE = ("vite@7", "react@19", "react-dom@19", "@vitejs/plugin-react@5")

HEAD = """\
# A machine that builds

{summary}

## How it was made

Written by `python -m lab.bench.machine` ({made}), at a load
of {load}. While each build ran again and again, `hugealign enable --all --dry-run` looked at the machine for
{look:.0f} s. Then `hugealign measure` ran the build by turns with the files of that plan on small and on huge pages,
from three copies of each. *As they are* is what all that start them get, in place; *fixed* is what a service gets that
runs the builds and is in the policy's `include`, with `fix = true`: the other files of the build, too.

What text costs on this machine: {costs}

| build | files | processor time | with huge text, by that without | memory |
|---|---|--:|---|--:|
"""


@dataclass
class Row:
    """A build, the files that were huge, and its measurement."""

    name: str
    files: Sequence[str]
    result: Measurement
    load: float = field(default_factory=lambda: os.getloadavg()[0])

    def __str__(self) -> str:
        """Return the row."""
        small, huge = self.result.sides
        mark = "" if huge.of_first is None or huge.of_first.claim else ", no difference shown"
        memory = format_size(huge.windows * (2 << 20))
        return f"| {self.name} | {len(self.files)} | {small.cpu:.1f} s | {huge.of_first}{mark} | {memory} |"


def builds(work: Path, place: Path) -> Iterator[Program]:
    """Yield the builds, each in a directory of its own for each run, which it removes at its end."""
    scripts = {
        f"configure and make of {C}": f"{place / C / 'tree'}/configure -q && make -s",
        f"CMake and make of {CXX}": f"cmake {place / CXX / 'tree'} -DJSONCPP_WITH_TESTS=OFF && make -s -j2",
        "a page by Node (vite build)": f"cp -r {work}/page/. . && node node_modules/vite/bin/vite.js build",
    }
    _page(work / "page")
    for number, (name, script) in enumerate(scripts.items()):
        path = work / f"build-{number}"
        text = f"set -e\nd={work}/$$\nmkdir $d\ncd $d\n{{ {script}; }} >/dev/null 2>&1\ncd /\nrm -rf $d\n"
        path.write_text(text, encoding="ascii")
        yield Program(name, ("sh", str(path)))


def _page(place: Path) -> None:
    (place / "src").mkdir(parents=True)
    for name in range(200):
        text = f"export default function P{name}({{a}}) {{ return <p className='x{name}'>{{a}} {name}</p> }}\n"
        (place / "src" / f"P{name}.jsx").write_text(text, encoding="ascii")
    used = [f"import P{name} from './P{name}.jsx'" for name in range(200)]
    lines = ["import {createRoot} from 'react-dom/client'", *used, "createRoot(document.body).render(<>"]
    lines += [f"<P{name} a='{name}'/>" for name in range(200)] + ["</>)"]
    (place / "src" / "main.jsx").write_text("\n".join(lines), encoding="ascii")
    page = "<html><body><script type=module src=/src/main.jsx></script></body></html>"
    (place / "index.html").write_text(page, encoding="ascii")
    (place / "package.json").write_text('{"name": "page", "private": true, "type": "module"}', encoding="ascii")
    config = "import react from '@vitejs/plugin-react'\nexport default {plugins: [react()]}\n"
    (place / "vite.config.js").write_text(config, encoding="ascii")
    words = ("npm", "install", "--silent", "--no-audit", "--no-fund", *VITE)
    subprocess.run(words, cwd=place, check=True)


def planned(program: Program, policy: Policy) -> Outcome:
    """Return what would be made huge of a machine on which *program* runs again and again."""
    words = ("sh", "-c", 'while :; do "$@" || exit; done', "sh", *program.words)
    with subprocess.Popen(words, start_new_session=True) as child:
        try:
            return machine.look(policy, LOOK)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


def rows(program: Program, outcome: Outcome) -> Iterator[Row]:
    """Measure *program* with what the *outcome* takes, and with fixed copies of files without a window."""
    files = [file for part in outcome.plan.take for file in part.files]
    more = [one.subject for one in outcome.plan.left if one.code in ("policy.no-window", "policy.little-saved")]
    for name, listed, fix in (("as they are", files, False), ("fixed", [*files, *more], True)):
        if listed:
            options = LaunchOptions(fix=fix, files=listed)
            result = measure(program.words, MeasureOptions(options, copies=3, seconds=SECONDS))
            yield Row(f"{program.name}, {name}", listed, result)


def summary(made: Sequence[Row]) -> str:
    """Return the sentence that begins the page."""
    ratios = [(row.name, row.result.sides[1].of_first) for row in made]
    faster = [(ratio.ratio, name) for name, ratio in ratios if ratio and ratio.high < 1]
    text = (
        f"Of {counted(len(made), 'measurement')} of whole builds, {len(faster)} took less processor time on huge text"
    )
    if faster:
        text += f": {100 * (1 - max(faster)[0]):.0f} to {100 * (1 - min(faster)[0]):.0f} % less"
    return f"{text}."


def main() -> None:
    """Look, measure, and write the document."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.machine", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", metavar="FILE", type=Path, help="the document")
    parser.add_argument("--sources", metavar="DIR", type=Path, help="where the sources are kept")
    parser.add_argument("words", nargs="*", metavar="NAME", help="only builds whose names contain this")
    args = parser.parse_args()
    made, plans = [], []
    policy = Policy()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        work = Path(name)
        place = args.sources or work / "sources"
        place.mkdir(exist_ok=True)
        sources(place, [C, CXX])
        for program in builds(work, place):
            if args.words and not any(word in program.name for word in args.words):
                continue
            outcome = planned(program, policy)
            table = [*report.lines(outcome, policy.bound())]
            print(program.name, *table, sep="\n", file=sys.stderr, flush=True)
            plans.append((program.name, outcome))
            for row in rows(program, outcome):
                made.append(row)
                print(row, flush=True)
    if not made:
        sys.exit("nothing of these builds gains")
    loads = [row.load for row in made]
    fields = {
        "summary": summary(made),
        "made": made_here(),
        "load": f"{min(loads):.1f} to {max(loads):.1f}",
        "look": LOOK,
        "costs": costs(),
    }
    if args.write:
        text = HEAD.format(**fields) + "".join(f"{row}\n" for row in made)
        args.write.write_text(text + "\n## What was planned\n" + "".join(map(_plan, plans)), encoding="utf-8")


def _plan(one: tuple[str, Outcome]) -> str:
    name, outcome = one
    lines = [f"\n**{name}**\n", "| file | windows | of one processor | saves, by the model |", "|---|--:|--:|---|"]
    lines += [
        f"| `{part.name}` | {part.windows} | {100 * part.share:.0f} % | {report.percent(part.saving)} |"
        for part in outcome.plan.take
    ]
    lines += [f"| `{one.subject}` | | | left: {render.sentence(one)} |" for one in outcome.plan.left]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
