"""Commands on generated input: ``python -m tests.fuzz.commands --kind ar,tar --count 20000 --seed 1``.

Each case is a file, made from its kind, the seed and its number, and a command line of `hugealign`.  The commands run
whole, from their words to their status, in children of a process that has everything imported: a few milliseconds each.
The kernel holds them to their bounds, and each must end as it is documented: see `_verdict`.  Status 1 if one does not;
what broke it is made smaller and kept in ``tests/fuzz/corpus/KIND``, which `test_commands.py` runs again.

A new kind is a row in `KINDS`.
"""

import argparse
import contextlib
import gc
import hashlib
import importlib
import io
import math
import multiprocessing
import os
import pkgutil
import random
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import hugealign
import hugealign.cli
from tests.fuzz import archives, files, readers

CORPUS = Path(__file__).parent / "corpus"
MEMORY = 256 << 20  # bytes of addresses above those of the process that is forked
SECONDS = 5  # of processor time, and `Kind.rate` more
SECONDS_PER_MEBIBYTE = 10.0  # docs/verify.md
TEMPORARY = 320 << 20  # bytes of one temporary file, holes too, and `TEMPORARY_TIMES` the input: docs/verify.md
TEMPORARY_TIMES = 600
STDERR = 4096  # bytes
_HANG = 60.0  # seconds until a case counts as one that hangs
_NAME, OUT = "x", "out"
_BATCH = 100  # cases in one child


@dataclass(frozen=True)
class Kind:
    """A kind of file, and what is done with it.

    *make* makes one.  Of *commands*, one is chosen; ``@`` stands for the file.  *statuses* are the documented ones;
    those of *silent* print nothing on standard output.  *beside* are files that lie there as well.  A command that ends
    with status 0 may leave `OUT`.
    """

    make: Callable[[random.Random], bytes]
    commands: tuple[tuple[str, ...], ...]
    statuses: frozenset[int] = frozenset({0, 1, 2, 3})
    silent: frozenset[int] = frozenset({2})
    rate: float = SECONDS_PER_MEBIBYTE
    beside: Callable[[], dict[str, bytes]] = dict


_VERIFY = (
    ("verify", "@"),
    ("verify", "-q", "@"),
    ("verify", "-v", "--kernels", "@"),
    ("verify", "--format=json", "@"),
    ("verify", "--format=sarif", "--strict", "@"),
    ("verify", "--format=github", "@"),
    ("verify", "--format=junit", "@"),
    ("verify", "--format=gcc", "--min-text=0", "@"),
    ("verify", "--max-unpacked=1M", "@"),
    ("verify", "-r", "."),
    ("verify", "@", "--", "@"),
)
_FIX = (
    ("fix", "--dry-run", "@"),
    ("fix", "--dry-run", "--format=json", "--level=merge", "@"),
    ("fix", "-o", OUT, "@"),
    ("fix", "-o", OUT, "--level=align", "@"),
    ("fix", "-o", OUT, "--undo", "@"),
    ("fix", "--report", "@"),
)
_PROFILE = (
    ("order", "@", "-b", "prog"),
    ("order", "@", "-b", "prog", "--force", "-o", OUT),
    ("order", "@", "folded", "-b", "prog", "--emit=json", "--force", "--format=json", "-o", OUT),
    ("map", "prog", "--profile", "@", "--force"),
    ("map", "prog", "--profile", "@", "--force", "--svg", OUT),
)
_ORDER = (
    ("order", "--diff", "@", "good.order"),
    ("order", "--diff", "good.order", "@"),
    ("order", "@", "-b", "prog"),
    ("map", "prog", "--order", "@"),
)
_OF_ELF = (
    ("warm", "--check", "@"),
    ("warm", "--check", "--libs", "@"),
    ("order", "folded", "-b", "@"),
    ("order", "folded", "-b", "@", "--force", "-o", OUT),
    ("map", "@", "--profile", "folded", "--force"),
)
KINDS: dict[str, Kind] = {name: Kind(make, _VERIFY) for name, make in archives.KINDS.items()} | {
    "elf": Kind(files.elf, _VERIFY),
    "elf-fix": Kind(files.elf, _FIX),
    "elf-others": Kind(files.elf, _OF_ELF, beside=files.beside),
    "profile": Kind(files.profile, _PROFILE, beside=files.beside),
    "order": Kind(files.order, _ORDER, beside=files.beside),
    **{name: Kind(make, words, beside=files.beside) for name, (make, words) in readers.KINDS.items()},
    "baseline": Kind(files.baseline, (("verify", "--baseline", "@", "/bin/true"),)),
}


@dataclass
class Case:
    """One command line on one file."""

    kind: str
    command: tuple[str, ...]
    data: bytes


def case(kind: str, seed: int, number: int) -> Case:
    """Return the case of that *number*: always the same."""
    chance = random.Random(f"{kind}/{seed}/{number}")
    return Case(kind, chance.choice(KINDS[kind].commands), KINDS[kind].make(chance))


