"""An order in the words of linkers."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from hugealign.link.order import dialects
from hugealign.link.order.dialects import Choices, LinkOrder
from hugealign.link.order.inputs import Sections


@pytest.mark.parametrize("lines", [1, 100_000], ids=["short", "long"])
def test_identity_is_the_checksum(lines: int, tmp_path: Path) -> None:
    """Which `sha256sum` prints; long files take another way to it."""
    path = tmp_path / "order"
    data = b"# hugealign.order/1\n" + b"function\tsamples=1\n" * lines
    path.write_bytes(data)
    assert dialects.identity(path.read_bytes()) == hashlib.sha256(data).digest()[:20]


def test_a_short_order_is_identified_without_openssl() -> None:
    work = "from hugealign.link.order.dialects import identity; identity(b'')"
    code = f"import sys; {work}; sys.exit('_hashlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


ORDER = LinkOrder([b"f", b"g", b"h"], 2, {1: b"a.c"})
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


def test_local_functions_apart_for_lld() -> None:
    """Those of which there are more than ran, all of whose objects are known; lld's list is left with the others."""
    result = Sections(ORDER.names, [b"g"])
    result.objects = {(b"g", b"a.c"): [(b"a.o", G)]}
    result.choices.add(table(F, G, H))
    assert result.apart(ORDER) == set()  # there is no other
    result.choices.add(table(b".text.hot.g", b".text.unlikely.g"))  # where clang puts what it divides
    assert result.apart(ORDER) == {b"g"}
    assert result.apart(ORDER.changed(hot=1)) == set()
    start = "*(.text.__hugealign_hot_start)"
    script, placed = dialects.script_of_front(ORDER, result.choices, result.objects, {b"g"}, 9)
    assert script.decode().split("\n")[4:-4] == [start, "*(.text.f)", "*a.o(.text.g)"]  # in its place
    assert placed == {b"f", b"g"}
    script, placed = dialects.script_of_front(ORDER, result.choices, result.objects, {b"g"}, 0)
    assert script.decode().split("\n")[4:-4] == [start, "*a.o(.text.g)"]
    assert placed == {b"g"}
    whole = ORDER.changed(names=[b"in_one_piece", b"g", b"h"])
    script, placed = dialects.script_of_front(whole, choices_of(whole.names, table(G, H)), result.objects, {b"g"}, 9)
    assert script.decode().split("\n")[4:-4] == [start, "*a.o(.text.g)"]
    assert placed == {b"g"}
    assert dialects.symbols(ORDER, apart={b"g"}) == b"__hugealign_hot_start\nf\n__hugealign_hot_end\nh\n"
    result.objects = {(b"g", b"a.c"): [(b"we ird.o", G)]}
    assert result.apart(ORDER) == set()


def test_lists() -> None:
    assert dialects.symbols(ORDER) == b"__hugealign_hot_start\nf\ng\n__hugealign_hot_end\nh\n"
    choices = choices_of(ORDER.names, table(F, G, H))
    expected = ".text.__hugealign_hot_start .text.f .text.g .text.__hugealign_hot_end .text.h .text .text.*"
    assert dialects.symbols(ORDER, {b"g", b"h"}) == b"__hugealign_hot_start\nf\ng\n__hugealign_hot_end\n"
    for name in (b" g", b"g ", b"g\n", b"\x0bg", b"g\r"):
        assert dialects.symbols(LinkOrder([b"a b", name, b"h"], 3, {})) == (
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
