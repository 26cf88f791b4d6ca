"""Markdown and SVG of what was measured: nothing in it becomes markup."""

import re
import xml.etree.ElementTree as ET

import pytest

from examples.servers.document import Plot, fenced, fill, inline, points, svg, table

# What would end an element, an attribute, a cell, a fence or a line, and what hides or turns writing.
HOSTILE = "</title></pre><script>alert(1)</script>\"'><b x=`|\r\n```\r\n# h\n| a |\n"
HOSTILE += "<!-- ]]> & \\ [x](http://a.b) \x1b[2J\u202e\ud800\0"


def plot(word: str) -> Plot:
    """A plot with *word* wherever there can be one."""
    return Plot(word, word, {word: [(0, 1234567), (1, 20), (2, 0)]}, log_y=True)


def document(word: str) -> str:
    """A document with *word* wherever there can be one."""
    fields = {
        "title": inline(word),
        "output": fenced(word),
        "table": table([word, "n"], [[word, 1234567], ["b", None]]),
        "points": points(plot(word)),
    }
    return fill("# {title}\n\n{output}\n\n{table}\n\n## Plot\n\n{points}\n", fields, [word])


def test_nothing_becomes_svg() -> None:
    tame, wild = svg(plot("word")), svg(plot(HOSTILE))
    # The same elements and attributes, whatever the words are; a reader sees the words again.
    shapes = [[(part.tag, sorted(part.attrib)) for part in ET.fromstring(text).iter()] for text in (tame, wild)]  # noqa: S314 - they are our own
    assert shapes[0] == shapes[1]
    names = {tag.partition("}")[2] for tag, _ in shapes[1]}
    assert names == {"svg", "title", "path", "text", "polyline", "circle"}
    assert "</pre><script>alert(1)</script>" in "".join(ET.fromstring(wild).itertext())  # noqa: S314
    assert not re.search("[\0\x1b\u202e]", wild)
    assert "http" not in tame.replace("http://www.w3.org", "")
    assert "1,234,567" in tame


def test_nothing_becomes_markdown() -> None:
    tame, wild = document("word"), document(HOSTILE)
    outside = re.sub(r"(?ms)^(`{3,})[^`\n]*\n.*?^\1$", "", wild)
    heads = [line for line in outside.splitlines() if line.startswith("#")]
    assert len(heads) == len([line for line in tame.splitlines() if line.startswith("#")]) == 2
    assert "<" not in outside
    assert not re.search(r"(?<!\\)\[x", outside)
    assert not re.search("[\0\x1b\u202e]", wild)
    cells = [len(re.findall(r"(?<!\\)\|", line)) for line in outside.splitlines() if line.startswith("|")]
    assert cells == [3] * len(cells) == [3] * len([line for line in tame.splitlines() if line.startswith("|")])


def test_what_is_in_a_document() -> None:
    text = document("word")
    assert "| word | 1,234,567 |\n| b | -- |" in text
    assert "|---|--:|" in text
    assert "| 1 | 20 |" in text  # the plot's points
    assert table(["a", "b"], []) == "| a | b |\n|---|---|"


def test_a_broken_promise_is_the_first_line() -> None:
    text = fill("# {title}\n", {"title": "t"}, ["first *promise*", "second"])
    assert text == "**BROKEN: first \\*promise\\***\n\n**BROKEN: second**\n\n# t\n"
    assert fill("# {title}\n", {"title": "t"}) == "# t\n"


def test_a_section_without_its_fields_is_left_out() -> None:
    template = "# {title}\n\n## One\n\n{one}\n\n## Two\n\n{one}, {two}\n"
    assert fill(template, {"title": "t", "one": "", "two": None}) == "# t\n\n## One\n\n\n\n"
    assert fill(template, {"title": "t", "one": 0, "two": "x"}).endswith("## Two\n\n0, x\n")


@pytest.mark.parametrize(("log", "value"), [(True, 0), (True, 1e-300), (True, 1e300), (False, -5), (False, 0)])
def test_every_point_lies_within_the_picture(log: bool, value: float) -> None:
    page = svg(Plot("", "", {"a": [(3, value), (3, 7)]}, log))
    circles = re.findall(r'<circle cx="([^"]*)" cy="([^"]*)"', page)
    assert len(circles) == 2
    for x, y in circles:
        assert 96 <= float(x) <= 560
        assert 16 <= float(y) <= 328
    assert page.count('text-anchor="end"') >= 2  # ticks
