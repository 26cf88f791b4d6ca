"""Show what was staged, for people and as JSON.  Pure: returns text."""

from collections.abc import Sequence

from hugealign.diagnosis import render
from hugealign.diagnosis.documents import Failed
from hugealign.io.units import format_size, printable
from hugealign.records import Record
from hugealign.run.store import NO_WINDOW, THERE, Staged


class Report(Record):
    """What `hugealign stage` did."""

    store: str
    files: Sequence[Staged]
    errors: Sequence[Failed]

    SCHEMA = "hugealign.stage/1"
    JSON = "store files errors"


def lines(staged: Staged) -> list[str]:
    """Return the lines for people about one file."""
    path = printable(staged.path)
    if staged.state == NO_WINDOW:
        why = f": {render.text(staged.diagnosis, colour=True)}" if staged.diagnosis else ""
        return [f"{path}: not staged{why}"]
    kind = " of the fixed file" if staged.fixed else ""
    how = "there already" if staged.state == THERE else "copied"
    size = format_size(staged.size)
    windows = f"{staged.huge} of {staged.windows} windows{kind} huge"
    data = f"; {format_size(staged.executable)} of read-only data executable" if staged.executable else ""
    result = [f"{path}: {render.counted_huge(windows, staged.huge, staged.windows)} ({size}, {how}{data})"]
    if staged.diagnosis:
        result.append(f"  {render.text(staged.diagnosis, colour=True)}")
    return result
