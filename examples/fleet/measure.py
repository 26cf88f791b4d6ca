"""A made-up fleet, merged by one machine and by a Spark cluster: the same bytes, time and memory for 1, 10 and 100 %.

``python -m examples.fleet.measure WORK [HOSTS]``, as run.sh starts it, with the Python that has PySpark.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyspark

from tests.bench.fleet import hosts
from tests.bench.profiles import used
from tests.support import HUGEALIGN

SPARK = Path(pyspark.__file__).parent
HEAP = 1024  # MiB of each of the two workers
EXECUTOR = b"CoarseGrainedExecutorBackend"


def one_machine(files: Path, out: Path) -> tuple[float, int]:
    """Merge by the command; return seconds and peak MiB."""
    words = ["profile", "merge", *sorted(map(str, files.iterdir())), "-o", str(out)]
    seconds, _, memory = used([str(HUGEALIGN), *words], files)
    return seconds, memory


def cluster(files: Path, out: Path, kill: bool) -> tuple[float, int]:
    """Merge by two workers, the first of which is killed midway if *kill*; return seconds and how many were killed."""
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
        killed = 0
        while process.poll() is None:
            if kill and not killed and b"Finished task" in (out / "spark.log").read_bytes():
                os.kill(_executors(process.pid)[0], signal.SIGKILL)
                killed = 1
            time.sleep(0.2)
    if process.returncode:
        sys.exit(f"Spark failed: {out / 'spark.log'}")
    return time.monotonic() - began, killed


def _executors(session: int) -> list[int]:
    """Return the workers' processes, which are in the *session* of the driver."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                mine = os.getsid(int(entry.name)) == session
                if mine and EXECUTOR in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return sorted(found)


def main() -> None:
    """Make the fleet, merge it in both ways and print the table."""
    work, number = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100
    print("hosts      MiB  one machine, s    MiB  two workers, s  one of them killed, s  the same bytes", flush=True)
    for part in sorted({max(1, number // 100), max(1, number // 10), number}):
        files = work / f"hosts-{part}"
        if not files.exists():
            files.mkdir(parents=True)
            hosts(files, part)
        size = sum(path.stat().st_size for path in files.iterdir())
        seconds, memory = one_machine(files, work / "one.counts")
        calm, _ = cluster(files, work / f"calm-{part}", kill=False)
        rough, killed = cluster(files, work / f"rough-{part}", kill=True)
        whole = (work / "one.counts").read_bytes()
        same = all((work / f"{name}-{part}" / "all.counts").read_bytes() == whole for name in ("calm", "rough"))
        lost = f"{rough:.1f}" if killed else "not killed"
        row = (f"{part:5}", f"{size / (1 << 20):7.1f}", f"{seconds:14.1f}", f"{memory:5}", f"{calm:14.1f}")
        print("  ".join([*row, f"{lost:>21}", f"{'yes' if same else 'NO':>14}"]), flush=True)
        if not same or not killed:
            sys.exit(1)


if __name__ == "__main__":
    main()
