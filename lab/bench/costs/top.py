"""``hugealign top`` with 2,000 processes, against C that reads the same files: for ``make bench``, or alone."""

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lab.bench.timing import Table
from tests.live.programs import Programs
from tests.support import HUGEALIGN

SMALL, LARGE = 1800, 200


@contextlib.contextmanager
def crowd(work: Path) -> Iterator[None]:
    """Run the processes."""
    subprocess.run(["gcc", "-O2", "-o", work / "crowd", Path(__file__).with_name("crowd.c")], check=True)
    programs = Programs(work)
    programs.build()
    words = [str(work / "crowd"), str(SMALL), str(LARGE), str(programs.good)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            if not child.stdout or child.stdout.readline() != b"ready\n":
                raise RuntimeError("the processes did not start")
            yield
        finally:
            child.kill()


def many_processes(table: Table, work: Path) -> None:
    """Add the row."""
    subprocess.run(["gcc", "-O2", "-o", work / "maps", Path(__file__).with_name("maps.c")], check=True)
    with crowd(work):
        title = f"top, {SMALL + LARGE} processes; maps"
        table.compare(title, [str(work / "maps")], [str(HUGEALIGN), "top"], 10, work)
        print(subprocess.run([work / "maps"], stdout=subprocess.PIPE, text=True, check=True).stdout, end="")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="hugealign-bench-") as name:
        many_processes(Table(), Path(name))
