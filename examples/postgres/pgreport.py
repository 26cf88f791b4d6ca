"""What was measured becomes the document that examples/report.py writes.  Pure."""

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import reference
from pgserver import WINDOW, Samples, Text
from pgtrace import CPUS, PART, WINDOWS, misses
from steps import paired

_PLACES = (0, 64, 128, 256, 384, 512, 768, 1024, 1536, 2048, 2560, 3072, 4096, 5120, 6144)  # KiB of text, in the plot


@dataclass(frozen=True, slots=True)
class File:
    """A server's file; sizes in bytes."""

    whole: int
    text: int
    size: int
    on_disk: int
    wanted: int  # windows that are to be huge


@dataclass(frozen=True, slots=True)
class Fit:
    """How an order fits the program; shares in per cent."""

    version: str
    matched: float  # of its profile's samples, found in the program
    functions: int  # hot ones
    covered: float  # of the fresh profile's samples, in those functions


@dataclass(frozen=True, slots=True)
class Results:
    """All that the report is made from, by variant or order."""

    files: Mapping[str, File]
    mapped: Mapping[str, Text]
    ps: Mapping[str, str]
    orders: Mapping[str, str]  # what `hugealign order` printed
    samples: Mapping[str, Samples]
    fits: Mapping[str, Fit]
    simulated: Sequence[dict[str, Any]]  # the same job, traced several times
    linked: dict[str, Any]  # of `leading`, as it is
    layouts: Mapping[str, str]  # what simulate calls them
    reference: Mapping[str, Any] | None  # counts under the reference run's orders, and words about them
    rates: Mapping[str, Mapping[str, Sequence[float]]]
    counters: Mapping[str, Mapping[str, int] | None]
    seconds: Mapping[str, int]
    seconds_measured: int


def document(results: Results, title: str, date: str, machine: Mapping[str, str]) -> dict[str, Any]:
    """Return the document."""
    sections = [
        _files(results),
        _orders(results),
        _samples(results),
        _misses(results),
        *_reference(results),
        *([_stale(results)] if len(results.fits) > 1 else []),
        _rates(results),
        _seconds(results),
    ]
    return {"title": title, "date": date, "machine": dict(machine), "sections": sections}


def table(results: Results) -> list[list[str]]:
    """Return the table of the servers: a row of words, then one for each figure."""
    rows = [["bin/postgres", *results.files]]
    found = results.files.values()
    rows.append(["file: text in whole windows", *(f"{100 * one.whole / one.text:.1f} %" for one in found)])
    rows.append(["file: windows that are to be huge", *(str(one.wanted) for one in found)])
    rows.append(["live postmaster: text PMD-mapped", *(str(results.mapped[name]) for name in results.files)])
    rows.append(["file: apparent size", *(f"{one.size >> 10} KiB" for one in found)])
    rows.append(["file: on disk", *(f"{one.on_disk >> 10} KiB" for one in found)])
    return rows


def _files(results: Results) -> dict[str, Any]:
    rows = table(results)
    return {
        "title": "The servers",
        "text": 'plain: CC=gcc. hugealign: CC="hugealign gcc". ordered: compiled and linked with the order that a '
        "profile of hugealign gave. leading: the objects of ordered, linked with the order for a processor with two "
        "entries for 2 MiB pages, of which one is left to others: one window is to be huge.",
        "command": "examples/postgres/run.sh",
        "table": {"columns": rows[0], "rows": rows[1:]},
        # Columns as wide as the paths are here say nothing.
        "output": re.sub("  +", "  ", "\n".join(words.rstrip() for words in results.ps.values())),
    }


def _orders(results: Results) -> dict[str, Any]:
    return {
        "title": "From the profile to the order",
        "text": "Recorded on hugealign while pgbench ran its two mixes, four clients. The text of this server is three "
        "windows, which a budget of three or more holds whatever the order is; so the second order is for a "
        "processor with two entries, and there the order decides.",
        "command": "perf record -e cpu-clock:u -F 999 -g -p POSTMASTER,CHILDREN -o hugealign.data -- "
        "pgbench -b tpcb-like -b select-only -c 4 -j 2 …\n"
        "hugealign order hugealign.data -b postgres -o ordered.order\n"
        "hugealign order hugealign.data -b postgres --itlb-2m 2 -o leading.order",
        "output": "\n\n".join(words.rstrip() for words in results.orders.values()),
    }


