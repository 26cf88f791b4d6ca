"""A fleet merged by one machine and by a Spark cluster: the same bytes, and how time and memory grow with the hosts."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.bench.fleet import Function, hosts
from tests.bench.profiles import used
from tests.support import HUGEALIGN

SPARK = Path(pyspark.__file__).parent
HEAP = 1024  # MiB of each of the two workers
EXECUTOR = b"CoarseGrainedExecutorBackend"
DRAWS = 20_000  # samples of a host
KILLED_UP_TO = 1000  # hosts: with more, only the calm run is made


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the cluster: *seconds*, and the most *memory* of all its processes together, in MiB."""

    seconds: float
    memory: int
    killed: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """So many *hosts* of *size* bytes together: one machine's seconds and MiB, and the cluster; *same*: the bytes."""

    hosts: int
    size: int
    one: tuple[float, int]
    calm: Run
    rough: Run | None  # with a worker killed midway
    same: bool
    load: float  # average over a minute, at the end


def growth(work: Path, numbers: Sequence[int], functions: Sequence[Function]) -> Iterator[Row]:
    """Yield a row for each number of hosts, made from real samples of *functions*; the files are removed again."""
    for number in numbers:
        files = work / f"hosts-{number}"
        files.mkdir(parents=True)
        paths = hosts(files, number, functions, DRAWS)
        size = sum(path.stat().st_size for path in paths)
        words = ["profile", "merge", *(path.name for path in paths), "-o", str(work / "one.counts")]
        seconds, _, memory = used([str(HUGEALIGN), *words], files)
        calm = cluster(files, work / f"calm-{number}")
        outs = [work / f"calm-{number}"]
        rough = None
        if number <= KILLED_UP_TO:
            rough = cluster(files, work / f"rough-{number}", kill=True)
            outs.append(work / f"rough-{number}")
        whole = (work / "one.counts").read_bytes()
        same = all((out / "all.counts").read_bytes() == whole for out in outs)
        for path in paths:
            path.unlink()
        files.rmdir()
        yield Row(number, size, (seconds, memory), calm, rough, same, os.getloadavg()[0])


def cluster(files: Path, out: Path, *, kill: bool = False) -> Run:
    """Merge by two workers, the first of which is killed midway if *kill*."""
    out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    words = [
        SPARK / "bin" / "spark-submit",
        f"--master=local-cluster[2,1,{HEAP}]",
        f"--conf=spark.executor.memory={HEAP}m",
        "--conf=spark.ui.enabled=false",
        Path(__file__).with_name("fleet.py"),
        files.as_uri(),
        out,
    ]
    environ = os.environ | {"SPARK_HOME": str(SPARK), "PYSPARK_PYTHON": sys.executable}
    with (out / "spark.log").open("wb") as log:
        process = subprocess.Popen([*map(str, words)], stdout=log, stderr=log, env=environ, start_new_session=True)
        killed = False
        memory = 0
        while process.poll() is None:
            if kill and not killed and b"Finished task" in (out / "spark.log").read_bytes():
                os.kill(min(pid for pid, words in _processes(process.pid) if EXECUTOR in words), signal.SIGKILL)
                killed = True
            memory = max(memory, sum(_resident(pid) for pid, _ in _processes(process.pid)))
            time.sleep(0.5)
    if process.returncode:
        sys.exit(f"Spark failed: {out / 'spark.log'}")
    return Run(time.monotonic() - began, memory >> 10, killed)


def _processes(session: int) -> Iterator[tuple[int, bytes]]:
    """Yield the processes of a session, and their command lines."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getsid(int(entry.name)) == session:
                    yield int(entry.name), (entry / "cmdline").read_bytes()
            except OSError:
                continue


def _resident(pid: int) -> int:
    """Return the memory that is a process's own, its shares of what is shared included, in KiB."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)
