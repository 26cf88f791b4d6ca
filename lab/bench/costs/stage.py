"""``hugealign run``: a first start from a staged copy against ``cp`` to a tmpfs, a second against a start in place.

Needs root.  Run by ``make bench``, or alone: ``python -m lab.bench.costs.stage``.
"""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lab.bench.costs.warm import program_of_much_text
from lab.bench.timing import Cost, Table, cost, in_turn
from tests.support import HUGEALIGN

RUNS = 15


@contextlib.contextmanager
def tmpfs() -> Iterator[Path]:
    """A tmpfs with huge pages, as staging makes one."""
    with tempfile.TemporaryDirectory(prefix="hugealign-bench-") as name:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "huge=always", "tmpfs", name], check=True)
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", name], check=True)


def starts(table: Table, work: Path) -> None:
    """Add a row for each kind of start."""
    if os.geteuid():
        print("staging: not measured; it needs root, as `cp` to a tmpfs of one's own does")
        return
    work.chmod(0o755)  # a file that not all users may read is not staged for all
    program = program_of_much_text(work)
    size = program.stat().st_blocks >> 11
    run = [str(HUGEALIGN), "run"]
    with tmpfs() as memory:

        def copied() -> Cost:
            # --sparse: staging leaves holes too.
            took = cost(["cp", "--sparse=always", str(program), str(memory / "copy")], work)
            (memory / "copy").unlink()
            return took

        costs = in_turn([copied, lambda: cost([*run, "--how=stage", "--", str(program)], work)], RUNS)
        table.show(f"first start, staged, {size} MiB; cp", *([item.wall * 1000 for item in side] for side in costs))
        small, store = work / "small", memory / "store"
        words = "gcc -fuse-ld=bfd main.c small.s -o small -Wl,-z,max-page-size=0x200000 -Wl,-z,separate-code"
        (work / "small.s").write_text(".text\n.balign 0x200000\n.fill 1 << 20, 4, 0xcccccccc\n", encoding="ascii")
        subprocess.run(words.split(), cwd=work, check=True, stderr=subprocess.DEVNULL)
        in_place = memory / "small"
        in_place.write_bytes(small.read_bytes())
        in_place.chmod(0o755)
        subprocess.run([HUGEALIGN, "stage", "--store", store, small], check=True)
        there = [*run, "--how=in-place", "--", str(in_place)]
        repeated = [*run, "--how=stage", "--store", str(store), "--", str(small)]
        try:
            costs = in_turn([lambda: cost(there, work), lambda: cost(repeated, work)], RUNS)
            table.show("second start, staged; in place", *([item.wall * 1000 for item in side] for side in costs))
        finally:
            subprocess.run(["umount", store], check=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="hugealign-bench-") as directory:
        starts(Table(), Path(directory))
