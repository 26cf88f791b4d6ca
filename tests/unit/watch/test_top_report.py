"""The table, the JSON document and the metrics of `hugealign top`."""

import re
import shlex
from dataclasses import replace

import pytest

from hugealign.cli.output import plain
from hugealign.diagnosis import documents
from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.io.units import printable
from hugealign.machine.state import Held, State
from hugealign.system.budget import Budget
from hugealign.system.saving import NOTHING, Saving
from hugealign.watch import adapt_report
from hugealign.watch import top_report as report
from hugealign.watch.adapt import Adapted
from hugealign.watch.parts import CodeKind
from hugealign.watch.top import Machine, ProgramRow
from tests.costs import COSTS
from tests.documents import check
from tests.support import advised
from tests.unit.machine.test_plan import part

M = 1 << 20
HOSTILE = 'x"\\\n\x1b[2J{y="\udcff"} 1'
WHY = Diagnosis("cache.small-pages", "/srv/app", {}, Remedy("run", ("do", "this"), "", 2, 6))
ROW = ProgramRow("/srv/app", "", CodeKind.PROGRAM, "/srv/app", (7, 9), 0.5, 12 * M, 4 * M, 2, 6, 6, WHY)
MACHINE = Machine((ROW,), 2, 99, 1, (), Budget(7, "skylake", 8), 2 * M, 1764000000.25, 0.125, 5.0, privileged=False)


def table(machine: Machine, *, width: int = 0, height: int = 0, verbose: bool = False) -> list[str]:
    """Return the table without colours."""
    return [plain(line) for line in report.table(machine, width=width, height=height, verbose=verbose)]


def hostile() -> Machine:
    row = replace(ROW, program=HOSTILE, part=HOSTILE, container=HOSTILE)
    return replace(MACHINE, rows=(row, replace(ROW, kind=CodeKind.CODE, part="HotSpot")), silent=(5,))


def cells(line: str) -> list[str]:
    """The cells of a row but for the text's size; the last is the program's."""
    return re.split(r"\s\s+", line.strip(), maxsplit=6)


def test_the_sum_comes_first() -> None:
    lines = table(MACHINE)
    assert lines[0] == (
        "1 window is huge, 3 could be: 1 program in 2 processes with 2.0 MiB of text or more; 99 processes with less"
    )
    assert lines[1].endswith("  8 entries for 2.0 MiB pages (skylake)")
    assert lines[2] == "1 process skipped: no permission; root sees more"
    assert lines[-3].split() == ["PROCS", "CPU%", "TEXT", "HUGE", "CAN", "COULD", "PROGRAM"]
    assert cells(lines[-2]) == ["2", "50.0", "6.0 MiB", "1", "3", "3", "/srv/app"]
    assert lines[-1] == "       run: do this"


@pytest.mark.parametrize(
    ("saving", "shown"),
    [
        (Saving(0.0, 0.0, 0.004), "<1%"),
        (Saving(0.0, 0.02, 0.252), "0-25%"),
        (Saving(0.109, 0.11, 0.113), "11%"),
    ],
)
def test_what_is_saved(saving: Saving, shown: str) -> None:
    """A column if the costs are known; a row without an action saves nothing."""
    rows = (replace(ROW, saving=saving), replace(ROW, saving=NOTHING, windows_huge=6, program="/srv/b"))
    machine = replace(MACHINE, rows=rows, budget=replace(MACHINE.budget, costs=COSTS))
    lines = [re.split(r"\s\s+", line.strip()) for line in table(machine)]
    column = next(line for line in lines if line[0] == "PROCS").index("SAVES")
    assert [line[column] for line in lines if line[-1] in ("/srv/app", "/srv/b")] == [shown, "-"]
    document = check(documents.text(machine))
    assert document["rows"][0]["saving"] == {"low": saving.low, "value": saving.value, "high": saving.high}


def test_one_window_is_huge() -> None:
    one = replace(ROW, pids=(7,))
    assert "1 window is huge, 6 could be: " in table(replace(MACHINE, rows=(replace(one, windows_huge=1),)))[0]
    assert "2 windows are huge, 6 could be: " in table(replace(MACHINE, rows=(one,)))[0]
    adapted = Adapted(7, "app", 5, 0, huge=1)
    assert adapt_report.lines(adapted) == ["app[7]: 1 of at most 5 windows is huge"]
    assert adapt_report.lines(replace(adapted, huge=2)) == ["app[7]: 2 of at most 5 windows are huge"]


