"""Rows of `hugealign top`: grouped by program, ranked by what there is to gain; and the pace of its looks."""

import time
from dataclasses import replace

import pytest

from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.process.pagemap import Region
from hugealign.process.processes import Process
from hugealign.process.smaps import Mapping, parse
from hugealign.system.budget import Budget
from hugealign.system.saving import Saving
from hugealign.system.textcosts import TextCosts
from hugealign.watch import survey as module
from hugealign.watch import top
from hugealign.watch.parts import CodeKind
from hugealign.watch.remedies import Remedies
from hugealign.watch.survey import Survey
from hugealign.watch.top import Group, ProgramRow, group, ranked, shares, watch
from tests.costs import COSTS

W = 2 << 20
NOBODY = 1 << 23  # more than a PID can be
TEXT = "400000-a00000 r-xp 00200000 08:01 5 /srv/app"
JIT = "8000000-8400000 rwxp 00000000 00:00 0"


def executed(pid: int, *lines: str, cpu: float = 0.0, started: float = 0.0, exe: str = "/srv/app") -> Process:
    return Process(pid, "app", exe, (0, 0), tuple(parse(lines)), ("/srv/app", "/lib/libjvm.so"), cpu, started)


def test_processes_of_a_program_are_one_row_for_each_part() -> None:
    result = group([executed(7, TEXT, JIT), executed(8, TEXT), executed(9, TEXT, exe="/srv/other")], {7: 0.5, 8: 0.25})
    assert [(item.part.kind, item.part.path, item.cpu, len(item.members)) for item in result] == [
        ("program", "/srv/app", 0.75, 2),
        ("code", "", 0.5, 1),
        ("library", "/srv/app", 0.0, 1),
    ]
    assert all(item.runtime and item.runtime.name == "HotSpot" for item in result)


@pytest.mark.parametrize("huge", [0, 1, 3])
def test_what_has_the_most_to_gain_comes_first(huge: int) -> None:
    remedy = Remedy("restart", before=0, after=3)
    row = ProgramRow(
        "x", "", CodeKind.PROGRAM, "x", (7,), 1.0, 3 * W, 0, huge, 3, 3, Diagnosis("file.replaced", "x", {})
    )
    assert row.gain == (0.0, 0)
    row = replace(row, diagnosis=Diagnosis("file.replaced", "x", {}, remedy))
    assert row.gain == ((0.0, 0) if huge == 3 else ((3 - huge) / 3, 3 - huge))
    assert replace(row, cpu=2.0).gain >= row.gain


def saved(small: int, used: float, costs: TextCosts = COSTS) -> Saving:
    """Return what is saved of one process with so many bytes of text in small pages."""
    (entry,) = group([executed(NOBODY, TEXT, f"Rss: {small >> 10} kB", cpu=used)], {})
    return top.saved(entry, costs)


def test_a_start_saves_its_faults_and_a_long_run_what_it_walks() -> None:
    """32 faults of 6 µs for 3 of 6 µs, with the costs of huge faults unknown; 512 pages cost nothing."""
    assert saved(2 << 20, 0.002).value == pytest.approx(29 * 6e-6 / 0.002)
    assert saved(2 << 20, 60.0).worth is False
    walks = saved(6 << 20, 60.0)
    assert [walks.low, walks.value] == pytest.approx([0.0, 0.0], abs=1e-4)
    assert walks.high == pytest.approx(0.25, abs=1e-4)
    assert saved(6 << 20, 60.0, replace(COSTS, reach=2048)).worth is False
    assert saved(6 << 20, 60.0, replace(COSTS, reach=0)).worth is False
    assert saved(0, 1.0) == Saving(0.0, 0.0, 0.0)


def test_rows_are_by_the_time_that_they_save() -> None:
    """A busy program whose pages cost nothing comes behind one that starts often."""
    row = ProgramRow("x", "", CodeKind.PROGRAM, "x", (7,), 1.0, 3 * W, 0, 0, 3, 3)
    row = replace(row, diagnosis=Diagnosis("file.replaced", "x", {}, Remedy("restart", before=0, after=3)))
    busy, starts = replace(row, saving=Saving(0.0, 0.0, 0.001)), replace(row, cpu=0.1, saving=Saving(0.1, 0.1, 0.2))
    assert busy.gain < starts.gain
    assert replace(busy, saving=None).gain > replace(starts, saving=None).gain


