"""What code and data refer to without calling it, in real files of both processors."""

import re
import struct
import subprocess
from array import array
from itertools import pairwise
from pathlib import Path

import pytest

from hugealign.code import calls, scan
from hugealign.code.references import References
from hugealign.code.scan import Scan
from hugealign.elf.symbols import Functions, read_functions
from tests.support import steps

SOURCE = """
#define FUNCTION __attribute__((noinline)) int
FUNCTION first(int a) { return a * 3; }
FUNCTION second(int a) { return a * 5; }
FUNCTION third(int a) { return a * 7; }
static FUNCTION lone(int a) { return a * 11; }
static FUNCTION other(int a) { return a * 13; }
typedef int (*function)(int);
static const function table[] = {first, second, third};
static const struct pair { const char *name; function run; } pairs[] = {{"lone", lone}, {"other", other}};
function taken(void) { return lone; }
const function *where(void) { return table; }
const struct pair *named(void) { return pairs; }
int calls(int n) { return first(n) + second(n); }
int main(void) { return taken()(1) + where()[1](2) + named()->run(3) + calls(2); }
"""
AARCH64 = ("aarch64-linux-gnu-gcc", "-fno-section-anchors")  # with these, all data of a file have one base
BUILDS = {
    "pie": ("gcc", "-fPIE", "-pie"),
    "fixed": ("gcc", "-fno-pie", "-no-pie"),
    "packed": ("gcc", "-fPIE", "-pie", "-Wl,-z,pack-relative-relocs"),
    "lld": ("clang-19", "-fPIE", "-pie", "-fuse-ld=lld"),
    "library": ("gcc", "-fPIC", "-shared"),
    "aarch64": (*AARCH64, "-fPIE", "-pie"),
    "aarch64-fixed": (*AARCH64, "-fno-pie", "-no-pie"),
}


def built(build: str, directory: Path, source: str = SOURCE) -> Path:
    compiler, *words = BUILDS[build]
    (directory / "p.c").write_text(source)
    try:
        done = subprocess.run(
            [compiler, "-O1", *words, "p.c", "-o", "p"], cwd=directory, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        pytest.skip(f"{compiler} is not installed")
    if done.returncode:
        pytest.skip(f"not here: {done.stderr.splitlines()[0]:.100}")
    return directory / "p"


def named(functions: Functions, indices: object) -> set[str]:
    assert isinstance(indices, list | tuple) or hasattr(indices, "__iter__")
    return {functions.names[index] for index in indices}


@pytest.mark.parametrize("build", BUILDS)
def test_what_is_referred_to(build: str, tmp_path: Path) -> None:
    path = built(build, tmp_path)
    functions = read_functions(path)
    seen = References(path, functions)

    def made(name: str) -> set[str]:
        return named(functions, seen.targets(functions.by_name[name][0]))

    assert made("where") == {"first", "second", "third"}  # all of the table whose address it takes
    assert made("first") == {"second"}  # the next one there
    assert made("third") == set()
    assert made("taken") == {"lone"}
    assert made("calls") == set()
    assert made("named") == made("lone") == set()  # pointers that do not follow one another are not a table
    assert named(functions, seen.referrers(functions.by_name["second"][0])) == {"first", "where"}


def test_what_cannot_be_read_refers_to_nothing(tmp_path: Path) -> None:
    path = built("pie", tmp_path)
    functions = read_functions(path)
    whole = path.read_bytes()

    def count() -> int:
        seen = References(path, functions)
        return sum(len(seen.targets(index)) for index in range(len(functions)))

    assert count() > 4
    path.write_bytes(whole[:100])  # cut short after its functions were read
    assert count() == 0
    path.unlink()
    assert count() == 0
    path.write_bytes(whole)
    functions.image = functions.image.changed(e_machine=243)  # RISC-V
    assert count() == 0


def test_an_adrp_and_the_add_behind_it(tmp_path: Path) -> None:
    path = built("aarch64-fixed", tmp_path)
    functions = read_functions(path)
    text = subprocess.run(["aarch64-linux-gnu-objdump", "-d", path], capture_output=True, text=True, check=True).stdout
    wanted = set()
    lines = re.findall(r"^\s*([0-9a-f]+):\t[0-9a-f]{8} \t(\S+)\t(.*)$", text, re.MULTILINE)
    for (site, first, operands), (_, second, more) in pairwise(lines):
        if first == "adrp" and second == "add" and (low := re.fullmatch(r"(x\d+), (x\d+), #0x([0-9a-f]+)", more)):
            register, page = re.match(r"(x\d+), ([0-9a-f]+)", operands).groups()  # type: ignore[union-attr]
            if register == low[2]:
                wanted.add((int(site, 16), int(page, 16) + int(low[3], 16)))
    assert wanted
    places = array("Q", sorted({address for _, address in wanted}))
    pairs = Scan(functions).taken((scan.ADRP,), calls.pieces(path, functions.image), places, 1 << 20)
    result = {(pair >> 32, places[pair & 0xFFFFFFFF]) for pair in pairs}
    inside = {(functions.at(site), address) for site, address in wanted if functions.at(site) >= 0}
    assert inside <= result
    assert len(inside) > 2


def test_the_work_is_bounded(tmp_path: Path) -> None:
    """Many users of one large table, of which all functions are part."""
    table = ", ".join(["first"] * 50_000)
    users = "\n".join(f"int (*const *user{n}(void))(int) {{ return table; }}" for n in range(300))
    path = built(
        "pie",
        tmp_path,
        f"static int first(int a) {{ return a; }}\n"
        f"int (*const table[])(int) = {{{table}}};\n{users}\nint main(void) {{ return 0; }}\n",
    )
    functions = read_functions(path)
    result: list[int] = []
    assert (
        steps(lambda: result.extend(References(path, functions).referrers(functions.by_name["first"][0]))) < 3_000_000
    )
    assert len(result) >= 300


def test_relocations_that_name_no_symbol(tmp_path: Path) -> None:
    """A number behind the table of symbols."""
    path = built("library", tmp_path)
    functions = read_functions(path)
    rela = next(s for s in functions.image.sections if s.name == ".rela.dyn")
    data = bytearray(path.read_bytes())
    for at in range(rela.sh_offset, rela.sh_offset + rela.sh_size, 24):
        if struct.unpack_from("<I", data, at + 8)[0] == 1:  # R_X86_64_64
            struct.pack_into("<I", data, at + 12, 0xFFFFFFFF)
    path.write_bytes(data)
    seen = References(path, functions)
    assert named(functions, seen.targets(functions.by_name["where"][0])) == set()