def test_room_for_code_does_not_count_as_code() -> None:
    """As of PHP: 192 windows of room in six processes, of which 28 are in use."""
    code = replace(ROW, kind=CodeKind.CODE, part="PHP", windows_huge=0, windows_possible=192, windows_reachable=28)
    assert cells(table(replace(MACHINE, rows=(code,)))[-2])[3:] == ["0", "28", "28", "/srv/app (PHP code)"]
    assert check(documents.text(replace(MACHINE, rows=(code,))))["rows"][0]["windows_possible"] == 192


LIBRARY = replace(ROW, part="/lib/a.so", kind=CodeKind.LIBRARY, files=frozenset({("/lib/a.so", 3)}))


def test_a_program_has_one_row() -> None:
    """With all of its parts and processes, by whichever path it was started; and one action, once."""
    own = replace(ROW, files=frozenset({("/srv/app", 2)}))
    one = replace(own, pids=(11,), text=6 * M, huge=0, cpu=0.25)
    again = replace(one, windows_huge=0, windows_possible=3, windows_reachable=3)
    other = Diagnosis("cache.small-pages", "/srv/b", {}, Remedy("run", ("do", "that"), "", 2, 6))
    shown = replace(MACHINE, rows=(LIBRARY, replace(ROW, program="/srv/b", diagnosis=other), own, again))
    lines = table(shown)
    rows = [cells(line) for line in lines[-4::2]]
    assert rows[0] == ["3", "75.0", "12.0 MiB", "2", "6", "6", "/srv/app (text, a.so)"]
    assert rows[1] == ["2", "50.0", "6.0 MiB", "1", "3", "3", "/srv/b"]
    assert [line.strip() for line in lines[-3::2]] == ["run: do this", "run: do that"]
    lines = table(shown, verbose=True)
    assert [line.split()[-1] for line in lines if "MiB" in line][2:] == ["/srv/app", "text", "a.so", "/srv/b", "text"]
    # Another program with this action does not repeat it; an act of a person is named for each.
    lines = table(replace(MACHINE, rows=(own, replace(own, program="/srv/c"))))
    assert sum("do this" in line for line in lines) == 1
    restart = replace(ROW, diagnosis=Diagnosis("file.replaced", "/srv/app", {}, Remedy("restart")))
    lines = table(replace(MACHINE, rows=(restart, replace(restart, program="/srv/c"))))
    assert sum(line.endswith("restart it") for line in lines) == 2


def test_what_programs_share_counts_once() -> None:
    """A library of two programs; the same path in two containers with files of their own counts twice."""
    both = (LIBRARY, replace(LIBRARY, program="/srv/b", windows_huge=4))
    assert table(replace(MACHINE, rows=both))[0].startswith("2 windows are huge, 3 could be: 2 programs ")
    two = replace(LIBRARY, files=frozenset({("/lib/a.so", 3), ("/lib/a.so", 4)}), windows_huge=0)
    assert table(replace(MACHINE, rows=(two,)))[0].startswith("0 windows are huge, 6 could be: 1 program ")
    assert cells(table(replace(MACHINE, rows=(two,)))[-2])[2:6] == ["12.0 MiB", "0", "6", "6"]


def test_why_nothing_is_to_be_done() -> None:
    why = Diagnosis("text.small", "/lib/b.so", {"text": M, "least": M})
    small = replace(LIBRARY, part="/lib/b.so", diagnosis=why)
    assert not any("b.so:" in line for line in table(replace(MACHINE, rows=(ROW, small))))
    assert table(replace(MACHINE, rows=(ROW, small)), verbose=True)[-1].startswith("       (b.so: ")
    assert table(replace(MACHINE, rows=(small,)))[-1].startswith("       (1.0 MiB of text: ")
    many = tuple(replace(ROW, program="/p", diagnosis=replace_argv(number)) for number in range(5))
    assert [line.strip() for line in table(replace(MACHINE, rows=many))[-3:]] == [
        "run: do 0",
        "run: do 1",
        "… 3 more with -v",
    ]
    assert len(table(replace(MACHINE, rows=many), verbose=True)) == len(table(replace(MACHINE, rows=many))) + 3