class Runner:
    """Runs cases, each in a child of this process, one after the other, in the directory *work*."""

    def __init__(self, work: Path) -> None:
        self._work = work / "work"
        self._temporary = work / "tmp"
        self._work.mkdir()
        self._temporary.mkdir()
        self._out, self._err = (os.memfd_create(name) for name in ("out", "err"))
        for module in pkgutil.walk_packages(hugealign.__path__, "hugealign."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
        for name in ("bz2", "lzma", "zlib", "json", "tempfile", "subprocess"):
            importlib.import_module(name)
        gc.freeze()
        status = Path("/proc/self/status").read_text()
        self._addresses = int(status.partition("VmSize:")[2].split()[0]) << 10
        self.slowest = 0.0
        self._last = ""

    def run(self, cases: list[Case]) -> list[str]:
        """Return for each of *cases* what was wrong with the way in which it ended; empty if nothing was.

        They run in one child, as long as nothing is wrong; the one that something is wrong with runs in one of its own.
        """
        problems: list[str] = []
        while len(problems) < len(cases):
            done = self._try(cases[len(problems) :])
            problems += [""] * done
            if len(problems) < len(cases):
                one = cases[len(problems)]
                together = self._last
                problems.append(self._last if self._try([one]) == 0 else f"only after others: {together}")
        return problems

    def _try(self, cases: list[Case]) -> int:
        """Run *cases* in one child; return how many ended well until one did not, and put what is wrong in `_last`."""
        answers, theirs = os.pipe2(os.O_CLOEXEC)
        child = os.fork()
        if not child:
            self._child(cases, theirs)
        os.close(theirs)
        said = b""
        before = self._last = ""
        while True:
            if not select.select([answers], [], [], _HANG)[0]:
                before = "hangs"
                os.kill(child, signal.SIGKILL)
            data = os.read(answers, 1 << 16)
            if not data:
                break
            said += data
        os.close(answers)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        ended = said.decode().split("\n")[:-1]
        self.slowest = max([self.slowest, *(float(line.partition(" ")[0]) for line in ended)])
        wrong = next((at for at, line in enumerate(ended) if line.partition(" ")[2]), len(ended))
        if wrong < len(ended):
            self._last = ended[wrong].partition(" ")[2]
        elif wrong < len(cases):
            self._last = before or (f"ended by {signal.Signals(-status).name}" if status < 0 else f"died: {status}")
        self._clean({})
        return wrong

    def _clean(self, beside: dict[str, bytes]) -> list[str]:
        known = {_NAME, *beside}
        left = [path for path in (*self._work.iterdir(), *self._temporary.iterdir()) if path.name not in known]
        for path in left:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return [path.name for path in left]

    def _child(self, cases: list[Case], answers: int) -> None:
        status = 70
        try:
            os.dup2(self._out, 1)
            os.dup2(self._err, 2)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.chdir(self._work)
            os.environ["TMPDIR"] = str(self._temporary)
            for number in (signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_AS, (self._addresses + MEMORY,) * 2)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            for case in cases:
                seconds, problem = self._one(case)
                os.write(answers, f"{seconds:.3f} {problem}\n".encode("ascii", "backslashreplace"))
                if problem:
                    break
            status = 0
        finally:
            os._exit(status)

    def _one(self, case: Case) -> tuple[float, str]:
        """Run *case* in this process; return its seconds of processor time and what is wrong."""
        kind = KINDS[case.kind]
        self._clean(kind.beside())  # what lay beside a case of another kind
        (self._work / _NAME).write_bytes(case.data)
        for name, data in kind.beside().items():
            if not (self._work / name).exists():
                (self._work / name).write_bytes(data)
        for fd in (self._out, self._err):
            os.ftruncate(fd, 0)
            os.lseek(fd, 0, os.SEEK_SET)
        sys.stdout, sys.stderr = (io.TextIOWrapper(open(fd, "wb", closefd=False), "utf-8") for fd in (1, 2))  # noqa: SIM115
        bound = SECONDS + kind.rate * len(case.data) / (1 << 20)
        began = _seconds()
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(began + bound) + 1, resource.RLIM_INFINITY))
        size = TEMPORARY + TEMPORARY_TIMES * len(case.data)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        status = 1
        try:
            status = hugealign.cli.main([_NAME if word == "@" else word for word in case.command])
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        except BaseException:  # noqa: BLE001  # whatever it is, it is what is looked for
            os.write(2, traceback.format_exc().encode("utf-8", "replace"))
        for stream in (sys.stdout, sys.stderr):  # as the interpreter does when it ends
            stream.flush()
        seconds = _seconds() - began
        problem = _verdict(kind, status, *(os.pread(fd, 64 << 20, 0) for fd in (self._out, self._err)))
        if not problem and seconds > bound:
            problem = f"more than {bound:.0f} s of processor time"
        left = self._clean(kind.beside())
        if not problem and left not in ([], [OUT] if status == 0 else []):
            problem = f"status {status} and leaves files behind"
        if not problem and (self._work / _NAME).read_bytes() != case.data:
            problem = "changes the file"
        return seconds, problem


