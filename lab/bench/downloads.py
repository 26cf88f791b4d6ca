"""What programs that others built gain: simulated misses and processor time, as they are, after `run`, after a fix.

Run by ``python -m lab.bench.downloads --write docs/measured/downloads.md [--path DIRECTORY]...``: some minutes.  It
takes those of WORK that are below the directories, such as node_modules or a virtual environment, or on PATH.
"""

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hugealign.diagnosis.refusal import RefusalError
from hugealign.fixing.fix import FixOptions, fix
from hugealign.io import replacing
from hugealign.pagecache.text import cool, warm

_HUGEALIGN = str(Path(__file__).parents[2] / "bin" / "hugealign")
_CPUS = ("skylake", "zen3")
_PAIRS = 5
_HEAD = """\
# What downloaded programs gain

A fix and huge pages made {faster} of {all} downloaded programs measurably faster and {slower} slower; in the others no
difference shows.

| program | windows | fixed | misses | `run` | `fix`, `run` | time |
|---|--:|--:|--:|--:|--:|--:|
{rows}

*misses*, per thousand instructions, are simulated: of the first-level instruction TLBs of Skylake, with 8 entries for
huge pages, and of Zen 3, with 64. The columns are the file on small pages, with the whole windows that it has (`run`),
and with those that a fix gives it (`fix`, then `run`). *time* is the processor time of the fixed file on huge pages
divided by that on small ones: the median of {pairs} pairs, and in brackets the lowest and the highest. If 1 is between
these, no difference shows.

## How it was made

Written by `python -m lab.bench.downloads --write docs/measured/downloads.md`, {day}, on Linux {release}, a virtual
machine of {processors} processors under a load of {load:.0f}. Each program runs a short job, for the misses under QEMU.
"""
_JS = "export function f{0}(a, b) {{ if (a > {0}) return b * {0} + 1; return [a, b, {0}].map(String) }}\n"
_PYTHON = "def f{0}(a, b):\n    return [x + {0} for x in (a, b) if x != {0}]\n\n\n"
_GO = "func f{0}(a int) int {{ return a*{0} + 1 }}\n"
_C = "int f{0}(int a) {{ return a > {0} ? a * {0} : a + (a & 3); }}\n"
_LOOP = (
    "let s = 0; for (let i = 0; i < 1e5; i++) s += JSON.stringify({ i, a: [i, String(i)] }).length; console.log(s)\n"
)
_FUNCTIONS = range(400)
_FILES = {
    "in.js": "".join(map(_JS.format, _FUNCTIONS)),
    "in.py": "".join(map(_PYTHON.format, _FUNCTIONS)),
    "in.go": "package main\n" + "".join(map(_GO.format, _FUNCTIONS)) + "func main() {}\n",
    "in.c": "".join(map(_C.format, _FUNCTIONS)),
    "loop.js": _LOOP,
}
#: The program, and the words of its job.
WORK: dict[str, tuple[str, ...]] = {
    "ruff": ("check", "--no-cache", "--isolated", "--select=ALL", "--quiet", "--exit-zero", "in.py"),
    "biome": ("lint", "--max-diagnostics=1", "in.js"),
    "esbuild": ("--minify", "in.js", "--outfile=out.js"),
    "bun": ("build", "in.js", "--outfile=out.js"),
    "deno": ("fmt", "--check", "--quiet", "in.js"),
    "node": ("loop.js",),
    "php": ("-r", "for ($i = 0; $i < 100000; $i++) $a[$i % 999] = strrev(json_encode([$i, md5($i)]));"),
    "compile": ("-o", "out.o", "-p", "main", "in.go"),
    "cc1": ("-O2", "-quiet", "in.c", "-o", "out.s"),
}


@dataclass(frozen=True)
class Case:
    """The program at *path* as it is, with *windows*, and its copy *fixed*, with *more* of them."""

    name: str
    path: str
    fixed: str
    windows: int
    more: int


