"""The order file as the link reads it, against the reader of `hugealign order`; and the words that linkers get."""

import hashlib
import os
import random
from pathlib import Path

import pytest

from hugealign import orderfile
from hugealign.elf.image import EM_X86_64
from hugealign.elf.notes import BuildNote
from hugealign.errors import HugealignError
from hugealign.link import linkers, reports
from hugealign.link.command import parse
from hugealign.link.job import Job
from hugealign.link.order import dialects, plan
from hugealign.link.order.copies import Copies, group, is_hot
from hugealign.link.order.dialects import Choices, Order
from hugealign.link.order.inputs import find, in_one_piece, pieces, whole
from hugealign.link.order.plan import OrderedLink
from hugealign.link.order.second_process import SecondProcess
from hugealign.link.running import Memory
from hugealign.orderfile import Entry, OrderFile
from hugealign.settings import Settings
from tests.support import run

ALPHABET = "ab.$_\\#@ \t\nü\x01\udcff*\"'"


def job_of(words: list[str], profile: str = "") -> Job:
    """A link of *words* for x86-64."""
    return Job("ld", words, words, parse(words), EM_X86_64, Settings(profile=profile))


def random_order(seed: int) -> OrderFile:
    """Short and long ones, in which few or many functions have a source file or did not run, here and there or last."""
    chance = random.Random(seed)
    count, longest = chance.choice([(30, 6), (3000, 90)])
    files, seldom, last = chance.choice([0, 0, 0.01, 0.3]), chance.choice([0, 0.01, 0.6]), chance.random()
    entries = [
        Entry(
            "".join(chance.choices(ALPHABET, k=chance.randint(1, longest))) + "x" if chance.random() < 0.9 else "",
            "".join(chance.choices(ALPHABET, k=2)) + ".c" if chance.random() < files else "",
            chance.choice([0, 7]),
            chance.choice(["cold", "fill"]) if number > last * count or chance.random() < seldom else "hot",
            chance.randint(0, 3),
            4096 + number,
            tuple(f"alias {number}" for _ in range(chance.choice([0, 0, 0, 1]))),
        )
        for number in range(count)
    ]
    return OrderFile({"windows": str(seed)}, entries)


@pytest.mark.parametrize("seed", range(60))
def test_reads_what_the_other_reader_reads(seed: int) -> None:
    """With and without empty lines and comments among them."""
    chance = random.Random(seed)
    text = orderfile.write(random_order(seed)).encode("utf-8", "surrogateescape")
    if seed % 4 > 1:
        text = text.replace(b"\n", chance.choice([b"\n\n", b"\n# window: 1\n", b"\n#\tfile=x\n", b"\n\t\n"])) + b"\n"
    expected = orderfile.parse(text.split(b"\n")[:-1])
    read = dialects.parse(text, "order")
    named = [
        Entry(name, entry.file if name == entry.name else "", kind=entry.kind)
        for entry in expected.entries
        if entry.name
        for name in (entry.name, *entry.aliases)
    ]

    def raw(text: str) -> bytes:
        return text.encode("utf-8", "surrogateescape")

    assert read.names == [raw(entry.name) for entry in named]
    assert read.sources == {n: raw(entry.file) for n, entry in enumerate(named) if entry.file}
    assert read.hot == max((n for n, entry in enumerate(named, 1) if entry.kind == "hot"), default=0)
    assert read.windows == seed


