"""The report of a run, with everything in it that a run gives."""

from pathlib import Path
from typing import Any

import pytest

from examples.servers import report as module
from examples.servers.live import Live, Order
from examples.servers.report import Results, report
from examples.servers.server import VARIANTS, Example, read
from examples.servers.steps import Steps
from examples.servers.text import WINDOW, Samples, Text
from examples.servers.tracing import Traced, differences

LAYOUTS = {"original": "original", "ordered": "order:o", "leading": "order:l", "major": "order:m"}

_WINDOWS = 3  # of the text: `simulate` counts no more, whatever the trace asks for


def replay(example: Example, count: int, layouts: list[str]) -> dict[str, Any]:
    trace = example.server.trace
    rows = [
        {
            "layout": layout,
            "cpu": cpu,
            "windows": windows,
            "walks": 5,
            "misses": count // (1 + windows * layout.startswith("order:")),
        }
        for layout in layouts
        for cpu in trace["cpus"]
        for windows in range(min(trace["windows"], _WINDOWS) + 1)
    ]
    return {"blocks": 10 * count, "instructions": 50, "rows": rows}


def results(example: Example, other: int = 1000, load: float = 1.0) -> Results:
    """Results as a run gives them; *other* is a miss count of the second trace."""
    live = Live(dict.fromkeys(VARIANTS, 3), {name: Text(0, 6 << 20, 2 << 20) for name in VARIANTS})
    live.ps = {"ordered": "ps's    words"}
    live.samples = {name: Samples([5, WINDOW + 5]) for name in VARIANTS[1:]}
    for number in range(6):
        rates = {"plain": 100.0, "hugealign": 100.0 + number % 2, "ordered": 110.0 + number, "leading": 80.0}
        live.rounds.append({(name, v): {"transactions/s": rates[v]} for name in example.server.loads for v in VARIANTS})
        live.load.append(load)
    live.counters = {"plain": None}
    linked = {name: replay(example, 990, ["original"]) for name in ("ordered", "leading")}
    first, second = (replay(example, count, list(LAYOUTS.values())) for count in (1000, other))
    kept = ({"misses ordered skylake 1": 268}, "all 7 counts are the same")
    orders = {name: Order(f"{name}'s words", 90, 800, {"f": 3}) for name in ("ordered", "leading", "major")}
    coverage = {"text_bytes": 5 << 20, "huge_bytes": 5 << 20, "windows": 3}
    tests = {"hugealign": {"status": 0, "passed": 217, "failed": 0}}
    traced = Traced((first, second), linked, LAYOUTS, kept)
    return Results(dict.fromkeys(VARIANTS, coverage), 30, tests, orders, live, traced)


@pytest.fixture(params=["postgres", "mysql"])
def example(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Example:
    """An example that is built."""
    for name in ("current", "major", "mariadb-10.11.18"):
        (tmp_path / "source" / name / "debian").mkdir(parents=True)
        (tmp_path / "source" / name / "debian" / "changelog").write_text("x (15.18-0) y\n")
    (tmp_path / "stamps").mkdir()
    (tmp_path / "stamps" / "plain-make").write_text("100\nnull\n")
    found = Example(read(request.param), Steps(tmp_path, "nobody"), 6, 2)
    for variant in VARIANTS:
        found.program(variant).parent.mkdir(parents=True)
        found.program(variant).write_bytes(bytes(2048))
    monkeypatch.setattr(module, "machine", lambda _: {"kernel": "Linux"})
    return found


def test_report(example: Example) -> None:
    text, pictures = report(example, results(example))
    assert text.startswith(f"# {example.server.title} 15.18-0 on huge pages, and in order\n")
    assert "Every promise was kept." in text
    assert all(picture.endswith("</svg>\n") for picture in pictures)
    assert text.count(".svg)") == len(pictures) == 1 + len(example.server.trace["cpus"])
    assert f"![misses, skylake by huge windows]({example.server.name}-" in text
    assert "are the same to the digit" in text
    assert "| blocks | 10,000 | 10,000 |" in text
    assert "This machine has none" in text
    assert "| hugealign | 217 | 0 |" in text
    assert "ps's  words" in text
    assert (
        f"kept in examples/{example.server.name}/reference,\nand replayed here on this run's own trace: all 7 counts"
        in text
    )
    assert "| ordered | 2 | 2 | 50.00 | 100.00 | 100.00 |" in text
    assert "| leading | sapphirerapids | 1 | 500 | 990 | +98.00 % |" in text
    assert "| 0 | 1,000 | 1,000 | 1,000 | 1,000 |\n| 1 | 1,000 | 500 | 500 | 500 |" in text
    assert text.count("| plain | 100 | -- |") == 2
    assert text.count("| ordered | 112.487 | 1.125 (") == 2
    assert "no claim |" in text
    assert "6 rounds count.\n" in text
    assert "holds for all 6 ratios together" in text
    assert "Huge text alone changes 0 of 2 figures measurably, huge text in the order of a profile " in text
    assert "| plain-make | 100 |" in text
    stale = "| major | 15.18 | 90.0 % | 800 | 100.0 % | 500 (100.0 %) |"
    assert (stale in text) == (example.server.name == "postgres")


def test_what_is_not_there_is_left_out(example: Example) -> None:
    full, _ = report(example, results(example))
    found = results(example)
    less = Results(found.coverage, 30, {}, found.orders, found.live, found.traced)
    text, _ = report(example, less)
    assert ("## The server's own tests" in full, "## The server's own tests" in text) == (True, False)
    assert "## The reference run's orders" in text
    assert "## Loads in turn" in text
    traced = Traced(found.traced.repeated, found.traced.linked, LAYOUTS, None)
    text, _ = report(example, Results(found.coverage, 30, {}, found.orders, found.live, traced))
    assert "## The reference run's orders" not in text


def test_broken_promises_come_first(example: Example) -> None:
    example.steps.promise(False, "ordered: the kernel maps 0 KiB")
    text, _ = report(example, results(example))
    assert text.startswith("**BROKEN: ordered: the kernel maps 0 KiB**\n\n# ")
    assert "Every promise was kept" not in text


def test_a_busy_machine_claims_nothing(example: Example) -> None:
    text, _ = report(example, results(example, load=7.0))
    assert "it was up to 7.0. 0 rounds count. That is too few, so nothing is claimed: the machine was busy.\n" in text
    assert text.count("| ordered | -- | -- |") == 2


def test_runs_that_differ_are_told(example: Example) -> None:
    found = results(example, other=1010)
    text, _ = report(example, found)
    assert "They differ: blocks; misses, " in text
    assert "are the same to the digit" not in text


def test_one_count_that_differs_is_told(example: Example) -> None:
    first, second = (replay(example, 100, list(LAYOUTS.values())) for _ in range(2))
    assert differences(first, second) == []
    second["rows"][3]["walks"] += 1
    second["rows"][-1]["misses"] -= 1
    second["instructions"] += 1
    walked, missed = (f"{second['rows'][at]['cpu']}, {second['rows'][at]['windows']}" for at in (3, -1))
    assert differences(first, second) == ["instructions", f"misses, order:m, {missed}", f"walks, original, {walked}"]
    assert differences(first, {**first, "rows": first["rows"][:-1]}) != []
