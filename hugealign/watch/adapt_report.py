"""Show what `hugealign adapt` did: lines for people, and JSON.  Pure functions."""

from collections.abc import Sequence
from typing import Any

from hugealign.diagnosis import render
from hugealign.diagnosis.refusal import failure
from hugealign.io.units import are, printable
from hugealign.version import __version__
from hugealign.watch.adapt import Adapted, Change
from hugealign.watch.ranking import Window

SCHEMA = "hugealign.adapt/1"

_MOST = 20  # windows listed; JSON has them all


def lines(one: Adapted, *, verbose: bool = False) -> list[str]:
    """Return the lines for people: the changes, with *verbose* all hot or huge windows, and the outcome."""
    changed = {change.window.start: change for change in one.changes}
    shown = [window for window in one.windows if window.start in changed or (verbose and (window.heat or window.huge))]
    found = [_line(one, window, changed.get(window.start)) for window in shown[:_MOST]]
    if len(shown) > _MOST:
        found.append(f"  … {len(shown) - _MOST} more; see --json")
    for diagnosis in dict.fromkeys([*(change.diagnosis for change in one.changes), one.diagnosis]):
        found += [f"  {line}" for line in render.lines(diagnosis)] if diagnosis else []
    heat = f"; {one.after:.1%} of {one.samples:,} samples are in them, before {one.before:.1%}" if one.samples else ""
    name = f"{printable(one.comm)}[{one.pid}]"
    return [*found, f"{name}: {one.huge} of at most {one.most} windows {are(one.huge)} huge{heat}"]


def _line(one: Adapted, window: Window, change: Change | None) -> str:
    part = printable(window.part.rpartition("/")[2]) if window.part else f"{one.runtime} code".lstrip()
    heat = f"{window.heat / one.samples:6.1%}" if one.samples else "     --"
    after = f" -> {render.painted(change.state.value, 'error' if change.diagnosis else 'ok')}" if change else ""
    return f"  {window.start:#x}  {heat}  {part}: {window.state.value}{after}"


def document(found: Sequence[Adapted]) -> dict[str, Any]:
    """Return the JSON document ``hugealign.adapt/1``, which adapt-1.schema.json beside this file describes."""
    return {
        "schema": SCHEMA,
        "tool": {"version": __version__},
        "processes": [_process(one) for one in found if not one.error],
        "errors": [{"target": str(one.pid), **failure(str(one.pid), one.error)} for one in found if one.error],
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
        "runtime": one.runtime or None,
        "diagnosis": render.document(one.diagnosis),
        "windows": [
            {
                "start": window.start,
                "part": printable(window.part),
                "samples": window.heat,
                "before": window.state.value,
                "after": change.state.value if (change := changed.get(window.start)) else window.state.value,
                "diagnosis": render.document(change.diagnosis if change else None),
            }
            for window in one.windows
        ],
    }
