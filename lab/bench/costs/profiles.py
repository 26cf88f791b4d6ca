"""Reading profiles beside the tool that prints them, and ordering many functions.

``python -m lab.bench.costs.profiles`` times CDSort and the order of a binary of half a million symbols; then it records
a program of 5 MiB of text (the demo's, its functions called over and over), flat and with call chains, at least 50 MB
each, and compares `hugealign order` and `profile reduce` with ``perf script >/dev/null``, by default and with the
fields that hugealign requests.  ``clang`` does the same with a compilation of C++ by clang, whose code is in libraries
of 100,000 functions: the profile is small, and the program large.  CPU seconds are of the command and all that it
started: on a busy machine they say more than the clock.
"""

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from operator import attrgetter
from pathlib import Path

from hugealign.ordering.cdsort import Arc, cdsort
from lab.bench.timing import Table, cost, in_turn
from tests.support import HUGEALIGN, ROOT

LEAST = 50 << 20
SYMBOLS = 500_000
UNIT = """\
#include <iostream>
#include <map>
#include <regex>
int main(int, char **argv) {
    std::map<std::string, int> m;
    std::regex r(argv[0]);
    m[argv[0]] += std::regex_search(argv[0], r);
    std::cout << m.size();
}
"""

#: perf's options for recording, and the fields that hugealign then requests.
RECORDINGS = {"flat": ([], "pid,ip"), "chains": (["-g"], "pid,ip,dso")}


def used(argv: list[str], cwd: Path) -> tuple[float, float, int]:
    """Run a command that must succeed; return seconds by the clock, CPU seconds and peak memory in MiB."""
    began = time.perf_counter()
    with open(os.devnull, "wb") as null:
        process = subprocess.Popen(argv, cwd=cwd, stdout=null, stderr=null)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, argv)
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss >> 10


def show(title: str, runs: list[tuple[float, float, int]]) -> None:
    """Print the minimum of each figure."""
    clock, cpu, memory = (min(column) for column in zip(*runs, strict=True))
    print(f"{title:44} {clock:8.2f} {cpu:8.2f} {memory:8}", flush=True)


def sampled_program(directory: Path) -> Path:
    """Compile the demo's program to call its functions for as long as its argument says."""
    subprocess.run([sys.executable, ROOT / "examples" / "demo" / "generate.py", directory], check=True)
    main = directory / "main.c"
    text = main.read_text().replace("int main(void)", "int main(int argc, char **argv)")
    text = text.replace("  for (unsigned i = 0;", "  for (long n = atol(argv[argc - 1]); n--;)\n  for (unsigned i = 0;")
    main.write_text("#include <stdlib.h>\n" + text.replace("  pause();\n", ""))
    sources = [str(source) for source in sorted(directory.glob("*.c"))]
    subprocess.run(["gcc", "-g0", "-Wl,--build-id", *sources, "-o", str(directory / "prog")], check=True)
    return directory / "prog"


def ingest(table: Table, directory: Path, rounds: int, titles: Iterable[str]) -> None:
    """Compare perf script with `hugealign order` and `profile reduce`, which run it; all in turn."""
    program = sampled_program(directory)
    for title in titles:
        words, fields = RECORDINGS[title]
        data, loops, size = directory / "perf.data", 5_000, 0
        while size < LEAST:
            record = ["perf", "record", "-q", *words, "-e", "cpu-clock:u,task-clock:u", "-F", "25000", "-o", str(data)]
            subprocess.run([*record, str(program), str(loops)], stdout=subprocess.DEVNULL, check=True)
            size = data.stat().st_size
            loops = int(loops * 1.2 * LEAST / size) + 1
        script = ["perf", "script", "-i", str(data)]
        ours = [*script, "-F", fields, "--show-mmap-events", "--show-task-events"]
        order = [str(HUGEALIGN), "order", str(data), "-b", str(program)]
        reduce = [str(HUGEALIGN), "profile", "reduce", str(data), "-b", str(program), "-o", str(directory / "counts")]
        runs = in_turn([partial(cost, argv, directory) for argv in (script, ours, order, reduce)], rounds)
        plain, same, *made = runs
        for command, mine in zip(("order", "reduce"), made, strict=True):
            for name, theirs in (("perf script", plain), ("our fields", same)):
                for unit, of in (("clock", attrgetter("wall")), ("CPU", attrgetter("cpu"))):
                    what = f"{title}, {size >> 20} MiB, {command}: {name}, {unit}"
                    table.show(what, *([of(c) * 1000 for c in costs] for costs in (theirs, mine)))
        data.unlink()


