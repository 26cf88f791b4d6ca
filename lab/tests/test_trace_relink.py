"""Predicted misses against those of the program really linked in that order, and traced again: within 5 %."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from hugealign.elf.symbols import read_functions
from hugealign.system.processors import find
from hugealign_lab import placement
from hugealign_lab.geometry import geometry, parse
from hugealign_lab.simulate import simulate
from hugealign_lab.tracefile import Trace, open_trace
from lab.tests.traces import heat
from tests.live import relinking
from tests.support import HUGEALIGN, LLVM, run

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(900)]

#: Real ones, and one so small that both programs are far too large for it.
CPUS = (*(geometry(find(name)) for name in ("skylake", "zen3", "neoverse-n1")), parse("4k=16/4,2m=2,l2=64/4"))
Program = tuple[Path, list[str], list[str]]  # its directory, objects and arguments
WINDOWS = range(4)
WITHIN = 0.05
FEW = 100  # misses that are all of the first use, where one page more or less is a per cent


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("relinking")


@pytest.fixture(scope="module")
def generated(place: Path) -> Program:
    (directory := place / "generated").mkdir()
    return directory, relinking.generated(directory), []


@pytest.fixture(scope="module")
def sqlite(place: Path) -> Program:
    (directory := place / "sqlite").mkdir()
    try:
        return directory, relinking.sqlite(directory), [":memory:", ".read load.sql"]
    except relinking.UnavailableError as error:
        pytest.skip(str(error))


def _link(directory: Path, target: str, linker: str, words: Sequence[str]) -> None:
    flags = relinking.LLD if linker == "lld19" else ("-fuse-ld=bfd",)
    subprocess.run(["gcc", *flags, *relinking.ALIGNED, *words, "-o", target], cwd=directory, check=True)


def _ordering(directory: Path, linker: str, names: Sequence[str]) -> list[str]:
    """Return the words that have *linker* put the functions *names* first."""
    if linker == "lld19":
        (directory / "order").write_text("".join(f"{name}\n" for name in names))
        return ["-Wl,--symbol-ordering-file=order", "-Wl,--no-warn-symbol-ordering"]
    printed = run("ld.bfd", "-pie", "-z", "separate-code", "--verbose", check=True).stdout.split("=" * 50)[1]
    begin, sign, rest = printed.strip("=\n").partition("*(.text.unlikely")
    assert sign
    wanted = "".join(f"*(.text.{name} .text.startup.{name} .text.unlikely.{name})\n" for name in names)
    (directory / "ordered.ld").write_text(begin + wanted + sign + rest)
    return ["-Wl,-T,ordered.ld"]


def _trace(directory: Path, target: str, arguments: Sequence[str]) -> Trace:
    run(HUGEALIGN, "trace", "-o", f"{target}.trace", "--", f"./{target}", *arguments, cwd=directory, check=True)
    return open_trace(str(directory / f"{target}.trace"))


@pytest.mark.parametrize("linker", ["bfd", "lld19"])
@pytest.mark.parametrize("name", ["generated", "sqlite"])
def test_predicted_and_linked(name: str, linker: str, request: pytest.FixtureRequest) -> None:
    """Traced as linked; predicted for the hottest functions first; linked so, and traced again."""
    if linker == "lld19" and not Path(LLVM["lld19"], "ld.lld").exists():
        pytest.skip("lld 19 is not installed")
    program: Program = request.getfixturevalue(name)
    directory, objects, arguments = program
    _link(directory, "plain", linker, objects)
    before = _trace(directory, "plain", arguments)
    functions = read_functions(directory / "plain")
    file = before.description.program
    warm = heat(before, file, functions)
    hot = sorted(
        (i for i in range(len(functions)) if warm[i] and functions.names[i]),
        key=lambda i: (-warm[i] / functions.sizes[i], i),
    )
    words = _ordering(directory, linker, [functions.names[i] for i in hot])
    _link(directory, "ordered", linker, [*objects, *words])
    after = _trace(directory, "ordered", arguments)

    predicted = simulate(before, [(placement.ordered(before, file, "ordered", functions, hot), WINDOWS)], CPUS)
    actual = simulate(after, [(placement.original(after, after.description.program), WINDOWS)], CPUS)
    rows = {(row.cpu, row.windows): row for row in actual.rows}
    assert abs(predicted.instructions / actual.instructions - 1) < 0.01
    compared = 0
    for row in predicted.rows:
        real = rows.get((row.cpu, row.windows))
        if real is None:  # one layout has a window more
            continue
        assert abs(row.misses - real.misses) <= max(WITHIN * real.misses, 0.1 * FEW), (row, real)
        compared += real.misses > FEW
    assert compared >= 4
