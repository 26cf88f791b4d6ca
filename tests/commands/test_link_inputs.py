"""What a link in the order of a profile finds in the objects and archives that compilers make."""

import hashlib
import os
import random
from pathlib import Path

import pytest

from hugealign.elf.machines import X86_64
from hugealign.errors import HugealignError
from hugealign.link import linkers, reports
from hugealign.link.command import parse
from hugealign.link.job import Job
from hugealign.link.order import dialects, plan
from hugealign.link.order.copies import Copies
from hugealign.link.order.inputs import find, in_one_piece, pieces, whole
from hugealign.link.running import MemoryFiles
from hugealign.settings import PAGE_SIZE, Settings
from tests.support import run

F, G = b".text.f", b".text.g"


def job_of(words: list[str], profile: str = "") -> Job:
    """A link of *words* for x86-64."""
    return Job("ld", words, words, parse(words), X86_64, Settings(page_size=PAGE_SIZE, profile=profile))


@pytest.fixture
def objects(tmp_path: Path) -> Path:
    """Three objects and an archive with two of them, one of a long name."""
    (tmp_path / "a.c").write_text(
        "static __attribute__((noinline)) int g(int x) { return x; } int f(int x) { return g(x); }\n"
    )
    (tmp_path / "b.c").write_text("int data = 1;\n")
    words = ("gcc", "-O1", "-c", "a.c", "-o")
    run(*words, "a.o", "-ffunction-sections", cwd=tmp_path, check=True)
    run(*words, "whole.o", cwd=tmp_path, check=True)
    run(*words, "a-name-of-more-than-16-a.o", "-ffunction-sections", "-Df=member", cwd=tmp_path, check=True)
    run("gcc", "-c", "b.c", cwd=tmp_path, check=True)
    run("ar", "rc", "lib.a", "b.o", "a-name-of-more-than-16-a.o", cwd=tmp_path, check=True)
    run("ar", "rcT", "thin.a", "b.o", cwd=tmp_path, check=True)
    return tmp_path


def test_find(objects: Path) -> None:
    command = parse([str(objects / name) for name in ("a.o", "whole.o", "lib.a", "b.o")])
    result = find(command, [b"f", b"g", b"member", b"absent"], {(b"g", b"src/a.c"), (b"nothing", b"a.c")})
    assert [result.choices.of(name) for name in (b"f", b"g", b"member", b"absent")] == [[F], [G], [b".text.member"], []]
    assert result.complete
    assert result.objects == {(b"g", b"src/a.c"): [(b"a.o", G), (b"a-name-of-more-than-16-a.o", G)]}
    assert whole(command) == ([str(objects / "whole.o")], 3)


def test_local_functions_have_sections_by_object(tmp_path: Path) -> None:
    """Where the compiler took one for unlikely, its section is of another kind than those of the same name.

    Beside a section of the usual kind that is the one of the function's cold part.
    """
    cold_part = '__attribute__((section(".text.unlikely.g"))) void part(void) {}\n'
    text = "static __attribute__((noinline%s)) int g(int x) { return x * 3; } int %s(int x) { return g(x); }\n"
    for name, attribute in (("a", ""), ("b", ", cold")):
        (tmp_path / f"{name}.c").write_text(text % (attribute, name) + (cold_part if name == "a" else ""))
        run("gcc", "-O2", "-ffunction-sections", "-c", f"{name}.c", cwd=tmp_path, check=True)
    command = parse([str(tmp_path / name) for name in ("a.o", "b.o")])
    result = find(command, [b"g"], {(b"g", b"a.c"), (b"g", b"b.c")})
    assert result.objects == {(b"g", b"a.c"): [(b"a.o", G)], (b"g", b"b.c"): [(b"b.o", b".text.unlikely.g")]}


def test_pieces(objects: Path) -> None:
    """a.o has a section for each function, whole.o none, and lib.a a member of each kind."""
    run("gcc", "-O1", "-Df=member", "-c", "a.c", "-o", "member.o", cwd=objects, check=True)
    run("ar", "rc", "lib.a", "member.o", cwd=objects, check=True)
    command = parse([str(objects / name) for name in ("a.o", "whole.o", "b.o", "lib.a")])
    result = pieces(in_one_piece(command), {b"f", b"g", b"member", b"data", b"absent"})
    assert [(str(piece), piece.names) for piece in result] == [
        (f"{objects}/whole.o", {b"f", b"g"}),
        (f"{objects}/lib.a(member.o)", {b"member", b"g"}),
    ]
    assert [piece.pattern().decode() for piece in result] == [f"{objects}/whole.[o]", f"{objects}/lib.a:member.[o]"]
    assert pieces(in_one_piece(command), set()) == []
    (objects / "who*le.o").write_bytes((objects / "whole.o").read_bytes())
    assert pieces(in_one_piece(parse([str(objects / "who*le.o")])), {b"f"})[0].pattern() == b""


