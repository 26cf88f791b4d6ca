"""The table, the JSON document and the metrics of `hugealign top`."""

import json
import re
from dataclasses import replace

import jsonschema
import pytest

from hugealign.cli.output import plain
from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.io.units import printable
from hugealign.system.budget import Budget
from hugealign.system.saving import NOTHING, Saving
from hugealign.watch import adapt_report
from hugealign.watch import top_report as report
from hugealign.watch.adapt import Adapted
from hugealign.watch.parts import CodeKind
from hugealign.watch.top import Machine, ProgramRow
from tests.costs import COSTS
from tests.support import ROOT, advised

M = 1 << 20
HOSTILE = 'x"\\\n\x1b[2J{y="\udcff"} 1'
WHY = Diagnosis("cache.small-pages", "/srv/app", {}, Remedy("run", ("do", "this"), "", 2, 6))
ROW = ProgramRow("/srv/app", "", CodeKind.PROGRAM, "/srv/app", (7, 9), 0.5, 12 * M, 4 * M, 2, 6, 6, WHY)
MACHINE = Machine((ROW,), 2, 99, 1, (), Budget(7, "skylake", 8), 2 * M, 1764000000.25, 0.125, 5.0, privileged=False)


def table(machine: Machine, **options: int) -> list[str]:
    """Return the table without colours."""
    return [plain(line) for line in report.table(machine, **options)]


def hostile() -> Machine:
    row = replace(ROW, program=HOSTILE, part=HOSTILE, container=HOSTILE)
    return replace(MACHINE, rows=(row, replace(ROW, kind=CodeKind.CODE, part="HotSpot")), silent=(5,))


def test_table() -> None:
    lines = table(MACHINE)
    assert lines[0].endswith("  8 entries for 2.0 MiB pages (skylake)")
    assert lines[1] == (
        "2 processes with 2.0 MiB of text or more: 1 window is huge, 3 could be; 99 processes with less"
    )
    assert lines[2] == "1 process skipped: no permission; root sees more"
    assert lines[-1].split() == ["2", "50.0", "/srv/app", "text", "6.0", "MiB", "1", "3", "3", "run:", "do", "this"]
    assert lines[-2].split() == ["PROCS", "CPU%", "PROGRAM", "PART", "TEXT", "HUGE", "CAN", "COULD", "ACTION"]


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
    lines = [line.split() for line in table(machine)[-3:]]
    assert [line[at] for line, at in zip(lines, (8, 9, 9), strict=True)] == ["SAVES", shown, "-"]
    document = json.loads(report.to_json(machine))
    jsonschema.validate(document, json.loads((ROOT / "hugealign/watch/top-1.schema.json").read_text()))
    assert document["rows"][0]["saving"] == {"low": saving.low, "value": saving.value, "high": saving.high}


def test_one_window_is_huge() -> None:
    one = replace(ROW, pids=(7,))
    assert ": 1 window is huge, 6 could be; " in table(replace(MACHINE, rows=(replace(one, windows_huge=1),)))[1]
    assert ": 2 windows are huge, 6 could be; " in table(replace(MACHINE, rows=(one,)))[1]
    adapted = Adapted(7, "app", 5, 0, huge=1)
    assert adapt_report.lines(adapted) == ["app[7]: 1 of at most 5 windows is huge"]
    assert adapt_report.lines(replace(adapted, huge=2)) == ["app[7]: 2 of at most 5 windows are huge"]


def test_room_for_code_does_not_count_as_code() -> None:
    """As of PHP: 192 windows of room in six processes, of which 28 are in use."""
    code = replace(ROW, kind=CodeKind.CODE, part="PHP", windows_huge=0, windows_possible=192, windows_reachable=28)
    assert table(replace(MACHINE, rows=(code,)))[-1].split()[7:10] == ["0", "28", "28"]
    assert json.loads(report.to_json(replace(MACHINE, rows=(code,))))["rows"][0]["windows_possible"] == 192


