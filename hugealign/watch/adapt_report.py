"""Show what `hugealign adapt` did: lines for people, and JSON.  Pure functions."""

from collections.abc import Sequence

from hugealign.diagnosis import render
from hugealign.diagnosis.documents import Failed
from hugealign.io.units import are, printable
from hugealign.records import Record
from hugealign.watch.adapt import Adapted, Change
from hugealign.watch.ranking import Window

_MOST = 20  # windows listed; JSON has them all


class Report(Record):
    """What `hugealign adapt` did to processes."""

    processes: Sequence[Adapted]
    errors: Sequence[Failed]
    """Processes that could not be adapted at all."""

    SCHEMA = "hugealign.adapt/1"
    JSON = "processes errors"


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