@pytest.mark.parametrize("more", [0, 60_000], ids=["short", "long"])
def test_what_lld_must_not_move(more: int, objects: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what did not run, where it lies among other code; a long order is read by two processes."""
    children = []
    fork = os.fork

    def forked() -> int:
        children.append(fork())
        return children[-1]

    monkeypatch.setattr(os, "fork", forked)
    names = ["absent", *(f"nowhere_to_be_found_{number}" for number in range(more))]
    path = objects / "order"
    path.write_text("\n".join(["# hugealign.order/1", "# windows: 3", *names, "f\tkind=fill", "member\tkind=fill", ""]))
    assert (path.stat().st_size > dialects.LONG) == bool(more)
    job = job_of([str(objects / name) for name in ("whole.o", "lib.a")], profile=str(path))
    read = plan.read(linkers.SYMBOLS, linkers.named("lld"), job)
    assert (len(read.order.names), read.order.windows) == (len(names) + 2, 3)
    assert read.order.identity == hashlib.sha256(path.read_bytes()).digest()[:20]
    memory = MemoryFiles()
    words = read.words(memory)
    (written,) = memory.names
    assert Path(written).read_text().split() == ["__hugealign_hot_start", *names, "__hugealign_hot_end", "member"]
    assert written in words.before
    assert words.arguments == job.arguments
    path.write_text(path.read_text().replace("absent", "absent\tkind=tepid"))
    with pytest.raises(HugealignError, match=f"{path}: line 3: not a kind of function"):
        plan.read(linkers.SYMBOLS, linkers.named("lld"), job)
    assert len(children) == (2 if more else 0)
    for child in children:
        with pytest.raises(ChildProcessError):  # it has been waited for
            os.waitpid(child, os.WNOHANG)


def test_copies(objects: Path) -> None:
    """Only sections of code that are listed are renamed, in objects and in archives' members."""
    words = ["-o", "out", str(objects / "a.o"), str(objects / "b.o"), str(objects / "lib.a"), "-Map=x"]
    before = {path: path.read_bytes() for path in objects.iterdir()}

    def names(_path: str, base: str) -> list[dict[bytes, bytes]]:
        return [{F: b".first"} if base == "a.o" else {}, {G: b".second", b".data": b".third"}]

    copies = Copies(str(objects))
    changed = copies.substitute(words, parse(words), names)
    assert [one == other for one, other in zip(words, changed, strict=True)] == [True, True, False, True, False, True]
    assert reports.renamed(" ".join(changed).encode(), copies.made).decode() == " ".join(words)
    made = [objects / "copy.o", objects / "copy.a"]
    for path, copy in zip(made, (changed[2], changed[4]), strict=True):
        path.write_bytes(Path(copy).read_bytes())
    shown = [run("readelf", "-SW", path, check=True).stdout for path in made]
    assert [(" .first " in text, " .second " in text, " .third " in text) for text in shown] == [
        (True, True, False),
        (False, True, False),
    ]
    for old, new in zip((words[2], words[4]), made, strict=True):
        symbols = [run("nm", path, check=True).stdout.splitlines()[-3:] for path in (old, new)]
        assert symbols[0] == symbols[1]
    assert {path: path.read_bytes() for path in objects.iterdir() if path not in made} == before
    elsewhere = Copies("/proc").substitute(words, parse(words), names)  # which has no files without a name
    assert [Path(elsewhere[at]).read_bytes() for at in (2, 4)] == [path.read_bytes() for path in made]
    words.append("--exclude-libs=lib.a")
    assert Copies(str(objects)).substitute(words, parse(words), names)[4] == words[4]


@pytest.mark.parametrize("groups", [0, 3, 300])
def test_a_piece_behind_groups(groups: int, tmp_path: Path) -> None:
    """GNU as puts the section of every COMDAT group before .text, which may be empty."""
    comdat = [
        f'.section .text.g{n},"axG",@progbits,g{n},comdat\n.type g{n},@function\ng{n}: ret' for n in range(groups)
    ]
    for name, text in (("whole", ".text\n.type f,@function\nf: ret"), ("empty", '.section .text.f,"ax"\nf: ret')):
        (tmp_path / f"{name}.s").write_text("\n".join([*comdat, text, ""]))
        run("gcc", "-c", f"{name}.s", cwd=tmp_path, check=True)
    command = parse([str(tmp_path / name) for name in ("whole.o", "empty.o")])
    assert [(piece.path, piece.names) for piece in pieces(in_one_piece(command), {b"f", b"g0"})] == [
        (f"{tmp_path}/whole.o", {b"f"})
    ]
    assert whole(command) == ([f"{tmp_path}/whole.o"], 2)


@pytest.mark.parametrize("name", ["whole.o", "a.o", "lib.a"])
def test_cut_and_spoilt_inputs(name: str, objects: Path) -> None:
    data, chance = (objects / name).read_bytes(), random.Random(0)
    words = [str(objects / "spoilt")]
    for number in range(300):
        spoilt = bytearray(data[: chance.randrange(len(data))] if number % 2 else data)
        for _ in range(chance.randrange(4) if number % 2 else 8):
            if spoilt:
                spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
        (objects / "spoilt").write_bytes(spoilt)
        command = parse(words)
        find(command, [b"f"], {(b"g", b"a.c")})
        pieces(in_one_piece(command), {b"f", b"g"})
        whole(parse([str(objects / "spoilt.o")]))
        copies = Copies(str(objects))
        copies.substitute(words, command, lambda _path, _base: [{F: b".first", G: b".second"}])
        for path in copies.made:
            os.close(int(path.rpartition("/")[2]))


@pytest.mark.parametrize("name", ["thin.a", "a.c", "lto.o", "cut.o", "cut.a"])
def test_inputs_that_hide_their_sections(name: str, objects: Path) -> None:
    run("gcc", "-flto", "-c", "a.c", "-o", "lto.o", cwd=objects, check=True)
    (objects / "cut.o").write_bytes((objects / "a.o").read_bytes()[:-200])
    (objects / "cut.a").write_bytes((objects / "lib.a").read_bytes()[:-2000])
    command = parse([str(objects / name), str(objects / "a.o"), str(objects / "absent.o"), str(objects)])
    result = find(command, [b"f"])
    assert F in result.choices.of(b"f")
    assert not result.complete
    assert whole(command)[0] == []
