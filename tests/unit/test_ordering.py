"""The order file as the link reads it, against the reader of `hugealign order`; and the words that linkers get."""

import os
import random
from pathlib import Path

import pytest

from hugealign.elf.notes import BuildNote
from hugealign.errors import HugealignError
from hugealign.link import linkers, ordering
from hugealign.link.command import parse
from hugealign.link.ordered import Ordered
from hugealign.link.ordering import Choices, Order
from hugealign.link.sections import find, whole
from hugealign.order import orderfile
from hugealign.order.orderfile import Entry, OrderFile
from tests.support import run

ALPHABET = "ab.$_\\#@ \t\nü\x01\udcff*\"'"


def random_order(seed: int) -> OrderFile:
    chance = random.Random(seed)
    entries = [
        Entry(
            "".join(chance.choices(ALPHABET, k=chance.randint(1, 6))) + "x" if chance.random() < 0.9 else "",
            "".join(chance.choices(ALPHABET, k=2)) + ".c" if chance.random() < 0.3 else "",
            chance.choice([0, 7]),
            chance.choice(["hot", "cold", "fill"]),
            chance.randint(0, 3),
            4096 + number,
        )
        for number in range(30)
    ]
    return OrderFile({"windows": str(seed)}, entries)


@pytest.mark.parametrize("seed", range(20))
def test_reads_what_the_other_reader_reads(seed: int) -> None:
    text = orderfile.write(random_order(seed)).encode("utf-8", "surrogateescape")
    expected = orderfile.parse(text.split(b"\n")[:-1])
    read = ordering.parse(text)
    named = [entry for entry in expected.entries if entry.name]

    def raw(text: str) -> bytes:
        return text.encode("utf-8", "surrogateescape")

    assert read.names == [(raw(entry.name), raw(entry.file)) for entry in named]
    assert read.hot == max((n for n, entry in enumerate(named, 1) if entry.kind == "hot"), default=0)
    assert read.windows == seed
    assert len(read.identity) == 20


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
        ordering.parse(data)
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(HugealignError, match=f"{tmp_path}/x: {message}"):
        ordering.read(str(tmp_path / "x"))


def test_unreadable(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "absent", tmp_path / "\x1b", tmp_path / "fifo"):
        with pytest.raises(HugealignError) as caught:
            ordering.read(str(path))
        assert "\x1b" not in str(caught.value)


ORDER = Order([(b"f", b""), (b"g", b"a.c"), (b"h", b"")], hot=2)
F, G, H = b".text.f", b".text.g", b".text.h"


def test_script() -> None:
    choices = Choices({F, G, H, b".text.unlikely.f", b".text.hot.h"}, others=False)
    script = ordering.script(ORDER, choices, {(b"g", b"a.c"): [b"a.o", b"we ird.o"]}, "AFTER .init")
    assert script.decode().split("\n")[4:-4] == [
        "    *(.text.__hugealign_hot_start)",
        "    *(.text.f)",
        "    *a.o(.text.g)",
        "    *(.text.__hugealign_hot_end)",
        "    *(.text.h)",
        "    *(.text.hot.h)",
    ]
    assert script.endswith(b"INSERT AFTER .init;\n")


def test_lists() -> None:
    assert ordering.symbols(ORDER) == b"__hugealign_hot_start\nf\ng\n__hugealign_hot_end\nh\n"
    expected = ".text.__hugealign_hot_start .text.f .text.g .text.__hugealign_hot_end .text.h .text .text.*"
    assert ordering.sections(ORDER, Choices({F, G, H}, others=False)).decode() == "\n".join([*expected.split(), ""])


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
        ("f*", {".text.f*"}, set()),
        ('"', {'.text."'}, set()),
        ("sp ace", {".text.sp ace"}, {".text.sp ace"}),
    ],
)
def test_sections_of_a_function(name: str, present: set[str], expected: set[str]) -> None:
    choices = Choices({section.encode() for section in present}, others=False)
    assert {section.decode() for section in choices.of(name.encode())} == expected


def test_sections_that_are_not_known_before_the_link() -> None:
    choices = Choices({F}, others=True)
    assert choices.of(b"f") == [F]
    assert choices.of(b"g") == [b".text.g", b".text.hot.g", b".text.startup.g", b".text.exit.g"]


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
    found = find(command, {(b"g", b"src/a.c"), (b"nothing", b"a.c")})
    assert {F, G, b".text.member"} <= found.names
    assert found.complete
    assert found.objects == {(b"g", b"src/a.c"): [b"a.o", b"a-name-of-more-than-16-a.o"]}
    assert whole(command) == ([str(objects / "whole.o")], 3)


@pytest.mark.parametrize("name", ["thin.a", "a.c", "lto.o", "cut.o", "cut.a"])
def test_inputs_that_hide_their_sections(name: str, objects: Path) -> None:
    run("gcc", "-flto", "-c", "a.c", "-o", "lto.o", cwd=objects, check=True)
    (objects / "cut.o").write_bytes((objects / "a.o").read_bytes()[:-200])
    (objects / "cut.a").write_bytes((objects / "lib.a").read_bytes()[:-2000])
    command = parse([str(objects / name), str(objects / "a.o"), str(objects / "absent.o"), str(objects)])
    found = find(command, ())
    assert F in found.names
    assert not found.complete
    assert whole(command)[0] == []


def test_the_note_is_the_one_that_verify_reads() -> None:
    ordered = Ordered(Order([], 0, windows=3, identity=b"i" * 20), linkers.named("bfd"), parse([]))
    packed = BuildNote(1 << 21, 0, 0, 3, padded=True, profile=b"i" * 20).pack()
    assert ordered.note(1 << 21) == packed[:24] + bytes(4) + packed[28:]  # but for the version


def test_orders_of_the_users_own() -> None:
    for words in (["--symbol-ordering-file=x"], ["--symbol-ordering-file", "x"], ["--call-graph-ordering-file=x"]):
        assert parse([*words, "a.o"]).ordered
        assert parse([*words, "a.o"]).inputs == ["a.o"]
    assert not parse(["a.o", "-o", "symbol-ordering-file"]).ordered
