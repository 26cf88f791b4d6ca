"""Show what all processes run from: a table, JSON, and metrics for Prometheus.  Pure functions."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict

from hugealign.diagnosis import documents, render
from hugealign.io.units import are, counted, format_size, printable
from hugealign.machine.state import State
from hugealign.watch.parts import CodeKind
from hugealign.watch.top import Machine, ProgramRow

SCHEMA = "hugealign.top/1"

_PROGRAM_WIDTH, _NARROWEST = 40, 12
_SAME = "(the same)"  # action as that of the row above
_SAVES = "SAVES"  # a column if the costs of text are known
_HEAD = ("PROCS", "CPU%", "PROGRAM", "PART", "TEXT", "HUGE", "CAN", "COULD", "ACTION")


def head(machine: Machine) -> list[str]:
    """Return the lines above the table: the time, the processor's entries, and the processes that are not in it."""
    clock = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(machine.time))
    budget = machine.budget
    lines = [f"{clock}  {budget.entries} entries for {format_size(machine.page_size)} pages ({budget.why})"]
    huge, _, reachable = map(sum, zip(*map(_windows, machine.rows), strict=True)) if machine.rows else (0, 0, 0)
    size = format_size(machine.page_size)
    lines.append(
        f"{_processes(machine.processes)} with {size} of text or more: {counted(huge, 'window')} {are(huge)} huge, "
        f"{reachable} could be; "
        f"{_processes(machine.others)} with less"
    )
    if machine.hidden:
        more = "" if machine.privileged else "; root sees more"
        lines.append(f"{_processes(machine.hidden)} skipped: no permission{more}")
    if machine.silent:
        pids = ", ".join(map(str, machine.silent))
        lines.append(f"{_processes(len(machine.silent))} skipped: no answer about {pids}")
    return lines


def _processes(count: int) -> str:
    return f"{count} {'process' if count == 1 else 'processes'}"


def table(machine: Machine, *, width: int = 0, height: int = 0) -> list[str]:
    """Return the lines for people: at most *height* of them, cut at *width* columns; 0 means no limit.

    Rows with the same action follow the first of them, which has it.  If the rows are wider than that, each action has
    a line of its own, below its row.
    """
    contained = any(row.container for row in machine.rows)
    names = ("CONTAINER", *_HEAD) if contained else _HEAD
    if machine.budget.costs:
        names = (*names[:-1], _SAVES, names[-1])
    alike: dict[str | int, list[ProgramRow]] = {}
    for at, row in enumerate(machine.rows):
        alike.setdefault(_cells(row, contained)[-1] if row.remedy and row.remedy.argv else at, []).append(row)
    ordered = [row for same in alike.values() for row in same]
    again = {id(row) for same in alike.values() for row in same[1:]}
    cells = [
        (*cell[:-1], _SAME if id(row) in again else cell[-1]) for row in ordered for cell in [_cells(row, contained)]
    ]
    title, *rows = _aligned([names, *cells])
    blocks = [[(row, cell[-1])] for row, cell in zip(rows, cells, strict=True)]
    if width and max(map(len, (title, *rows))) > width:
        title, *rows = _narrowed([cell[:-1] for cell in (names, *cells)], width)
        actions = ([] if cell[-1] in ("-", _SAME) else [(f"       {cell[-1]}", cell[-1])] for cell in cells)
        blocks = [[(row, ""), *action] for row, action in zip(rows, actions, strict=True)]
    head_lines = [*head(machine), "", title]
    shown = [(line, "", "") for line in head_lines]
    for number, (block, row) in enumerate(zip(blocks, ordered, strict=True)):
        last = number == len(blocks) - 1
        if height and len(shown) + len(block) > height - (not last):
            shown.append((f"… {len(blocks) - number} more", "", ""))
            break
        shown += [(line, action, "command" if row.remedy else "") for line, action in block]
    shown = shown[:height] if height else shown
    return [_painted(line[:width] if width else line, len(line) - len(action), how) for line, action, how in shown]


