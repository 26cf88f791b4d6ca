"""Show verdicts on processes: a table, the windows one by one, JSON.  Pure functions."""

from collections.abc import Sequence
from typing import Any

from hugealign.elf.windows import BASE_PAGE
from hugealign.io.units import counted, format_size, printable
from hugealign.process.pagemap import State
from hugealign.process.smaps import Mapping, coverage
from hugealign.version import __version__
from hugealign.watch.verdict import Beside, Rodata, Verdict, WindowRun, why_none

SCHEMA = "hugealign.ps/1"

_SIGNS = {State.HUGE: "#", State.SMALL: ".", State.WRITTEN: "w", State.UNTOUCHED: "-"}
_ROW = 64  # windows in a row of the strip
_ROWS = 64  # rows of strip or list per mapping; JSON has them all


def table(verdicts: Sequence[Verdict], page_size: int) -> list[str]:
    """Return the lines of the table, one for each mapping."""
    rows = [("PID", "MAPPING", "TEXT", "WINDOWS", "COVERED", "HOW")]
    for verdict in verdicts:
        for m in verdict.mappings:
            possible = m.windows_possible(page_size)
            name = m.path if verdict.process.is_program(m) else m.path.rpartition("/")[2]
            name = name or "(its text, copied)" * m.own
            covered = f"{coverage(m.huge, m.size):.1f}%" if possible or m.huge else "--"
            windows = f"{m.windows_huge(page_size)}/{possible}"
            how = m.how or ("small pages" if possible else why_none(m, page_size))
            if m.start in verdict.staged:
                how += ", staged"
            name = printable(name) or "(anonymous)"
            rows.append((str(verdict.process.pid), name, format_size(m.size), windows, covered, how))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        cells[1], cells[5] = row[1].ljust(widths[1]), row[5]
        lines.append("  ".join(cells))
    return lines


