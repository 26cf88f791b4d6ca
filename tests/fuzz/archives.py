"""Mutated archives of every kind: ``python -m tests.fuzz.archives --count 20000 --seed 1``.

Real archives have bytes flipped, numbers replaced by extremes, pieces cut out, repeated and cut off.  Whatever comes
out, `verify` must answer: no exception, no hang, bounded memory, no file left open.  Status 1 if it does not; what
broke it is kept in the directory that is printed.
"""

import argparse
import bz2
import concurrent.futures
import gzip
import lzma
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hugealign.archives.counts import Counts
from hugealign.verification import inputs, rules
from tests.unit import archives

SECONDS = 20.0  # one case may take this long; the slowest real ones take tenths
MEBIBYTES = 200
BATCH = 100
EXTREMES = (b"\0" * 8, b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"\x80" + b"\0" * 7, b"77777777", b"99999999", b"ffffffff")


class HangError(BaseException):
    """A case took too long; not an Exception, so that nothing that is tested catches it."""


@dataclass
class Outcome:
    """What some cases cost, and what went wrong."""

    count: int = 0
    seconds: float = 0.0
    slowest: str = ""
    peak: int = 0
    reports: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, more: "Outcome") -> None:
        """Take up the outcome of further cases."""
        self.count += more.count
        self.reports += more.reports
        self.failures += more.failures
        self.peak = max(self.peak, more.peak)
        if more.seconds > self.seconds:
            self.seconds, self.slowest = more.seconds, more.slowest


