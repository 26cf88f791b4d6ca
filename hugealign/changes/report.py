"""Show what hugealign has changed, for people and as JSON.  Pure: returns text and documents."""

import time
from collections.abc import Sequence

from hugealign.changes.changes import Change, Undone
from hugealign.diagnosis import render
from hugealign.diagnosis.documents import Failed, Failure
from hugealign.diagnosis.values import Remedy
from hugealign.io.units import format_size, printable
from hugealign.machine import report as machine
from hugealign.machine.machine import MachineNow
from hugealign.records import Record


class ReportedChange(Record):
    """A change, and what became of it."""

    change: Change
    undone: Undone | None

    JSON = "diagnosis=change.diagnosis time=change.time? copies=change.copies machine undone=undone.done failure"

    @property
    def machine(self) -> MachineNow | None:
        """What `hugealign enable --all` has made huge; None for other changes; since 1.1."""
        return self.change.machine

    @property
    def failure(self) -> Failure | None:
        """Why it could not be undone."""
        failed = self.undone and self.undone.failure
        return Failure(self.change.subject, failed) if failed else None


class Report(Record):
    """What hugealign has changed on this machine."""

    changes: Sequence[ReportedChange]
    errors: Sequence[Failed]
    """What could not be read."""

    SCHEMA = "hugealign.status/1"
    JSON = "changes errors"


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