def compilation(table: Table, directory: Path, rounds: int) -> None:
    """Compare perf script with `hugealign order` of the library that most samples of a compilation are in."""
    source = directory / "unit.cc"
    source.write_text(UNIT)
    clang = str(Path(shutil.which("clang++") or "clang++").resolve())
    libraries = subprocess.run(["ldd", clang], capture_output=True, text=True, check=True).stdout.split()
    library = next(word for word in libraries if word.startswith("/") and "libLLVM" in word)
    data = directory / "perf.data"
    for title, (words, _) in RECORDINGS.items():
        record = ["perf", "record", "-q", *words, "-e", "cpu-clock:u", "-F", "4999", "-o", str(data)]
        subprocess.run([*record, clang, "-O2", "-c", source, "-o", directory / "unit.o"], check=True)
        order = [str(HUGEALIGN), "order", str(data), "-b", library, "--force"]
        script, ours = in_turn(
            [partial(cost, argv, directory) for argv in (["perf", "script", "-i", str(data)], order)], rounds
        )
        table.show(
            f"clang, {title}, order: perf script, CPU", *([c.cpu * 1000 for c in side] for side in (script, ours))
        )
        data.unlink()


def sorting(runs: int = 3) -> None:
    """Order 22,000 functions with 57,000 arcs, as many as in a large server's profile."""
    chance = random.Random(1)
    sizes = [chance.randrange(16, 4096) for _ in range(22_000)]
    counts = [int(chance.paretovariate(0.7)) for _ in sizes]
    arcs = [
        # Some functions have hundreds of callers.
        Arc(chance.randrange(22_000), int(22_000 * chance.random() ** 2), int(chance.paretovariate(0.8)), None)
        for _ in range(57_000)
    ]
    show("CDSort: 22000 functions, 57000 arcs", [timed(cdsort, sizes, counts, arcs) for _ in range(runs)])


def timed(work: Callable[..., object], *arguments: object) -> tuple[float, float, int]:
    """Do some *work*; return seconds by the clock, CPU seconds and this process's peak memory so far in MiB."""
    began, cpu = time.perf_counter(), time.process_time()
    work(*arguments)
    clock, cpu = time.perf_counter() - began, time.process_time() - cpu
    return clock, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def many_functions(directory: Path) -> Path:
    """Make a program of SYMBOLS functions in *directory*."""
    lines = [".text"]
    for number in range(SYMBOLS):
        lines.append(f".globl function_{number:06}\n.type function_{number:06},@function\nfunction_{number:06}:")
        lines.append(f".fill {16 + number % 48},1,0x90\nret\n.size function_{number:06}, . - function_{number:06}")
    (directory / "many.s").write_text("\n".join([*lines, ".globl _start\n_start: ret\n"]))
    words = ["gcc", "-nostdlib", "-static", "-Wl,--build-id", "many.s", "-o", "many"]
    subprocess.run(words, cwd=directory, check=True)
    return directory / "many"


def many_symbols(directory: Path, runs: int = 3) -> None:
    """Read a program of SYMBOLS functions and order a profile of all of them."""
    program, profile = many_functions(directory), directory / "many.folded"
    chance = random.Random(2)
    stacks = (
        f"function_{chance.randrange(SYMBOLS):06};function_{number:06} {chance.randrange(1, 99)}\n"
        for number in range(0, SYMBOLS, 20)
    )
    profile.write_text("".join(stacks) + "".join(f"function_{number:06} 1\n" for number in range(SYMBOLS)))
    order = [str(HUGEALIGN), "order", str(profile), "-b", str(program), "-o", str(directory / "many.order")]
    show(f"order of {SYMBOLS} symbols", [used(order, directory) for _ in range(runs)])


def main() -> None:
    """Run all benchmarks, or those that are named."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.costs.profiles", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help="sorting, symbols, flat, chains or clang (default: all)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs of what was recorded (default: 5)")
    args = parser.parse_args()
    parts = args.parts or ["sorting", "symbols", *RECORDINGS, "clang"]
    with tempfile.TemporaryDirectory(prefix="hugealign-bench-") as name:
        if {"sorting", "symbols"} & set(parts):
            print(f"{'least of three runs':44} {'seconds':>8} {'CPU s':>8} {'MiB':>8}")
        if "sorting" in parts:
            sorting()
        if "symbols" in parts:
            many_symbols(Path(name))
        if recordings := [part for part in parts if part in RECORDINGS]:
            ingest(Table(), Path(name), args.rounds, recordings)
        if "clang" in parts:
            compilation(Table(), Path(name), args.rounds)


if __name__ == "__main__":
    main()
