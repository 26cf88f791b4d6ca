"""Debuggers, profilers and unwinders see a fixed program, and its separate debug file, as they saw the plain one."""

import re
import shutil
from pathlib import Path

import pytest

from tests.support import HUGEALIGN, Toolchain, environment, need, run

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


@pytest.fixture(params=LINKERS)
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


def address(programs: Path) -> str:
    """The address of inner, as the file with everything in it says."""
    line = next(line for line in run("nm", programs / "whole").stdout.splitlines() if line.endswith(" inner"))
    return f"{int(line.split()[0], 16) + 8:#x}"


@pytest.mark.parametrize("tool", ["addr2line", "eu-addr2line", "llvm-symbolizer-19"])
def test_addresses_have_lines(tool: str, programs: Path) -> None:
    need(tool)
    options = ("--obj=program",) if tool.startswith("llvm") else ("-f", "-e", "program")
    words = (tool, *options, address(programs))
    plain, fixed = (run(*words, cwd=programs / kind, check=True).stdout for kind in ("plain", "fixed"))
    assert "inner" in plain
    assert re.search(r"main\.c:[45]", plain)
    assert fixed == plain


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


def test_eu_stack_of_a_core(programs: Path) -> None:
    need("gdb", "eu-stack")
    seen = []
    for kind in ("plain", "fixed"):
        made = ("-ex", "run 1 2", "-ex", "generate-core-file core")
        run("gdb", "-nx", "-q", "-batch", *made, "program", cwd=programs / kind)
        words = ("eu-stack", "--core=core", "--executable=program", "-s")
        seen.append(run(*words, cwd=programs / kind).stdout)
    assert stack(seen[0]) == ["inner", "outer", "main"]
    assert stack(seen[1]) == stack(seen[0])
    assert "main.c:5" in seen[1]


@pytest.mark.parametrize("symbols", ["inside", "separate"])
def test_perf(symbols: str, programs: Path) -> None:
    """Samples have the names of functions, the stack is unwound by the tables of the file."""
    need("perf")
    if symbols == "inside":
        shutil.copy(programs / "whole", programs / "plain" / "program")
        run(HUGEALIGN, "fix", programs / "whole", "-o", programs / "fixed" / "program", check=True)
    names = []
    for kind in ("plain", "fixed"):
        # perf keeps copies of programs by build ID, which the two share: each gets a place of its own for them.
        env = environment(HOME=str(programs / kind))
        record = ("perf", "record", "-q", "-e", "cpu-clock", "--call-graph", "dwarf,4096", "-F", "200", "-o", "data")
        done = run(*record, "./program", "1", cwd=programs / kind, env=env)
        if done.returncode:
            pytest.skip(f"perf record does not work here: {done.stderr.splitlines()[0]}")
        script = run("perf", "script", "-i", "data", "-F", "ip,sym", cwd=programs / kind, env=env).stdout
        report = run("perf", "report", "-i", "data", "--stdio", "-g", "none", cwd=programs / kind, env=env).stdout
        assert re.search(r"% .* inner$", report, re.MULTILINE)
        names.append({line.split()[-1] for line in script.splitlines() if line.strip()})
    wanted = {"big_sum", "inner", "outer", "main"}
    assert wanted <= names[0]
    assert wanted <= names[1]
