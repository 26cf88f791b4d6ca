"""The direct calls that are read from code, held against objdump."""

import random
import re
import shutil
import subprocess
from array import array
from pathlib import Path

import pytest

from hugealign.code import scan
from hugealign.code.calls import Calls
from hugealign.code.scan import Scan
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


def searched(kind: int, code: bytes, start: int, owner: int, *targets: int, most: int = 99) -> list[int]:
    """The *targets* that *code* at *start*, all of it of the function that begins at *owner*, refers to, by number."""
    functions = Functions([owner], [1 << 16], ["f"], [""], {})
    pairs = Scan(functions).taken((kind,), [(code, start)], array("Q", sorted(targets)), most)
    return [targets.index(sorted(targets)[pair & 0xFFFFFFFF]) for pair in pairs]


def test_instructions_of_aarch64_lie_on_four_bytes() -> None:
    call, other = (0x94000000 | 2).to_bytes(4, "little"), bytes.fromhex("00009400")
    assert searched(scan.BRANCH, other + call, 0x1000, 0x800, 0x1004 + 8, 0xFFC) == [0]
    assert searched(scan.BRANCH, bytes.fromhex("ffffff97"), 0x1000, 0x800, 0x100C, 0xFFC) == [1]  # one back
    assert searched(scan.BRANCH, call[:3], 0x1000, 0x800, 0x1008) == []


def test_bytes_that_all_look_like_calls_are_each_looked_at_once() -> None:
    code = b"\xe8" * 800
    targets = [at + 5 + int.from_bytes(code[:4], "little", signed=True) + (1 << 30) for at in range(796)]
    assert len(searched(scan.CALL, code, 1 << 30, (1 << 30) - 1, *targets, most=1 << 10)) == 796
    assert len(searched(scan.CALL, code, 1 << 30, (1 << 30) - 1, *targets, most=10)) == 10


def test_every_instruction_that_can_be_one() -> None:
    """C and Python find the same in random bytes of few values, of which many are part of an instruction."""
    chance, values = random.Random(1), b"\x48\x4c\x8d\xc7\x05\xb8\xe8\x94\x90\x91\x00\x07\x04\xff"
    for _ in range(200):
        code = bytes(chance.choice(values) for _ in range(64))
        for kind, (pattern, size) in PATTERNS.items():
            wanted = set()
            for match in re.finditer(pattern, code, re.DOTALL):
                immediate = int.from_bytes(match[1], "little", signed=kind != scan.MOV)
                wanted.add(immediate if kind == scan.MOV else BASE + match.start() + size + immediate)
            targets = sorted({address + near for address in wanted for near in range(-8, 9) if address + near >= 0})
            assert {targets[at] for at in searched(kind, code, BASE, BASE - 1, *targets)} == wanted - {BASE - 1}


BASE = 1 << 32
PATTERNS = {
    scan.CALL: (rb"(?=\xe8(....))", 5),
    scan.LEA: (rb"(?=[\x48\x4c]\x8d[\x05\x0d\x15\x1d\x25\x2d\x35\x3d](....))", 7),
    scan.MOV: (rb"(?=(?:[\xb8-\xbf]|\x48\xc7[\x00-\x03\x06\x07])(....))", 0),
}


@pytest.mark.matrix
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
