"""Show what `hugealign adapt` did: lines for people, and JSON.  Pure functions."""

from collections.abc import Sequence
from typing import Any

from hugealign.io.units import are, printable
from hugealign.version import __version__
from hugealign.watch.adapt import Adapted, Change
from hugealign.watch.ranking import Window

SCHEMA = "hugealign.adapt/1"

_MOST = 20  # windows listed; JSON has them all


def lines(one: Adapted, *, verbose: bool = False) -> list[str]:
    """Return the lines for people: the changes, with *verbose* all hot or huge windows, and the outcome."""
    name = f"{printable(one.comm)}[{one.pid}]" if one.comm else f"process {one.pid}"
    if one.problem:
        return [f"{name}: {one.problem.removeprefix(f'process {one.pid}: ')}"]
    changed = {change.window.start: change for change in one.changes}
    shown = [window for window in one.windows if window.start in changed or (verbose and (window.heat or window.huge))]
    found = [_line(one, window, changed.get(window.start)) for window in shown[:_MOST]]
    if len(shown) > _MOST:
        found.append(f"  … {len(shown) - _MOST} more; see --json")
    if one.never:
        found.append(f"  {one.never}")
    heat = f"; {one.after:.1%} of {one.samples:,} samples are in them, before {one.before:.1%}" if one.samples else ""
    return [*found, f"{name}: {one.huge} of at most {one.most} windows {are(one.huge)} huge{heat}"]


def _line(one: Adapted, window: Window, change: Change | None) -> str:
    part = printable(window.part.rpartition("/")[2]) if window.part else one.code
    heat = f"{window.heat / one.samples:6.1%}" if one.samples else "     --"
    after = f" -> {change.state.value}" if change else ""
    problem = f": {change.problem}" if change and change.problem else ""
    return f"  {window.start:#x}  {heat}  {part}: {window.state.value}{after}{problem}"


def document(found: Sequence[Adapted]) -> dict[str, Any]:
    """Return the JSON document ``hugealign.adapt/1``, which adapt-1.schema.json beside this file describes."""
    return {
        "schema": SCHEMA,
        "tool": {"version": __version__},
        "processes": [_process(one) for one in found],
    }


def _process(one: Adapted) -> dict[str, Any]:
    changed = {change.window.start: change for change in one.changes}
    return {
        "pid": one.pid,
        "name": printable(one.comm),
        "most": one.most,
        "windows_huge": one.huge,
        "samples": one.samples,
        "share_before": round(one.before, 6),
        "share_after": round(one.after, 6),
        "met": one.met,
        "problem": one.problem or one.never or None,
        "windows": [
            {
                "start": window.start,
                "part": printable(window.part) or one.code,
                "samples": window.heat,
                "before": window.state.value,
                "after": change.state.value if (change := changed.get(window.start)) else window.state.value,
                "problem": (change.problem if change else "") or None,
            }
            for window in one.windows
        ],
    }
