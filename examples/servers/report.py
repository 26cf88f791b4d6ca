"""What was measured of a server becomes the fields of report.md."""

import datetime as dt
import itertools
import os
import platform
import re
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.servers import reference
from examples.servers.document import Plot, fenced, fill, inline, points, svg, table
from examples.servers.live import BUSY, Live, Order, covered
from examples.servers.server import VARIANTS, Example
from examples.servers.text import WINDOW
from examples.servers.tracing import Traced, differences, misses
from hugealign.measuring.interval import Ratio
from lab.bench.timing import claimed

_PLACES = (0, 64, 128, 256, 384, 512, 768, 1024, 1536, 2048, 2560, 3072, 4096)  # KiB of text, in the plot; then more


@dataclass(frozen=True, slots=True)
class Results:
    """All that the report is made from, by variant or order."""

    coverage: Mapping[str, Mapping[str, Any]]  # as `hugealign verify --json` has it
    others: int  # how many other files are clean
    tests: Mapping[str, Mapping[str, int]]  # of the server's own
    orders: Mapping[str, Order]
    live: Live
    traced: Traced


def report(example: Example, results: Results) -> tuple[str, list[str]]:
    """Return the report in Markdown, and its pictures in SVG, which it names NAME-1.svg and so on."""
    server, trace, live, (first, second) = example.server, example.server.trace, results.live, results.traced.repeated
    pictures: list[str] = []

    def drawn(plot: Plot) -> str:
        pictures.append(svg(plot))
        return f"![{inline(f'{plot.y} by {plot.x}')}]({server.name}-{len(pictures)}.svg)\n\n{points(plot)}"

    differ = differences(first, second)
    same = "Blocks, instructions, misses and walks, of every layout, processor and number, are the same to the digit."
    kept = results.traced.reference
    changes = list(live.changes())
    repeated = [[what, first[what], second[what]] for what in ("blocks", "instructions")]
    for cpu in trace["cpus"]:
        both = (misses(replay, "original", cpu, 0) for replay in (first, second))
        repeated.append([f"misses, all 4 KiB, {cpu}", *both])
    tests = [[name, result["passed"], result["failed"]] for name, result in results.tests.items()]
    times = [
        [*words, statistics.geometric_mean(v) if v else None, ratio and claimed(ratio)] for *words, v, ratio in changes
    ]
    fields = {
        **{name: getattr(server, name) for name in ("name", "title", "command", "trained", "stacks")},
        **{name: trace[name] for name in ("job", "begin", "end")},
        "version": example.version(),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "shown": shown(live),
        "kept": "" if example.steps.broken else "Every promise was kept.",
        "machine": table(["machine", ""], list(machine(example).items())),
        "built": "\n\n".join(inline(words) for words in server.built.split("\n\n")),
        "others": results.others,
        # Columns as wide as the paths are here say nothing.
        "ps": fenced(re.sub("  +", "  ", "\n".join(words.rstrip() for words in live.ps.values()))),
        "servers": table(["", *VARIANTS], servers(example, results)),
        "tests": table(["server", "passed", "failed"], tests) if tests else None,
        "order_commands": "\n".join(f"hugealign order … {w} -o {name}.order" for name, w in server.orders.items()),
        "orders": "\n\n".join(f"{name}:\n\n{fenced(results.orders[name].table)}" for name in server.orders),
        "samples": _samples(results, drawn),
        "same": f"They differ: {'; '.join(differ[:3])}, {len(differ)} in all." if differ else same,
        "repeated": table(["", "first recording", "second"], repeated),
        "misses": "\n\n".join(drawn(_misses(results.traced, cpu)) for cpu in trace["cpus"]),
        "reference": inline(kept[1]) if kept else None,
        "counts": reference.shown(kept[0]) if kept else None,
        "linked": _linked(results.traced, trace["cpus"]),
        "stale": _stale(example, results) if example.older else None,
        "rounds": len(live.rounds),
        "seconds": example.seconds,
        "busy": BUSY,
        "load": f"{max(live.load):.1f}",
        "calm": len(live.calm()),
        "claimed": "" if live.claimed() else " That is too few, so nothing is claimed: the machine was busy.",
        "intervals": sum(name != "plain" for _, _, name, _, _ in changes),
        "times": table(["load", "figure", "server", "mean", "ratio to plain"], times),
        "counters": _counters(live),
        "steps": table(["step", "seconds"], list(example.steps.seconds().items())),
    }
    template = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    return fill(template, fields, example.steps.broken), pictures


def shown(live: Live) -> str:
    """Return what the page shows: how many of the figures each server changes measurably."""
    if not live.claimed():
        return "The machine was busy, so nothing is claimed."
    ratios: dict[str, list[Ratio]] = {}
    for _, _, name, _, ratio in live.changes():
        if ratio is not None:
            ratios.setdefault(name, []).append(ratio)
    counts = {name: f"{sum(item.claim for item in result)} of {len(result)}" for name, result in ratios.items()}
    alone = counts.pop("hugealign")
    orders = " and ".join(f"{count} ({name})" for name, count in counts.items())
    return f"Huge text alone changes {alone} figures measurably, huge text in the order of a profile {orders}."


