"""The report of the example: what was measured becomes sections of tables, words and plots."""

import datetime as dt
import statistics
from pathlib import Path
from typing import Any

import mariadb
import mysqljob
import reference
from mysqlserver import ROWS, TABLES, WORKLOADS
from steps import machine, paired

_COMMAND = "examples/mysql/run.py"


def document(build: Path, results: dict[str, Any]) -> dict[str, Any]:
    """Return the document that examples/report.py turns into Markdown."""
    return {
        "title": f"MariaDB {results['version']} on huge pages",
        "date": f"{dt.datetime.now(dt.UTC).date().isoformat()}, by {_COMMAND}",
        "machine": machine(build),
        "sections": [
            _build(results),
            *_tests(results),
            _text(results),
            *(_sysbench(results, workload) for workload in WORKLOADS),
            _counters(results),
            *_orders(results),
            _shares(results),
            _repeat(results),
            _misses(results),
            *_curves(results),
            *_reference(results),
            _linked(results),
        ],
    }


def _build(results: dict[str, Any]) -> dict[str, Any]:
    seconds = results["seconds"]
    steps = (
        "source",
        "configure",
        "make-server",
        "make-tools",
        "link-plain",
        "link-again",
        "link-ordered",
        "link-leading",
    )
    return {
        "title": "The build",
        "text": (
            "Debian's source, compiled once by CMake with hugealign's toolchain file, -O2 -ffunction-sections, without "
            "further storage engines and plugins. The server is a position-independent executable. hugealign is "
            "what CMake linked. plain, ordered and leading are further links of the same objects: plain by the bare "
            "compiler, the other two with the order of a profile."
        ),
        "command": _COMMAND,
        "table": {"columns": ["step", "seconds"], "rows": [[name, seconds[name]] for name in steps if name in seconds]},
    }


def _tests(results: dict[str, Any]) -> list[dict[str, Any]]:
    found = results["check"]
    if not found:
        return []
    row = [found[name] for name in ("asked", "passed", "skipped", "failed")]
    return [
        {
            "title": "MariaDB's own tests",
            "text": "mysql-test-run with the server that CMake linked through hugealign. A test that MariaDB runs in "
            "several combinations (with InnoDB, with other settings) counts as often.",
            "command": f"./mtr --suite=main {' '.join(mariadb.TESTS)}",
            "table": {"columns": ["tests named", "passed", "skipped", "failed"], "rows": [row]},
        }
    ]


def _kib(size: int) -> str:
    return f"{size >> 10:,} KiB"


def _text(results: dict[str, Any]) -> dict[str, Any]:
    rows = []
    for variant, found in results["verify"].items():
        text = results["measure"]["text"][variant]
        rows.append(
            [
                variant,
                _kib(found["text_bytes"]),
                f"{100 * found['huge_bytes'] / found['text_bytes']:.1f} %",
                found["windows"],
                f"{text['huge'] >> 10:,} of {_kib(text['mapped'])}",
                _kib(found["size"]),
                _kib(found["disk"]),
            ]
        )
    columns = [
        "server",
        "text",
        "in whole windows",
        "windows",
        "PMD-mapped in the live process",
        "file size",
        "on disk",
    ]
    return {
        "title": "Where the text lies",
        "text": f"The other {results['tools']} programs and plugins that CMake linked through hugealign are clean too. "
        "ordered and leading ask for as many leading windows as their orders say, and get no more. MariaDB switches "
        "huge pages off for itself when it has started (PR_SET_THP_DISABLE; its source says: against memory leaks). "
        "What it has run by then stays huge; a window that it runs for the first time later would be mapped small.",
        "command": "hugealign verify mariadbd; hugealign warm mariadbd; hugealign ps PID",
        "output": results["measure"]["ps"]["hugealign"],
        "table": {"columns": columns, "rows": rows},
    }