def test_processor_time_since_the_look_before_or_since_the_start() -> None:
    before = [executed(7, TEXT, cpu=10.0, started=100.0), executed(8, TEXT, cpu=1.0, started=100.0)]
    now = [executed(7, TEXT, cpu=12.0, started=100.0), executed(8, TEXT, cpu=1.0, started=198.0)]
    assert shares(now, before, 204.0, 200.0) == {7: 0.5, 8: 1.0 / 6}  # 8 is another process by now
    assert shares(now, None, 204.0, 0.0) == {7: 12 / 104, 8: 1.0 / 6}
    assert shares([executed(9, TEXT, cpu=1.0, started=300.0)], None, 200.0, 0.0)[9] > 0  # the clocks may disagree


def code(count: int, huge: int, small: int, files: int = 0) -> list[Group]:
    """Processes with eight windows of code without a file each, and *files* huge ones of their text."""
    at = 16 * W
    pages = (
        Region(at, at + huge * W, huge=True, file=False),
        Region(at + huge * W, at + (huge + small) * W, huge=False, file=False),
    )
    jit = Mapping(at, at + 8 * W, 0, "", permissions="rwxp", pages=pages)
    text = Mapping(W, (1 + files) * W, 0, "/srv/app", pages=(Region(W, (1 + files) * W, huge=True, file=True),))
    parts = (text, jit) if files else (jit,)
    result = [Process(NOBODY + n, "app", "/srv/app", (0, 0), parts) for n in range(count)]
    return [item for item in group(result, {}) if item.part.kind == CodeKind.CODE]


@pytest.mark.parametrize(
    ("results", "most", "reason", "target", "reachable"),
    [
        (code(1, 1, 3), 63, "runtime.small-pages", str(NOBODY), 4),
        (code(1, 1, 3), 3, "runtime.small-pages", str(NOBODY), 3),
        (code(1, 1, 3, files=1), 3, "runtime.small-pages", str(NOBODY), 2),
        (code(2, 1, 3), 63, "runtime.small-pages", "app", 8),
        (code(1, 4, 0), 63, "process.not-touched", None, 4),
        (code(1, 4, 4), 4, "runtime.enough", None, 4),
        (code(1, 0, 0), 63, "process.not-touched", None, 0),
    ],
)
def test_code_in_use_can_become_huge_as_far_as_the_processor_keeps_it(
    results: list[Group], most: int, reason: str, target: str | None, reachable: int
) -> None:
    (row,) = ranked(results, Remedies(), most)
    assert row.diagnosis
    assert (row.diagnosis.code, row.windows_reachable) == (reason, reachable)
    assert (row.remedy.argv[-1] if row.remedy else None) == target


def program(huge: int, *, deleted: bool, path: str = "/srv/app") -> list[Group]:
    """A program with three windows of text of which some are *huge*."""
    pages = (Region(W, (1 + huge) * W, huge=True, file=True), Region((1 + huge) * W, 4 * W, huge=False, file=True))
    text = Mapping(W, 4 * W, 0, path, deleted=deleted, pages=pages)
    return group([Process(NOBODY, "app", path, (0, 0), (text,))], {})


@pytest.mark.parametrize(
    ("path", "huge", "reason"),
    [
        ("/srv/app", 3, None),
        ("/srv/app", 1, "file.replaced"),
        ("/memfd:app", 3, None),  # `run --how=copy` makes it, and the kernel calls it deleted
        ("/memfd:app", 1, "copy.in-memory"),
    ],
)
def test_text_without_a_name_is_started_again_only_if_it_lacks_something(
    path: str, huge: int, reason: str | None
) -> None:
    (row,) = ranked(program(huge, deleted=True, path=path), Remedies(), 63)
    assert (row.diagnosis and row.diagnosis.code, row.windows_reachable) == (reason, 3)
    assert (row.remedy.kind if row.remedy else None) == ("restart" if reason else None)


@pytest.mark.parametrize(("burnt", "least"), [(0.0, 5.0), (0.08, 8.0)])
@pytest.mark.parametrize("interval", [None, 0.5])
def test_looks_take_one_per_cent_of_a_processor_at_most(
    burnt: float, least: float, interval: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    asked: list[int] = []

    def survey(*_: object) -> Survey:
        end = time.process_time() + burnt
        while time.process_time() < end:
            pass
        return Survey((), 0, 0, (), 100.0 + len(pauses), burnt)

    def budget(_: object) -> Budget:
        asked.append(1)
        return Budget(7, "made up", 8)

    monkeypatch.setattr(module, "survey", survey)
    monkeypatch.setattr(top, "of_this_machine", budget)
    monkeypatch.setattr(time, "sleep", pauses.append)
    looks = watch(interval=interval)
    first, second = next(looks), next(looks)
    assert (first.interval, second.interval, asked) == (0, 1, [1])
    if interval is None:
        assert least <= pauses[0] < least + 20
    else:
        assert pauses == [interval]
