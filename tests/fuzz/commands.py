"""Commands on generated input: ``python -m tests.fuzz.commands --kind ar,tar --count 20000 --seed 1``.

Each case is a file, made from its kind, the seed and its number, and a command line of `hugealign`.  The commands run
whole, from their words to their status, in children of a process that has everything imported: a few milliseconds each.
The kernel holds them to their bounds, and each must end as it is documented: see `runner`.  Status 1 if one does not;
what broke it is made smaller and kept in ``tests/fuzz/corpus/KIND``, which `test_commands.py` runs again.

Python, a C compiler and the GNU binutils are all that it needs.
"""

import argparse
import contextlib
import hashlib
import importlib.util
import math
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import hugealign
from tests.fuzz import files, room
from tests.fuzz.kinds import KINDS, Case, case
from tests.fuzz.runner import Runner, smaller

CORPUS = Path(__file__).parent / "corpus"
_BATCH = 100  # cases in one child
_ROOM = 512 << 20  # bytes that one process may need for its files


@dataclass
class Result:
    """What the cases of a kind showed: bytes, seconds of processor time, and for each problem what showed it."""

    count: int = 0
    peak: int = 0
    slowest: float = 0.0
    findings: dict[str, Path] = field(default_factory=dict)

    def add(self, more: "Result") -> None:
        """Take up the result of further cases."""
        self.count += more.count
        self.peak = max(self.peak, more.peak)
        self.slowest = max(self.slowest, more.slowest)
        self.findings = more.findings | self.findings


@dataclass(frozen=True)
class Task:
    """What one of *jobs* processes does: every *jobs*-th hundred of the cases, kind by kind in turn."""

    kinds: tuple[str, ...]
    seed: int
    count: int
    until: float  # time.monotonic()
    keep: Path
    jobs: int
    number: int


def fuzz(task: Task) -> dict[str, Result]:
    """Run the cases of *task* in this process's children."""
    results = {kind: Result() for kind in task.kinds}
    with _directory(task.jobs) as work:
        runner = Runner(work)
        for turn in count():
            first = _BATCH * (turn * task.jobs + task.number)
            numbers = range(first, min(first + _BATCH, task.count))
            if not numbers:
                break
            for kind in task.kinds:
                if time.monotonic() > task.until:
                    return results
                cases = [case(kind, task.seed, number) for number in numbers]
                results[kind].add(_batch(runner, cases, task))
    return results


def _batch(runner: Runner, cases: list[Case], task: Task) -> Result:
    runner.peak, runner.slowest = 0, 0.0
    findings: dict[str, Path] = {}
    problems = runner.run(cases)
    result = Result(len(cases), runner.peak, runner.slowest, findings)
    for item, problem in zip(cases, problems, strict=True):
        if problem and problem not in findings:
            findings[problem] = keep(problem, item, task.keep)  # at once: making it smaller may take long
            small = smaller(runner, item, problem, until=task.until)
            if small != item:
                _remove(findings[problem])
                findings[problem] = keep(problem, small, task.keep)
    return result


@contextlib.contextmanager
def _directory(jobs: int) -> Iterator[Path]:
    """A directory in memory, if there is one with room: the files are many and short-lived."""
    memory = "/dev/shm"
    fits = os.path.isdir(memory) and shutil.disk_usage(memory).free > jobs * _ROOM
    with tempfile.TemporaryDirectory(prefix="hugealign-fuzz-", dir=memory if fits else None) as work:
        yield Path(work)


def keep(problem: str, broken: Case, directory: Path = CORPUS) -> Path:
    """Write *broken* below *directory*: the file, and beside it the command and what was wrong."""
    path = directory / broken.kind / hashlib.sha256(broken.data).hexdigest()[:12]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(broken.data)
    path.with_suffix(".txt").write_text(f"{' '.join(broken.command)}\n{broken.kind}: {problem}\n")
    return path


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.with_suffix(".txt").unlink(missing_ok=True)


