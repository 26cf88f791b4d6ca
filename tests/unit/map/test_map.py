"""The map: how heat spreads over windows, what is printed of it, and what hostile names can do to that."""

import io
import json

import pytest

from hugealign.cli import output
from hugealign.diagnosis import documents
from hugealign.elf.image import ET_EXEC, PF_R, PF_X, PT_LOAD, Image, Segment
from hugealign.elf.notes import BuildNote
from hugealign.elf.symbols import Functions
from hugealign.errors import HugealignError
from hugealign.io.units import printable
from hugealign.map import layout, report
from hugealign.map.layout import CELLS, PARTS, Map
from hugealign.map.scale import NONE, plain, scale
from hugealign.ordering.problem import Problem
from hugealign.ordering.problem import plan as plan_of
from hugealign.ordering.windows import WindowRoom
from hugealign.profile.match import Matched
from hugealign.profile.ran import Ran
from hugealign.system.budget import Budget

PAGE = 1 << 16


CELL = PAGE // CELLS


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
    plan = plan_of(Problem(ran, functions, WindowRoom(PAGE, budget)))
    layouts = (layout.before(functions, ran, PAGE, note), layout.after(functions, ran, plan))
    return Map(
        Ran(file, functions, ran, [(source, "folded")]),
        Budget(budget, why, budget + 1),
        plan,
        order,
        note,
        layouts,
    )


# Where the heat lies.


def test_samples_lie_where_their_function_does() -> None:
    """f1 begins half a cell after f0's end, and is two cells long: a quarter, a half and a quarter."""
    functions = program([CELL * 3 + CELL // 2, CELL * 2, PAGE])
    result = layout.before(functions, matched({1: 100}), PAGE, None)
    assert [heat / PARTS for heat in result.rows[0].heat[:7]] == [0, 0, 0, 25, 50, 25, 0]
    assert (len(result.rows), result.rows[0].text, result.rows[1].text) == (2, [(0, CELLS)], [(0, 6)])
    assert result.uncovered() == [100 * PARTS, 0, 0]
    assert [row.hottest for row in result.rows] == [[("f1", 100)], []]


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
    result = layout.before(functions, ran, PAGE, note)
    assert [row.huge for row in result.rows] == [False, True, False, False]
    assert result.name == "as linked, with an order"


def test_two_text_segments_far_apart() -> None:
    """As after BOLT: between them there is nothing to show."""
    segments = (segment(PAGE, PAGE), segment(1 << 40, PAGE, 1))
    functions = program([PAGE, PAGE], segments=segments)
    functions.starts[1] = 1 << 40
    result = layout.before(functions, matched({0: 1, 1: 3}), PAGE, None)
    assert [(row.number, row.address, sum(row.heat)) for row in result.rows] == [
        (1, PAGE, PARTS),
        (2, 1 << 40, 3 * PARTS),
    ]


def test_functions_outside_of_the_text_are_not_shown() -> None:
    functions = program([16, 1 << 45, 16], segments=(segment(1 << 30, PAGE),))
    functions.starts[:] = [4096, 1 << 20, 1 << 46]
    result = layout.before(functions, matched({0: 5, 1: 1 << 45, 2: 7}), PAGE, None)
    assert [sum(row.heat) for row in result.rows] == [PAGE * PARTS]
    assert result.rows[0].hottest == []


@pytest.mark.parametrize("size", [4097 * PAGE, (1 << 63) - 1])
def test_more_text_than_can_be_shown(size: int) -> None:
    functions = program([16], segments=(segment(0, size),))
    with pytest.raises(HugealignError, match="cannot be shown"):
        layout.before(functions, matched({0: 1}), PAGE, None)
    functions = program([16, size])
    with pytest.raises(HugealignError, match="cannot be shown"):
        layout.after(functions, matched({0: 1}), plan_of(Problem(matched({0: 1}), functions, WindowRoom(PAGE, 1))))


# The scale.


def test_steps_of_the_scale() -> None:
    steps = scale([2900, 40, 0, 1], 10000, 5, lambda share, of: (3, of * 10) if share == 1 else (1, of))
    assert steps.labels() == ["10 %", "3 %", "1 %", "0.3 %", "less"]
    assert [steps.step(cell) for cell in (10000, 1000, 999, 300, 100, 30, 29, 1, 0)] == [0, 0, 1, 1, 2, 3, 4, 4, NONE]
    assert scale([500], 1000, 4).labels() == ["10 %", "1 %", "0.1 %", "less"]
    assert scale([], 0, 3).step(0) == NONE


def test_one_hot_cell_does_not_decide_the_scale() -> None:
    assert scale([10**9] + [1000] * 199, 10**9, 3).labels() == ["0.0001 %", "0.00001 %", "less"]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (100, "100"), (30.0, "30"), (3, "3"), (0.3, "0.3"), (0.03, "0.03"), (1e-7, "0.0000001")],
)
def test_numbers_without_exponents(number: float, text: str) -> None:
    assert plain(number) == text


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
        "   2 more windows without samples",
        "",
        "one character is 1.0 KiB: █ 1 %  ▓ 0.1 %  ▒ 0.01 %  ░ less of the samples  · none",
        "* should be on a huge page; uncovered: not in this window or one before it",
    ]


def test_windows_without_samples_are_counted() -> None:
    functions = program([PAGE // 4] * 12)
    lines = report.text(drawn(functions, matched({5: 999, 10: 1}), budget=2)).splitlines()
    cold = report.text(drawn(functions, matched({4: 1, 5: 1, 6: 1, 7: 1}), budget=1)).splitlines()
    assert [line.strip() for line in lines + cold if "without" in line] == [
        "2 more windows without samples",
        "1 more window without samples",
        "2 more windows without samples",
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
def test_names_are_in_the_heading(name: str) -> None:
    shown = drawn(program([PAGE // 4] * 12), matched({5: 9}), file=name)
    assert printable(name)[-40:] in "".join(report.heading(shown))


def test_printed_names_are_escaped() -> None:
    functions = program([PAGE // 4] * 12, [HOSTILE[4]] * 12)
    shown = drawn(functions, matched({5: 9}), file=HOSTILE[4], source=HOSTILE[4], why=HOSTILE[4], order=HOSTILE[4])
    for printed in (report.text(shown), report.text(shown, report.ASCII), documents.text(shown, names=str)):
        assert {c for c in printed if not c.isprintable()} == {"\n"}
    assert json.loads(documents.text(shown, names=str))["file"] == HOSTILE[4]


def test_a_terminal_without_block_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding, takes in (("utf-8", True), ("latin-1", False), ("ascii", False)):
        monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
        assert output.encodes(report.BLOCKS) is takes
    shown = drawn(program([PAGE // 4] * 12), matched({5: 999, 10: 1}))
    assert report.text(shown, report.ASCII).isascii()