def _seconds() -> float:
    """The processor time of this process and of its children that ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _verdict(kind: Kind, status: int, out: bytes, err: bytes) -> str:
    """Return what is wrong with the way in which a command of *kind* ended."""
    text = err.decode("utf-8", "replace")
    if "Traceback" in text:
        return f"traceback: {text.strip().splitlines()[-1][:200]}"
    if "not enough memory" in text:
        return f"more than {MEMORY >> 20} MiB of memory"
    if status not in kind.statuses:
        return f"status {status}"
    if status in kind.silent and out:
        return f"status {status} and something on standard output"
    if len(err) > STDERR:
        return f"{len(err)} bytes on stderr"
    for stream, said in (("stdout", out.decode("utf-8", "replace")), ("stderr", text)):
        if not all(line.isprintable() for line in said.split("\n")):
            return f"{stream} is not printable"
    return ""


def smaller(runner: Runner, broken: Case, problem: str, tries: int = 400) -> Case:
    """Return the smallest case that ends with the same *problem*, found by leaving out pieces."""
    data = broken.data
    piece = len(data) // 2
    while piece and tries > 0:
        at = 0
        while at < len(data) and tries > 0:
            shorter = data[:at] + data[at + piece :]
            tries -= 1
            if runner.run([Case(broken.kind, broken.command, shorter)]) == [problem]:
                data = shorter
            else:
                at += piece
        piece //= 2
    return Case(broken.kind, broken.command, data)


@dataclass
class Result:
    """What a run showed."""

    count: int = 0
    slowest: float = 0.0
    failures: dict[str, Case] = field(default_factory=dict)

    def add(self, more: "Result") -> None:
        """Take up the result of further cases."""
        self.count += more.count
        self.slowest = max(self.slowest, more.slowest)
        self.failures = more.failures | self.failures


def fuzz(kind: str, seed: int, numbers: range) -> Result:
    """Run the cases of *numbers* in this process's children."""
    result = Result()
    with _directory() as work:
        runner = Runner(work)
        for first in numbers[::_BATCH]:
            cases = [case(kind, seed, number) for number in range(first, min(first + _BATCH, numbers.stop))]
            for one, problem in zip(cases, runner.run(cases), strict=True):
                result.count += 1
                if problem and f"{kind}: {problem}" not in result.failures:
                    result.failures[f"{kind}: {problem}"] = smaller(runner, one, problem)
        result.slowest = runner.slowest
    return result


@contextlib.contextmanager
def _directory() -> Iterator[Path]:
    """A directory in memory, if there is one: the files are many and short-lived."""
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="hugealign-fuzz-", dir=memory) as work:
        yield Path(work)


def keep(failure: str, broken: Case) -> Path:
    """Write *broken* into the corpus: the file, and beside it the command and what was wrong."""
    directory = CORPUS / broken.kind
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / hashlib.sha256(broken.data).hexdigest()[:12]
    path.write_bytes(broken.data)
    path.with_suffix(".txt").write_text(f"{' '.join(broken.command)}\n{failure}\n")
    return path


def corpus() -> list[tuple[Path, Case]]:
    """Return what is kept, each with the command that it broke."""
    found = []
    for note in sorted(CORPUS.glob("*/*.txt")):
        command = tuple(note.read_text().splitlines()[0].split(" "))
        path = note.with_suffix("")
        found.append((path, Case(note.parent.name, command, path.read_bytes())))
    return found


def main() -> int:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.commands", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kind", default="all", help=f"with commas between them: {', '.join(KINDS)} (default: all)")
    parser.add_argument("--count", type=int, default=1000, help="cases of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="N", help="write case N of the kind to standard output")
    args = parser.parse_args()
    kinds = list(KINDS) if args.kind == "all" else args.kind.split(",")
    if args.only is not None:
        one = case(kinds[0], args.seed, args.only)
        print(*one.command, file=sys.stderr)
        sys.stdout.buffer.write(one.data)
        return 0
    failures: dict[str, Case] = {}
    total = 0
    step = -(-args.count // args.jobs)
    for kind in kinds:
        began = time.monotonic()
        parts = [(kind, args.seed, range(first, min(first + step, args.count))) for first in range(0, args.count, step)]
        result = Result()
        with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
            for part in pool.starmap(fuzz, parts):
                result.add(part)
        seconds = time.monotonic() - began
        print(
            f"{kind}: {result.count} cases in {seconds:.0f} s, slowest {result.slowest:.2f} s of processor time, "
            f"{len(result.failures)} failures",
            flush=True,
        )
        for failure, broken in result.failures.items():
            print(f"  {failure}: {keep(failure, broken)} ({len(broken.data)} bytes): {' '.join(broken.command)}")
        failures |= result.failures
        total += result.count
    print(f"{total} cases of {len(kinds)} kinds, seed {args.seed}: {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