def corpus() -> list[tuple[Path, Case]]:
    """Return what is kept, each with the command that it broke."""
    entries = []
    for note in sorted(CORPUS.glob("*/*.txt")):
        command = tuple(note.read_text().splitlines()[0].split(" "))
        path = note.with_suffix("")
        entries.append((path, Case(note.parent.name, command, path.read_bytes())))
    return entries


def _here(kinds: list[str]) -> list[str]:
    """Return those of *kinds* that this machine can run, and say which it cannot, and what it does not have."""
    needs = {name: KINDS[name].needs for name in kinds if KINDS[name].needs}
    lacking = {name: what for name, what in needs.items() if not (importlib.util.find_spec(what) or shutil.which(what))}
    for name, what in lacking.items():
        print(f"skipped: {name}, which needs {what}")
    if not shutil.which("zstd"):
        print("no zstd here: what it packed is refused unread")
    if missing := files.prepare():
        print(f"no ELF files of {', '.join(missing)}: their tools are not here")
    if not room.possible():
        print("temporary files are bounded one by one, not together: no tmpfs can be mounted here")
    return [name for name in kinds if name not in lacking]


def _commit() -> str:
    """Name the code: the commit if git is here, and a checksum of the package's Python."""
    root = Path(hugealign.__path__[0])
    code = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(root.rglob("*.py")))).hexdigest()[:12]
    command = ["git", "-C", str(root), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return f"code {code}"
    return f"commit {done.stdout.strip() or 'unknown'}, code {code}"


def main() -> int:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.commands", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kind", default="all", help=f"with commas between them: {', '.join(KINDS)} (default: all)")
    parser.add_argument("--count", type=int, help="cases of each kind (default: 1000, or no limit with --seconds)")
    parser.add_argument("--seconds", type=float, help="start no case after this time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes (default: %(default)s)"
    )
    parser.add_argument("--keep", type=Path, default=CORPUS, help="directory for what is found (default: the corpus)")
    parser.add_argument("--only", type=int, metavar="N", help="write case N of the kind to standard output")
    args = parser.parse_args()
    kinds = list(KINDS) if args.kind == "all" else args.kind.split(",")
    if args.only is not None:
        item = case(kinds[0], args.seed, args.only)
        print(*item.command, file=sys.stderr)
        sys.stdout.buffer.write(item.data)
        return 0
    began = time.monotonic()
    print(f"Python {sys.version.split()[0]}, {args.jobs} processes, seed {args.seed}, {_commit()}")
    kinds = _here(kinds)
    print(flush=True)
    limit = args.count or (1000 if args.seconds is None else 1 << 40)
    until = began + (args.seconds or math.inf)
    tasks = [Task(tuple(kinds), args.seed, limit, until, args.keep, args.jobs, job) for job in range(args.jobs)]
    results = {kind: Result() for kind in kinds}
    # Forked: the program and the samples are made, and everything is imported, once.
    with ProcessPoolExecutor(args.jobs, multiprocessing.get_context("fork")) as pool:
        for part in pool.map(fuzz, tasks):
            for kind, result in part.items():
                results[kind].add(result)
    print(f"{'kind':24}{'inputs':>9}{'findings':>10}{'peak, MiB':>11}{'slowest, s':>12}")
    for kind, result in results.items():
        cost = f"{result.peak / (1 << 20):11.0f}{result.slowest:12.2f}"
        print(f"{kind:24}{result.count:9}{len(result.findings):10}{cost}")
        for problem, path in result.findings.items():
            command = path.with_suffix(".txt").read_text().partition("\n")[0]
            print(f"  {problem}: {path} ({path.stat().st_size} bytes): {command}")
    total, entries = (
        sum(values) for values in zip(*((r.count, len(r.findings)) for r in results.values()), strict=True)
    )
    print(f"{total} inputs of {len(kinds)} kinds in {time.monotonic() - began:.0f} s: {entries} findings")
    return 1 if entries else 0


if __name__ == "__main__":
    # Each thread would reserve 64 MiB of addresses for an arena of its own (mallopt(3)), which count as memory here.
    if "MALLOC_ARENA_MAX" not in os.environ:
        os.execve(sys.executable, sys.orig_argv, os.environ | {"MALLOC_ARENA_MAX": "1"})  # noqa: S606
    sys.exit(main())