def seeds(directory: Path) -> dict[str, bytes]:
    """Return the archives that are mutated, by kind: one of each that the tools here can make, and nested ones."""
    archives.tree(directory)
    made = {}
    for kind in archives.COMMANDS:
        missing = [tool for tool in archives.tools(kind) if not shutil.which(tool)]
        if missing:
            print(f"without {kind}: {missing[0]} is not installed", file=sys.stderr)
        else:
            made[kind] = archives.make(kind, directory).read_bytes()
    archives.sh("ar rcs s.a tree/usr/lib/prog.o tree/usr/bin/prog; ar rcsT t.a tree/usr/lib/prog.o", directory)
    made |= {"a": (directory / "s.a").read_bytes(), "thin.a": (directory / "t.a").read_bytes()}
    for name in ("xz.deb", "gz.rpm", "zip", "tar.bz2"):
        (directory / "tree" / "nested").write_bytes(made[name])
        archives.sh("tar -cf nested.tar -C tree nested", directory)
        made[f"{name} in tar"] = (directory / "nested.tar").read_bytes()
    return made


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Return *data* with one to eight wounds; half of them near the front, where headers are."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        size = len(out)
        at = chance.randrange(min(size, chance.choice((64, 1024, size, size))) or 1)
        kind = chance.randrange(7)
        if kind == 0:
            out[at : at + 1] = bytes([chance.randrange(256)])
        elif kind == 1 and at < size:
            out[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            new = chance.choice(EXTREMES)[: chance.choice((1, 2, 4, 8))]
            out[at : at + len(new)] = new
        elif kind == 3:
            del out[at : at + chance.choice((1, 2, 4, 60, 512, 5000))]
        elif kind == 4:
            piece = out[at : at + chance.choice((1, 4, 60, 512, 5000))]
            out[at:at] = piece * chance.choice((1, 2, 50))
        elif kind == 5:
            digits = [i for i in range(at, min(at + 600, size)) if 0x30 <= out[i] <= 0x37]
            for i in digits[: chance.choice((1, 3, 12))]:
                out[i] = chance.choice(b"0123456789a- \0")
        else:
            del out[at:]
    return bytes(out)


#: What a mutated archive may be packed in, so that damage reaches the reader behind the decompressor.
WRAPPERS: tuple[Callable[[bytes], bytes], ...] = (
    bytes,
    bytes,
    bytes,
    lambda data: gzip.compress(data, 1),
    lambda data: bz2.compress(data, 1),
    lambda data: lzma.compress(data, preset=0),
)


def case(kinds: dict[str, bytes], number: int, seed: int) -> tuple[str, bytes]:
    """Return the name and the bytes of one case; the same for the same *number* and *seed*."""
    chance = random.Random(f"{seed}/{number}")
    kind = chance.choice(sorted(kinds))
    return f"{number}-{kind.replace(' ', '-')}", chance.choice(WRAPPERS)(mutated(kinds[kind], chance))


def _hang(*_: object) -> None:
    raise HangError


def batch(kinds: dict[str, bytes], first: int, count: int, seed: int, kept: Path) -> Outcome:
    """Check *count* cases in this process."""
    outcome = Outcome()
    signal.signal(signal.SIGALRM, _hang)
    policy = rules.Policy()
    with tempfile.TemporaryDirectory(prefix="hugealign-fuzz-") as work:
        path = Path(work) / "x"
        for number in range(first, first + count):
            name, data = case(kinds, number, seed)
            path.write_bytes(data)
            opened = len(os.listdir("/proc/self/fd"))
            began = time.perf_counter()
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            problem = ""
            try:
                reports = sum(1 for _ in inputs.check_all([str(path)], policy, counts=Counts(), max_unpacked=1 << 30))
                outcome.reports += reports
                if not reports:
                    problem = "no report"
            except HangError:
                problem = f"more than {SECONDS:.0f} s"
            except Exception:  # noqa: BLE001  # whatever it is, it is what is looked for
                problem = traceback.format_exc()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            seconds = time.perf_counter() - began
            if len(os.listdir("/proc/self/fd")) != opened or os.listdir(work) != ["x"]:
                problem = problem or "a file is left"
            if problem:
                shutil.copy(path, kept / name)
                outcome.failures.append(f"{name}: {problem}")
            outcome.count += 1
            if seconds > outcome.seconds:
                outcome.seconds, outcome.slowest = seconds, name
    status = Path("/proc/self/status").read_text()
    outcome.peak = int(status.partition("VmHWM:")[2].split()[0]) >> 10
    if outcome.peak > MEBIBYTES:
        outcome.failures.append(f"cases {first} to {first + count - 1}: {outcome.peak} MiB of memory")
    return outcome


def fuzz(count: int, seed: int, jobs: int, kept: Path) -> Outcome:
    """Check *count* cases in *jobs* processes; what fails is kept in the directory *kept*."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="hugealign-fuzz-") as work:
        kinds = seeds(Path(work))
    # One process per batch, so that the peak of memory is that of a few cases.
    pool = concurrent.futures.ProcessPoolExecutor(
        jobs, mp_context=multiprocessing.get_context("forkserver"), max_tasks_per_child=1
    )
    with pool:
        waiting = [
            pool.submit(batch, kinds, first, min(BATCH, count - first), seed, kept) for first in range(0, count, BATCH)
        ]
        for done in waiting:
            try:
                outcome.add(done.result())
            except concurrent.futures.process.BrokenProcessPool:
                outcome.failures.append("a process died")
                break
    return outcome


def main() -> int:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.archives", description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    kept = Path(tempfile.mkdtemp(prefix="hugealign-fuzz-failures-"))
    began = time.monotonic()
    outcome = fuzz(args.count, args.seed, args.jobs, kept)
    for failure in outcome.failures[:20]:
        print(failure)
    print(
        f"{outcome.count} archives in {time.monotonic() - began:.1f} s, seed {args.seed}: {outcome.reports} reports, "
        f"{len(outcome.failures)} failures; slowest {outcome.seconds * 1000:.1f} ms ({outcome.slowest}); "
        f"peak memory {outcome.peak} MiB"
    )
    if outcome.failures:
        print(f"kept in {kept}")
    else:
        kept.rmdir()
    return 1 if outcome.failures or outcome.count != args.count else 0


if __name__ == "__main__":
    sys.exit(main())
