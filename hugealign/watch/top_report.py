"""Show what all processes run from: a table, JSON, and metrics for Prometheus.  Pure functions."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hugealign.diagnosis import render
from hugealign.io.units import are, counted, format_size, printable, wrapped
from hugealign.machine.state import State
from hugealign.system.saving import Saving
from hugealign.watch.parts import CodeKind
from hugealign.watch.top import Machine, ProgramRow

SCHEMA = "hugealign.top/1"

_TEXT = "text"
_SAVES = "SAVES"  # a column if the costs of text are known
_HEAD = ("PROCS", "CPU%", "TEXT", "HUGE", "CAN", "COULD", _SAVES, "CONTAINER", "PROGRAM")
_ENDS = ("low", "value", "high")  # of a saving
_INDENT, _CONTINUED = " " * 7, " \\"
_NARROWEST = 16  # columns of a program's name
_MOST, _FEW = 4, 2  # parts to name beside a program, and commands below it


def head(machine: Machine) -> list[str]:
    """Return the lines above the table: the sum, what was looked at, and the processes that are not in it."""
    all_of_them = _counts(machine.rows)
    size = format_size(machine.page_size)
    windows = f"{counted(all_of_them.huge, 'window')} {are(all_of_them.huge)} huge, {all_of_them.could} could be"
    programs = counted(len(_programs(machine.rows)), "program")
    where = f"{programs} in {_processes(machine.processes)} with {size} of text or more"
    clock = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(machine.time))
    lines = [
        f"{windows}: {where}; {_processes(machine.others)} with less",
        f"{clock}  {machine.budget.entries} entries for {size} pages ({machine.budget.why})",
    ]
    if machine.hidden:
        more = "" if machine.privileged else "; root sees more"
        lines.append(f"{_processes(machine.hidden)} skipped: no permission{more}")
    if machine.silent:
        pids = ", ".join(map(str, machine.silent))
        lines.append(f"{_processes(len(machine.silent))} skipped: no answer about {pids}")
    return lines


def _processes(count: int) -> str:
    return counted(count, "process", "processes")


def _programs(rows: Sequence[ProgramRow]) -> list[list[ProgramRow]]:
    """Return *rows* by program, that with the most to gain first."""
    programs: dict[tuple[str, str], list[ProgramRow]] = {}
    for row in rows:
        programs.setdefault((row.program, row.container), []).append(row)
    return list(programs.values())


def _parts(rows: Sequence[ProgramRow]) -> list[list[ProgramRow]]:
    """Return the *rows* of a program by its parts, its own text first; it may have been started by several paths."""
    parts: dict[tuple[CodeKind, str], list[ProgramRow]] = {}
    for row in rows:
        parts.setdefault((row.kind, row.part), []).append(row)
    return sorted(parts.values(), key=lambda same: same[0].kind != CodeKind.PROGRAM)


class _Counts(NamedTuple):
    """Bytes of text, and windows that are huge, that can be with the files as they are, and that could be."""

    text: int = 0
    huge: int = 0
    can: int = 0
    could: int = 0


def _counts(rows: Sequence[ProgramRow]) -> _Counts:
    """Return what *rows* have together; the pages of a file count once, whichever processes share them.

    Room for code that is not in use yet can become huge only with the code, so it does not count.
    """
    by_file: dict[object, _Counts] = {}
    for row in rows:
        code, processes = row.kind == CodeKind.CODE, len(row.pids)
        can = min(row.windows_possible, row.windows_reachable) if code and row.remedy else row.windows_possible
        counts = _Counts(row.text, row.windows_huge, can, row.windows_reachable)
        if code:
            by_file[id(row)] = counts
            continue
        shared = _Counts(counts.text // processes, *(-(-count // processes) for count in counts[1:]))
        for file in row.files or ((row.part, 0),):
            by_file[file] = _Counts(*map(max, by_file.get(file, _Counts()), shared))
    return _Counts(*map(sum, zip(*by_file.values(), strict=True))) if by_file else _Counts()


def table(machine: Machine, *, width: int = 0, height: int = 0, verbose: bool = False) -> list[str]:
    """Return the lines for people: for *width* columns, at most *height* lines, cut at the width; 0 means no limit.

    Each program has one row, and below it what to do, once; *verbose*: also a row for each of its parts.
    """
    contained = any(row.container for row in machine.rows)
    programs = _programs(machine.rows)
    cells: list[tuple[str, ...]] = [_HEAD]
    short = [_HEAD[-1]]  # the last column where there is little room
    for rows in programs:
        parts = _parts(rows)
        cells.append(_sum(rows, verbose))
        short.append(
            printable(rows[0].program) + f" ({counted(len(parts), 'part')})" * (len(parts) > 1 and not verbose)
        )
        cells += [_part(same) for same in parts] if verbose else []
        short += [cell[-1] for cell in cells[len(short) :]]
    left_out = {name for name, is_there in (("CONTAINER", contained), (_SAVES, machine.budget.costs)) if not is_there}
    columns = [at for at, name in enumerate(_HEAD) if name not in left_out]
    title, *lines = _aligned([tuple(cell[at] for at in columns) for cell in cells], short, width)
    blocks: list[list[tuple[str, int, str]]] = []
    done: set[str] = set()
    for rows in programs:
        many = 1 + verbose * len(_parts(rows))
        blocks.append([(line, len(line), "") for line in lines[:many]] + _actions(rows, done, width, verbose))
        lines = lines[many:]
    shown = [(line, len(line), "") for line in (*head(machine), "", title)]
    for number, block in enumerate(blocks):
        last = number == len(blocks) - 1
        if height and len(shown) + len(block) > height - (not last):
            shown.append((f"… {len(blocks) - number} more", 0, ""))
            break
        shown += block
    shown = shown[:height] if height else shown
    return [_painted(line[:width] if height else line, at, how) for line, at, how in shown]


def _painted(line: str, at: int, meaning: str) -> str:
    return line[:at] + render.painted(line[at:], meaning) if meaning else line


def _actions(rows: Sequence[ProgramRow], done: set[str], width: int, verbose: bool) -> list[tuple[str, int, str]]:
    """Return the lines below a program: what to do, unless that is *done*, or why nothing is to be done."""
    result: list[tuple[str, int, str]] = []
    actions: list[str] = []
    reasons: list[str] = []
    once: list[str] = []
    for row in rows:
        if row.diagnosis and row.remedy:  # the columns have the windows before and after
            action = render.remedy(row.remedy.changed(before=None, after=None), row.diagnosis.facts)
            known = {*done, *actions}
            if action not in known:
                actions.append(action)
            once += [action] if row.remedy.argv else []  # an act of a person is named for each program
        elif row.diagnosis:
            of = f"{_name(row)}: " if len(rows) > 1 else ""
            reasons.append(f"({of}{render.sentence(row.diagnosis)})")
    done |= set(once)
    for action in actions if verbose else actions[:_FEW]:
        result += [(line, len(_INDENT), "command") for line in wrapped(action, width, _INDENT, _CONTINUED)]
    if not verbose and len(actions) > _FEW:
        result.append((f"{_INDENT}… {len(actions) - _FEW} more with -v", 0, ""))
    for reason in dict.fromkeys(reasons if verbose else reasons[: not any(row.remedy for row in rows)]):
        result += [(line, len(line), "") for line in wrapped(reason, width, _INDENT)]
    return result


def _aligned(rows: Sequence[tuple[str, ...]], short: Sequence[str], width: int) -> list[str]:
    """Return *rows* as lines; the first row names the columns.

    The last column takes what is left of *width*; *short* has what is in it where there is little room.
    """
    words = [name in ("CONTAINER", "PROGRAM") for name in rows[0]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = max(_NARROWEST, width - sum(widths[:-1]) - 2 * len(widths[:-1])) if width else widths[-1]
    lines = []
    for row, instead in zip(rows, short, strict=True):
        last = row[-1] if len(row[-1]) <= left else instead
        fitting = (*row[:-1], last if len(last) <= left else f"…{last[1 - left :]}")
        cells = [c.ljust(w) if word else c.rjust(w) for c, w, word in zip(fitting, widths, words, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines


def _sum(rows: Sequence[ProgramRow], verbose: bool) -> tuple[str, ...]:
    """Return the cells of a program: of all of its parts together."""
    first = rows[0]
    names = [_name(same[0]) for same in _parts(rows)]
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    parts = f" ({', '.join(names[:_MOST])}{more})" if names != [_TEXT] and not verbose else ""
    return (
        str(len({pid for row in rows for pid in row.pids})),
        f"{100 * _used(rows):.1f}",
        *_cells(rows),
        _saves(rows),
        printable(first.container) or "-",
        f"{printable(first.program)}{parts}",
    )


def _saves(rows: Sequence[ProgramRow]) -> str:
    """Return the share of the processor time of *rows*, parts of the same processes, that the actions save."""
    most = max((row.cpu for row in rows), default=0.0)
    shares = [(row.saving, row.cpu / most if most else 1.0) for row in rows if row.saving and row.gain[1]]
    if not shares:
        return "-"
    saving = Saving(*(min(1.0, sum(getattr(one, end) * share for one, share in shares)) for end in _ENDS))
    low, high = (round(100 * end) for end in (saving.low, saving.high))
    return "<1%" if saving.worth is False else f"{low}%" if low == high else f"{low}-{high}%"


def _used(rows: Sequence[ProgramRow]) -> float:
    """Return the share of a processor that the processes of a program use, each of which can be in several *rows*."""
    largest: dict[int, tuple[int, float]] = {}
    for row in rows:
        largest[row.pids[0]] = max(largest.get(row.pids[0], (0, 0.0)), (len(row.pids), row.cpu))
    return sum(cpu for _, cpu in largest.values())


def _part(same: Sequence[ProgramRow]) -> tuple[str, ...]:
    return ("", "", *_cells(same), "", "", f"  {_name(same[0])}")


def _cells(rows: Sequence[ProgramRow]) -> tuple[str, ...]:
    counts = _counts(rows)
    return (format_size(counts.text), *map(str, counts[1:]))


def _name(row: ProgramRow) -> str:
    if row.kind == CodeKind.CODE:
        return f"{printable(row.part)} code".lstrip()
    return _TEXT if row.kind == CodeKind.PROGRAM else printable(row.part.rpartition("/")[2])


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