def details(verdict: Verdict, page_size: int) -> list[str]:
    """Return the lines that show each window of *verdict*: a strip of signs, and ranges with their reasons."""
    lines = []
    for mapping, runs in zip(verdict.mappings, verdict.runs, strict=True):
        if not mapping.windows_possible(page_size):
            continue
        lines.append(f"  {printable(mapping.path) or '(anonymous)'} at {mapping.start:#x}:")
        if runs is None:
            lines.append("    only counts are known (windows from smaps): PAGEMAP_SCAN needs Linux 6.7")
        else:
            rows = -(-sum(run.count for run in runs) // _ROW)
            lines += _limited([f"    {row}" for row in _strip(runs)], rows)
            lines += _limited([f"    {_range(run, page_size)}" for run in runs[:_ROWS]], len(runs))
        head, tail = ends(mapping, page_size)
        for name, size in (("head", head), ("tail", tail)):
            if size:
                lines.append(f"    {name} of {format_size(size)}: no whole window")
    if any(runs for runs in verdict.runs):
        lines.append("  (# huge, . small pages, w written to, - not touched yet)")
    return lines


def text(verdicts: Sequence[Verdict], page_size: int, verbose: bool, base_page: int = BASE_PAGE) -> list[str]:
    """Return the lines for people: the table and the verdicts, with *verbose* each window.

    *base_page* is the kernel's.  With pages of 64 KiB, text may lie in runs of contiguous entries
    (arch/arm64/mm/contpte.c), which neither smaps nor PAGEMAP_SCAN shows.
    """
    lines = table(verdicts, page_size)
    for verdict in verdicts:
        lines += verdict.line.splitlines()
        if verdict.rodata:
            lines.append(f"  {verdict.rodata.line}")
        if verbose:
            lines += details(verdict, page_size)
    if base_page != BASE_PAGE and verdicts:
        runs = f"runs of contiguous page table entries, below {format_size(page_size)}"
        lines.append(
            f"pages are {format_size(base_page)} here: {runs}, cannot be seen; see: hugealign verify --kernels"
        )
    return lines


def ends(mapping: Mapping, page_size: int) -> tuple[int, int]:
    """Return the bytes of *mapping* before and after its windows; (0, 0) where no window is possible."""
    if not mapping.windows_possible(page_size):
        return 0, 0
    first = mapping.first_window(page_size)
    return first - mapping.start, (mapping.end - first) % page_size


def document(verdicts: Sequence[Verdict], errors: Sequence[tuple[str, str]], page_size: int) -> dict[str, Any]:
    """Return the JSON document ``hugealign.ps/1``, which ps-1.schema.json beside this file describes."""
    return {
        "schema": SCHEMA,
        "tool": {"version": __version__},
        "page_size": page_size,
        "processes": [
            {
                "pid": v.process.pid,
                "inner_pids": list(v.process.inner_pids),
                "name": printable(v.process.comm),
                "program": printable(v.process.exe),
                "elsewhere": v.process.elsewhere,
                "deleted": any(m.deleted for m in v.mappings),
                "thp_disabled": v.process.thp_disabled,
                "met": v.met,
                "text_bytes": v.text,
                "huge_bytes": v.huge,
                "windows_huge": v.windows,
                "windows_possible": v.possible,
                "windows_wanted": v.wanted,
                "reason": v.reason or None,
                "mend": v.mend or None,
                "reasons": [
                    {"windows": count, "reason": reason, "mend": mend or None} for count, reason, mend in v.reasons
                ],
                "mappings": [_mapping(m, runs, page_size, v) for m, runs in zip(v.mappings, v.runs, strict=True)],
                "besides": [_beside(beside) for beside in v.besides],
                "rodata": _rodata(v.rodata, page_size) if v.rodata else None,
            }
            for v in verdicts
        ],
        "errors": [{"target": printable(target), "message": message} for target, message in errors],
    }


def _mapping(m: Mapping, runs: tuple[WindowRun, ...] | None, page_size: int, verdict: Verdict) -> dict[str, Any]:
    head, tail = ends(m, page_size)
    return {
        "path": printable(m.path),
        "start": m.start,
        "end": m.end,
        "offset": m.offset,
        "text_bytes": m.size,
        "huge_bytes": m.huge,
        "small_bytes": m.small,
        "head_bytes": head,
        "tail_bytes": tail,
        "windows_huge": m.windows_huge(page_size),
        "windows_possible": m.windows_possible(page_size),
        "how": m.how or None,
        "staged": verdict.staged.get(m.start),
        "windows_source": "smaps" if runs is None else "pagemap_scan",
        "windows": None
        if runs is None
        else [
            {"start": run.start, "count": run.count, "state": run.state.value, "reason": run.reason or None}
            for run in runs
        ],
    }


def _beside(beside: Beside) -> dict[str, Any]:
    return {
        "kind": beside.part.kind.value,
        "name": beside.name,
        "path": printable(beside.part.path),
        "mappings": len(beside.part.mappings),
        "text_bytes": beside.part.text,
        "windows_huge": beside.windows,
        "windows_possible": beside.possible,
        "reason": beside.reason or None,
        "mend": beside.mend or None,
    }


def _rodata(found: Rodata, page_size: int) -> dict[str, Any]:
    return {
        "rodata_bytes": found.size,
        "huge_bytes": found.huge,
        "windows_huge": found.windows,
        "windows_possible": found.possible,
        "mappings": [
            {
                "path": printable(m.path),
                "start": m.start,
                "end": m.end,
                "offset": m.offset,
                "huge_bytes": m.huge,
                "small_bytes": m.small,
                "windows_huge": m.windows_huge(page_size),
                "windows_possible": m.windows_possible(page_size),
            }
            for m in found.mappings
        ],
    }


def _strip(runs: Sequence[WindowRun]) -> list[str]:
    """Return the rows that are shown; there may be millions."""
    room = _ROW * _ROWS
    signs = ""
    for run in runs:
        signs += _SIGNS[run.state] * min(run.count, room - len(signs))
        if len(signs) == room:
            break
    return [signs[start : start + _ROW] for start in range(0, len(signs), _ROW)]


def _range(run: WindowRun, page_size: int) -> str:
    windows = counted(run.count, "window")
    return f"{run.start:#x}-{run.start + run.count * page_size:#x}  {windows:10}  {run.reason or 'huge'}"


def _limited(lines: list[str], count: int) -> list[str]:
    """Return *lines*, and how many more of *count* there are."""
    return lines if count <= _ROWS else [*lines, f"    … {count - _ROWS} more; see --format json"]
