"""Show what `hugealign adapt` did: lines for people, and JSON.  Pure functions."""

from collections.abc import Sequence
from typing import Any

from hugealign.diagnosis import documents, render
from hugealign.io.units import are, printable
from hugealign.watch.adapt import Adapted, Change
from hugealign.watch.ranking import Window

SCHEMA = "hugealign.adapt/1"

_MOST = 20  # windows listed; JSON has them all


def lines(adapted: Adapted, *, verbose: bool = False) -> list[str]:
    """Return the lines for people: the changes, with *verbose* all hot or huge windows, and the outcome."""
    changed = {change.window.start: change for change in adapted.changes}
    shown = [
        window for window in adapted.windows if window.start in changed or (verbose and (window.heat or window.huge))
    ]
    result = [_line(adapted, window, changed.get(window.start)) for window in shown[:_MOST]]
    if len(shown) > _MOST:
        result.append(f"  … {len(shown) - _MOST} more; see --json")
    for diagnosis in dict.fromkeys([*(change.diagnosis for change in adapted.changes), adapted.diagnosis]):
        result += [f"  {line}" for line in render.lines(diagnosis)] if diagnosis else []
    heat = (
        f"; {adapted.after:.1%} of {adapted.samples:,} samples are in them, before {adapted.before:.1%}"
        if adapted.samples
        else ""
    )
    name = f"{printable(adapted.comm)}[{adapted.pid}]"
    return [*result, f"{name}: {adapted.huge} of at most {adapted.most} windows {are(adapted.huge)} huge{heat}"]


def _line(adapted: Adapted, window: Window, change: Change | None) -> str:
    part = printable(window.part.rpartition("/")[2]) if window.part else f"{adapted.runtime} code".lstrip()
    heat = f"{window.heat / adapted.samples:6.1%}" if adapted.samples else "     --"
    after = f" -> {render.painted(change.state.value, 'error' if change.diagnosis else 'ok')}" if change else ""
    return f"  {window.start:#x}  {heat}  {part}: {window.state.value}{after}"


def to_json(processes: Sequence[Adapted], *, line: bool = False) -> str:
    """Return the JSON document ``hugealign.adapt/1``, which adapt-1.schema.json beside this file describes."""
    body = {
        "processes": [_process(adapted) for adapted in processes if not adapted.error],
        "errors": documents.errors((str(adapted.pid), adapted.error) for adapted in processes if adapted.error),
    }
    return documents.to_json(SCHEMA, body, line=line)


def _process(adapted: Adapted) -> dict[str, Any]:
    changed = {change.window.start: change for change in adapted.changes}
    return {
        "pid": adapted.pid,
        "name": printable(adapted.comm),
        "most": adapted.most,
        "windows_huge": adapted.huge,
        "samples": adapted.samples,
        "share_before": round(adapted.before, 6),
        "share_after": round(adapted.after, 6),
        "met": adapted.met,
        "runtime": adapted.runtime or None,
        "diagnosis": render.document(adapted.diagnosis),
        "windows": [
            {
                "start": window.start,
                "part": printable(window.part),
                "samples": window.heat,
                "before": window.state.value,
                "after": change.state.value if (change := changed.get(window.start)) else window.state.value,
                "diagnosis": render.document(change.diagnosis if change else None),
            }
            for window in adapted.windows
        ],
    }
