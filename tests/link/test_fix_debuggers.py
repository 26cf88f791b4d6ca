"""Debuggers, profilers and unwinders see a fixed program, and its separate debug file, as they saw the plain one."""

import re
import shutil
from pathlib import Path

import pytest

from tests.support import HUGEALIGN, Toolchain, need, run

LINKERS = (
    "gcc-bfd",
    "gcc-lld19",
    pytest.param("gcc-mold", marks=pytest.mark.matrix),
    pytest.param("gcc-gold", marks=pytest.mark.matrix),
)
_SOURCE = """\
#include <stdlib.h>
unsigned big_sum(void);
volatile unsigned sum;
__attribute__((noinline)) int inner(int x) {
  if (x > 1) abort();
  for (long i = 0; x && i < 150; i++) sum += big_sum();
  return x;
}
__attribute__((noinline)) int outer(int x) { return inner(x) + 1; }
int main(int argc, char **argv) { return outer(argc - 1) != argc; }
"""


@pytest.fixture(params=[LINKERS[0], *(pytest.param(name, marks=pytest.mark.matrix) for name in LINKERS[1:])])
def programs(request: pytest.FixtureRequest, toolchains: dict[str, Toolchain], bulk: Path, tmp_path: Path) -> Path:
    """A directory with ``plain/program`` and ``fixed/program``, each beside the same separate debug file."""
    toolchain = toolchains[request.param].needed()
    (tmp_path / "main.c").write_text(_SOURCE)
    whole, plain, fixed = tmp_path / "whole", tmp_path / "plain", tmp_path / "fixed"
    plain.mkdir()
    fixed.mkdir()
    words = ("-g", "-O1", "-Wl,-z,max-page-size=0x1000", "-Wl,--build-id", tmp_path / "main.c", bulk, "-o", whole)
    run(toolchain.cc, *toolchain.flags, *words, check=True)
    run("objcopy", "--only-keep-debug", whole, plain / "program.debug", check=True)
    run("strip", whole, "-o", plain / "program", check=True)
    run("objcopy", "--add-gnu-debuglink=program.debug", "program", cwd=plain, check=True)
    shutil.copy(plain / "program.debug", fixed)
    shift = ("fix", "--level=shift", "--max-executable=1G")
    run(HUGEALIGN, *shift, plain / "program", "-o", fixed / "program", check=True)
    return tmp_path


def stack(text: str) -> list[str]:
    """The names of the functions in a backtrace."""
    return re.findall(r"^#\d+ +(?:0x\w+ )?(?:in )?(inner|outer|main)\b", text, re.MULTILINE)


def test_gdb(programs: Path) -> None:
    """Breakpoint, backtrace, a variable; a core file, and the backtrace in it."""
    need("gdb")
    commands = ("break inner", "run 1", "bt", "print x", "delete", "next", "next", "info line")
    words = [word for command in commands for word in ("-ex", command)]
    kinds = programs / "plain", programs / "fixed"
    plain, fixed = (run("gdb", "-nx", "-q", "-batch", *words, "program", cwd=kind).stdout for kind in kinds)
    assert stack(plain) == ["inner", "outer", "main"]
    assert "$1 = 1" in plain
    plain, fixed = (re.sub(r"0x[0-9a-f]+|plain|fixed|process \d+", "X", text) for text in (plain, fixed))
    assert fixed == plain
    for kind in kinds:
        made = ("-ex", "run 1 2", "-ex", "generate-core-file core")
        run("gdb", "-nx", "-q", "-batch", *made, "program", cwd=kind)
        seen = run("gdb", "-nx", "-q", "-batch", "-ex", "bt", "program", "core", cwd=kind).stdout
        assert stack(seen) == ["inner", "outer", "main"]
        assert "main.c:5" in seen
