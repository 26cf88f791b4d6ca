"""The misses of ``--layout elf:FILE`` against those of that file, run and traced itself: within 2 %."""

import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from hugealign.system.processors import find
from hugealign_lab import placement
from hugealign_lab.geometry import geometry, parse
from hugealign_lab.relinked import relinked_file
from hugealign_lab.simulate import simulate
from hugealign_lab.tracefile import Trace, open_trace
from tests.live import relinking
from tests.support import HUGEALIGN, LLVM, run

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(900)]

CPUS = (*(geometry(find(name)) for name in ("skylake", "zen3", "neoverse-n1")), parse("4k=16/4,2m=2,l2=64/4"))
WINDOWS = range(4)
WITHIN = 0.02
FEW = 100  # misses that are all of the first use, where one page more or less is a per cent
OTHERS: dict[str, Sequence[str]] = {
    "bfd, shuffled": (),
    "gold": ("-fuse-ld=gold",),
    "mold": ("-fuse-ld=mold",),
    "lld": relinking.LLD,
    "lld, in reverse": (*relinking.LLD, "-Wl,--symbol-ordering-file=reverse", "-Wl,--no-warn-symbol-ordering"),
}


def _trace(directory: Path, target: str) -> Trace:
    run(HUGEALIGN, "trace", "-o", f"{target}.trace", "--", f"./{target}", cwd=directory, check=True)
    return open_trace(str(directory / f"{target}.trace"))


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], Trace]:
    directory = tmp_path_factory.mktemp("elf")
    objects = relinking.generated(directory)
    subprocess.run(["gcc", "-fuse-ld=bfd", *objects, "-o", "before"], cwd=directory, check=True)
    return directory, objects, _trace(directory, "before")


@pytest.mark.parametrize("name", OTHERS)
def test_predicted_and_traced(name: str, before: tuple[Path, list[str], Trace]) -> None:
    directory, objects, trace = before
    if "lld" in name and not Path(LLVM["lld19"], "ld.lld").exists():
        pytest.skip("lld 19 is not installed")
    aligned = [word for word in relinking.ALIGNED if name != "gold" or "separate-code" not in word]
    words = [*OTHERS[name], *aligned]
    if name == "bfd, shuffled":
        functions = [f"*(.text.f{number})" for number in range(relinking.FUNCTIONS)]
        random.Random(3).shuffle(functions)
        (directory / "shuffled.ld").write_text(
            "SECTIONS { .shuffled : { " + "\n".join(functions) + " } } INSERT AFTER .init;\n"
        )
        words = [*relinking.ALIGNED, "-fuse-ld=bfd", "-Wl,-T,shuffled.ld"]
    (directory / "reverse").write_text("".join(f"f{number}\n" for number in range(relinking.FUNCTIONS - 1, -1, -1)))
    subprocess.run(["gcc", *words, *objects, "-o", "after"], cwd=directory, check=True)
    after = _trace(directory, "after")
    reported = relinked_file(
        trace, trace.description.program, name, str(directory / "before"), str(directory / "after")
    )
    predicted = simulate(trace, [(reported, WINDOWS)], CPUS)
    there = placement.original(after, after.description.program)
    rows = {(row.cpu, row.windows): row for row in simulate(after, [(there, WINDOWS)], CPUS).rows}
    assert {(row.cpu, row.windows) for row in predicted.rows} == set(rows)
    compared = 0
    for row in predicted.rows:
        real = rows[row.cpu, row.windows]
        assert abs(row.misses - real.misses) <= max(WITHIN * real.misses, 0.1 * FEW), (row, real)
        compared += real.misses > FEW
    assert compared >= 4