def test_one_action_for_several_rows_is_shown_once() -> None:
    """They follow one another, whatever lies between them by gain."""
    library = replace(ROW, part="/lib/a.so", kind=CodeKind.LIBRARY)
    other = Diagnosis("cache.small-pages", "/srv/b", {}, Remedy("run", ("do", "that"), "", 2, 6))
    between = replace(ROW, program="/srv/b", diagnosis=other)
    shown = replace(MACHINE, rows=(ROW, between, library, replace(ROW, program="/srv/c", diagnosis=None)))
    lines = [line.split() for line in table(shown)[-4:]]
    assert [line[2] for line in lines] == ["/srv/app", "/srv/app", "/srv/b", "/srv/c"]
    assert [" ".join(line[9:]) for line in lines] == ["run: do this", "(the same)", "run: do that", "-"]
    restart = replace(ROW, diagnosis=Diagnosis("file.replaced", "/srv/app", {}, Remedy("restart")))
    assert [line.endswith("restart it") for line in table(replace(MACHINE, rows=(restart, restart)))[-2:]] == [True] * 2
    narrow = table(shown, width=60)
    assert [line.strip() for line in narrow].count("run: do this") == 1


def test_table_fits_a_screen() -> None:
    lines = table(replace(MACHINE, rows=(ROW,) * 50), width=80, height=10)
    assert (len(lines), lines[-1]) == (10, "… 46 more")
    assert max(map(len, lines)) == 80


def test_actions_are_read_on_a_narrow_screen() -> None:
    """They are the last column, and what the command is for."""
    long = replace(
        ROW, program="/usr/lib/jvm/java-17-openjdk-amd64/bin/java", part="libstdc++.so.6.0.30", kind=CodeKind.LIBRARY
    )
    start = Diagnosis("cache.small-pages", "", {}, Remedy("start", ("hugealign", "run", "--fix", "--", "java")))
    rows = (replace(long, diagnosis=start), replace(long, diagnosis=None))
    lines = table(replace(MACHINE, rows=rows), width=80)
    assert lines[-4].endswith("  HUGE  CAN  COULD")
    assert lines[-3].split()[2:4] == ["…jdk-amd64/bin/java", "libstdc++.so.6.0.30"]
    assert lines[-2] == f"       {advised('start', 'hugealign', 'run', '--fix', '--', 'java')}"
    assert lines[-1].split()[-3:] == ["1", "3", "3"]
    assert max(map(len, lines[3:])) <= 80
    for height in range(1, 12):
        result = table(replace(MACHINE, rows=(long,) * 50), width=80, height=height)
        assert len(result) <= height
        shown = sum("libstdc++" in line for line in result)
        assert height < 7 or result[-1] == f"… {50 - shown} more"


def test_table_of_hostile_names() -> None:
    text = "\n".join(table(hostile()))
    assert "\x1b" not in text
    assert len(text.splitlines()) == len(table(hostile()))
    assert "CONTAINER" in text
    assert "1 process skipped: no answer about 5" in text


def test_document_follows_the_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "hugealign/watch/top-1.schema.json").read_text())
    for machine in (MACHINE, hostile()):
        result = json.loads(report.to_json(machine))
        jsonschema.validate(result, schema, cls=jsonschema.Draft202012Validator)
    assert result["rows"][0]["program"] == printable(HOSTILE)


def test_metrics_escape_what_the_format_and_a_terminal_need() -> None:
    text = report.metrics(hostile())
    assert text.isprintable() or set(re.findall(r"[^ -~]", text)) == {"\n"}
    sample = re.compile(r'[a-z_]+(\{([a-z]+="([^"\\\n]|\\\\|\\")*"(,|(?=\})))+\})? -?[0-9.]+')
    for line in text.splitlines():
        assert line.startswith("# ") or sample.fullmatch(line), line


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
