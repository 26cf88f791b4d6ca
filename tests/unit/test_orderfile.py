"""Order files, as `hugealign.orderfile` and the link read them: the files of tests/orders, and what is written."""

import os
import random
from pathlib import Path

import pytest

from hugealign import orderfile
from hugealign.errors import HugealignError
from hugealign.link.order import dialects
from hugealign.link.order.dialects import LinkOrder
from hugealign.orderfile import ALIASES, Entry, OrderFile, OrderFileError
from tests.orders import described, path, vectors

MAGIC = b"# hugealign.order/1\n"
ALPHABET = "ab.$_\\#@ \t\nü\x01\udcff*\"'"


@pytest.mark.parametrize("folder", ["accept", "reject"])
def test_each_file_has_its_expectation(folder: str) -> None:
    assert sorted(vectors(folder)) == sorted(result.stem for result in path(folder, "x").parent.glob("*.order"))


@pytest.mark.parametrize(("name", "expected"), vectors("accept").items())
def test_accepted(name: str, expected: str) -> None:
    file = path("accept", name)
    read = orderfile.load(str(file))
    assert described(read) == expected
    assert dialects.parse(file.read_bytes(), "order") == linked(read)


@pytest.mark.parametrize(("name", "expected"), vectors("reject").items())
def test_refused(name: str, expected: str) -> None:
    file = path("reject", name)
    message = r"is not an order file: " if expected == "first line" else f"line {expected}: "
    with pytest.raises(OrderFileError, match=f"{file}: {message}"):
        orderfile.load(str(file))
    with pytest.raises(HugealignError, match=f"order: {message}"):
        dialects.parse(file.read_bytes(), "order")


def raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def linked(order: OrderFile) -> LinkOrder:
    """What the link needs of *order*."""
    named = [
        (raw(name), raw(entry.file) if name == entry.name else b"", entry.kind)
        for entry in order.entries
        if entry.name
        for name in (entry.name, *entry.aliases)
    ]
    hot = max((place for place, (_, _, kind) in enumerate(named, 1) if kind == "hot"), default=0)
    sources = {place: file for place, (_, file, _) in enumerate(named) if file}
    unseen = [(0, {place for place, (_, _, kind) in enumerate(named) if kind != "hot"})]
    header = order.header
    return LinkOrder(
        [name for name, _, _ in named], hot, sources, int(header.get("windows", 0)), b"", unseen,
        raw(header.get("binary", "")),
    )  # fmt: skip


def random_order(seed: int) -> OrderFile:
    """Short and long ones, in which few or many functions have a source file or did not run, here and there or last."""
    chance = random.Random(seed)
    count, longest = chance.choice([(30, 6), (3000, 90)])
    files, seldom, last = chance.choice([0, 0, 0.01, 0.3]), chance.choice([0, 0.01, 0.6]), chance.random()
    entries = []
    for number in range(count):
        named = chance.random() < 0.9
        entries.append(
            Entry(
                "".join(chance.choices(ALPHABET, k=chance.randint(1, longest))) + "x" if named else "",
                "".join(chance.choices(ALPHABET, k=2)) + ".c" if chance.random() < files else "",
                chance.choice([0, 7]),
                chance.choice(["cold", "fill"]) if number > last * count or chance.random() < seldom else "hot",
                chance.randint(0, 3),
                0 if named else 4096 + number,
                tuple(f"alias {n}" for n in range(chance.choice([0, 0, 0, 1, 3]))) if named else (),
                (0, 7, number + 8) if chance.random() < files else (),
            )
        )
    return OrderFile({"windows": str(seed)}, entries)


@pytest.mark.parametrize("seed", range(30))
def test_what_is_written_comes_back(seed: int) -> None:
    """Over the borders of the pieces that are read together, with empty lines and comments among the lines."""
    order = random_order(seed)
    text = raw(orderfile.write(order))
    if seed % 4 > 1:
        text = text.replace(b"\n", random.Random(seed).choice([b"\n\n", b"\n#\tfile=x\n", b"\n#\n\n"]))
    assert orderfile.parse(text) == order
    read, expected = dialects.parse(text, "order"), linked(order)
    unseen = {first + place for first, piece in read.unseen for place in piece}
    assert read.changed(unseen=[(0, unseen)]) == expected
    assert read.ran() == expected.ran()


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("plain", "plain"),
        ("#c", "\\x23c"),
        ("@40", "\\x4040"),
        (" a b ", "\\x20a b\\x20"),
        (" ", "\\x20"),
        ("a\\b", "a\\\\b"),
        ("a\nb\tc\r", "a\\nb\\tc\\x0d"),
        ("\udcff\x1b[1m", "\\xff\\x1b[1m"),
        ("f\u00fcr", "f\u00fcr"),
    ],
)
def test_names_are_one_line(name: str, line: str) -> None:
    assert orderfile.write(OrderFile({}, [Entry(name)])).splitlines()[1] == line


def test_lines_that_are_written() -> None:
    entries = [
        Entry("a b", "d/a.c", 3, window=1, aliases=("#c", "d")),
        Entry("e", "", 0, "fill", 1, 0, ("f",)),
        Entry("", samples=2, address=0x401136, window=2),
        Entry("h", blocks=(0, 7, 2), unit="d/a\t=b", window=2),
    ]
    assert orderfile.write(OrderFile({"binary": "x\ty"}, entries)).split("\n") == [
        "# hugealign.order/1",
        "# binary: x\\ty",
        "# window: 1",
        "a b\tfile=d/a.c\tsamples=3",
        "\\x23c\tof=a b",
        "d\tof=a b",
        "e\tkind=fill",
        "f\tof=e",
        "# window: 2",
        "@401136\tsamples=2",
        "h\tblocks=0.7.2\tunit=d/a\\t=b",
        "",
    ]


def test_other_names_are_bounded() -> None:
    many = orderfile.parse(MAGIC + b"a\n" + b"".join(b"b%d\tof=a\n" % number for number in range(20_000)))
    assert [len(entry.aliases) for entry in many.entries] == [ALIASES]


def test_too_many_functions() -> None:
    with pytest.raises(HugealignError, match="more than 2097152 functions"):
        dialects.parse(MAGIC + b"f\n" * ((1 << 21) + 1), "order")


def test_unreadable(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", (256 << 20) + 1)
    for file in (tmp_path, tmp_path / "absent", tmp_path / "\x1b", tmp_path / "fifo", tmp_path / "large"):
        with pytest.raises(HugealignError, match=str(tmp_path)) as caught:
            orderfile.load(str(file))
        assert "\x1b" not in str(caught.value)
        assert not orderfile.is_order(str(file))
    (tmp_path / "order").write_bytes(MAGIC)
    assert orderfile.is_order(str(tmp_path / "order"))
