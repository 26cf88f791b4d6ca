"""Functions of linked files, against nm and readelf, and of damaged ones."""

import re
import subprocess
from pathlib import Path

import pytest

from hugealign.elf.symbols import read_functions
from hugealign.errors import MalformedElfError, NotElfError
from tests.support import Elf, refused

AARCH64 = "aarch64-linux-gnu-"


def output(*words: object) -> str:
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, check=True).stdout


def test_same_as_nm(prog: Path) -> None:
    functions = read_functions(prog)
    assert functions.source == ".symtab"
    lines = (line.split(" ", 3) for line in output("nm", "-S", "--defined-only", prog).splitlines())
    sized = {
        (int(a, 16), int(size, 16), name)
        for a, size, kind, name in (row for row in lines if len(row) == 4)
        if kind in "tT"
    }
    assert {(a, s, n) for a, s, n in zip(functions.starts, functions.sizes, functions.names, strict=True)} >= sized
    assert functions.build_id in output("readelf", "-n", prog)
    assert [functions.files[i] for i in functions.by_name["helper"]] == ["main.c", "other.c"]
    assert "_init" not in functions.by_name


def test_addresses(prog: Path) -> None:
    functions = read_functions(prog)
    for index, (start, size) in enumerate(zip(functions.starts, functions.sizes, strict=True)):
        assert functions.at(start) == functions.at(start + size - 1) == index
    assert functions.at(0) == functions.at(1 << 60) == -1


def assemble(directory: Path) -> None:
    """Make ``a`` of ``a.s``."""
    for words in (["as", "a.s", "-o", "a.o"], ["ld", "a.o", "-o", "a"]):
        subprocess.run(words, cwd=directory, check=True)


@pytest.mark.parametrize("cc", ["gcc", AARCH64 + "gcc"])
def test_frames_of_a_stripped_file(tmp_path: Path, cc: str) -> None:
    """The ranges of .eh_frame are those that readelf decodes."""
    (tmp_path / "a.c").write_text(
        "int f(int x){return x*3;} int g(int x){return f(x)+1;} int main(int c,char**v){(void)v;return g(c);}"
    )
    words = [cc, "-O1", "-fno-inline", "-fasynchronous-unwind-tables", "a.c", "-o", "a"]
    try:
        subprocess.run(words, cwd=tmp_path, check=True)
    except FileNotFoundError:
        pytest.skip(f"no {cc}")
    subprocess.run([cc.replace("gcc", "strip"), "a"], cwd=tmp_path, check=True)
    functions = read_functions(tmp_path / "a")
    assert functions.source == ".eh_frame and .dynsym"
    frames = output("readelf", "--debug-dump=frames", tmp_path / "a")
    ranges = {(int(a, 16), int(b, 16)) for a, b in re.findall(r"FDE cie=\S+ pc=(\w+)\.\.(\w+)", frames)}
    result = {(a, a + s) for a, s in zip(functions.starts, functions.sizes, strict=True)}
    assert ranges
    assert result == {(a, b) for a, b in ranges if b > a}


def test_a_library_of_gcc() -> None:
    """A large stripped file: every range of readelf's is in ours."""
    library = output("gcc", "-print-file-name=libstdc++.so.6").strip()
    functions = read_functions(library)
    frames = output("readelf", "--debug-dump=frames", library)
    starts = {int(a, 16) for a in re.findall(r"FDE cie=\S+ pc=(\w+)\.\.", frames)}
    assert len(starts) > 4000
    assert all(functions.at(start) >= 0 for start in starts)


def test_debug_file(prog: Path, tmp_path: Path) -> None:
    """The symbols that were split off have the addresses of the program."""
    subprocess.run(["objcopy", "--only-keep-debug", prog, tmp_path / "debug"], check=True)
    debug, full = read_functions(tmp_path / "debug"), read_functions(prog)
    assert (debug.starts, debug.names, debug.text, debug.lead) == (full.starts, full.names, full.text, full.lead)


def test_aliases_and_labels_inside(tmp_path: Path) -> None:
    """One function at one address, by its global name; a symbol inside of it names the same; no size reaches on."""
    (tmp_path / "a.s").write_text(
        ".text\n.type l,@function\nl:\n.globl outer\n.type outer,@function\nouter: .zero 32\n"
        ".globl inner\n.type inner,@function\ninner: .zero 32\n.size inner, 8\n.size outer, 64\n"
        ".globl unsized\n.type unsized,@function\nunsized: .zero 16\n"
        ".globl _start\n.type _start,@function\n_start: nop\n"
    )
    assemble(tmp_path)
    functions = read_functions(tmp_path / "a")
    assert functions.names == ["outer", "unsized", "_start"]
    assert functions.sizes == [64, 16, 1]
    assert functions.by_name["inner"] == functions.by_name["outer"] == functions.by_name["l"] == [0]


def test_the_last_function_does_not_take_the_pad(tmp_path: Path) -> None:
    """As frame_dummy of a program that hugealign linked: without a size, it would be the largest of all."""
    (tmp_path / "a.s").write_text(
        '.text\n.globl _start\n.type _start,@function\n_start: nop\n.section .pad,"ax",@progbits\n.zero 4096\n'
    )
    assemble(tmp_path)
    assert read_functions(tmp_path / "a").sizes == [1]


def test_refused(prog: Path, tmp_path: Path) -> None:
    with refused("file.object"):
        read_functions(prog.parent / "main.o")
    (tmp_path / "text").write_text("text")
    with pytest.raises(NotElfError):
        read_functions(tmp_path / "text")


def test_names_made_to_fill_memory(tmp_path: Path) -> None:
    """Thousands of symbols whose names are the same long string, each a byte shorter."""
    lines = [
        f".globl f{'x' * (3000 - i)}\n.type f{'x' * (3000 - i)},@function\nf{'x' * (3000 - i)}: nop" for i in range(900)
    ]
    (tmp_path / "a.s").write_text(".text\n.globl _start\n_start: nop\n" + "\n".join(lines) + "\n")
    assemble(tmp_path)
    assert len(read_functions(tmp_path / "a")) == 900
    data = bytearray((tmp_path / "a").read_bytes())
    strings = Elf(tmp_path / "a").sections[".strtab"]
    first, last = strings["sh_offset"] + 1, strings["sh_offset"] + strings["sh_size"] - 1
    data[first:last] = data[first:last].replace(b"\0", b"y")
    (tmp_path / "b").write_bytes(data)
    with pytest.raises(MalformedElfError, match="string table"):
        read_functions(tmp_path / "b")
