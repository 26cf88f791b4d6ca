"""Layouts of another link: each block lies where the symbol table of that file has its function."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from hugealign.elf.symbols import read_functions
from hugealign_lab import tracefile
from hugealign_lab.files import describe
from hugealign_lab.placement import WINDOW, original
from hugealign_lab.relinked import relinked_file
from tests.support import HUGEALIGN, LLVM, need_compiler, run, worded

FILES = {
    "a.c": "static int twice(int x) { return 2 * x; } int a(int x) { return twice(x) + 1; }",
    "b.c": "static int twice(int x) { return x + x + x; } int b(int x) { return twice(x) - 1; }",
    "main.c": "#include <stdlib.h>\nint a(int), b(int); int main(int n, char **v) { return a(n) + b(atoi(v[0])); }",
}
OBJECTS = tuple(Path(name).with_suffix(".o").name for name in FILES)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("relinked")
    for name, source in FILES.items():
        (directory / name).write_text(source + "\n")
        subprocess.run(["gcc", "-O0", "-ffunction-sections", "-c", name], cwd=directory, check=True)
    _link(directory, "before", OBJECTS)
    return directory


def _link(directory: Path, target: str, objects: Sequence[str], *flags: str) -> Path:
    subprocess.run(["gcc", *flags, *objects, "-o", target], cwd=directory, check=True)
    return directory / target


def _functions(path: Path) -> dict[tuple[str, int], int]:
    """Return where each function is, as pyelftools has it: by name, and the size that tells two of one name apart."""
    with path.open("rb") as stream:
        symbols = list(ELFFile(stream).get_section_by_name(".symtab").iter_symbols())
    return {
        (s.name, s["st_size"]): s["st_value"] for s in symbols if s["st_info"]["type"] == "STT_FUNC" and s["st_size"]
    }


def _section(path: Path, name: str) -> int:
    with path.open("rb") as stream:
        return int(ELFFile(stream).get_section_by_name(name)["sh_addr"])


def _traced(path: Path, addresses: Sequence[int], to: Path) -> tracefile.Trace:
    """Write a trace by hand, in which the blocks at *addresses* of the program ran."""
    with to.open("wb") as out:
        out.write(tracefile.MAGIC)
        numbers = b"".join(number.to_bytes(4, "little") for number in range(1, len(addresses) + 1))
        tracefile.write_chunk(out, 1, tracefile.LAST | tracefile.RAW, len(addresses), numbers)
        files = (tracefile.File(""), describe(str(path)))
        result = tracefile.Description(("before",), "x86_64", files, 1, len(addresses))
        rows = b"".join(tracefile.BLOCK.pack(address, 1, 4, 1) for address in addresses)
        tracefile.write_end(out, result, bytes(16) + rows)
    return tracefile.open_trace(str(to))


OTHERS = [
    (("main.o", "b.o", "a.o"), ()),
    (OBJECTS, ("-Wl,-z,max-page-size=0x200000",)),
    (OBJECTS, ("-no-pie",)),
    (OBJECTS, ("-fuse-ld=gold",)),
    (OBJECTS, ("-fuse-ld=mold",)),
    (OBJECTS, ("-fuse-ld=lld", f"-B{LLVM['lld19']}")),
]


@pytest.mark.parametrize(("objects", "flags"), OTHERS)
def test_blocks_move_with_their_functions(
    objects: Sequence[str], flags: Sequence[str], place: Path, tmp_path: Path
) -> None:
    need_compiler("gcc", *flags)
    before, after = place / "before", _link(place, "after", objects, *flags)
    here, there = _functions(before), _functions(after)
    wanted = [key for key in here if key[0] in ("a", "b", "twice", "main")]
    assert len(wanted) == 5
    plt = _section(before, ".plt")
    trace = _traced(before, [*(here[key] + 3 for key in wanted), plt + 4], tmp_path / "t")
    result = relinked_file(trace, 1, "x", str(before), str(after))
    region = original(trace, 1).addresses[1] - here[wanted[0]] - 3
    assert [address - region for address in result.addresses[1:-1]] == [there[key] + 3 for key in wanted]
    assert result.addresses[-1] - region == _section(after, ".plt") + 4
    text = read_functions(after).image.text_segments[0]
    assert result.first - region // WINDOW == text.p_vaddr // WINDOW


def test_the_same_file_is_the_original(place: Path, tmp_path: Path) -> None:
    before = place / "before"
    trace = _traced(before, sorted(_functions(before).values()), tmp_path / "t")
    result = relinked_file(trace, 1, "original", str(before), str(before))
    assert result == original(trace, 1)


def test_command(place: Path, tmp_path: Path) -> None:
    before, after = place / "before", _link(place, "after", OBJECTS, "-no-pie")
    trace = _traced(before, list(_functions(before).values()), tmp_path / "t")
    done = run(HUGEALIGN, "simulate", trace.path, "--cpu=skylake", "--layout", f"elf:{after}")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"elf:{after}  skylake" in done.stdout


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("other", "is not a link of the same objects: "),
        ("main.o", worded("file.object")),
        ("a.c", worded("file.not-elf")),
        ("none", "No such file"),
        ("cut", ""),
    ],
)
def test_something_else(name: str, message: str, place: Path, tmp_path: Path) -> None:
    before = place / "before"
    if name == "other":
        subprocess.run(["gcc", "-O2", *FILES, "-o", "other"], cwd=place, check=True)
    if name == "cut":
        (place / "cut").write_bytes(before.read_bytes()[:5000])
    addresses = [address for (symbol, _), address in _functions(before).items() if symbol in ("a", "b", "main")]
    trace = _traced(before, addresses, tmp_path / "t")
    done = run(HUGEALIGN, "simulate", trace.path, "--layout", f"elf:{place / name}")
    assert (done.returncode, done.stdout) == (3, ""), done.stdout
    assert message in done.stderr
    assert done.stderr.startswith(f"hugealign: error: {trace.path}: layout elf:{place / name}: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_section_at_the_end_of_all_addresses(place: Path, tmp_path: Path) -> None:
    before = place / "before"
    trace = _traced(before, [_section(before, ".init")], tmp_path / "t")
    with before.open("rb") as stream:
        elf = ELFFile(stream)
        at = elf["e_shoff"] + elf["e_shentsize"] * elf.get_section_index(".init") + 16
    data = bytearray(before.read_bytes())
    data[at : at + 8] = (2**64 - 16).to_bytes(8, "little")
    (tmp_path / "odd").write_bytes(data)
    done = run(HUGEALIGN, "simulate", trace.path, "--binary", before, "--layout", f"elf:{tmp_path / 'odd'}")
    where = f"hugealign: error: {trace.path}: layout elf:{tmp_path / 'odd'}"
    assert done.returncode == 3
    assert done.stderr == f"{where}: no program lies at such addresses; the file is damaged\n"


def test_the_traced_program_has_to_be_there(place: Path, tmp_path: Path) -> None:
    """Its symbols tell which function a block is in."""
    copy = tmp_path / "program"
    copy.write_bytes((place / "before").read_bytes())
    trace = _traced(copy, list(_functions(copy).values()), tmp_path / "t")
    copy.unlink()
    done = run(HUGEALIGN, "simulate", trace.path, "--layout", f"elf:{place / 'before'}")
    assert (done.returncode, done.stdout) == (3, "")
    assert str(copy) in done.stderr
