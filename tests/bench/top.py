"""``hugealign top --once`` with 2,000 processes, beside C that reads the same files: for ``make bench``, or alone."""

import subprocess
import tempfile
from pathlib import Path

from tests.bench.timing import HEADER, compare
from tests.live.programs import Programs
from tests.support import HUGEALIGN

SMALL, LARGE = 1800, 200


def many_processes(work: Path) -> None:
    """Start the processes and print the line."""
    here = Path(__file__).parent
    for name in ("crowd", "maps"):
        subprocess.run(["gcc", "-O2", "-o", work / name, here / f"{name}.c"], check=True)
    programs = Programs(work)
    programs.build()
    words = [str(work / "crowd"), str(SMALL), str(LARGE), str(programs.good)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as crowd:
        try:
            if not crowd.stdout or crowd.stdout.readline() != b"ready\n":
                raise RuntimeError("the processes did not start")
            title = f"top --once, {SMALL + LARGE} processes; maps"
            compare(title, [str(work / "maps")], [str(HUGEALIGN), "top", "--once"], 10, work)
            print(subprocess.run([work / "maps"], stdout=subprocess.PIPE, text=True, check=True).stdout, end="")
        finally:
            crowd.kill()


if __name__ == "__main__":
    print(HEADER)
    with tempfile.TemporaryDirectory(prefix="hugealign-bench-") as name:
        many_processes(Path(name))
