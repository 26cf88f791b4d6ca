"""Show what hugealign has changed, for people and as JSON.  Pure: returns text and documents."""

import time
from collections.abc import Sequence
from typing import Any

from hugealign.changes.changes import Change, Undone
from hugealign.diagnosis import documents, render
from hugealign.diagnosis.values import Remedy
from hugealign.io.units import format_size, printable
from hugealign.machine import report as machine

SCHEMA = "hugealign.status/1"


def lines(changes: Sequence[Change]) -> list[str]:
    """Return the lines for people: each change, and what undoes it."""
    if not changes:
        return ["nothing to undo: no change by hugealign is left on this machine"]
    return [line for change in changes for line in (_head(change), *_parts(change), f"  {_undo(change)}")]


def undone_lines(done: Undone) -> list[str]:
    """Return the lines for people about one change that was to be undone; a failure is printed elsewhere."""
    change = done.change
    if not change.undoable:
        return [_head(change), f"  left: {_undo(change)}"]
    if not done.done:
        return []
    lines = [f"{_head(change)}: undone", *_parts(change)]
    if change.diagnosis.code == "change.service":
        lines.append(f"  {render.remedy(Remedy('now', ('systemctl', 'restart', change.subject)))}")
    return lines


def to_json(changes: Sequence[Change], undone: Sequence[Undone] | None, errors: Sequence[tuple[str, Exception]]) -> str:
    """Return the JSON document ``hugealign.status/1``, which status-1.schema.json beside this file describes.

    *undone* is what became of *changes*, None if they were only looked for.
    """
    became = undone if undone is not None else [None] * len(changes)
    body = {
        "changes": [_change(change, done) for change, done in zip(changes, became, strict=True)],
        "errors": documents.errors(errors),
    }
    return documents.to_json(SCHEMA, body)


def _change(change: Change, done: Undone | None) -> dict[str, Any]:
    return {
        "diagnosis": render.document(change.diagnosis),
        "time": change.time or None,
        "copies": [
            {"path": printable(c.path), "size": c.size, "current": c.current, "fixed": c.fixed, "identity": c.identity}
            for c in change.copies
        ],
        "machine": change.machine and machine.status(change.machine),
        "undone": done and done.done,
        "failure": documents.failure(change.subject, done.failure) if done and done.failure else None,
    }


def _head(change: Change) -> str:
    day = f", {time.strftime('%Y-%m-%d', time.localtime(change.time))}" if change.time else ""
    return f"{printable(change.subject)}: {render.sentence(change.diagnosis)}{day}"


def _parts(change: Change) -> list[str]:
    if change.machine:
        return machine.status_lines(change.machine)
    return [
        f"  {printable(copy.path)}: {format_size(copy.size)}, {'current' if copy.current else 'out of date'}"
        f"{', fixed' if copy.fixed else ''}"
        for copy in change.copies
    ]


def _undo(change: Change) -> str:
    return render.what_helps(change.diagnosis, colour=True)
