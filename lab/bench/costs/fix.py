"""``hugealign fix`` of programs of 1 GiB: in place, and into another file compared with ``cp`` of the same file.

Run by ``make bench``, or alone.  The programs are in the page cache and on the disk before the measurement.  `fix`
writes a file next to its output, syncs and renames it; so sync(1) of the copy follows `cp`, and neither finds a file of
the output's name: truncating one would give `cp` its pages, still in the processor's caches, and leave fresh memory to
`fix`.  Wall time includes other work and the disk, so there is a line of processor time too.
"""

import os
import subprocess
import tempfile
from pathlib import Path

from lab.bench.peers.program import WORK
from lab.bench.timing import Cost, Table, Timed, cost, in_turn
from tests.link.bulk import MAIN_OF_ANY, bulk_object
from tests.support import HUGEALIGN, LLVM, ROOT

SIZE = 1 << 30  # bytes of debug information
ROUNDS = 9


def programs(work: Path) -> tuple[Path, Path]:
    """Link two programs of SIZE in *work*; the second has contents that a fix has to move."""
    (work / "main.c").write_text(MAIN_OF_ANY, encoding="ascii")
    bulk = bulk_object(work)
    block = os.urandom(1 << 20)
    with (work / "debug").open("wb") as stream:
        for _ in range(SIZE >> 20):
            stream.write(block)
    made = []
    for name, flags in (("bfd", ("-fuse-ld=bfd",)), ("lld", ("-fuse-ld=lld", f"-B{LLVM['lld19']}"))):
        words = ["gcc", *flags, "-Wl,-z,max-page-size=0x1000", "main.c", str(bulk), "-o", f"{name}.small"]
        subprocess.run(words, cwd=work, check=True)
        command = ["objcopy", "--add-section", ".debug_large=debug", f"{name}.small", name]
        subprocess.run(command, cwd=work, check=True)
        made.append(work / name)
    (work / "debug").unlink()
    os.sync()
    return made[0], made[1]


def large_programs(table: Table) -> None:
    """Add the cost of fixing them."""
    build = ROOT / "build"  # on a disk; the directory for temporary files may not be
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-fix-", dir=build) as name:
        work = Path(name)
        bfd, lld = programs(work)
        fix = [str(HUGEALIGN), "fix"]
        both = f"{HUGEALIGN} fix --in-place {bfd} && {HUGEALIGN} fix --undo {bfd}"
        (times,) = in_turn([lambda: cost(["sh", "-c", both], work)], ROUNDS)
        table.alone("fix and undo 1 GiB in place", [item.wall * 1000 for item in times])
        table.alone("fix and undo 1 GiB in place, processor time", [item.cpu * 1000 for item in times])
        for title, program in (("move", lld), ("stay", bfd)):
            plain = ["sh", "-c", f"cp --sparse=always {program} out && sync out"]
            commands = [fresh(plain, work), fresh([*fix, str(program), "-o", "out"], work)]
            costs = in_turn(commands, ROUNDS)
            table.both(f"fix -o, contents {title}; cp, sync", *costs)


def output_of_bolt(table: Table) -> None:
    """Add the cost of fixing it, if the comparison with the peers has made it."""
    for program in sorted(WORK.glob("*/bolt.full.6")):
        command = [str(HUGEALIGN), "fix", program.name, "-o", "out"]
        plain = ["sh", "-c", f"cp --sparse=always {program.name} out && sync out"]
        costs = in_turn([fresh(plain, program.parent), fresh(command, program.parent)], ROUNDS)
        title = f"fix BOLT's {program.parent.name}, {program.stat().st_size >> 20} MiB"
        table.both(title, *costs)


def fresh(argv: list[str], work: Path) -> Timed:
    """Return a run of *argv*, which writes ``out`` in *work*, without an old ``out`` and with an idle disk."""

    def run() -> Cost:
        (work / "out").unlink(missing_ok=True)
        os.sync()
        return cost(argv, work)

    return run


if __name__ == "__main__":
    rows = Table()
    large_programs(rows)
    output_of_bolt(rows)
