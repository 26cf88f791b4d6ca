"""BOLT's output of large programs, made whole by `hugealign fix`: ``python -m lab.bench.bolted [NAME]...``.

`hugealign` links each program of lab/bench/peers with its relocations (``-Wl,-q``).  BOLT rewrites it by the recipe
of its README, with the branches that ``python -m lab.bench.peers --program NAME`` recorded in an earlier run.  Its
output goes through `fix`, `verify` and `warm`.  The three files then do the same work: clang compiles every program of
tests/corpus/cxx, PostgreSQL passes its tests, the others make their two runs.  It prints the windows of each, the
findings of `verify`, and the windows that the kernel has mapped huge at the end of a run, where clang's `main` waits,
and in PostgreSQL's process that waits for clients.  It fails if an output or a status differs, or if a test fails.
PostgreSQL (`lab.bench.postgres`) needs no earlier run.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lab.bench import postgres
from lab.bench.peers import builds, live
from lab.bench.peers.program import LINKERS, Program
from lab.bench.peers.programs import PROGRAMS
from tests.support import HUGEALIGN, PAGE, ROOT, environment, run

_NAMES = ("clang", "postgres", "sqlite", "script")


@dataclass(frozen=True, slots=True)
class Work:
    """What one file did: its *status* and its *output*, including objects that it wrote."""

    status: int
    output: bytes


def did(program: Program, file: Path) -> dict[str, Work]:
    """Return the work of *file*, a build of *program*, by name."""
    if program.name != "clang":
        runs = {"train": program.train, "test": program.test}
        return {name: ran(file, arguments, program.directory) for name, arguments in runs.items()}
    result = {}
    target = program.directory / "source.o"
    for source in preprocessed(program.directory / "cxx"):
        target.unlink(missing_ok=True)
        arguments = [*program.train[:-1], str(source)]  # its last word is the source
        arguments[arguments.index("/dev/null")] = str(target)
        done = ran(file, tuple(arguments), program.directory)
        result[source.name] = Work(done.status, done.output + (target.read_bytes() if target.exists() else b""))
    return result


@cache
def preprocessed(directory: Path) -> tuple[Path, ...]:
    """Return the programs of tests/corpus/cxx in *directory*, preprocessed by clang-19 and sorted by name."""
    directory.mkdir(exist_ok=True)
    texts = []
    for source in sorted((ROOT / "tests" / "corpus" / "cxx").glob("*.cc")):
        text = directory / f"{source.stem}.ii"
        words = ["clang++-19", "-std=c++20", "-E", "-P", str(source), "-o", str(text)]
        subprocess.run(words, check=True, env=environment())
        texts.append(text)
    return tuple(texts)


def ran(file: Path, arguments: tuple[str, ...], directory: Path) -> Work:
    """Run *file* in *directory*."""
    words = [str(file), *arguments]
    done = subprocess.run(words, cwd=directory, env=environment(), capture_output=True, check=False, timeout=600)
    return Work(done.returncode, done.stdout + done.stderr)


def asked(command: str, file: Path) -> dict[str, Any]:
    """Return the only file in the answer of `hugealign COMMAND --json FILE`."""
    (result,) = json.loads(run(HUGEALIGN, command, "--json", file).stdout)["files"]
    return dict(result)


def three(program: Program) -> dict[str, Path]:
    """Make and return the linked file, BOLT's output for it, and that output fixed."""
    data = program.directory / "full.fdata"
    if not data.exists():
        raise SystemExit(f"{data} is not there; first: python -m lab.bench.peers --program {program.name}")
    linked = program.directory / "whole"
    command, _ = builds.link(program, linked.name, *LINKERS["lld"], "-Wl,-q", wrapper=(str(HUGEALIGN),))
    builds.made(program, command, linked)
    bolted, fixed = linked.with_name("whole.bolt"), linked.with_name("whole.fixed")
    words = [*builds.BOLT_BLOCKS, f"-data={data.name}", "-o", bolted.name]
    builds.made(program, [str(builds.BOLT), linked.name, *words], bolted, data)
    builds.made(program, [str(HUGEALIGN), "fix", "-o", fixed.name, bolted.name], fixed, bolted)
    return {"linked by hugealign": linked, "by BOLT": bolted, "by fix": fixed}


def ready(file: Path) -> tuple[str, str, str]:
    """Warm *file* and return its windows, the findings of `verify`, and how many windows are huge now."""
    result, warmed = asked("verify", file), asked("warm", file)
    rules = ", ".join(sorted({item["code"] for item in result["diagnoses"]})) or "--"
    return str(result["coverage"]["windows"]), rules, f"{warmed['windows_huge']} of {warmed['windows']}"


def show(*cells: str) -> None:
    """Print a row of the table."""
    print(f"| {' | '.join(cells)} |", flush=True)


def measure(program: Program) -> bool:
    """Print the lines of *program*; return whether all its files do the same."""
    reference, same = did(program, program.directory / "plain.lld"), True
    for title, file in three(program).items():
        cells = ready(file)
        work = did(program, file)
        different = [name for name, item in reference.items() if work[name] != item]
        same = same and not different
        seen = live.look(file, program.test, program.directory, warm=True)
        mapped = "--" if seen.why else str(seen.huge // (PAGE >> 10))
        show(program.name, title, *cells, mapped, f"{len(work) - len(different)} of {len(work)}")
        for name in different:
            print(f"{program.name}, {title}: {name} is different from the plain link", file=sys.stderr)
    return same


def measure_postgres() -> bool:
    """Print the lines of PostgreSQL; exit if a test fails."""
    for title, file in postgres.three().items():
        cells, passed = ready(file), postgres.tested(file)
        show("postgres", title, *cells, str(postgres.alive()), passed)
    return True


def main() -> int:
    """Print the table; return 1 if a file behaves differently."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.bolted", description=(__doc__ or "").partition("\n")[0])
    # Before Python 3.12, argparse checks the empty list against choices too.
    parser.add_argument("programs", nargs="*", choices=(*_NAMES, []), metavar="|".join(_NAMES), help="default: all")
    print("| program | file | windows | `verify` finds | huge in the cache | at the end of a run | the same output |")
    print("|---|---|--:|---|--:|--:|--:|")
    # All of them, even after a failure.
    names = parser.parse_args().programs or _NAMES
    same = [measure_postgres() if name == "postgres" else measure(PROGRAMS[name]()) for name in names]
    return int(not all(same))


if __name__ == "__main__":
    sys.exit(main())
