"""What programs that others built gain: simulated misses and processor time, as they are, after `run`, after a fix.

Run by ``python -m lab.bench.downloads --write docs/measured/downloads.md [--path DIRECTORY]...``: some minutes.  It
takes those of WORK and LIBRARIES that are below the directories, such as node_modules or a virtual environment, or on
PATH; a library is fixed in place, and restored.  Rows of the page that are not measured again stay.  ``--only NAME``
measures one.
"""

import argparse
import contextlib
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
from hugealign.pagecache.warm import cool, warm

_HUGEALIGN = str(Path(__file__).parents[2] / "bin" / "hugealign")
_CPUS = ("skylake", "zen3")
_PAIRS = 5
_COLUMNS = 7
_PAGE = """\
# What downloaded programs gain

A fix and huge pages made {faster} of {all} downloaded programs and libraries measurably faster and {slower} slower; the
others show no difference.

| program | windows | fixed | misses | `run` | `fix`, `run` | time |
|---|--:|--:|--:|--:|--:|--:|
{rows}

*misses*, per thousand instructions, are simulated. In each pair, the first number is for the first-level instruction
TLB of Skylake, with 8 entries for huge pages, the second for that of Zen 3, with 64. The three columns are the file
on small pages, with the whole windows that it has (`run`), and with those that a fix gives it (`fix`, then `run`);
other files are on small pages. *time* is the processor time of the fixed file on huge pages divided by that on small
ones: the median of {pairs} pairs, and in brackets the lowest and the highest. If 1 is between these, no difference
shows.

## How it was made

`python -m lab.bench.downloads --write docs/measured/downloads.md` wrote this, {day}, on Linux {release}, a virtual
machine of {processors} processors under a load of {load:.0f}. Each program, or the program that opens the library,
runs a short job; to count the misses, it runs under QEMU.
"""
_JS = "export function f{0}(a, b) {{ if (a > {0}) return b * {0} + 1; return [a, b, {0}].map(String) }}\n"
_PYTHON = "def f{0}(a, b):\n    return [x + {0} for x in (a, b) if x != {0}]\n\n\n"
_GO = "func f{0}(a int) int {{ return a*{0} + 1 }}\n"
_C = "int f{0}(int a) {{ return a > {0} ? a * {0} : a + (a & 3); }}\n"
_LOOP = (
    "let s = 0; for (let i = 0; i < 1e5; i++) s += JSON.stringify({ i, a: [i, String(i)] }).length; console.log(s)\n"
)
_POLARS = """\
import polars
frame = polars.DataFrame({"key": [at % 99 for at in range(30000)], "value": [str(at) for at in range(30000)]})
for _ in range(3):
    frame.lazy().group_by("key").agg(polars.col("value").str.len_bytes().sum()).sort("value").join(
        frame.lazy(), on="key").filter(polars.col("value_right").str.contains("7")).collect()
"""
_OPENBLAS = """\
import numpy
one = numpy.random.default_rng(1).random((120, 120))
for _ in range(3):
    numpy.linalg.svd(one)
    numpy.linalg.solve(one, one @ one)
    numpy.linalg.eig(one)
"""
_DUCKDB = """\
import duckdb
for at in range(3):
    duckdb.sql(f"select k, sum(v), max(s) from (select x % 99 k, x * x v, md5(x::text) s from range(9999) t(x)) "
               f"where v > {at} group by k having sum(v) > 3 order by 3").fetchall()
"""
_TORCH = """\
import torch
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.LayerNorm(128), torch.nn.GELU(), torch.nn.Linear(128, 8))
for at in range(3):
    net(torch.rand(16, 64)).softmax(1).sum().backward()
"""
_JAVA = """\
public class Loop {
    public static void main(String[] words) {
        java.util.Map<String, Integer> found = new java.util.TreeMap<>();
        for (int at = 0; at < 20000; at++) found.merge(String.format("%x", at % 9999), at, Integer::sum);
        System.out.println(found.size());
    }
}
"""
_SERVER = """\
package main

import (
	"compress/gzip"
	"encoding/json"
	"html/template"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

var page = template.Must(template.New("").Parse("<table>{{range .}}<tr><td>{{.k}}<td>{{.v}}{{end}}</table>"))

func serve(w http.ResponseWriter, r *http.Request) {
	var rows []map[string]string
	if json.NewDecoder(r.Body).Decode(&rows) != nil {
		http.Error(w, "no rows", 400)
		return
	}
	packed := gzip.NewWriter(w)
	page.Execute(packed, rows)
	packed.Close()
}

func main() {
	server := httptest.NewServer(http.HandlerFunc(serve))
	body := "[" + strings.Repeat(`{"k":"a","v":"<b>"},`, 40) + `{"k":"z","v":"c"}]`
	var clients sync.WaitGroup
	for i := 0; i < 4; i++ {
		clients.Add(1)
		go func() {
			defer clients.Done()
			for j := 0; j < 150; j++ {
				answer, err := http.Post(server.URL, "application/json", strings.NewReader(body))
				if err != nil {
					panic(err)
				}
				io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		}()
	}
	clients.Wait()
}
"""
_FUNCTIONS = range(400)
_FILES = {
    "in.js": "".join(map(_JS.format, _FUNCTIONS)),
    "in.py": "".join(map(_PYTHON.format, _FUNCTIONS)),
    "in.go": "package main\n" + "".join(map(_GO.format, _FUNCTIONS)) + "func main() {}\n",
    "in.c": "".join(map(_C.format, _FUNCTIONS)),
    "loop.js": _LOOP,
    "frames.py": _POLARS,
    "matrices.py": _OPENBLAS,
    "queries.py": _DUCKDB,
    "tensors.py": _TORCH,
    "Loop.java": _JAVA,
    "goserver.go": _SERVER,
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
    "goserver": (),  # with clients of its own
}


