"""The direct calls that are read from code, held against objdump."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hugealign.code import calls
from hugealign.code.calls import Calls
from hugealign.elf.image import SHT_NOBITS
from hugealign.elf.symbols import Functions, read_functions

SOURCE = """
int outside(int);
__attribute__((noinline)) static int leaf(int a) { return a * 3; }
__attribute__((noinline)) int again(int n) { return n ? again(n - 1) + leaf(n) : 0; }
__attribute__((noinline)) int both(int a) { return leaf(a) + again(a) + leaf(a + 1); }
int (*volatile pointer)(int) = both;
int indirect(int a) { return pointer(a) + 1; }
int _start(void) { return both(1) + indirect(2); }
"""
COMPILERS = ("gcc", "aarch64-linux-gnu-gcc")


@pytest.fixture(params=COMPILERS)
def program(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A program, and the prefix of its tools."""
    compiler = request.param
    (tmp_path / "p.c").write_text(SOURCE)
    words = ["-O1", "-fno-optimize-sibling-calls", "-nostdlib", "-static", "p.c", "-o", "p"]
    subprocess.run([compiler, *words], cwd=tmp_path, check=True)
    return tmp_path / "p", compiler.removesuffix("gcc")


def called(path: Path, functions: Functions) -> dict[str, list[str]]:
    seen = Calls(path, functions)
    return {
        name: [functions.names[callee] for callee in seen.callees(index)] for index, name in enumerate(functions.names)
    }


def by_objdump(path: Path, prefix: str) -> dict[str, list[str]]:
    text = subprocess.run([f"{prefix}objdump", "-d", path], capture_output=True, text=True, check=True).stdout
    result: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if begins := re.match(r"[0-9a-f]+ <(\w+)>:", line):
            name = begins[1]
            result[name] = []
        elif (call := re.search(r"\t(?:call|bl)\s+[0-9a-f]+ <(\w+)>", line)) and call[1] != name:
            result[name].append(call[1])
    numbers = {name: index for index, name in enumerate(result)}
    return {name: sorted(set(callees), key=numbers.__getitem__) for name, callees in result.items()}


def test_the_same_calls_as_objdump(program: tuple[Path, str]) -> None:
    path, prefix = program
    result = called(path, read_functions(path))
    assert result == by_objdump(path, prefix)
    assert result["both"] == ["leaf", "again"]
    assert result["indirect"] == []


def test_a_file_without_symbols(program: tuple[Path, str]) -> None:
    path, prefix = program
    subprocess.run([f"{prefix}strip", path], check=True)
    functions = read_functions(path)
    seen = Calls(path, functions)
    assert sum(len(seen.callees(index)) for index in range(len(functions))) == 5
    assert sum(len(seen.callers(index)) for index in range(len(functions))) == 5


def test_a_debug_file_has_no_code(program: tuple[Path, str]) -> None:
    path, prefix = program
    functions = read_functions(path)
    debug = path.with_suffix(".debug")
    subprocess.run([f"{prefix}objcopy", "--only-keep-debug", path, debug], check=True)
    assert set(called(path, functions)["both"]) == {"leaf", "again"}
    for section in functions.image.sections:
        section.sh_type = SHT_NOBITS  # as in the debug file, whose offsets may point at anything
    assert not any(called(path, functions).values())
    assert not any(called(debug, read_functions(debug)).values())


def test_what_cannot_be_read_calls_nothing(program: tuple[Path, str]) -> None:
    path, _ = program
    functions = read_functions(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:100])  # cut short after its functions were read
    assert not any(called(path, functions).values())
    path.unlink()
    assert not any(called(path, functions).values())
    path.write_bytes(whole)
    functions.sizes[functions.names.index("both")] = 1 << 62
    assert set(called(path, functions)["both"]) >= {"leaf", "again"}
    functions.starts[-1] = (1 << 64) - 8
    called(path, functions)
    functions.image = functions.image.changed(e_machine=243)  # RISC-V
    assert not any(called(path, functions).values())


def test_code_behind_a_function_is_not_its_own(program: tuple[Path, str]) -> None:
    path, _ = program
    functions = read_functions(path)
    functions.sizes[functions.names.index("both")] = 1
    result = called(path, functions)
    assert result["both"] == []
    assert result["again"] == ["leaf"]


def test_instructions_of_aarch64_lie_on_four_bytes() -> None:
    call, other = (0x94000000 | 2).to_bytes(4, "little"), bytes.fromhex("00009400")
    at = {0x1004 + 8: 7, 0xFFC: 8}
    assert list(calls._aarch64(other + call, 0x1000, at)) == [(0x1004, 7)]
    assert list(calls._aarch64(bytes.fromhex("ffffff97"), 0x1000, at)) == [(0x1000, 8)]  # one instruction back


def test_bytes_that_all_look_like_calls_take_bounded_time() -> None:
    target = {5 + int.from_bytes(b"\xe8" * 4, "little", signed=True): 0}
    assert list(calls._x86_64(b"\xe8" * 800, 0, target)) == [(0, 0)]
    assert sum(1 for _ in calls._x86_64(b"\xe8" * 800, 0, _Anywhere())) == 200


class _Anywhere(dict[int, int]):
    """A function begins everywhere."""

    def get(self, *_: object) -> int:
        return 1


def test_real_code() -> None:
    """Of a program of thousands of functions, objdump and we see the same calls of functions' beginnings."""
    path = Path(shutil.which("perf") or "/usr/bin/gcc").resolve()
    functions = read_functions(path)
    starts = set(functions.starts)
    text = subprocess.run(["objdump", "-d", path], capture_output=True, text=True, check=True).stdout
    wanted = set()
    for site, target in re.findall(r"^\s*([0-9a-f]+):\t.*\tcall\s+([0-9a-f]+) ", text, re.MULTILINE):
        caller, callee = functions.at(int(site, 16)), int(target, 16)
        if caller >= 0 and callee in starts and functions.starts[caller] != callee:
            wanted.add((caller, functions.at(callee)))
    seen, everyone = Calls(path, functions), range(len(functions))
    result = {(index, callee) for index in everyone for callee in seen.callees(index)}
    assert len(wanted) > 1000
    assert wanted <= result
    assert len(result - wanted) * 1000 <= len(wanted)
    assert result == {(caller, index) for index in everyone for caller in seen.callers(index)}
    assert all(len(set(callers)) == len(callers) for callers in map(seen.callers, everyone))