def _sysbench(results: dict[str, Any], workload: str) -> dict[str, Any]:
    runs = results["measure"]["runs"][workload]
    tps = {variant: [run[0] for run in found] for variant, found in runs.items()}
    cpu = {variant: [run[1] for run in found] for variant, found in runs.items()}
    rows = []
    for variant in runs:
        row = [variant, _middle(tps[variant]), _middle(cpu[variant])]
        if variant == "plain":
            row += ["--", "--"]
        else:
            row += [str(paired(tps["plain"], tps[variant])), str(paired(cpu["plain"], cpu[variant]))]
        rows.append(row)
    rounds = len(tps["plain"])
    return {
        "title": f"sysbench {workload}",
        "text": (
            f"{rounds} rounds, in each of which every server runs the same queries, in an order that changes from "
            f"round to round; one client, {TABLES} tables of {ROWS:,} rows, a Unix socket, no waiting for the disk. "
            "For each round all servers are started anew, each on the data that another had before: what a start and "
            "a place happen to bring differs from round to round, and is part of the interval. "
            "Changes are against plain, with the interval that holds them with 95 % confidence (Student's t over the "
            "logarithms of the paired ratios). None shown: the interval has zero in it, so these runs say nothing, in "
            "either direction. Several comparisons are made, so one in twenty shows something by chance. CPU is what "
            "the server's threads took for a transaction, which other work on the machine disturbs less than it does "
            f"transactions per second. {_load(results)}"
        ),
        "command": f"{_COMMAND} --rounds {rounds}",
        "table": {
            "columns": ["server", "transactions/s, median", "CPU µs/transaction, median", "transactions/s", "CPU"],
            "rows": rows,
        },
    }


def _load(results: dict[str, Any]) -> str:
    """Say whether the machine did other work: a server and its client alone make a load of less than two."""
    load = results["measure"]["load"]
    words = f"The load average was {load:.1f} at most."
    return words if load < 2 else f"{words} So other work shared these processors: trust no change below."


def _middle(values: list[float]) -> int:
    return round(statistics.median(values))


def _counters(results: dict[str, Any]) -> dict[str, Any]:
    found = results["measure"]["counters"]
    section: dict[str, Any] = {
        "title": "Hardware counters",
        "command": "perf stat -e instructions:u,iTLB-load-misses:u",
    }
    if any(values is None for values in found.values()):
        return {
            **section,
            "text": "This machine has none: perf says that these events are not supported. Not measured.",
        }
    rows = [
        [
            variant,
            values["instructions"],
            values["iTLB-load-misses"],
            1000 * values["iTLB-load-misses"] / values["instructions"],
        ]
        for variant, values in found.items()
    ]
    return {**section, "table": {"columns": ["server", "instructions", "iTLB-load-misses", "per 1000"], "rows": rows}}


def _orders(results: dict[str, Any]) -> list[dict[str, Any]]:
    words = {"ordered": "--cpu skylake", "leading": "--itlb-2m 2"}
    return [
        {
            "title": f"The order: {variant}",
            "command": f"hugealign order ro.perf rw.perf -b mariadbd -o {variant}.order {words[variant]}",
            "output": said,
        }
        for variant, said in results["orders"].items()
    ]


def _shares(results: dict[str, Any]) -> dict[str, Any]:
    rows = []
    most = max(len(found["windows"]) for found in results["profile"].values())
    for variant, found in results["profile"].items():
        total, seen, row = max(1, found["samples"]), 0, []
        for at in range(most):
            seen += found["windows"][at] if at < len(found["windows"]) else 0
            row.append(f"{100 * seen / total:.2f} %")
        rows.append([variant, found["samples"], found["pages"], *row])
    return {
        "title": "Where the samples fall",
        "text": "Samples in the server's own text, cumulated over windows of 2 MiB from its start. hugealign is the "
        "profile that the orders were made of; the others are new recordings, of other queries.",
        "command": "perf record -e cpu-clock:u -F 999 -p PID -- sysbench …",
        "table": {
            "columns": [
                "server",
                "samples",
                "4 KiB pages with samples",
                *(f"in the first {at + 1}" for at in range(most)),
            ],
            "rows": rows,
        },
    }


# ---- simulated misses ------------------------------------------------------------------------------------------------


def _rows(simulated: dict[str, Any], layout: str, cpu: str) -> list[dict[str, Any]]:
    """Return the rows of one layout on one processor; an order is named by its file's name."""
    return [
        row
        for row in simulated["rows"]
        if row["cpu"] == cpu and Path(row["layout"]).name in {layout, f"{layout}.order"}
    ]


def _least(simulated: dict[str, Any], layout: str, cpu: str) -> dict[str, Any]:
    return min(_rows(simulated, layout, cpu), key=lambda row: (row["misses"], row["windows"]))