def programs(places: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield those of WORK that are here, with their paths: the largest file of the name."""
    for name in WORK:
        found = [path for place in places for path in Path(place).glob(f"**/{name}*") if path.stem == name]
        found += [Path(path)] if (path := shutil.which(name)) else []
        files = [path.resolve() for path in found if path.is_file() and os.access(path, os.X_OK)]
        if files:
            yield name, str(max(files, key=lambda path: path.stat().st_size))


def case(name: str, path: str, place: Path) -> Case:
    """Return the program and its fixed copy in *place*."""
    fixed = str(place / f"{name}-fixed")
    done = fix(path, FixOptions(output=fixed))
    assert done.plan is not None
    return Case(name, path, fixed, done.plan.windows_before, done.plan.windows)


def misses(program: str, words: Sequence[str], windows: int, place: Path) -> str:
    """Return the misses per thousand instructions of *program* with so many huge *windows*, for each processor."""
    trace = place / "trace"
    record = [_HUGEALIGN, "trace", "-o", str(trace), "--", program, *words]
    subprocess.run(record, cwd=place, check=False, capture_output=True)  # its status is that of the job
    cpus = [f"--cpu={cpu}" for cpu in _CPUS]
    layout = ["--layout=original", f"--windows={windows}-{windows}"]
    simulate = [_HUGEALIGN, "simulate", "--json", *layout, *cpus, str(trace)]
    said = subprocess.run(simulate, check=True, capture_output=True, text=True).stdout
    trace.unlink()
    return ", ".join(f"{row['mpki']:.3f}" for row in json.loads(said)["rows"])


def seconds(program: str, words: Sequence[str], place: Path) -> float:
    """Return the processor time of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program, *words], cwd=place, check=False, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ratios(one: Case, place: Path) -> list[float]:
    """Return the processor time of the fixed copy in huge pages, of that in small ones, for each pair of runs."""
    found = []
    for _ in range(_PAIRS):
        pair = []
        for prepare in (cool, warm):
            done = prepare(one.fixed)
            assert done.huge == (len(done.offsets) if prepare is warm else 0), done
            pair.append(seconds(one.fixed, WORK[one.name], place))
        found.append(pair[1] / pair[0])
    return sorted(found)


def measured(one: Case, place: Path) -> tuple[list[str], list[float]]:
    """Return a row of the table, and the ratios of the processor time in ascending order."""
    words = WORK[one.name]
    plain = misses(one.path, words, 0, place)
    run = misses(one.path, words, one.windows, place) if one.windows else plain
    found = ratios(one, place)
    time_of = f"{statistics.median(found):.2f} ({found[0]:.2f} to {found[-1]:.2f})"
    done = subprocess.run([one.path, "--version"], check=False, capture_output=True,
                          text=True, stdin=subprocess.DEVNULL)  # fmt: skip
    version = re.search(r"\d+\.\d+(\.\d+)*", done.stdout)
    title = f"{one.name} {version[0] if version else ''}".strip()
    after = misses(one.fixed, words, one.more, place)
    return [title, str(one.windows), str(one.more), plain, run, after, time_of], found


def page(rows: Sequence[Sequence[str]], ratios: Sequence[Sequence[float]]) -> str:
    """Return the document of the *rows*, each with its *ratios* of processor time."""
    return _HEAD.format(
        faster=sum(max(each) < 1 for each in ratios),
        slower=sum(min(each) > 1 for each in ratios),
        all=len(rows),
        rows="\n".join(f"| {' | '.join(row)} |" for row in rows),
        day=time.strftime("%Y-%m-%d"),
        release=os.uname().release.partition("-")[0],
        processors=os.cpu_count(),
        load=os.getloadavg()[2],
        pairs=_PAIRS,
    )


def main() -> int:
    """Measure all, and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", metavar="FILE")
    parser.add_argument("--path", action="append", default=[])
    args = parser.parse_args()
    rows: list[list[str]] = []
    times: list[list[float]] = []
    with tempfile.TemporaryDirectory(prefix="downloads-", dir="/var/tmp") as name:  # not on tmpfs
        place = Path(name)
        for file, text in _FILES.items():
            (place / file).write_text(text, encoding="ascii")
        for program, path in programs(args.path):
            try:
                row, found = measured(case(program, path, place), place)
            except RefusalError as error:
                print(f"{program}: {error}", file=sys.stderr, flush=True)
                continue
            rows.append(row)
            times.append(found)
            print(" | ".join(row), file=sys.stderr, flush=True)
            if args.write:
                replacing.write(args.write, page(rows, times).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
