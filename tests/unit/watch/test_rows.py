"""Rows of `hugealign top`: grouped by program, ranked by what there is to gain."""

from dataclasses import replace

from hugealign.process.smaps import parse
from hugealign.process.texts import Executed
from hugealign.watch.rows import ProgramRow, group, ranked, shares

TEXT = "400000-a00000 r-xp 00200000 08:01 5 /srv/app"
JIT = "8000000-8400000 rwxp 00000000 00:00 0"
ROW = ProgramRow("/srv/app", "", "program", "/srv/app", (7,), 0.5, 6 << 20, 0, 0, 3, 3, "why", "what")


def executed(pid: int, *lines: str, cpu: float = 0.0, started: float = 0.0, exe: str = "/srv/app") -> Executed:
    return Executed(pid, "app", exe, cpu, started, tuple(parse(lines)), ("/srv/app", "/lib/libjvm.so"))


def test_processes_of_a_program_are_one_row_for_each_part() -> None:
    found = group([executed(7, TEXT, JIT), executed(8, TEXT), executed(9, TEXT, exe="/srv/other")], {7: 0.5, 8: 0.25})
    assert [(one.key.program, one.key.kind, one.key.part, one.cpu, len(one.members)) for one in found] == [
        ("/srv/app", "program", "/srv/app", 0.75, 2),
        ("/srv/app", "code", "HotSpot code", 0.5, 1),
        ("/srv/other", "library", "/srv/app", 0.0, 1),
    ]


def test_containers_are_told_apart_where_that_is_asked_for() -> None:
    found = group([executed(7, TEXT), executed(8, TEXT)], {}, {7: "a", 8: "b"})
    assert [one.key.container for one in found] == ["a", "b"]


def test_what_has_the_most_to_gain_comes_first() -> None:
    rows = [
        replace(ROW, program="huge", windows_huge=3, cpu=9.0),
        replace(ROW, program="nothing to do", action="", cpu=8.0),
        replace(ROW, program="idle, large", cpu=0.0, windows_reachable=50),
        replace(ROW, program="idle, small", cpu=0.0),
        replace(ROW, program="busy", cpu=1.0),
        replace(ROW, program="busy, mostly huge", cpu=1.0, windows_huge=2),
    ]
    assert [row.program for row in ranked(rows)] == [
        "busy",
        "busy, mostly huge",
        "idle, large",
        "idle, small",
        "huge",
        "nothing to do",
    ]


def test_processor_time_since_the_look_before_or_since_the_start() -> None:
    before = [executed(7, TEXT, cpu=10.0, started=100.0), executed(8, TEXT, cpu=1.0, started=100.0)]
    now = [executed(7, TEXT, cpu=12.0, started=100.0), executed(8, TEXT, cpu=1.0, started=198.0)]
    assert shares(now, before, 204.0, 200.0) == {7: 0.5, 8: 1.0 / 6}  # 8 is another process by now
    assert shares(now, None, 204.0, 0.0) == {7: 12 / 104, 8: 1.0 / 6}
    assert shares([executed(9, TEXT, cpu=1.0, started=300.0)], None, 200.0, 0.0)[9] > 0  # the clocks may disagree