def differences(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """Return which counts of two recordings of one server differ: blocks, instructions, misses and walks."""
    names = [name for name in ("blocks", "instructions") if first[name] != second[name]]
    rows = [{(row["layout"], row["cpu"], row["windows"]): row for row in found["rows"]} for found in (first, second)]
    for key in rows[0].keys() & rows[1].keys():
        one, two = (found[key] for found in rows)
        names += [f"{what}, {', '.join(map(str, key))}" for what in ("misses", "walks") if one[what] != two[what]]
    return sorted(names)


def _repeat(results: dict[str, Any]) -> dict[str, Any]:
    first, second = results["trace"]["hugealign"], results["trace"]["hugealign-2"]
    rows = [
        [what, first[what], second[what], second[what] - first[what]] for what in ("threads", "blocks", "instructions")
    ]
    for cpu in mysqljob.CPUS:
        one, two = (_least(found, "all-4k", cpu)["misses"] for found in (first, second))
        rows.append([f"misses, all 4 KiB, {cpu}", one, two, two - one])
    found = differences(first, second)
    return {
        "title": "The trace",
        "text": f"mariadbd --bootstrap runs {mysqljob.TRANSACTIONS} transactions of fixed SQL, modelled on "
        "oltp_read_write. What counts, here and below, is the thread that runs them, from its first BEGIN until the "
        "server ends: not the start, not reading the tables into memory, and none of InnoDB's own threads, which have "
        "nothing to do but wait. The second recording is on data made anew, on one processor. "
        + (
            f"They differ in {len(found)} counts; below, a difference of that size means nothing."
            if found
            else "Blocks, instructions, and misses and walks of every layout, processor and number of huge windows, "
            "are the same to the digit."
        ),
        "command": "hugealign trace -o job.trace -- mariadbd --bootstrap … <job.sql; "
        f"hugealign simulate job.trace {' '.join(mysqljob.PART)}",
        "table": {"columns": ["", "first recording", "second", "difference"], "rows": rows},
    }


def _change(one: int, two: int) -> str:
    return f"{100 * (two - one) / max(1, one):+.2f} %"


def _misses(results: dict[str, Any]) -> dict[str, Any]:
    found = results["trace"]["hugealign"]
    rows = []
    for cpu in mysqljob.CPUS:
        row: list[Any] = [cpu, _least(found, "all-4k", cpu)["misses"], _least(found, "all-2m", cpu)["misses"]]
        for layout in ("original", "ordered", "leading"):
            one = [entry["misses"] for entry in _rows(found, layout, cpu) if entry["windows"] == 1]
            best = _least(found, layout, cpu)
            row += [one[0] if one else None, f"{best['misses']:,} ({best['windows']})"]
        rows.append(row)
    columns = ["processor", "all 4 KiB", "all 2 MiB"]
    for name in ("linker's order", "ordered", "leading"):
        columns += [f"{name}, 1 window", f"{name}, best (windows)"]
    return {
        "title": "Instruction TLB misses, simulated",
        "text": "First-level misses of the same trace under each layout, with one leading window huge, and with as "
        "many as miss least. Only the server's text is on huge pages, its libraries are on 4 KiB pages. It is misses, "
        "not time.",
        "command": "hugealign simulate job.trace --layout original --layout order:ordered.order …",
        "table": {"columns": columns, "rows": rows},
    }


def _curves(results: dict[str, Any]) -> list[dict[str, Any]]:
    found = results["trace"]["hugealign"]
    return [
        {
            "title": f"Misses by the number of huge windows, {cpu}",
            "command": f"hugealign simulate job.trace … --cpu {cpu} --curve",
            "plot": {
                "x": "leading windows that are huge",
                "y": "first-level misses",
                "log_y": True,
                "series": [
                    {"name": name, "points": [[row["windows"], row["misses"]] for row in _rows(found, layout, cpu)]}
                    for name, layout in (("linker's order", "original"), ("ordered", "ordered"), ("leading", "leading"))
                ],
            },
        }
        for cpu in mysqljob.CPUS
    ]


def _reference(results: dict[str, Any]) -> list[dict[str, Any]]:
    found = results["reference"]
    return [reference.section(found["words"], found["counts"], "examples/mysql/reference")] if found else []


def _linked(results: dict[str, Any]) -> dict[str, Any]:
    predicted = results["trace"]["hugealign"]
    rows: list[list[Any]] = []
    for variant in ("ordered", "leading"):
        actual = results["trace"][variant]
        for cpu in mysqljob.CPUS:
            for windows in (0, 1):
                one = next(row["misses"] for row in _rows(predicted, variant, cpu) if row["windows"] == windows)
                two = next(row["misses"] for row in _rows(actual, "original", cpu) if row["windows"] == windows)
                rows.append([variant, cpu, windows, one, two, _change(one, two)])
    return {
        "title": "Predicted, and really linked",
        "text": "Left: the trace of hugealign, replayed under the order. Right: a new trace of the server that was "
        "linked in that order, as it is.",
        "command": "hugealign simulate ordered.trace --layout original",
        "table": {
            "columns": ["order", "processor", "huge windows", "predicted", "really linked", "difference"],
            "rows": rows,
        },
    }
