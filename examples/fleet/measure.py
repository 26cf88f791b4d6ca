"""A fleet merged by one machine and by a Spark cluster: the same bytes, and how time and memory grow with the hosts."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark

from examples.servers.steps import Failed
from lab.bench.costs.profiles import used
from lab.bench.fleet import Function, hosts
from tests.support import HUGEALIGN

SPARK = Path(pyspark.__file__).parent
HEAP = 1024  # MiB of each of the two workers
EXECUTOR = b"CoarseGrainedExecutorBackend"
DRAWS = 30_000  # samples of a host
KILLED_UP_TO = 100  # hosts: with more, only the calm run is made


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the cluster: *seconds*, and the most *memory* of all its processes together, in MiB."""

    seconds: float
    memory: int
    killed: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """So many *hosts*, of *size* bytes together, merged by one machine and by the cluster; *same*: the same bytes.

    *rough* are the seconds of a run in which a worker was *killed*, if there was one; *load* is the average at the end.
    """

    hosts: int
    size: int
    one: float
    one_memory: int
    calm: float
    calm_memory: int
    rough: float | None
    killed: bool
    same: bool
    load: float


def measured(work: Path, number: int, functions: Sequence[Function]) -> Row:
    """Merge so many hosts, made from real samples of *functions*; their files are removed again."""
    files, out = work / "hosts", work / "merged"
    for place in (files, out):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
    paths = hosts(files, number, functions, DRAWS)
    size = sum(path.stat().st_size for path in paths)
    words = ["profile", "merge", *(path.name for path in paths), "-o", str(out / "one.counts")]
    seconds, _, memory = used([str(HUGEALIGN), *words], files)
    runs = [cluster(files, out / "calm")]
    if number <= KILLED_UP_TO:
        runs.append(cluster(files, out / "rough", kill=True))
    item = (out / "one.counts").read_bytes()
    same = all(path.read_bytes() == item for path in out.glob("*/all.counts"))
    shutil.rmtree(files)
    calm, *rest = runs
    rough = rest[0] if rest else None
    return Row(
        number, size, seconds, memory, calm.seconds, calm.memory, rough.seconds if rough else None,
        rough.killed if rough else False, same, os.getloadavg()[0],
    )  # fmt: skip


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
        raise Failed(f"Spark failed: {out / 'spark.log'}")
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