def _painted(line: str, at: int, meaning: str) -> str:
    return line[:at] + render.painted(line[at:], meaning) if meaning else line


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return *rows*, the first of which has the names of the columns, as lines."""
    names = rows[0]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    words = [name in ("CONTAINER", "PROGRAM", "PART", "ACTION") for name in names]
    lines = []
    for row in rows:
        cells = [c.ljust(w) if word else c.rjust(w) for c, w, word in zip(row, widths, words, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines


def _narrowed(rows: Sequence[tuple[str, ...]], width: int) -> list[str]:
    """Return *rows* as lines of *width* columns, if shorter names of programs can do that."""
    at = rows[0].index("PROGRAM")
    excess = max(map(len, _aligned(rows))) - width
    most = max(_NARROWEST, max(len(row[at]) for row in rows) - max(excess, 0))
    return _aligned([(*row[:at], _last(row[at], most), *row[at + 1 :]) for row in rows])


def _cells(row: ProgramRow, contained: bool) -> tuple[str, ...]:
    program = _last(printable(row.program), _PROGRAM_WIDTH)
    part = {CodeKind.PROGRAM: "text", CodeKind.LIBRARY: printable(row.part.rpartition("/")[2])}.get(row.kind)
    saves = () if row.saving is None else (_saves(row),)
    action = f"({render.sentence(row.diagnosis)})" if row.diagnosis else "-"
    if row.diagnosis and row.remedy:  # the columns have the windows before and after
        action = render.remedy(row.remedy.changed(before=None, after=None), row.diagnosis.facts)
    cells = (
        str(len(row.pids)),
        f"{100 * row.cpu:.1f}",
        program,
        part or f"{row.part} code".lstrip(),
        format_size(row.text // _shares(row)),
        *map(str, _windows(row)),
        *saves,
        action,
    )
    return (printable(row.container) or "-", *cells) if contained else cells


def _saves(row: ProgramRow) -> str:
    """Return the share of the processor time of *row* that its action saves."""
    if row.saving is None or not row.gain[1]:
        return "-"
    low, high = (round(100 * share) for share in (row.saving.low, row.saving.high))
    return "<1%" if row.saving.worth is False else f"{low}%" if low == high else f"{low}-{high}%"


def _shares(row: ProgramRow) -> int:
    """Return how many processes share the text of *row*: its file has the same pages in all."""
    return 1 if row.kind == CodeKind.CODE else len(row.pids)


def _windows(row: ProgramRow) -> tuple[int, int, int]:
    """Return the windows that are huge, can be and could be, for people: those that processes share count once.

    Room for code that is not in use yet can become huge only with the code, so it does not count.
    """
    huge, possible, reachable = (
        -(-count // _shares(row)) for count in (row.windows_huge, row.windows_possible, row.windows_reachable)
    )
    return huge, min(possible, reachable) if row.kind == CodeKind.CODE and row.remedy else possible, reachable


def _last(text: str, most: int) -> str:
    return text if len(text) <= most else f"…{text[1 - most :]}"


def to_json(machine: Machine, *, line: bool = False) -> str:
    """Return the JSON document ``hugealign.top/1``, which top-1.schema.json beside this file describes."""
    body = {
        "time": machine.time,
        "seconds": round(machine.seconds, 6),
        "interval": round(machine.interval, 3),
        "page_size": machine.page_size,
        "entries": machine.budget.entries,
        "entries_why": machine.budget.why,
        "processes": machine.processes,
        "others": machine.others,
        "hidden": machine.hidden,
        "silent": list(machine.silent),
        "rows": [
            {
                "program": printable(row.program),
                "container": printable(row.container) or None,
                "kind": row.kind.value,
                "part": printable(row.part),
                "pids": list(row.pids),
                "cpu": round(row.cpu, 6),
                "text_bytes": row.text,
                "huge_bytes": row.huge,
                "windows_huge": row.windows_huge,
                "windows_possible": row.windows_possible,
                "windows_reachable": row.windows_reachable,
                "saving": row.saving and asdict(row.saving),
                "diagnosis": render.document(row.diagnosis),
            }
            for row in machine.rows
        ],
    }
    return documents.to_json(SCHEMA, body, line=line)


#: Name, help and value of the metrics that each row has.
_METRICS: tuple[tuple[str, str, Callable[[ProgramRow], float]], ...] = (
    ("processes", "Processes that execute this part of the program.", lambda row: len(row.pids)),
    ("cpu_ratio", "Share of one processor that these processes use.", lambda row: row.cpu),
    ("bytes", "Executable memory of this part, in all processes.", lambda row: row.text),
    ("huge_bytes", "Executable memory in huge pages.", lambda row: row.huge),
    ("huge_windows", "Windows that are on huge pages.", lambda row: row.windows_huge),
    ("possible_windows", "Windows that could be huge with the file as it is.", lambda row: row.windows_possible),
    ("reachable_windows", "Windows that could be huge after one action.", lambda row: row.windows_reachable),
)
#: Metrics of what `hugealign enable --all` has made huge.
_OF_ALL: tuple[tuple[str, str, Callable[[State], float]], ...] = (
    ("parts", "Files and services that enable --all has made huge.", lambda whole: len(whole.held)),
    ("bytes", "Memory that they take.", lambda whole: whole.memory),
    ("saved_ratio", "Share of one processor that they save, by the model.", lambda whole: whole.saved),
    ("look_timestamp_seconds", "Time of the last look, since the epoch.", lambda whole: whole.looked),
    ("look_failed", "1 if the last look failed.", lambda whole: int(bool(whole.failure))),
)


def metrics(machine: Machine, whole: State | None = None) -> str:
    """Return the metrics in Prometheus' text form, for the textfile collector of node_exporter.

    *whole* is what `hugealign enable --all` has made huge.

    Format: prometheus.io/docs/instrumenting/exposition_formats; names by prometheus.io/docs/practices/naming.
    """
    # Two names can look alike once they are escaped, and a duplicate metric spoils the file.
    alike: dict[str, list[ProgramRow]] = {}
    for row in machine.rows:
        alike.setdefault(_labels(row), []).append(row)
    lines = []
    for name, what, value in _METRICS:
        lines += _described(f"hugealign_text_{name}", what)
        for labels, rows in alike.items():
            lines.append(f"hugealign_text_{name}{{{labels}}} {_number(sum(map(value, rows)))}")
    for name, what, number in (
        ("itlb_entries", "First-level instruction TLB entries for huge pages.", machine.budget.entries),
        ("huge_page_bytes", "Size of a window.", machine.page_size),
        ("hidden_processes", "Processes that could not be read without more privileges.", machine.hidden),
        ("silent_processes", "Processes that did not answer.", len(machine.silent)),
        ("scan_duration_seconds", "Duration of the scan.", machine.seconds),
        ("scan_timestamp_seconds", "Time of the scan, since the epoch.", machine.time),
    ):
        lines += [*_described(f"hugealign_{name}", what), f"hugealign_{name} {_number(number)}"]
    if whole:
        for name, what, of_all in _OF_ALL:
            lines += [*_described(f"hugealign_all_{name}", what), f"hugealign_all_{name} {_number(of_all(whole))}"]
    return "\n".join(lines) + "\n"


def _described(name: str, what: str) -> list[str]:
    return [f"# HELP {name} {what}", f"# TYPE {name} gauge"]


def _labels(row: ProgramRow) -> str:
    labels = {"program": row.program, "kind": row.kind.value, "part": row.part}
    if row.container:
        labels["container"] = row.container
    return ",".join(f'{key}="{_label(words)}"' for key, words in labels.items())


def _label(text: str) -> str:
    """Return *text* as the value of a label: unprintable characters are escaped for people, the rest for the format."""
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6f}".rstrip("0").rstrip(".")
