"""Every linker, every kind of output: the text is exactly whole windows, and the program works.

The layout is judged by pyelftools, not by hugealign's own reader.
"""

import ctypes
import shutil
from pathlib import Path

import pytest

from tests.link.bulk import MAIN
from tests.support import HUGEALIGN, ROOT, Elf, Toolchain, run

MODES = {
    "pie": ("-pie",),
    "no-pie": ("-no-pie",),
    "static": ("-static",),
    "static-pie": ("-static-pie",),
}
#: What a linker cannot do with or without hugealign.
CANNOT = {
    ("gold", "static-pie"): "gold knows no static-pie (--no-dynamic-linker)",
    ("wild", "static-pie"): "wild 0.10 warns of -z text, which gcc gives it, also without hugealign",
}


def link(toolchain: Toolchain, target: Path, *words: str | Path, cxx: bool = True) -> None:
    """Link with hugealign; silence is part of the promise."""
    compiler = toolchain.cxx if cxx else toolchain.cc
    done = run(HUGEALIGN, compiler, *toolchain.flags, *words, "-o", target, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def assert_whole(path: Path, toolchain: Toolchain) -> Elf:
    """Assert the placement; gold fills the last window only to its last 64 bytes, which is whole once mapped."""
    elf = Elf(path)
    assert elf.faults(exact=toolchain.linker != "gold") == []
    assert set(elf.pad()) <= {0xCC}
    assert elf.has("PT_GNU_RELRO")
    return elf


@pytest.mark.parametrize("mode", MODES)
def test_program(mode: str, toolchain: Toolchain, features: Path, bulk: Path, tmp_path: Path) -> None:
    if reason := CANNOT.get((toolchain.linker, mode)):
        pytest.skip(reason)
    program = tmp_path / "program"
    link(toolchain, program, *MODES[mode], features, bulk, "-Wl,--gc-sections,--build-id")
    elf = assert_whole(program, toolchain)
    assert elf.has("PT_TLS")
    assert ".note.gnu.build-id" in elf.sections
    assert elf.type == ("ET_EXEC" if mode in ("no-pie", "static") else "ET_DYN")
    done = run(program)
    assert (done.returncode, done.stdout) == (0, "")
    for strip in ("strip", "llvm-strip-19", "eu-strip"):
        if not shutil.which(strip):
            continue
        stripped = tmp_path / strip
        if run(strip, program, "-o", stripped).returncode:
            # llvm-strip refuses GNU ld's static programs, whoever laid them out.
            words = (toolchain.cxx, *toolchain.flags, *MODES[mode], features, bulk, "-o", tmp_path / "plain")
            run(*words, check=True)
            assert run(strip, tmp_path / "plain", "-o", stripped).returncode != 0
            continue
        assert_whole(stripped, toolchain)
        assert run(stripped).returncode == 0, strip


def test_shared_library(toolchain: Toolchain, bulk: Path, tmp_path: Path) -> None:
    library = tmp_path / "libbulk.so"
    link(toolchain, library, "-shared", bulk, "-Wl,-soname,libbulk.so", cxx=False)
    elf = Elf(library)
    assert elf.faults(exact=toolchain.linker != "gold") == []
    assert ctypes.CDLL(str(library)).big_sum() == 3000 * 2999 // 2
    symbols = run("nm", "-D", "--defined-only", library, check=True).stdout
    assert "hugealign" not in symbols
    main = tmp_path / "main.c"
    main.write_text(MAIN)
    program = tmp_path / "main"
    run(HUGEALIGN, toolchain.cc, *toolchain.flags, main, library, f"-Wl,-rpath,{tmp_path}", "-o", program, check=True)
    assert run(program).returncode == 0


def test_c_program_links_byte_identical_twice(toolchain: Toolchain, bulk: Path, tmp_path: Path) -> None:
    main = tmp_path / "main.c"
    main.write_text(MAIN)
    for name in ("first", "second"):
        link(toolchain, tmp_path / name, main, bulk, "-g0", cxx=False)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    assert run(tmp_path / "first").returncode == 0


def test_holes_take_no_disk(toolchain: Toolchain, bulk: Path, tmp_path: Path) -> None:
    """What is added to the file's blocks is at most the pad itself, less than one window."""
    main = tmp_path / "main.c"
    main.write_text("unsigned big_sum(void); int main(void) { return (int) big_sum(); }")
    plain, padded = tmp_path / "plain", tmp_path / "padded"
    run(toolchain.cc, *toolchain.flags, main, bulk, "-o", plain, check=True)
    link(toolchain, padded, main, bulk, cxx=False)
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as stream:
        stream.truncate(1 << 20)
    if sparse.stat().st_blocks * 512 >= 1 << 20:
        pytest.skip("the file system keeps no holes")
    added = (padded.stat().st_blocks - plain.stat().st_blocks) * 512
    pad = len(Elf(padded).pad())
    assert added <= pad + (64 << 10)


def test_what_debugging_prints_makes_the_same_link(features: Path, bulk: Path, tmp_path: Path) -> None:
    """The words that a link gets, with the files of ld-scripts, typed."""
    inputs = ("-fuse-ld=bfd", "-o", "program")
    done = run(HUGEALIGN, "g++", *inputs, features, bulk, cwd=tmp_path, check=True, HUGEALIGN_DEBUG="1")
    first = done.stderr.splitlines()[0]
    before, _, after = first.partition(" as bfd: ")[2].partition(" ... ")
    ours, scripts = (tmp_path / "program").read_bytes(), ROOT / "ld-scripts"
    option, script = before.split()
    pad, *flags = after.split()
    words = (f"-Wl,{option},{scripts / script}", features, bulk, scripts / pad, f"-Wl,{','.join(flags)}")
    run("g++", *inputs, *words, cwd=tmp_path, check=True)
    assert (tmp_path / "program").read_bytes() == ours
