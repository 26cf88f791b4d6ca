"""What the examples measure by: paired runs, traces of a fixed job, samples by window; and the report made of it."""

import importlib
import itertools
import json
import math
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
WINDOW = 2 << 20


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, ModuleType]]:
    """The example's modules, which lie where only it looks."""
    before = list(sys.path)
    sys.path[:0] = [str(EXAMPLES / "postgres"), str(EXAMPLES)]
    try:
        names = ("steps", "report", "pgserver", "pgtrace", "pgreport", "pgbuild", "pgmeasure")
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path[:] = before


def test_interval_holds_the_truth(modules: dict[str, ModuleType]) -> None:
    """Of many series with a known change, about 95 % of the intervals hold it, and with no change 5 % show one."""
    chance = random.Random(5)
    for change in (0.0, 0.03):
        held = shown = 0
        for _ in range(2000):
            levels = [chance.uniform(5, 50) for _ in range(8)]  # the machine's, which both of a pair share
            before = [level * math.exp(chance.gauss(0, 0.02)) for level in levels]
            after = [level * (1 + change) * math.exp(chance.gauss(0, 0.02)) for level in levels]
            found = modules["steps"].paired(before, after)
            held += found.low <= 100 * change <= found.high
            shown += found.shown
        assert 0.93 < held / 2000 < 0.97
        assert shown / 2000 < 0.07 if change == 0 else shown / 2000 > 0.6
    with pytest.raises(ValueError, match="two pairs"):
        modules["steps"].paired([1.0], [2.0])


def test_words_of_a_change(modules: dict[str, ModuleType]) -> None:
    assert str(modules["steps"].Change(3.04, 1.0, 5.0)) == "+3.0 % (+1.0 to +5.0)"
    assert str(modules["steps"].Change(3.04, -1.0, 5.0)) == "+3.0 % (-1.0 to +5.0): none shown"


def test_turns_are_fair(modules: dict[str, ModuleType]) -> None:
    rounds = modules["steps"].interleaved("abcd", 8)
    assert all(sorted(turn) == list("abcd") for turn in rounds)
    assert [sum(turn[0] == name for turn in rounds) for name in "abcd"] == [2, 2, 2, 2]
    before = {(first, second): 0 for first in "abcd" for second in "abcd" if first != second}
    for turn in rounds:
        for first, second in itertools.pairwise(turn):
            before[first, second] += 1
    assert all(before[first, second] == before[second, first] for first, second in before)


def test_no_server_keeps_its_data(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    """Each gets that of every other in turn, and none starts before all have stopped."""
    done: list[tuple[str, str]] = []

    class Recorded(modules["pgserver"].Server):  # type: ignore[misc]
        def stop(self) -> None:
            done.append(("stop", self.data.name))

        def start(self) -> None:
            done.append((self.name, self.data.name))

    servers = {name: Recorded(None, name, tmp_path, tmp_path / name.upper(), tmp_path, "log") for name in "abcd"}
    seen: dict[str, list[str]] = {name: [] for name in "abcd"}
    for _ in range(4):
        done.clear()
        servers = modules["pgmeasure"].started_anew(servers)
        assert [word for word, _ in done] == ["stop"] * 4 + list("abcd")
        assert sorted(data for _, data in done[:4]) == list("ABCD")
        for name, data in done[4:]:
            seen[name].append(data)
    assert {name: sorted(data) for name, data in seen.items()} == {name: list("ABCD") for name in "abcd"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "12345,,instructions:u,1,100.0,,\n67,,iTLB-load-misses:u,1,100.0,,\n",
            {"instructions": 12345, "iTLB-load-misses": 67},
        ),
        ("12345,,instructions:u,1,100.0,,\n<not supported>,,iTLB-load-misses:u,0,100.0,,\n", None),
        ("<not counted>,,instructions:u,0,100.0,,\n", None),
        ("", None),
        ("# started on Sat\n\n", None),
    ],
)  # fmt: skip
def test_counters(modules: dict[str, ModuleType], text: str, found: dict[str, int] | None) -> None:
    assert modules["steps"].counts(text) == found


