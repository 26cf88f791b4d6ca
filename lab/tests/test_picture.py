"""The map as a picture: its colours, what it shows, and what hostile names can do to it."""

from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from hugealign.io.units import printable
from hugealign_lab import picture
from tests.commands.profiles import SAMPLES, build
from tests.commands.test_manners import callgrind
from tests.support import HUGEALIGN, run
from tests.unit.map.test_map import HOSTILE, PAGE, drawn, matched, program

SVG = "{http://www.w3.org/2000/svg}"


def parse(made: str) -> ET.Element:
    return ET.fromstring(made)  # noqa: S314 - it is our own


def test_command(tmp_path: Path) -> None:
    """The same picture each time; a file that cannot be written, or that is read, is not."""
    prog = build(tmp_path)
    words = [HUGEALIGN, "draw-map", SAMPLES / "prog.fdata", "-b", prog]
    assert run(*words, "-o", tmp_path / "o.svg", check=True).stdout == ""
    assert (tmp_path / "o.svg").read_text() == run(*words, check=True).stdout
    assert parse((tmp_path / "o.svg").read_text()).tag == f"{SVG}svg"
    for out in ("none/o", "/dev/full"):
        done = run(*words, "-o", out, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (3, 1)
        assert done.stderr.startswith(f"hugealign: error: {out}: cannot be written")
    # The program is read as well, whether it is named by an option or by the profile.
    before = prog.read_bytes()
    for inputs in (words[2:], [callgrind(tmp_path, prog)]):
        assert run(HUGEALIGN, "draw-map", *inputs, "-o", prog).returncode == 2
        assert prog.read_bytes() == before


def _luminance(colour: str) -> float:
    """WCAG 2, "relative luminance"."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_differ_in_lightness_alone() -> None:
    """Without hues the order is still there: what is hotter is darker, step by step, and text is readable."""
    result = [_luminance(colour) for colour in (*picture.HEAT, picture.PAPER)]
    assert all((b + 0.05) / (a + 0.05) > 1.15 for a, b in pairwise(result)), result
    for colour in (picture.INK, picture.HUGE, picture.LINES[0], picture.LINES[1]):
        assert 1.05 / (_luminance(colour) + 0.05) > 3, colour


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
    small = parse(picture.svg(drawn(program([PAGE // 4] * 3), matched({1: 9}))))
    assert "as linked: 1 window" in [element.text for element in small.iter(f"{SVG}text")]
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
