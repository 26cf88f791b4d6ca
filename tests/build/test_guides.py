"""Guides, typed: python-wheels.md and node-bun-deno.md (what others built), ports.md (cross compilers)."""

import subprocess
from pathlib import Path

import pytest

from hugealign.elf.machines import LOONGARCH64, RISCV64, Machine
from tests.build.manual import Block, blocks
from tests.build.projects import write
from tests.link import newer
from tests.link.bulk import bulk_source
from tests.support import BIN, LLVM, ROOT, Elf, environment, need, run

SITE = ".venv/lib/python3/site-packages/big"
_TRAIN = """\
import ctypes, glob, time
library = ctypes.CDLL(glob.glob(".venv/lib/*/site-packages/big/libbig.so")[0])
end = time.time() + 3
while time.time() < end:
    library.big_sum()
print("done")
"""
_ADDON = "const end = Date.now() + 500; while (Date.now() < end) { JSON.parse('[1]') } console.log('done')"


def typed(page: str, place: Path) -> list[str]:
    """Type the blocks of *page* that this test runs in *place*, one after the other; return what each prints."""
    return [typed_block(block, place) for block in own_blocks(page)]


def own_blocks(page: str) -> list[Block]:
    """Return the blocks of *page* that this test runs."""
    return [block for block in blocks(ROOT / "docs/guides" / page) if block.what.endswith("test_guides.py")]


def typed_block(block: Block, place: Path, **settings: str) -> str:
    """Type *block* in *place*, with *settings* in the environment; return what it prints."""
    done = subprocess.run(
        ["sh", "-ec", f"{block.commands}\nwait"],
        check=False, cwd=place, capture_output=True, text=True, env=environment(**settings),
    )  # fmt: skip
    assert done.returncode == 0, (block, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library whose linker gave it no window."""
    need("gcc")
    (tmp_path / "bulk.s").write_text(bulk_source())
    made = tmp_path / "libbig.so"
    run("gcc", "-shared", "-fPIC", "-Wl,-z,max-page-size=0x1000", tmp_path / "bulk.s", "-o", made, check=True)
    return made


@pytest.mark.matrix
def test_python_wheels(library: Path, tmp_path: Path) -> None:
    run("/usr/bin/python3", "-m", "venv", "--without-pip", ".venv", cwd=tmp_path, check=True)
    (tmp_path / SITE).mkdir(parents=True)
    (tmp_path / "train.py").write_text(_TRAIN)
    installed = tmp_path / SITE / "libbig.so"
    installed.hardlink_to(library)
    before = library.read_bytes()
    fixed, seen, undone = typed("python-wheels.md", tmp_path)
    assert "libbig.so: 0 -> 2 windows of 2.0 MiB\n" in fixed
    assert "1 had other names (hard links), which keep the old file" in fixed
    assert fixed.endswith("done\n")
    (line,) = [line for line in seen.splitlines() if "libbig.so" in line and "MiB" in line]
    assert "2/2" in line
    assert undone.endswith("1 file restored\n")
    assert installed.read_bytes() == library.read_bytes() == before


def test_node(library: Path, tmp_path: Path) -> None:
    need("node", "npm")
    place = tmp_path / "node_modules/big"
    place.mkdir(parents=True)
    library.rename(place / "big.node")
    (tmp_path / "package.json").write_text('{"name": "a", "scripts": {"start": "node server.js"}}')
    (tmp_path / "server.js").write_text(_ADDON)
    before = (place / "big.node").read_bytes()
    started, undone = typed("node-bun-deno.md", tmp_path)
    assert "big.node: 0 -> 2 windows of 2.0 MiB\n" in started
    assert started.endswith("done\n")
    assert undone.endswith("1 file restored\n")
    assert (place / "big.node").read_bytes() == before


#: A program with so many MiB of text that its last window is padded.
_MAIN = """\
#include <stdio.h>
__asm__ (".section .text.fill, \\"ax\\"\\n .globl fill\\n fill: .space %d\\n .previous");
extern char fill[];
const void *volatile kept;
int main(void) { kept = fill; return puts("0s") < 0; }
"""
_CMAKE = """\
cmake_minimum_required(VERSION 3.20)
project(LLVM C CXX)
add_executable(clang main.c)
"""
_CARGO = '[package]\nname = "server"\nversion = "0.1.0"\nedition = "2021"\n'
_RUST = """\
std::arch::global_asm!(".globl bulk", "bulk:", "ret", ".space 3000000");
extern "C" { fn bulk(); }
fn main() { unsafe { bulk() }; println!("0s"); }
"""


@pytest.fixture
def sysroot(tmp_path: Path) -> Path:
    """What clang and the C library expect of a system: that of LoongArch, which Debian's packages put elsewhere."""
    if reason := newer.unavailable(newer.LOONGARCH):
        pytest.skip(reason)
    root = newer.TARGET / newer.LOONGARCH / "root/usr"
    made, triple = tmp_path / "sysroot", LOONGARCH64.triple
    own = root / triple
    links = {"usr/include": own / "include", "lib64": own / "lib", f"usr/{triple}": own}
    links |= {f"usr/lib/{file.name}": file for file in (own / "lib").iterdir()}
    links |= {f"usr/lib/gcc/{triple}": root / "lib/gcc-cross" / triple}
    for link, target in links.items():
        (made / link).parent.mkdir(parents=True, exist_ok=True)
        (made / link).symlink_to(target)
    return made


def works(program: Path, machine: Machine, qemu: object, sysroot: object) -> None:
    """Fail unless the text of *program* is in whole windows and it runs."""
    assert Elf(program).faults(page=machine.windows[0]) == []
    assert run(qemu, "-L", sysroot, program).stdout == "0s\n"


@pytest.mark.parametrize("number", range(4), ids=("gcc", "clang", "cmake", "cargo"))
@pytest.mark.matrix  # it needs what only that installs
def test_ports(number: int, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    block = own_blocks("ports.md")[number]
    place = tmp_path / "place"
    loongarch = "loongarch" in block.commands
    write(place, {"main.c": _MAIN % (20 << 20 if loongarch else 3 << 20), "Makefile": "all: main\n"})
    write(place, {"llvm/CMakeLists.txt": _CMAKE, "Cargo.toml": _CARGO, "src/main.rs": _RUST})
    (place / "llvm/main.c").write_text((place / "main.c").read_text())
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("clang", "clang++", "ld.lld"):
        (tools / name).symlink_to(f"{LLVM['lld19']}/{name}")
    settings = {"PATH": f"{tools}:{BIN}:{environment()['PATH']}"}
    machine, qemu, root = RISCV64, "qemu-riscv64", Path("/usr") / RISCV64.triple
    if loongarch:
        machine, root = LOONGARCH64, request.getfixturevalue("sysroot")
        qemu = str(newer.TARGET / newer.LOONGARCH / "root/usr/bin/qemu-loongarch64")
        settings["SYSROOT"] = str(root)
    need("clang-19", "cmake", "ninja", "cargo", "riscv64-linux-gnu-gcc", qemu)
    program = (
        place / ("server", "server", "build/clang", f"target/{RISCV64.name}gc-unknown-linux-gnu/release/server")[number]
    )
    if number == 3:
        libraries = run("rustc", f"--target={program.parts[-3]}", "--print=target-libdir").stdout.strip()
        if not Path(libraries).exists():
            pytest.skip("rustc has no library for riscv64: rustup target add riscv64gc-unknown-linux-gnu")
    output = typed_block(block, place, **settings)
    assert number == 2 or "server: ok  100 %" in output
    for item in (program, place / "main")[: 2 - bool(number)]:
        works(item, machine, qemu, root)
