"""Our lengths of instructions of x86-64 against objdump's, over code of many compilers; run for `code/x86.py`."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from hugealign.code import x86
from tests.link.bulk import bulk_object
from tests.support import SRC, need_compiler, run

pytestmark = pytest.mark.skipif(not shutil.which("objdump"), reason="objdump is not installed")

#: Foreign programs and libraries, of packages that tests/setup.sh installs: C, C++, Rust and assembly.
FOREIGN = (
    *("libLLVM-14.so.1", "libLLVM.so.19.1", "libclang-cpp.so.14", "libclang-cpp.so.19.1", "libclang-19.so.19"),
    *("libclang-14.so.14.0.6", "libz3.so.4", "libx265.so.199", "libcrypto.so.3", "libc.so.6", "librsvg-2.so.2.48.0"),
    *("libstdc++.so.6.0.30", "libgmp.so.10.4.1", "libm.so.6", "libasan.so.8.0.0", "libtsan.so.2.0.0"),
    *("gdb", "cmake", "ctest", "mold", "perf", "git", "python3.11", "x86_64-linux-gnu-lto-dump-12"),
    *("aarch64-linux-gnu-lto-dump-12", "riscv64-linux-gnu-lto-dump-12", "s390x-linux-gnu-lto-dump-12"),
)
PLACES = ("/usr/bin", "/usr/lib/x86_64-linux-gnu")
LEAST = 300 << 20  # bytes of text
#: What objdump makes of bytes that are not code: prefixes by themselves, and what it does not know.
_NO_CODE = re.compile(r".*\(bad\)|\.byte|(?:rex(?:\.\w+)?|[c-gs]s|rep\w*|lock|data16|addr32|bnd|notrack|\s)+$")
_WAIT = 0x9B  # objdump shows it and the instruction behind it as one


def listed(path: Path) -> Iterator[tuple[int, str]]:
    """Yield address and text of each instruction of the file at *path*, and -1 between sections."""
    with subprocess.Popen(["objdump", "-dw", "--no-show-raw-insn", path], stdout=subprocess.PIPE, text=True) as listing:
        assert listing.stdout
        for line in listing.stdout:
            address, tab, text = line.partition(":\t")
            yield (int(address, 16), text.strip()) if tab else (-1, "")


def compared(path: Path) -> tuple[int, int, list[str]]:
    """Return how many instructions of the file at *path* objdump knows, and of these those that we do not know.

    Last come those whose length is another for us.
    """
    with path.open("rb") as stream:
        sections = [
            (s["sh_addr"], s.data())
            for s in ELFFile(stream).iter_sections()
            if s["sh_flags"] & 4 and s["sh_type"] == "SHT_PROGBITS"
        ]
    match = x86.instruction().match
    base, code = 0, b""
    other: list[str] = []
    count = unknown = 0
    before, text = -1, ""
    for address, following in listed(path):
        if address > before >= 0 and not _NO_CODE.match(text):
            if not base <= before < base + len(code):
                base, code = next((at, data) for at, data in sections if at <= before < at + len(data))
            at = before - base
            at += code[at] == _WAIT and address > before + 1
            found = match(code, at)
            count += 1
            unknown += not found
            if found and found.end() != address - base:
                other.append(f"{before:#x} {code[at : address - base].hex(' ')} {text}")
        before, text = address, following
    return count, unknown, other


@pytest.mark.parametrize("compiler", ["g++", "clang++-19"])
def test_lengths_are_those_of_objdump(compiler: str, tmp_path: Path) -> None:
    need_compiler(compiler)
    path = tmp_path / "program"
    options = ("-O3", "-march=x86-64-v4", "-fPIC", "-static")
    run(compiler, *options, SRC / "features.cc", bulk_object(tmp_path), "-o", path, check=True)
    count, unknown, other = compared(path)
    assert count > 100_000
    assert (unknown, other) == (0, [])


@pytest.mark.matrix
@pytest.mark.timeout(3000)
def test_lengths_in_foreign_code() -> None:
    paths = [path for place in PLACES for name in FOREIGN if (path := Path(place, name)).is_file()]
    size = counts = unknowns = 0
    others: list[str] = []
    for path in paths:
        with path.open("rb") as stream:
            size += sum(s["sh_size"] for s in ELFFile(stream).iter_sections() if s["sh_flags"] & 4)
        count, unknown, other = compared(path)
        counts, unknowns = counts + count, unknowns + unknown
        others += [f"{path.name}: {line}" for line in other]
    if size < LEAST:
        pytest.skip(f"only {size >> 20} MiB of foreign text are installed")
    assert not others, "\n".join(others[:40])
    assert unknowns * 100_000 < counts  # data in code, and what no compiler writes
