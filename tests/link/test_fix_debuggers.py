"""GDB sees a fixed program, its library and their debug files, at each level, as it saw the plain ones."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.link.test_separate_tools import KINDS, made, masked, move
from tests.support import HUGEALIGN, Toolchain, need, run

_GDB = ("gdb", "-q", "-nx", "-batch")
_COMMANDS = (
    "set breakpoint pending on",
    "break library.cc:6",
    "run 3",
    "bt",
    "info locals",
    "info line",
    "catch throw",
    "continue",
    "bt",
    "info probes",
)


def shift(plain: Path, moved: Path) -> None:
    run(HUGEALIGN, "fix", "--level=shift", "--max-executable=1G", plain, "-o", moved, check=True)
    shutil.copy(f"{plain}.debug", moved.parent)


@pytest.mark.parametrize(
    ("linker", "level"),
    [
        ("gcc-bfd", shift),
        *(pytest.param(linker, shift, marks=pytest.mark.matrix) for linker in ("gcc-lld19", "gcc-mold", "gcc-gold")),
        pytest.param("gcc-bfd", move, marks=pytest.mark.matrix),
    ],
)
def test_gdb(
    linker: str,
    level: Callable[[Path, Path], None],
    toolchains: dict[str, Toolchain],
    bulk: Path,
    tmp_path: Path,
) -> None:
    """A breakpoint by line, a backtrace through both, a caught exception, a probe, and a core file."""
    need("gdb")
    toolchain = toolchains[linker].needed()
    made(tmp_path, (toolchain.cxx, *toolchain.flags, "-Wl,-z,max-page-size=0x1000"), level, bulk)
    shown = []
    for kind in KINDS:
        place = tmp_path / kind
        first = ("-ex", f"set debug-file-directory {place}/debug", "-ex", "file shop")
        reported = run(*_GDB, *first, *(word for command in _COMMANDS for word in ("-ex", command)), cwd=place).stdout
        frames = r"#0 +inner \(n=3\) at .*library.cc:6\n#1 .* outer .*library.cc:\d+\n#2 .* main .*main.cc"
        assert re.search(frames, reported), reported
        thrown = r"Catchpoint 2 \(exception thrown\)[^#]*#0 .*__cxa_throw.*\n#1 .* inner .*library.cc"
        assert re.search(thrown, reported), reported
        assert re.search(r"\bshop +opened +0x", reported), reported
        shown.append(masked(reported))
        run(*_GDB, *first, "-ex", "run 4", "-ex", "generate-core-file core", cwd=place)
        reported = run(*_GDB, *first, "-ex", "core core", "-ex", "bt", cwd=place).stdout
        assert re.search(r"#0 .*inner \(n=4\) at .*library.cc:7\n#1 .* outer ", reported), reported
    assert shown[0] == shown[1]
