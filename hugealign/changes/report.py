"""Show what hugealign has changed, for people and as JSON.  Pure: returns text and documents."""

import shlex
import time
from collections.abc import Sequence
from typing import Any

from hugealign.changes.changes import Change, Undone
from hugealign.diagnosis import render
from hugealign.diagnosis.refusal import failure
from hugealign.errors import HugealignError
from hugealign.io.units import format_size, printable
from hugealign.version import __version__

SCHEMA = "hugealign.status/1"
#: By kind: what it is, and what its facts say of it.
_WHAT = {
    "service": ("a service that runs from huge text", ""),
    "hook": ("starts hugealign for containers", ""),
    "runtime": ("containerd's runtime {runtime} starts hugealign for containers", ""),
    "example": ("one of hugealign's examples", ""),
    "store": ("a store", "; copies: {copies}, {size}"),
    "fixed": ("fixed in place", ", level {level}"),
    "replaced": ("replaced by a warm copy", ", {windows_huge} of {windows} windows huge"),
    "cache": ("a cache", "; files: {files}, {size}"),
}


def lines(changes: Sequence[Change]) -> list[str]:
    """Return the lines for people: each change, and what undoes it."""
    if not changes:
        return ["no change of hugealign's was found"]
    return [line for change in changes for line in (_head(change), f"  {_undo(change)}")]


def undone_lines(done: Undone) -> list[str]:
    """Return the lines for people about one change that was to be undone; a failure is printed elsewhere."""
    change = done.change
    if not change.undo.argv:
        return [_head(change), f"  left: {_undo(change)}"]
    if not done.done:
        return []
    found = [f"{_head(change)}: undone"]
    if change.kind == "service":
        found.append(f"  now: systemctl restart {printable(shlex.quote(change.subject))}")
    return found


def document(
    changes: Sequence[Change], undone: Sequence[Undone] | None, errors: Sequence[tuple[str, HugealignError]]
) -> dict[str, Any]:
    """Return the JSON document ``hugealign.status/1``, which status-1.schema.json beside this file describes.

    *undone* is what became of *changes*, None if they were only looked for.
    """
    became = undone if undone is not None else [None] * len(changes)
    return {
        "schema": SCHEMA,
        "tool": {"name": "hugealign", "version": __version__},
        "changes": [_change(change, done) for change, done in zip(changes, became, strict=True)],
        "errors": [{"subject": printable(subject), **failure(subject, error)} for subject, error in errors],
    }


def _change(change: Change, done: Undone | None) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "subject": printable(change.subject),
        "facts": {k: printable(v) if isinstance(v, str) else v for k, v in change.facts.items()},
        "time": change.time or None,
        "undo": {
            "argv": list(change.undo.argv) if all(map(render.is_utf8, change.undo.argv)) else [],
            "needs": change.undo.needs or None,
            "message": render.remedy(change.undo, change.facts),
        },
        "undone": done and done.done,
        "failure": failure(change.subject, done.failure) if done and done.failure else None,
    }


def _head(change: Change) -> str:
    what, more = _WHAT[change.kind]
    more = "; it was not looked at: {unseen}" if "unseen" in change.facts else more
    size = change.facts.get("size", 0)
    facts = {name: printable(str(value)) for name, value in change.facts.items()}
    facts |= {"size": format_size(size)} if isinstance(size, int) else {}
    day = f", {time.strftime('%Y-%m-%d', time.localtime(change.time))}" if change.time else ""
    return f"{printable(change.subject)}: {(what + more).format_map(facts)}{day}"


def _undo(change: Change) -> str:
    return render.remedy(change.undo, change.facts, colour=True)