@pytest.mark.parametrize("lines", [1, 100_000], ids=["short", "long"])
def test_identity_is_the_checksum(lines: int, tmp_path: Path) -> None:
    """Which `sha256sum` prints; long files take another way to it."""
    path = tmp_path / "order"
    data = b"# hugealign.order/1\n" + b"function\tsamples=1\n" * lines
    path.write_bytes(data)
    assert dialects.identity(dialects.load(str(path))) == hashlib.sha256(data).digest()[:20]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is no order file"),
        (b"main\n", "is no order file"),
        (b"# hugealign.order/2\nmain\n", "is no order file"),
        (b"# hugealign.order/1\nmain\tkind=tepid\n", "line 2"),
        (b"# hugealign.order/1\n# windows: many\n", "line 2"),
        (b"# hugealign.order/1\n# windows: 99999999999999999999\n", "line 2"),
    ],
)
def test_malformed(data: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(HugealignError, match=message):
        dialects.parse(data, "x")
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(HugealignError, match=f"{tmp_path}/x: {message}"):
        dialects.parse(dialects.load(str(tmp_path / "x")), str(tmp_path / "x"))


def test_unreadable(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "absent", tmp_path / "\x1b", tmp_path / "fifo"):
        with pytest.raises(HugealignError) as caught:
            dialects.load(str(path))
        assert "\x1b" not in str(caught.value)


ORDER = Order([b"f", b"g", b"h"], 2, {1: b"a.c"})
F, G, H = b".text.f", b".text.g", b".text.h"


def table(*names: bytes) -> bytes:
    """The names of an object's sections as its string table has them."""
    return b"\0".join([b"", *names, b""])


def choices_of(names: list[bytes], *tables: bytes, others: bool = False) -> Choices:
    choices = Choices(names, others)
    for one in tables:
        choices.add(one)
    return choices


def test_script() -> None:
    choices = choices_of(ORDER.names, table(F, G, H, b".text.unlikely.f", b".text.hot.h"))
    script = dialects.script(ORDER, choices, {(b"g", b"a.c"): [(b"a.o", b".text.unlikely.g"), (b"we ird.o", G)]})
    assert script.decode().split("\n")[4:-4] == [
        "*(.text.__hugealign_hot_start)",
        "*(.text.f)",
        "*a.o(.text.unlikely.g)",
        "*(.text.__hugealign_hot_end)",
        "*(.text.h)",
        "*(.text.hot.h)",
    ]
    assert script.endswith(b"INSERT BEFORE .text;\n")


def test_lists() -> None:
    assert dialects.symbols(ORDER) == b"__hugealign_hot_start\nf\ng\n__hugealign_hot_end\nh\n"
    choices = choices_of(ORDER.names, table(F, G, H))
    expected = ".text.__hugealign_hot_start .text.f .text.g .text.__hugealign_hot_end .text.h .text .text.*"
    assert dialects.symbols(ORDER, {b"g", b"h"}) == b"__hugealign_hot_start\nf\ng\n__hugealign_hot_end\n"
    for name in (b" g", b"g ", b"g\n", b"\x0bg", b"g\r"):
        assert dialects.symbols(Order([b"a b", name, b"h"], 3, {})) == (
            b"__hugealign_hot_start\na b\nh\n__hugealign_hot_end\n"
        )
    assert dialects.sections(ORDER, choices).decode() == "\n".join([*expected.split(), ""])


@pytest.mark.parametrize(
    ("name", "present", "expected"),
    [
        ("main", {".text.startup.main"}, {".text.startup.main"}),
        ("f", {".text.f", ".text.unlikely.f"}, {".text.f"}),
        ("f", {".text.unlikely.f"}, {".text.unlikely.f"}),
        ("f.cold", {".text.f", ".text.unlikely.f"}, {".text.unlikely.f"}),
        ("f.cold.12", {".text.f", ".text.unlikely.f"}, {".text.unlikely.f"}),
        ("f.cold", {".text.f", ".text.split.f"}, {".text.split.f"}),
        ("f.coldest", {".text.f.coldest"}, {".text.f.coldest"}),
        ("f.constprop.0", {".text.f", ".text.f.constprop.0"}, {".text.f.constprop.0"}),
        ("_ZN1AC1Ev", {".text._ZN1AC2Ev"}, {".text._ZN1AC2Ev"}),
        ("_ZN1AD2Ev", {".text._ZN1AD1Ev", ".text._ZN1AD0Ev"}, {".text._ZN1AD1Ev"}),
        ("absent", {".text.f"}, set()),
        ("f", {".rela.text.f"}, {".text.f"}),
        ("f", {".text.hot.f", ".text.unlikely.f"}, {".text.hot.f"}),
        ("f*", {".text.f*"}, set()),
        ('"', {'.text."'}, set()),
        ("sp ace", {".text.sp ace"}, {".text.sp ace"}),
    ],
)
def test_sections_of_a_function(name: str, present: set[str], expected: set[str]) -> None:
    choices = choices_of([name.encode()], table(*(section.encode() for section in present)))
    assert {section.decode() for section in choices.of(name.encode())} == expected


def test_symbols_in_a_table_that_llvm_shares_with_them() -> None:
    names = [b"_ZN1AC1Ev", b"_ZN1AC2Ev", b"f"]
    choices = choices_of(names, table(b"_ZN1AC1Ev", b".text._ZN1AC2Ev", b"f", F))
    assert choices.strange(names) == {b"_ZN1AC1Ev"}
    assert choices.of(b"_ZN1AC1Ev") == [b".text._ZN1AC2Ev"]


def test_what_other_objects_have() -> None:
    """A part that one object has split off from a function is not taken for the function of another."""
    names = [b"absent", b"f", b"g", b"h", b"*", b"f.cold"]
    tables = table(F, b".text.unlikely.f"), table(b".text.unlikely.g"), table(b".text.hot.h"), table(H), table(F)
    choices = choices_of(names, *tables)
    assert choices.strange(names) & set(names) == set(names) - {b"f"}
    assert [choices.of(name) for name in names] == [
        [],
        [F],
        [b".text.unlikely.g"],
        [H, b".text.hot.h"],
        [],
        [b".text.unlikely.f"],
    ]


def test_sections_that_are_not_known_before_the_link() -> None:
    names = [b"f", b"g", b"h", b"_ZN1AC1Ev"]
    choices = choices_of(names, table(F, b".text.unlikely.h", b".text._ZN1AC2Ev"), others=True)
    assert choices.strange(names) == set(names) - {b"f"}
    assert choices.of(b"f") == [F]
    assert choices.of(b"g") == [b".text.g", b".text.hot.g", b".text.startup.g", b".text.exit.g"]
    assert choices.of(b"h") == [b".text.unlikely.h"]
    assert choices.of(b"_ZN1AC1Ev") == [b".text._ZN1AC2Ev"]


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
    found = find(command, [b"f", b"g", b"member", b"absent"], {(b"g", b"src/a.c"), (b"nothing", b"a.c")})
    assert [found.choices.of(name) for name in (b"f", b"g", b"member", b"absent")] == [[F], [G], [b".text.member"], []]
    assert found.complete
    assert found.objects == {(b"g", b"src/a.c"): [(b"a.o", G), (b"a-name-of-more-than-16-a.o", G)]}
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
    found = find(command, [b"g"], {(b"g", b"a.c"), (b"g", b"b.c")})
    assert found.objects == {(b"g", b"a.c"): [(b"a.o", G)], (b"g", b"b.c"): [(b"b.o", b".text.unlikely.g")]}


def test_pieces(objects: Path) -> None:
    """a.o has a section for each function, whole.o none, and lib.a a member of each kind."""
    run("gcc", "-O1", "-Df=member", "-c", "a.c", "-o", "member.o", cwd=objects, check=True)
    run("ar", "rc", "lib.a", "member.o", cwd=objects, check=True)
    command = parse([str(objects / name) for name in ("a.o", "whole.o", "b.o", "lib.a")])
    found = pieces(in_one_piece(command), {b"f", b"g", b"member", b"data", b"absent"})
    assert [(str(piece), piece.names) for piece in found] == [
        (f"{objects}/whole.o", {b"f", b"g"}),
        (f"{objects}/lib.a(member.o)", {b"member", b"g"}),
    ]
    assert [piece.pattern().decode() for piece in found] == [f"{objects}/whole.[o]", f"{objects}/lib.a:member.[o]"]
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
    memory = Memory()
    words = read.words(memory)
    (written,) = memory.names
    assert Path(written).read_text().split() == ["__hugealign_hot_start", *names, "__hugealign_hot_end", "member"]
    assert written in words.before
    assert words.arguments == job.arguments
    path.write_text(path.read_text().replace("absent", "absent\tkind=tepid"))
    with pytest.raises(HugealignError, match=f"{path}: line 3: not a symbol"):
        plan.read(linkers.SYMBOLS, linkers.named("lld"), job)
    assert len(children) == (2 if more else 0)
    for child in children:
        with pytest.raises(ChildProcessError):  # it has been waited for
            os.waitpid(child, os.WNOHANG)


def test_work_beside() -> None:
    """Of any size; what fails there is done here, and fails here."""
    here = os.getpid()
    beside = SecondProcess(lambda: (os.getpid(), bytes(5 << 20), [(b"a", 1)]))
    pid, *rest = beside.result()
    assert (pid != here, rest) == (True, [bytes(5 << 20), [(b"a", 1)]])
    assert SecondProcess(lambda: "done" if os.getpid() == here else 1 // 0).result() == "done"
    with pytest.raises(ZeroDivisionError):
        SecondProcess(lambda: 1 // 0).result()
    killed = SecondProcess(lambda: "done" if os.getpid() == here else os.kill(os.getpid(), 9))
    assert killed.result() == "done"


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


def test_parts_of_an_order() -> None:
    assert [group(index, 2, 3) for index in range(3)] == [
        b".Hugealign.hot.00",
        b".Hugealign.hot.01",
        b".Hugealign.rest.00",
    ]
    parts = [group(index, 1000, 3000) for index in range(3000)]
    assert parts == sorted(parts)
    assert len(set(parts)) == 128
    assert sum(is_hot(part.decode()) for part in parts) == 1000


@pytest.mark.parametrize("name", ["thin.a", "a.c", "lto.o", "cut.o", "cut.a"])
def test_inputs_that_hide_their_sections(name: str, objects: Path) -> None:
    run("gcc", "-flto", "-c", "a.c", "-o", "lto.o", cwd=objects, check=True)
    (objects / "cut.o").write_bytes((objects / "a.o").read_bytes()[:-200])
    (objects / "cut.a").write_bytes((objects / "lib.a").read_bytes()[:-2000])
    command = parse([str(objects / name), str(objects / "a.o"), str(objects / "absent.o"), str(objects)])
    found = find(command, [b"f"])
    assert F in found.choices.of(b"f")
    assert not found.complete
    assert whole(command)[0] == []


def test_the_note_is_the_one_that_verify_reads() -> None:
    order = Order([], 0, {}, windows=3, identity=b"i" * 20)
    made = OrderedLink(order, linkers.SCRIPT, linkers.named("bfd"), job_of([]))
    packed = BuildNote(1 << 21, 0, 0, 3, padded=True, profile=b"i" * 20).pack()
    assert made.note() == packed[:24] + bytes(4) + packed[28:]  # but for the version


def test_orders_of_the_users_own() -> None:
    for words in (["--symbol-ordering-file=x"], ["--symbol-ordering-file", "x"], ["--call-graph-ordering-file=x"]):
        assert parse([*words, "a.o"]).ordered
        assert parse([*words, "a.o"]).inputs == ["a.o"]
    assert not parse(["a.o", "-o", "symbol-ordering-file"]).ordered
