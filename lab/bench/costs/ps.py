"""``hugealign ps`` of a process with 5,000 mappings, against ``cat`` of its smaps.  Run by ``make bench``, or alone."""

import subprocess
import tempfile
from pathlib import Path

from lab.bench.timing import Table
from tests.support import HUGEALIGN

MAPPINGS = 5000


def many_mappings(table: Table, work: Path) -> None:
    """Build such a process in *work* and add the rows."""
    program = work / "mappings"
    subprocess.run(["gcc", "-o", program, Path(__file__).with_name("mappings.c")], check=True)
    with subprocess.Popen([program, str(MAPPINGS)], stdout=subprocess.PIPE) as child:
        try:
            if not child.stdout or child.stdout.readline() != b"ready\n":
                raise RuntimeError("the process with many mappings did not start")
            plain = ["cat", f"/proc/{child.pid}/smaps"]
            for words in (["ps"], ["ps", "--all"]):
                ours = [str(HUGEALIGN), *words, "--min-coverage", "0", str(child.pid)]
                table.compare(f"{' '.join(words)}, {MAPPINGS} mappings; cat smaps", plain, ours, 20, work)
        finally:
            child.kill()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="hugealign-bench-") as name:
        many_mappings(Table(), Path(name))
