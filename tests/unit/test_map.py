"""The map: how heat spreads over windows, what is printed and drawn of it, and what hostile names can do to that."""

import io
import json
import random
import shutil
import struct
import subprocess
import zlib
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hugealign.cli import map as map_command
from hugealign.elf.image import ET_EXEC, PF_R, PF_X, PT_LOAD, Image, Segment
from hugealign.elf.notes import BuildNote
from hugealign.elf.symbols import Functions, read_functions
from hugealign.errors import HugealignError
from hugealign.lab import tracefile
from hugealign.lab.files import describe
from hugealign.map import layout, picture, report
from hugealign.map.layout import CELLS, PARTS, Map
from hugealign.map.scale import NONE, plain, scale
from hugealign.ordering.budget import Budget
from hugealign.ordering.problem import Problem
from hugealign.ordering.problem import plan as plan_of
from hugealign.ordering.windows import Room
from hugealign.profile.match import Matched
from hugealign.profile.ran import Ran
from hugealign.units import printable
from tests.support import HUGEALIGN, ROOT, run
from tests.unit.profiles import SAMPLES, build

PAGE = 1 << 16
CELL = PAGE // CELLS
SVG = "{http://www.w3.org/2000/svg}"
SCHEMA = json.loads((ROOT / "hugealign/map/map-1.schema.json").read_text())


def parse(made: str) -> ET.Element:
    return ET.fromstring(made)  # noqa: S314 - it is our own


def segment(start: int, size: int, index: int = 0) -> Segment:
    return Segment(PT_LOAD, PF_R | PF_X, start, start, size, size, 1 << 30, index)


def program(
    sizes: list[int], names: list[str] | None = None, start: int = PAGE, segments: tuple[Segment, ...] | None = None
) -> Functions:
    """Return functions one after the other, in a file that has them in one segment from *start* on."""
    starts = [start + sum(sizes[:index]) for index in range(len(sizes))]
    names = names or [f"f{index}" for index in range(len(sizes))]
    segments = segments or (segment(start, max(sum(sizes), 1)),)
    image = Image(ET_EXEC, 62, segments, (), start + sum(sizes))
    return Functions(starts, sizes, names, [""] * len(sizes), {}, text=sum(sizes), image=image)


def matched(samples: dict[int, int]) -> Matched:
    total = sum(samples.values())
    return Matched(samples, {}, total, total)


def drawn(
    functions: Functions, ran: Matched, budget: int = 2, file: str = "prog", source: str = "p", why: str = "zen3",
    order: str = "", note: BuildNote | None = None,
) -> Map:  # fmt: skip
    plan = plan_of(Problem(ran, functions, Room(PAGE, budget)))
    layouts = (layout.before(functions, ran, PAGE, note), layout.after(functions, ran, plan))
    return Map(Ran(file, functions, ran, [(source, "folded")]), Budget(budget + 1, 1, why), plan, order, note, layouts)


# Where the heat lies.