#: The library, by the beginning of its name, and what opens it: the program beside it or above, and its words.
LIBRARIES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "polars": ("_polars_runtime", "python", ("frames.py",)),
    "openblas": ("libscipy_openblas64_", "python", ("matrices.py",)),
    "duckdb": ("_duckdb.", "python", ("queries.py",)),
    "torch": ("libtorch_cpu.so", "python", ("tensors.py",)),
    "jvm": ("libjvm.so", "java", ("-XX:+UseSerialGC", "-cp", ".", "Loop")),
}


@dataclass(frozen=True)
class Case:
    """What runs the file at *path*, by the words of *plain*, and once it is fixed, at *fixed*, by those of *after*.

    It has *windows* as it is, and *more* of them once it is fixed.
    """

    title: str
    path: str
    plain: tuple[str, ...]
    fixed: str
    after: tuple[str, ...]
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


def libraries(places: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield those of LIBRARIES that are below *places*, with their paths and the program that opens each."""
    for name, (library, program, _) in LIBRARIES.items():
        found = [path for place in places for path in sorted(Path(place).resolve().glob(f"**/{library}*"))]
        openers = [(path, above / "bin" / program) for path in found if path.is_file() for above in path.parents]
        yield from [(name, str(path), str(opener)) for path, opener in openers if opener.exists()][:1]


def of_program(name: str, path: str, place: Path) -> Case:
    """Return the program and its fixed copy in *place*.  Raises RefusalError."""
    fixed = str(place / f"{name}-fixed")
    done = fix(path, FixOptions(output=fixed))
    assert done.plan is not None
    done_version = subprocess.run([path, "--version"], check=False, capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL)  # fmt: skip
    version = re.search(r"\d+\.\d+(\.\d+)*", done_version.stdout)
    title = f"{name} {version[0] if version else ''}".strip()
    words = WORK[name]
    return Case(title, path, (path, *words), fixed, (fixed, *words), done.plan.windows_before, done.plan.windows)


def misses(command: Sequence[str], binary: str, windows: int, place: Path) -> str:
    """Return the misses per thousand instructions of *command* for each processor.

    So many *windows* of the file *binary* are huge.
    """
    trace = place / "trace"
    record = [_HUGEALIGN, "trace", "-o", str(trace), "--", *command]
    subprocess.run(record, cwd=place, check=False, capture_output=True)  # its status is that of the job
    cpus = [f"--cpu={cpu}" for cpu in _CPUS]
    layout = ["--layout=original", f"--windows={windows}-{windows}", f"--binary={binary}"]
    simulate = [_HUGEALIGN, "simulate", "--json", *layout, *cpus, str(trace)]
    said = subprocess.run(simulate, check=True, capture_output=True, text=True).stdout
    trace.unlink()
    return ", ".join(f"{row['mpki']:.3f}" for row in json.loads(said)["rows"])


def seconds(command: Sequence[str], place: Path) -> float:
    """Return the processor time of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=place, check=False, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ratios(one: Case, place: Path) -> list[float]:
    """Return the processor time of the fixed file in huge pages, of that in small ones, for each pair of runs."""
    found = []
    for _ in range(_PAIRS):
        pair = []
        for prepare in (cool, warm):
            done = prepare(one.fixed)
            assert done.huge == (len(done.offsets) if prepare is warm else 0), done
            pair.append(seconds(one.after, place))
        found.append(pair[1] / pair[0])
    return sorted(found)


def as_it_is(one: Case, place: Path) -> list[str]:
    """Return the misses of the file in small pages, and with its own windows huge."""
    plain = misses(one.plain, one.path, 0, place)
    return [plain, misses(one.plain, one.path, one.windows, place) if one.windows else plain]


def cells(one: Case, before: Sequence[str], place: Path) -> list[str]:
    """Return a row of the table."""
    found = ratios(one, place)
    time_of = f"{statistics.median(found):.2f} ({found[0]:.2f} to {found[-1]:.2f})"
    after = misses(one.after, one.fixed, one.more, place)
    return [one.title, str(one.windows), str(one.more), *before, after, time_of]


def row_of_library(name: str, path: str, program: str, place: Path) -> list[str]:
    """Return the row of a library, which is fixed in place meanwhile.  Raises RefusalError."""
    planned = fix(path, FixOptions(output=str(place / "planned")))
    assert planned.plan is not None
    command = (program, *LIBRARIES[name][2])
    one = Case(name, path, command, path, command, planned.plan.windows_before, planned.plan.windows)
    before = as_it_is(one, place)
    fix(path, FixOptions(in_place=True))
    try:
        return cells(one, before, place)
    finally:
        fix(path, FixOptions(in_place=True, undo=True))


def page(rows: Sequence[Sequence[str]], text: str) -> str:
    """Return the document with *rows*, and those of the page *text* that were not measured again, in its order."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if " to " in line]
    merged = {cells[0]: cells for cells in lines if len(cells) == _COLUMNS} | {row[0]: list(row) for row in rows}
    times = [[float(number) for number in re.findall(r"\d+\.\d+", row[-1])] for row in merged.values()]
    return _PAGE.format(
        faster=sum(highest < 1 for _, _, highest in times),
        slower=sum(lowest > 1 for _, lowest, _ in times),
        all=len(merged),
        rows="\n".join(f"| {' | '.join(row)} |" for row in merged.values()),
        day=time.strftime("%Y-%m-%d"),
        release=os.uname().release.partition("-")[0],
        processors=os.cpu_count(),
        load=os.getloadavg()[2],
        pairs=_PAIRS,
    )


def measured(place: Path, places: Sequence[str], only: Sequence[str]) -> Iterator[list[str]]:
    """Yield a row for each program and library that is here; say why one could not be fixed."""
    for name, path in programs(places):
        if not only or name in only:
            with _refusals(name):
                one = of_program(name, path, place)
                yield cells(one, as_it_is(one, place), place)
    for name, path, program in libraries(places):
        if not only or name in only:
            with _refusals(name):
                yield row_of_library(name, path, program, place)


@contextlib.contextmanager
def _refusals(name: str) -> Iterator[None]:
    try:
        yield
    except RefusalError as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)


def main() -> int:
    """Measure all, and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", metavar="FILE")
    parser.add_argument("--path", action="append", default=[])
    parser.add_argument("--only", metavar="NAME", action="append", default=[])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="downloads-", dir="/var/tmp") as name:  # not on tmpfs
        place = Path(name)
        for file, text in _FILES.items():
            (place / file).write_text(text, encoding="ascii")
        if shutil.which("javac"):
            subprocess.run(["javac", "Loop.java"], cwd=place, check=True)
        if shutil.which("go"):
            subprocess.run(["go", "build", "goserver.go"], cwd=place, check=True)
        for row in measured(place, [*args.path, name], args.only):
            print(" | ".join(row), file=sys.stderr, flush=True)
            if args.write:
                text = Path(args.write).read_text(encoding="utf-8") if os.path.exists(args.write) else ""
                replacing.write(args.write, page([row], text).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