def machine(example: Example) -> dict[str, str]:
    """Return this machine, and what the servers were made by, in words."""
    cpu = _first(r"model name\s*:\s*(.*)", "/proc/cpuinfo") or platform.machine()
    virtual = ", a virtual machine" if _first(r"flags\s*:.*\b(hypervisor)\b", "/proc/cpuinfo") else ""
    memory = int(_first(r"MemTotal:\s*(\d+)", "/proc/meminfo") or 0)
    mounts = (line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines())
    kinds = {words[1]: words[2] for words in mounts}
    return {
        "processor": f"{cpu}, {os.cpu_count()} CPUs{virtual}",
        "memory": f"{memory / (1 << 20):.0f} GiB",
        "kernel": f"Linux {platform.release().split('-')[0]}",
        "system": _first(r'PRETTY_NAME="?([^"\n]*)', "/etc/os-release") or "unknown",
        "file system": next((kinds[str(p)] for p in example.steps.build.parents if str(p) in kinds), "unknown"),
        "THP": _first(r"\[(.*?)\]", "/sys/kernel/mm/transparent_hugepage/enabled") or "none",
        **{name: example.steps.output([name, "--version"]).splitlines()[0] for name in ("gcc", "ld")},
    }


def _first(pattern: str, path: str) -> str:
    match = re.search(pattern, Path(path).read_text(encoding="utf-8")) if Path(path).exists() else None
    return match[1] if match else ""


def servers(example: Example, results: Results) -> list[list[Any]]:
    """Return the table of the servers: a row for each figure."""
    result, files = results.coverage, {name: example.program(name).stat() for name in VARIANTS}
    return [
        ["text", *(_kib(result[name]["text_bytes"]) for name in VARIANTS)],
        ["  in whole windows", *(f"{100 * c['huge_bytes'] / c['text_bytes']:.1f} %" for c in result.values())],
        ["windows that are to be huge", *(results.live.wanted[name] for name in VARIANTS)],
        ["live server: PMD-mapped, the least", *(results.live.text[name] for name in VARIANTS)],
        ["file: apparent size", *(_kib(files[name].st_size) for name in VARIANTS)],
        ["file: on disk", *(_kib(files[name].st_blocks * 512) for name in VARIANTS)],
    ]


def _kib(size: int) -> str:
    return f"{size >> 10:,} KiB"


def _samples(results: Results, drawn: Callable[[Plot], str]) -> str:
    result = results.live.samples
    windows = range(1, 1 - (-max(int(item["text_bytes"]) for item in results.coverage.values()) // WINDOW))
    shares = [[f"{item.share(at * WINDOW):.2f}" for at in windows] for item in result.values()]
    rows = [
        [name, len(item.offsets), item.pages(), *share]
        for (name, item), share in zip(result.items(), shares, strict=True)
    ]
    columns = ["", "samples", "pages", *(f"to window {at}, %" for at in windows)]
    places = [*_PLACES, *range(5120, (windows[-1] * WINDOW >> 10) + 1, 1024)]
    lines = {name: [(place, round(item.share(place << 10), 2)) for place in places] for name, item in result.items()}
    return f"{table(columns, rows)}\n\n{drawn(Plot('KiB from the start of the text', '% of samples before', lines))}"


def _misses(traced: Traced, cpu: str) -> Plot:
    """Return the misses on *cpu* by huge windows, of which `simulate` counts none that the text has not."""
    counted = sorted({row["windows"] for row in traced.repeated[0]["rows"]})
    lines = {
        name: [(at, misses(traced.repeated[0], layout, cpu, at)) for at in counted]
        for name, layout in traced.layouts.items()
    }
    return Plot("huge windows", f"misses, {cpu}", lines, log_y=True)


def _linked(traced: Traced, cpus: list[str]) -> str:
    rows = []
    for name, cpu, windows in itertools.product(traced.linked, cpus, (0, 1)):
        one = misses(traced.repeated[0], traced.layouts[name], cpu, windows)
        two = misses(traced.linked[name], "original", cpu, windows)
        rows.append([name, cpu, windows, one, two, f"{100 * (two - one) / max(1, one):+.2f} %"])
    return table(["order", "processor", "huge windows", "predicted", "really linked", "difference"], rows)


def _stale(example: Example, results: Results) -> str:
    traced, fresh, cpus = results.traced, results.orders["ordered"], example.server.trace["cpus"]
    rows: list[list[object]] = []
    for name in ("ordered", *example.older):
        order = results.orders[name]
        version = example.version("" if name == "ordered" else name).partition("-")[0]
        row: list[object] = [name, version, f"{order.matched:.1f} %", order.hot, f"{covered(fresh, order):.1f} %"]
        for cpu in cpus:
            layouts = ("original", traced.layouts["ordered"], traced.layouts[name])
            before, best, now = (misses(traced.repeated[0], layout, cpu, 1) for layout in layouts)
            row.append(f"{now:,}" + (f" ({100 * (before - now) / (before - best):.1f} %)" if before > best else ""))
        rows.append(row)
    return table(["order", "recorded on", "matched", "functions", "covered", *cpus], rows)


def _counters(live: Live) -> str:
    if not all(live.counters.values()):
        return "This machine has none: perf says that these events are not supported."
    names = ("instructions", "iTLB-load-misses")
    rows = [
        [variant, *(item[name] for name in names), 1000 * item[names[1]] / max(1, item[names[0]])]
        for variant, item in live.counters.items()
        if item
    ]
    return table(["server", *names, "per 1000"], rows)