def replace_argv(number: int) -> Diagnosis:
    return WHY.changed(remedy=Remedy("run", ("do", str(number))))


def test_table_fits_a_screen() -> None:
    rows = tuple(replace(ROW, program=f"/p{number}", diagnosis=None) for number in range(50))
    lines = table(replace(MACHINE, rows=rows), width=80, height=10)
    assert (len(lines), lines[-1]) == (10, "… 46 more")
    assert max(map(len, lines)) <= 80
    for height in range(1, 12):
        result = table(
            replace(MACHINE, rows=tuple(replace(row, diagnosis=WHY) for row in rows)), width=80, height=height
        )
        assert len(result) <= height


def test_actions_are_read_on_a_narrow_screen() -> None:
    """They are what the command is for, and can be typed: a line that goes on ends in a backslash."""
    argv = (
        "hugealign",
        "run",
        "--fix",
        "--file",
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
        "--file",
        "/srv/a b/x",
        "--",
        "java",
    )
    start = Diagnosis("cache.small-pages", "", {}, Remedy("start", argv))
    program = "/usr/lib/jvm/java-17-openjdk-amd64/bin/java"
    rows = (replace(ROW, program=program, diagnosis=start), replace(LIBRARY, program=program, diagnosis=None))
    lines = table(replace(MACHINE, rows=rows), width=60)
    at = next(at for at, line in enumerate(lines) if line.endswith("COULD  PROGRAM"))
    assert lines[at + 1].endswith("  …bin/java (2 parts)")
    typed = "\n".join(lines[at + 2 :]).partition("with: ")[2]
    assert len(lines) > at + 3
    assert tuple(shlex.split(typed.replace("\\\n", ""))) == argv  # as a shell reads it (POSIX, XCU 2.2.1)
    assert max(map(len, lines[at:])) <= 60
    assert table(replace(MACHINE, rows=rows))[-1] == f"       {advised('start', *argv)}"


def test_table_of_hostile_names() -> None:
    text = "\n".join(table(hostile()))
    assert "\x1b" not in text
    assert len(text.splitlines()) == len(table(hostile()))
    assert "CONTAINER" in text
    assert "1 process skipped: no answer about 5" in text


def test_document_follows_the_schema() -> None:
    for machine in (MACHINE, hostile()):
        result = check(documents.text(machine))
    assert result["rows"][0]["program"] == printable(HOSTILE)


def test_metrics_escape_what_the_format_and_a_terminal_need() -> None:
    text = report.metrics(hostile())
    assert text.isprintable() or set(re.findall(r"[^ -~]", text)) == {"\n"}
    sample = re.compile(r'[a-z_]+(\{([a-z]+="([^"\\\n]|\\\\|\\")*"(,|(?=\})))+\})? -?[0-9.]+')
    for line in text.splitlines():
        assert line.startswith("# ") or sample.fullmatch(line), line


def test_metrics_of_the_whole_machine() -> None:
    whole = State(100, (Held(part("a", 4), 100, 200),), 300, "policy.not-toml")
    wanted = {
        "parts": "1",
        "bytes": str(4 * M),
        "saved_ratio": "0.05",
        "look_timestamp_seconds": "300",
        "look_failed": "1",
    }
    lines = report.metrics(MACHINE, whole).splitlines()
    assert {line for line in lines if line.startswith("hugealign_all_")} == {
        f"hugealign_all_{name} {value}" for name, value in wanted.items()
    }
    assert not any("hugealign_all_" in line for line in report.metrics(MACHINE).splitlines())


def test_metrics_have_help_and_type_once_and_no_sample_twice() -> None:
    alike = [replace(ROW, part=name) for name in ("\x1b", "\\x1b", "\\x1b")]
    lines = report.metrics(replace(hostile(), rows=(*hostile().rows, *alike))).splitlines()
    assert 'hugealign_text_processes{program="/srv/app",kind="program",part="\\\\x1b"} 6' in lines
    names = [line.split()[2] for line in lines if line.startswith("# TYPE ")]
    assert len(names) == len(set(names)) == len([line for line in lines if line.startswith("# HELP ")])
    samples = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(samples) == len(set(samples))
    assert {re.split("[ {]", sample)[0] for sample in samples} == set(names)
    assert "hugealign_scan_timestamp_seconds 1764000000.25" in lines