def test_steps_run_once(modules: dict[str, ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("stamps", "logs"):
        (tmp_path / name).mkdir()
    tmp_path.chmod(0o755)
    steps = modules["steps"].Steps(tmp_path, user(), time.time())
    ran = tmp_path / "logs" / "count.log"
    for _ in range(2):
        steps.once("count", "counting", ["sh", "-c", "echo ran; id -u"], ["echo", "done"], cwd=Path("/"))
    assert ran.read_text().split()[0] == "ran"
    assert ran.read_text().split()[2:] == ["done"]
    assert "done before" in capsys.readouterr().out
    with pytest.raises(modules["steps"].Failed, match=r"reason\n.*status 4"):
        steps.once("fails", "failing", ["sh", "-c", "echo reason; exit 4"], cwd=Path("/"))
    assert steps.done("fails") is None
    assert steps.done("count") == 0


def test_results_of_another_version_are_not_resumed(
    modules: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stamps").mkdir()
    (tmp_path / "stamps" / "source").write_text("3\n")
    steps = modules["steps"].Steps(tmp_path, user(), time.time())
    for _ in range(2):
        steps.resume()  # the source alone is nobody's
        steps.stamp("order", time.monotonic())
    monkeypatch.setattr(modules["steps"], "version", lambda: "another")
    with pytest.raises(modules["steps"].Failed, match=r"another version.*--clean"):
        steps.resume()
    (tmp_path / "stamps" / "order").unlink()
    steps.resume()
    (tmp_path / "stamps" / ".version").unlink()  # as older versions left it
    steps.stamp("order", time.monotonic())
    with pytest.raises(modules["steps"].Failed):
        steps.resume()


def test_the_version_is_that_of_what_results_come_from(
    modules: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("bin/tool", "hugealign/ordering/cdsort.c", "examples/steps.py", "examples/README.md")
    paths = [tmp_path / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("before")
    monkeypatch.setattr(modules["steps"], "_ROOT", tmp_path)
    seen = [modules["steps"].version()]
    for path in paths:
        path.write_text("after")
        seen.append(modules["steps"].version())
    assert len(set(seen[:4])) == 4
    assert seen[4] == seen[3]


def user() -> str:
    """Who would run the servers."""
    return "nobody" if os.geteuid() == 0 else subprocess.check_output(["id", "-un"], text=True).strip()


@pytest.mark.parametrize("words", [["--rounds", "1"], ["--rounds=-2"], ["--rounds", "x;y"], ["--rounds"], ["--what"]])
def test_wrong_usage_ends_at_once(words: list[str]) -> None:
    done = subprocess.run(
        [EXAMPLES / "postgres" / "run.sh", *words], capture_output=True, text=True, check=False, timeout=20
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("run.sh: ")
    assert "usage: run.sh" in done.stderr


def test_the_job_is_the_same_each_time(modules: dict[str, ModuleType]) -> None:
    lines = "".join(modules["pgtrace"].script(150, 1)).splitlines()
    assert lines == "".join(modules["pgtrace"].script(150, 1)).splitlines()
    assert not [line for line in lines if ":" in line]  # no variable is left
    assert [sum(line.startswith(word) for line in lines) for word in ("BEGIN", "END", "INSERT")] == [150] * 3
    rows = {int(row) for row in re.findall(r"aid = (\d+)", "\n".join(lines))}
    assert len(rows) > 500
    assert min(rows) >= 1
    assert max(rows) <= 100_000


@pytest.mark.parametrize("scale", [1, 3])
def test_the_job_has_its_tables(modules: dict[str, ModuleType], scale: int) -> None:
    """A command on each line, as single-user mode reads them; ANALYZE draws no rows but takes all."""
    lines = list(modules["pgtrace"].tables(scale))
    assert all(line.count("\n") == 1 and line.endswith("\n") for line in lines)
    made = {found[1] for line in lines if (found := re.match(r"CREATE TABLE (\w+) \(", line))}
    used = set(re.findall(r"pgbench_\w+", "".join(modules["pgtrace"].script(101, scale))))
    assert made == used
    assert len(made) == 4
    assert sum(line.startswith("INSERT") for line in lines) == 3
    assert {line.split()[2] for line in lines if "ADD PRIMARY KEY" in line} == made - {"pgbench_history"}
    target = next(int(found[1]) for line in lines if (found := re.search(r"default_statistics_target = (\d+)", line)))
    assert 300 * target >= 100_000 * scale
    assert lines[-1] == "VACUUM ANALYZE\n"


def test_samples_by_window(modules: dict[str, ModuleType]) -> None:
    found = modules["pgserver"].Samples(sorted([0, 1, 4096, WINDOW - 1, WINDOW, 3 * WINDOW]))
    assert found.share(WINDOW) == pytest.approx(100 * 4 / 6)
    assert found.share(4 * WINDOW) == 100
    assert found.pages() == 5
    assert modules["pgserver"].Samples([]).share(5) == 0


def test_samples_of_an_order(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    path = tmp_path / "a.order"
    path.write_text("# hugealign.order/1\n# windows: 1\n\\x23f\tfile=a.c\tsamples=3\ng\nh\tkind=fill\ng\tsamples=2\n")
    assert modules["pgmeasure"].samples_by_name(path) == {"\\x23f": 3, "g": 2}


def results(modules: dict[str, ModuleType], other: int = 1000) -> Any:
    """Results as a run gives them; *other* is a miss count of the second trace."""
    pgreport, pgserver = modules["pgreport"], modules["pgserver"]
    layouts = {"all-4k": "all-4k", "original": "original", "ordered": "order:o", "major": "order:m"}

    def simulated(count: int) -> dict[str, Any]:
        rows = [
            {
                "layout": layout,
                "cpu": cpu,
                "windows": windows,
                "walks": 5,
                "misses": count // (1 + windows * layout.startswith("order:")),
            }
            for layout in layouts.values()
            for cpu in modules["pgtrace"].CPUS
            for windows in modules["pgtrace"].WINDOWS
        ]
        return {"blocks": 10, "instructions": 50, "rows": rows}

    names = ("plain", "hugealign", "ordered", "leading")
    return pgreport.Results(
        {name: pgreport.File(0, 5 << 20, 10 << 20, 9 << 20, 3) for name in names},
        {name: pgserver.Text(0, 6 << 20, 2 << 20) for name in names},
        {"ordered": "ps's words"},
        {"ordered": "order's words"},
        {name: pgserver.Samples([5, WINDOW + 5]) for name in names[1:]},
        {"ordered": pgreport.Fit("15.18", 99, 900, 100), "major": pgreport.Fit("13.16", 90, 800, 95.55)},
        [simulated(1000), simulated(other)],
        simulated(1000),
        layouts,
        {"words": "all 7 counts are the same", "counts": {"misses ordered skylake 1": 268}},
        {"select only": {name: [100.0, 110.0, 120.0] for name in names}},
        {"plain": None},
        {"plain-make": 100},
        2,
    )  # fmt: skip


def test_report(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    document = modules["pgreport"].document(results(modules), "A title", "2026-11-21", {"kernel": "Linux"})
    (tmp_path / "in.json").write_text(json.dumps(document))
    assert modules["report"].main([str(tmp_path / "in.json"), "-o", str(tmp_path)]) == 0
    text = (tmp_path / "report.md").read_text()
    assert "every count of misses and walks is the same, to the digit" in text
    assert "this machine has none (perf stat -e iTLB-load-misses: not supported)" in text
    assert "| major | 13.16 | 90.0 % | 800 | 95.5 % | 500 (100.0 %) |" in text
    assert "| select only | ordered | 110 | 100 | 120 | +0.0 % (+0.0 to +0.0): none shown |" in text
    assert "kept in examples/postgres/reference, and replayed here on this run's own trace: all 7 counts are" in text
    assert "| ordered | 2 | 50.00 | 100.00 | 100.00 | 2 |" in text


def test_runs_that_differ_are_told(modules: dict[str, ModuleType]) -> None:
    found = results(modules, other=1010)
    assert not modules["pgreport"].same(found)
    assert modules["pgreport"].spread(found) == pytest.approx(1, rel=0.05)
    assert "differ by up to 0.9" in json.dumps(modules["pgreport"].document(found, "t", "d", {}))