def test_samples_lie_where_their_function_does() -> None:
    """f1 begins half a cell after f0's end, and is two cells long: a quarter, a half and a quarter."""
    functions = program([CELL * 3 + CELL // 2, CELL * 2, PAGE])
    found = layout.before(functions, matched({1: 100}), PAGE, None)
    assert [heat / PARTS for heat in found.rows[0].heat[:7]] == [0, 0, 0, 25, 50, 25, 0]
    assert (len(found.rows), found.rows[0].text, found.rows[1].text) == (2, [(0, CELLS)], [(0, 6)])
    assert found.uncovered() == [100 * PARTS, 0, 0]
    assert [row.hottest for row in found.rows] == [[("f1", 100)], []]


@settings(deadline=None)
@given(
    st.lists(st.integers(1, PAGE * 2), min_size=1, max_size=30),
    st.data(),
    st.integers(0, PAGE),
    st.integers(1, 4),
)
def test_nothing_is_lost_or_doubled(sizes: list[int], data: st.DataObject, start: int, budget: int) -> None:
    functions = program(sizes, start=start)
    index = st.integers(0, len(sizes) - 1)
    ran = matched(data.draw(st.dictionaries(index, st.integers(1, 1 << 40), min_size=1)))
    shown = drawn(functions, ran, budget)
    for found in shown.layouts:
        assert sum(sum(row.heat) for row in found.rows) == ran.total * PARTS
        left = found.uncovered()
        assert left == sorted(left, reverse=True)
        assert (left[0], left[-1]) == (ran.total * PARTS, 0)
        assert [row.number for row in found.rows] == list(range(1, len(found.rows) + 1))
        for row in found.rows:
            cells = {cell for first, end in row.text for cell in range(first, end)}
            assert all(at in cells for at, heat in enumerate(row.heat) if heat)
    planned = [w.samples for w in shown.plan.windows]
    assert len(planned) <= len(shown.layouts[1].rows)


def test_the_order_brings_heat_to_the_front() -> None:
    functions = program([PAGE // 4] * 40)
    shown = drawn(functions, matched({5: 10, 22: 20, 39: 70}), budget=1)
    assert [left // PARTS for left in shown.layouts[0].uncovered()] == [100, 100, 90, 90, 90, 90, 70, 70, 70, 70, 0]
    assert shown.layouts[1].uncovered()[:2] == [100 * PARTS, 0]
    assert [row.huge for row in shown.layouts[1].rows] == [True] + [False] * 9


def test_windows_that_cannot_be_huge_are_not_marked() -> None:
    """Text from the middle of a window to the middle of another one: two whole ones lie between; the note wants one."""
    functions = program([PAGE // 2] * 6, start=PAGE // 2)
    ran = matched({0: 1})
    assert [row.huge for row in layout.before(functions, ran, PAGE, None).rows] == [False, True, True, False]
    note = BuildNote(PAGE, PAGE, 2 * PAGE, 1)
    found = layout.before(functions, ran, PAGE, note)
    assert [row.huge for row in found.rows] == [False, True, False, False]
    assert found.name == "as linked, with an order"


def test_two_text_segments_far_apart() -> None:
    """As after BOLT: between them there is nothing to show."""
    segments = (segment(PAGE, PAGE), segment(1 << 40, PAGE, 1))
    functions = program([PAGE, PAGE], segments=segments)
    functions.starts[1] = 1 << 40
    found = layout.before(functions, matched({0: 1, 1: 3}), PAGE, None)
    assert [(row.number, row.address, sum(row.heat)) for row in found.rows] == [
        (1, PAGE, PARTS),
        (2, 1 << 40, 3 * PARTS),
    ]


def test_functions_outside_of_the_text_are_not_shown() -> None:
    functions = program([16, 1 << 45, 16], segments=(segment(1 << 30, PAGE),))
    functions.starts[:] = [4096, 1 << 20, 1 << 46]
    found = layout.before(functions, matched({0: 5, 1: 1 << 45, 2: 7}), PAGE, None)
    assert [sum(row.heat) for row in found.rows] == [PAGE * PARTS]
    assert found.rows[0].hottest == []


@pytest.mark.parametrize("size", [4097 * PAGE, (1 << 63) - 1])
def test_more_text_than_can_be_shown(size: int) -> None:
    functions = program([16], segments=(segment(0, size),))
    with pytest.raises(HugealignError, match="cannot be shown"):
        layout.before(functions, matched({0: 1}), PAGE, None)
    functions = program([16, size])
    with pytest.raises(HugealignError, match="cannot be shown"):
        layout.after(functions, matched({0: 1}), plan_of(Problem(matched({0: 1}), functions, Room(PAGE, 1))))


# The scale.


def test_steps_of_the_scale() -> None:
    steps = scale([2900, 40, 0, 1], 10000, 5, halves=True)
    assert steps.labels() == ["10 %", "3 %", "1 %", "0.3 %", "less"]
    assert [steps.step(cell) for cell in (10000, 1000, 999, 300, 100, 30, 29, 1, 0)] == [0, 0, 1, 1, 2, 3, 4, 4, NONE]
    assert scale([500], 1000, 4, halves=False).labels() == ["10 %", "1 %", "0.1 %", "less"]
    assert scale([], 0, 3, halves=False).step(0) == NONE


def test_one_hot_cell_does_not_decide_the_scale() -> None:
    assert scale([10**9] + [1000] * 199, 10**9, 3, halves=False).labels() == ["0.0001 %", "0.00001 %", "less"]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (100, "100"), (30.0, "30"), (3, "3"), (0.3, "0.3"), (0.03, "0.03"), (1e-7, "0.0000001")],
)
def test_numbers_without_exponents(number: float, text: str) -> None:
    assert plain(number) == text


def _luminance(colour: str) -> float:
    """WCAG 2, "relative luminance"."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_differ_in_lightness_alone() -> None:
    """Without hues the order is still there: what is hotter is darker, step by step, and text is readable."""
    found = [_luminance(colour) for colour in (*picture.HEAT, picture.PAPER)]
    assert all((b + 0.05) / (a + 0.05) > 1.15 for a, b in pairwise(found)), found
    for colour in (picture.INK, picture.HUGE, picture.LINES[0], picture.LINES[1]):
        assert 1.05 / (_luminance(colour) + 0.05) > 3, colour


# What is printed.


def test_text() -> None:
    functions = program([PAGE // 4] * 12)
    lines = report.text(drawn(functions, matched({5: 999, 10: 1}), budget=1)).splitlines()
    assert lines == [
        "prog: 1,000 of 1,000 samples found, from p (folded)",
        "order made from the profile: 1 of 3 windows of 64.0 KiB huge; what ran needs 1, the budget is 1 (zen3)",
        "",
        "as linked",
        "window" + "uncovered".rjust(74),
        "   1*|" + "·" * 64 + "|    100 %".replace("   100 %", "100.00 %"),
        "   2*|" + "·" * 16 + "█" * 16 + "·" * 32 + "|" + "0.10 %".rjust(9),
        "   3*|" + "·" * 32 + "░" * 16 + "·" * 16 + "|" + "0 %".rjust(9),
        "",
        "ordered",
        "window" + "uncovered".rjust(74),
        "   1*|" + "█" * 16 + "░" * 16 + "·" * 32 + "|" + "0 %".rjust(9),
        "   2 more, without any",
        "",
        "one character is 1.0 KiB: █ 1 %  ▓ 0.1 %  ▒ 0.01 %  ░ less of the samples  · none",
        "* can be on a huge page, and is meant to; uncovered: not in this window or one before it",
    ]


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 0, "--"),
        (0, 5, "0 %"),
        (5, 5, "100.00 %"),
        (1, 8, "12.50 %"),
        (1, 5000, "0.02 %"),
        (1, 10**9, "0.0000001 %"),
    ],
)
def test_what_is_left_never_looks_like_nothing(part: int, whole: int, text: str) -> None:
    assert report.percent(part, whole) == text


HOSTILE = (
    '"><script>alert(1)</script>',
    "</text></svg><svg onload='x'>",
    "]]><!--&lt;&xxe;%d%s",
    "<!DOCTYPE a [<!ENTITY x 'y'>]>&x;",
    "a\x00b\x1b[31m\r\n\t\x9b\u202e\ufffe\uffff\udcff",
    "<title>" * 50,
    "{}; background: url(http://x)",
    "' onmouseover='x' a='",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_becomes_markup(name: str) -> None:
    """With it in every place that a name has, the picture has the elements and attributes of one without, no more."""
    functions = program([PAGE // 4] * 12, [name] * 12)
    ran = matched({5: 999, 10: 1})
    harmless = picture.svg(drawn(program([PAGE // 4] * 12, ["n"] * 12), ran, file="n", source="n", why="n", order="n"))
    made = picture.svg(drawn(functions, ran, file=name, source=name, why=name, order=name))
    made.encode("utf-8")
    assert all(c.isprintable() or c == "\n" for c in made)
    assert "<!" not in made
    assert "<?" not in made
    elements, plain_elements = (list(parse(text).iter()) for text in (made, harmless))
    assert [(e.tag, e.attrib) for e in elements] == [(e.tag, e.attrib) for e in plain_elements]
    texts = "\n".join(e.text or "" for e in elements)
    assert printable(name)[-40:] in texts
    assert printable(name)[-40:] in "".join(report.heading(drawn(functions, ran, file=name)))


def test_printed_names_are_escaped() -> None:
    functions = program([PAGE // 4] * 12, [HOSTILE[4]] * 12)
    shown = drawn(functions, matched({5: 9}), file=HOSTILE[4], source=HOSTILE[4], why=HOSTILE[4], order=HOSTILE[4])
    for printed in (report.text(shown), report.text(shown, report.ASCII), report.to_json(shown)):
        assert {c for c in printed if not c.isprintable()} == {"\n"}
    assert json.loads(report.to_json(shown))["file"] == HOSTILE[4]


def test_the_picture_says_what_it_shows() -> None:
    functions = program([PAGE // 4] * 12)
    root = parse(picture.svg(drawn(functions, matched({5: 999, 10: 1}), budget=2)))
    words = [element.text or "" for element in root.iter(f"{SVG}text")]
    for wanted in (
        "Heat of prog by window of 64.0 KiB",
        "share of all samples in one cell of 128 B, at least:",
        "as linked: 3 windows",
        "ordered: 3 windows",
        "samples outside of the first N windows",
        "N, leading windows of 64.0 KiB",
        "budget: 2 (zen3)",
    ):
        assert wanted in words
    tips = [element.text for element in root.iter(f"{SVG}title")]
    assert tips[2] == "window 2: 99.90 %; hottest: f5 (99.90 %)"
    paper = next(root.iter(f"{SVG}rect"))
    assert [paper.get(key) for key in ("x", "y", "width", "height", "fill")] == [
        "0", "0", root.get("width"), root.get("height"), "#ffffff",
    ]  # fmt: skip


def test_heat_has_the_colour_and_place_of_its_cells() -> None:
    """f1 fills cells 256 to 319 of the first window; f5 the same of the second, a thousandth as hot."""
    functions = program([PAGE // 2, PAGE // 8, PAGE // 8, PAGE // 4, PAGE // 2, PAGE // 8])
    root = parse(picture.svg(drawn(functions, matched({1: 64000, 5: 64}))))
    boxes = {(e.get("fill"), e.get("d")) for e in root.iter(f"{SVG}path")}
    x = 84 + 256 * 2
    hot_one = next(d for fill, d in boxes if d and d.startswith(f"M{x} ") and fill == picture.HEAT[0])
    assert hot_one.count("M") == 1
    assert "h128v" in hot_one
    cooler = [fill for fill, d in boxes if d and d.startswith(f"M{x} ") and fill not in (picture.HEAT[0], picture.COLD)]
    assert cooler == [picture.HEAT[6]]  # 3 decades below 1 %: six steps of half a decade


def test_many_windows_are_still_a_picture() -> None:
    functions = program([PAGE] * 4000)
    made = picture.svg(drawn(functions, matched({0: 1, 2000: 5, 3999: 1})))
    root = parse(made)
    assert float(root.get("height") or 0) < 32767  # what rsvg-convert can draw
    assert len(made) < 8 << 20


# The command.


@pytest.fixture(scope="module")
def prog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("map"))


def test_command(prog: Path, tmp_path: Path) -> None:
    words = [HUGEALIGN, "map", prog, "--profile", SAMPLES / "prog.fdata", "--itlb-2m", 9]
    done = run(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{prog}: ")
    assert "as linked\n" in done.stdout
    assert "█" in done.stdout
    done = run(*words, "--format=json", "--svg", tmp_path / "o.svg", check=True)
    document = json.loads(done.stdout)
    jsonschema.validate(document, SCHEMA)
    assert document["samples"]["matched"] == round(sum(w["samples"] for w in document["layouts"][1]["windows"]))
    assert parse((tmp_path / "o.svg").read_text()).tag == f"{SVG}svg"
    assert run(*words, "--svg", tmp_path / "again.svg").stdout == ""
    assert (tmp_path / "again.svg").read_bytes() == (tmp_path / "o.svg").read_bytes()


def test_a_terminal_without_block_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding, takes in (("utf-8", True), ("latin-1", False), ("ascii", False)):
        monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
        assert map_command._takes(report.BLOCKS) is takes
    shown = drawn(program([PAGE // 4] * 12), matched({5: 999, 10: 1}))
    assert report.text(shown, report.ASCII).isascii()


def test_order_file(prog: Path, tmp_path: Path) -> None:
    """The order of the file is shown, with its number of windows; a list as lld takes it has none."""
    order = tmp_path / "order"
    order.write_text("# hugealign.order/1\n# windows: 2\nother\nmain\n")
    words = [HUGEALIGN, "map", prog, "--profile", SAMPLES / "prog.fdata", "--order", order, "--format=json"]
    document = json.loads(run(*words, "--page-size=64K", check=True).stdout)
    jsonschema.validate(document, SCHEMA)
    assert (document["order"], document["huge"]) == (str(order), 2)
    functions = read_functions(prog)
    lead = functions.lead // document["cell_size"]
    (first, *_) = functions.by_name["other"]
    cells = document["layouts"][1]["windows"][0]["cells"]
    assert not any(cells[: max(lead - 1, 0)])
    assert document["layouts"][1]["windows"][0]["hottest"]
    order.write_text("# hugealign.order/1\n# windows: 0\nother\nmain\n")
    document = json.loads(run(*words, "--page-size=64K", check=True).stdout)
    jsonschema.validate(document, SCHEMA)
    assert document["huge"] == 0
    order.write_text("other\nmain\n")
    assert json.loads(run(*words, "--page-size=64K", check=True).stdout)["huge"] == 1
    assert functions.names[first] == "other"


def test_a_trace_instead_of_a_profile(prog: Path, tmp_path: Path) -> None:
    functions = read_functions(prog)
    (hot_one,) = functions.by_name["hot"]
    file = describe(str(prog))
    path = tmp_path / "t"
    with path.open("wb") as out:
        out.write(tracefile.MAGIC)
        tracefile.write_chunk(out, 1, tracefile.LAST | tracefile.RAW, 9, struct.pack("<9I", *[1] * 9))
        found = tracefile.Description(("prog",), "x86_64", (tracefile.File(""), file), 1, 9)
        tracefile.write_end(out, found, bytes(16) + tracefile.BLOCK.pack(functions.starts[hot_one], 1, 8, 4))
    words = [HUGEALIGN, "map", prog, "--trace", path, "--format=json", "--itlb-2m=8"]
    document = json.loads(run(*words, check=True).stdout)
    jsonschema.validate(document, SCHEMA)
    assert (document["unit"], document["samples"]["matched"]) == ("instructions", 36)
    windows_of = document["layouts"][0]["windows"]
    assert [w["hottest"] for w in windows_of if w["samples"]] == [[{"name": "hot", "samples": 36}]]


def _png(data: bytes) -> tuple[int, int]:
    """Return width and height of a PNG whose chunks are whole."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    stream, kinds, size = io.BytesIO(data[8:]), [], (0, 0)
    while head := stream.read(8):
        length, kind = struct.unpack(">I4s", head)
        body = stream.read(length)
        assert zlib.crc32(kind + body) == int.from_bytes(stream.read(4), "big")
        kinds.append(kind)
        if kind == b"IHDR":
            size = struct.unpack(">II", body[:8])
    assert (kinds[0], kinds[-1]) == (b"IHDR", b"IEND")
    return size


def test_png(prog: Path, tmp_path: Path) -> None:
    if not shutil.which("rsvg-convert"):
        pytest.skip("rsvg-convert is not installed")
    words = [HUGEALIGN, "map", prog, "--profile", SAMPLES / "prog.fdata", "--png", tmp_path / "o.png"]
    done = run(*words, "--svg", tmp_path / "o.svg")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    root = parse((tmp_path / "o.svg").read_text())
    assert _png((tmp_path / "o.png").read_bytes()) == (int(root.get("width") or 0), int(root.get("height") or 0))


def test_png_without_the_tool(prog: Path, tmp_path: Path) -> None:
    """Nothing is written, and what is missing is named; --svg needs nothing."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("sh", "dirname", "readlink", "python3"):
        (tools / tool).symlink_to(shutil.which(tool) or tool)
    words = [HUGEALIGN, "map", prog, "--profile", SAMPLES / "prog.fdata"]
    done = run(*words, "--png", tmp_path / "o.png", "--svg", tmp_path / "o.svg", PATH=str(tools))
    assert done.returncode == 3
    assert done.stderr == (
        "hugealign: error: --png needs rsvg-convert; on Debian: apt-get install librsvg2-bin; --svg needs nothing\n"
    )
    assert not (tmp_path / "o.png").exists()
    assert run(*words, "--svg", tmp_path / "o.svg", PATH=str(tools)).returncode == 0


def test_a_tool_that_fails_leaves_nothing(prog: Path, tmp_path: Path) -> None:
    tool = tmp_path / "rsvg-convert"
    tool.write_text("#!/bin/sh\necho 'no \033[31mfont' >&2\nexit 1\n")
    tool.chmod(0o755)
    (tmp_path / "o.png").write_text("old")
    words = [HUGEALIGN, "map", prog, "--profile", SAMPLES / "prog.fdata", "--png", tmp_path / "o.png"]
    done = run(*words, PATH=f"{tmp_path}:/usr/bin:/bin")
    assert (done.returncode, done.stderr) == (3, "hugealign: error: rsvg-convert: no \\x1b[31mfont\n")
    assert (tmp_path / "o.png").read_text() == "old"


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ([], 2, "needs --profile or --trace"),
        (["--profile", "list", "--trace", "list"], 2, "needs --profile or --trace"),
        (["--trace", "list"], 3, "list: is no trace"),
        (["--trace", "list", "--type", "fdata"], 2, "--trace takes no --type"),
        (["--profile", "absent"], 3, "absent: No such file"),
        (["--profile", "foreign"], 1, "nothing in the profile is of prog"),
        (["--profile", "half"], 1, "only 40% of the samples"),
        (["--profile", "list", "--order", "absent"], 3, "absent: No such file"),
        (["--profile", "list", "--order", "foreign"], 3, "is for another build"),
        (["--profile", "list", "--page-size", "3M"], 2, "--page-size"),
        (["--profile", "list", "--cpu", "zen1", "--cpu", "zen2"], 2, "one is enough"),
        (["--profile", "list", "--cpu", "nosuch"], 2, "unknown CPU"),
        (["--profile", "list", "--svg", "none/o"], 3, "none/o: cannot be written"),
        (["--profile", "list", "--png", "none/o"], 3, "none/o: cannot be written"),
        (["--profile", "list", "--svg", "/dev/full"], 3, "/dev/full: cannot be written"),
    ],
)
def test_what_the_command_refuses(words: list[str], status: int, message: str, prog: Path) -> None:
    if "--png" in words and not shutil.which("rsvg-convert"):
        pytest.skip("rsvg-convert is not installed")
    for name, text in (("list", "main\n"), ("foreign", "x 6\ny 3\n"), ("half", "hot 4\nforeign 6\n")):
        (prog.parent / name).write_text(text)
    done = run(HUGEALIGN, "map", "prog", *words, cwd=prog.parent)
    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["list", "absent", "object.o"])
def test_what_is_no_program(name: str, prog: Path) -> None:
    (prog.parent / "list").write_text("main\n")
    shutil.copy(prog.parent / "main.o", prog.parent / "object.o")
    done = run(HUGEALIGN, "map", name, "--profile", "list", cwd=prog.parent)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert done.stderr.startswith(f"hugealign: error: {name}: ")


def test_damaged_programs(prog: Path, tmp_path: Path) -> None:
    """Headers and symbols with bytes of chance in them: a map or one error, in bounded time, and never markup."""
    whole = prog.read_bytes()
    shown = 0
    for case in range(200):
        chance = random.Random(case)
        data = bytearray(whole)
        for _ in range(chance.randint(1, 6)):
            near = chance.choice((range(64, 64 + 13 * 56), range(len(data) - 1984, len(data)), range(len(data))))
            value = chance.choice((0, 1, 0x7F, 0xFF, chance.randrange(256)))
            data[chance.choice(near)] = value
        path = tmp_path / "damaged"
        path.write_bytes(data)
        try:
            functions = read_functions(path)
            made = drawn(functions, matched({index: index + 1 for index in range(len(functions))}))
        except HugealignError as error:
            assert str(error).isprintable()  # noqa: PT017 - or none is raised
            continue
        shown += 1
        parse(picture.svg(made))
        if not case % 8:  # takes longer than all the rest
            jsonschema.validate(json.loads(report.to_json(made)), SCHEMA)
        assert report.text(made)
    assert 40 < shown < 200


def test_a_file_that_was_linked_with_an_order(tmp_path: Path, prog: Path) -> None:
    """What the note says is in the document, and the first strip is the file as it is."""
    order = tmp_path / "order"
    run(HUGEALIGN, "order", SAMPLES / "prog.fdata", "-b", prog, "-o", order, check=True)
    words = ["gcc", "main.o", "other.o", "-o", tmp_path / "ordered"]
    done = run(HUGEALIGN, *words, cwd=prog.parent, HUGEALIGN_PROFILE=str(order), HUGEALIGN_MIN_TEXT="0")
    assert done.returncode == 0, done.stderr
    words = ["map", tmp_path / "ordered", "--profile", SAMPLES / "prog.fdata", "--format=json"]
    document = json.loads(run(HUGEALIGN, *words, check=True).stdout)
    jsonschema.validate(document, SCHEMA)
    assert document["layouts"][0]["name"] == "as linked, with an order"
    assert document["note"]["hot_start"] < document["note"]["hot_end"]
    first = document["layouts"][0]["windows"][0]
    assert first["address"] <= document["note"]["hot_start"] < first["address"] + document["page_size"]
    assert subprocess.run([tmp_path / "ordered"], check=False, stdout=subprocess.DEVNULL).returncode >= 0