def _samples(results: Results) -> dict[str, Any]:
    last = max(one.text for one in results.files.values())
    windows = -(-last // WINDOW)
    rows = [
        [
            name,
            len(found.offsets),
            *(f"{found.share((number + 1) * WINDOW):.2f}" for number in range(windows)),
            found.pages(),
        ]
        for name, found in results.samples.items()
    ]
    places = [place for place in _PLACES if place <= windows * WINDOW >> 10]
    return {
        "title": "Where the samples fall",
        "text": "A new profile of each server, recorded while all were running: the per cent of the samples in its "
        "text that fall into the leading windows, and how many pages of 4 KiB have samples.",
        "command": "perf record -e cpu-clock:u -F 999 -p POSTMASTER,CHILDREN -- pgbench …; perf script -F ip",
        "table": {
            "columns": ["", "samples", *(f"to window {number + 1}, %" for number in range(windows)), "pages"],
            "rows": rows,
        },
        "plot": {
            "x": "KiB from the start of the text",
            "y": "% of samples before",
            "series": [
                {"name": name, "points": [[place, round(found.share(place << 10), 2)] for place in places]}
                for name, found in results.samples.items()
            ],
        },
    }


def same(results: Results) -> bool:
    """Tell whether all simulations of the job have the same misses and walks, to the digit."""
    found = [[(row["misses"], row["walks"]) for row in one["rows"]] for one in results.simulated]
    return all(one == found[0] for one in found)


def spread(results: Results) -> float:
    """Return by how many per cent the miss counts of the runs differ at most, of counts above 100."""
    runs = [[row["misses"] for row in one["rows"]] for one in results.simulated]
    pairs = [(min(row), max(row)) for row in zip(*runs, strict=True)]
    return max((100 * (high - low) / high for low, high in pairs if high > 100), default=0.0)


def _misses(results: Results) -> dict[str, Any]:
    first = results.simulated[0]
    rows: list[list[Any]] = []
    for name, layout in results.layouts.items():
        counts = [0] if name == "all-4k" else [count for count in WINDOWS if count or name != "original"]
        rows += [[name, count, *(misses(first, layout, cpu, count) for cpu in CPUS)] for count in counts]
    linked = ["leading, really linked", 1, *(misses(results.linked, "original", cpu, 1) for cpu in CPUS)]
    twice = "every count of misses and walks is the same, to the digit"
    if not same(results):
        twice = f"the misses differ by up to {spread(results):.3f} %"
    return {
        "title": "Instruction TLB misses, simulated",
        "text": "A fixed script of transactions, selects and reports in single-user mode, traced on hugealign and "
        "replayed from its first statement to the server's end: "
        f"{first['blocks']:,} blocks, {first['instructions']:,} instructions. Misses of the first level by "
        "layout and number of huge windows; libraries, the C library above all, are on 4 KiB pages in all of "
        "them.\n\nThe job was traced twice, the second time on data made anew and on one processor: "
        f"{twice}. The last line is a trace of the server that was linked so.",
        "command": "setarch -R hugealign trace -- postgres --single -D DATA … postgres <job.sql\n"
        f"hugealign simulate TRACE {' '.join(PART)} --layout … --windows 0-3",
        "table": {"columns": ["layout", "huge windows", *CPUS], "rows": [*rows, linked]},
        "plot": {
            "x": "huge windows",
            "y": f"misses, {CPUS[0]}",
            "log_y": True,
            "series": [
                {"name": name, "points": [[n, misses(first, layout, CPUS[0], n)] for n in WINDOWS]}
                for name, layout in results.layouts.items()
                if name != "all-4k"
            ],
        },
    }


def _reference(results: Results) -> list[dict[str, Any]]:
    found = results.reference
    return [reference.section(found["words"], found["counts"], "examples/postgres/reference")] if found else []


def _stale(results: Results) -> dict[str, Any]:
    first = results.simulated[0]
    rows: list[list[Any]] = []
    for name, found in results.fits.items():
        row: list[Any] = [name, found.version, f"{found.matched:.1f} %", found.functions, f"{found.covered:.1f} %"]
        for cpu in CPUS:
            before, best, now = (
                misses(first, layout, cpu, 1)
                for layout in ("original", results.layouts["ordered"], results.layouts[name])
            )
            row.append(f"{now:,} ({100 * (before - now) / (before - best):.1f} %)" if before > best else f"{now:,}")
        rows.append(row)
    return {
        "title": "A profile that is out of date",
        "text": "Orders from profiles of older versions, made for the server of today. Matched: samples whose function "
        "is there still, by name. Covered: samples of the fresh profile that fall into functions of the order. Then "
        "the misses with one huge window, and in brackets how much is kept of what the fresh order saves against the "
        "linker's order with one huge window.",
        "command": "\n".join(
            f"hugealign order {name}.data -b postgres -o {name}.order" for name in results.fits if name != "ordered"
        ),
        "table": {"columns": ["order", "recorded on", "matched", "functions", "covered", *CPUS], "rows": rows},
    }


def _rates(results: Results) -> dict[str, Any]:
    rows: list[list[str]] = []
    for mix, rates in results.rates.items():
        plain = rates["plain"]
        for name, found in rates.items():
            change = "" if name == "plain" else str(paired(plain, found))
            rows.append(
                [mix, name, f"{statistics.median(found):,.0f}", f"{min(found):,.0f}", f"{max(found):,.0f}", change]
            )
    rounds = len(next(iter(next(iter(results.rates.values())).values())))
    return {
        "title": "Transactions per second",
        "text": f"{rounds} rounds of {results.seconds_measured} s, all servers running, one client, in changing "
        "turns. For each round all are started anew, each on the data that another had before: what a start and a "
        "place happen to bring differs from round to round, and is part of the interval. The change is that of the "
        "paired runs against plain, and its 95 % interval; where that "
        f"spans zero, nothing is shown.\n\n{_counters(results)}",
        "command": "pgbench -n -c 1 -S; pgbench -n -c 1 -b tpcb-like",
        "table": {"columns": ["mix", "server", "median", "least", "most", "change, %"], "rows": rows},
    }


def _counters(results: Results) -> str:
    found = {name: counts for name, counts in results.counters.items() if counts}
    if not found:
        return "Hardware counters: this machine has none (perf stat -e iTLB-load-misses: not supported)."
    words = [
        f"{name} {1000 * counts['iTLB-load-misses'] / max(1, counts['instructions']):.4f}"
        for name, counts in found.items()
    ]
    return f"Hardware counters, iTLB misses per 1,000 instructions of selects: {', '.join(words)}."


def _seconds(results: Results) -> dict[str, Any]:
    return {
        "title": "How long it took",
        "text": "Each step runs once; the measurements are repeated by each run.",
        "table": {"columns": ["step", "seconds"], "rows": [[name, taken] for name, taken in results.seconds.items()]},
    }
