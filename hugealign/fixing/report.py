"""What fixes did, would do or would gain, for people and as JSON.  Pure: returns text and documents."""

from collections.abc import Iterator, Sequence

from hugealign.diagnosis import render
from hugealign.diagnosis.documents import Failed
from hugealign.fixing.fix import FIX, NOTHING, UNDO, Fixed
from hugealign.fixing.gains import Gain
from hugealign.fixing.plan import Plan
from hugealign.fixing.trees import TreeStep
from hugealign.io.units import counted, format_size, printable
from hugealign.records import Record

_SHOWN = 40


class Report(Record):
    """What `hugealign fix` did with files, or would do."""

    files: Sequence[Fixed]
    errors: Sequence[Failed]
    """Files that stay unchanged."""

    SCHEMA = "hugealign.fix/1"
    JSON = "files errors"


class GainReport(Record):
    """What `hugealign fix` would do for the files below directories."""

    files: Sequence[Gain]
    """All that would gain windows: those that run first, then by text that the windows cover."""

    SCHEMA = "hugealign.fix-report/1"
    JSON = "files"


def lines(done: Fixed) -> list[str]:
    """Return the lines that are printed for people."""
    plan, path = done.plan, printable(done.path)
    how = "" if done.output else " (not done: --dry-run)"
    if plan is None:
        return [f"{path}: restored, {format_size(done.after)}{how}"]
    if done.action == NOTHING:
        return [f"{path}: nothing to do: {_coverage(plan.covered_before, plan)}", *_refused(done), *_more(done)]
    return [
        f"{path}: {plan.windows_before} -> {counted(plan.windows, 'window')} of {format_size(plan.page_size)}{how}",
        *(f"  {step}" for step in _steps(plan)),
        f"  text in whole windows: {_coverage(plan.covered_before, plan)} -> {_coverage(plan.covered, plan)}",
        f"  {format_size(plan.executable)} of read-only data become executable",
        f"  file: {format_size(done.before)} -> {format_size(done.after)}",
        *(_refused(done) if done.output else _compared(done)),
        *_more(done),
    ]


def tree_line(steps: Sequence[TreeStep]) -> str:
    """Return the line about all files below directories."""
    done = [step.done for step in steps if step.done]
    plans = [file.plan for file in done if file.plan and file.action == FIX]
    undone = sum(file.action == UNDO for file in done)
    gained = sum(plan.windows - plan.windows_before for plan in plans)
    parts = [f"{counted(undone, 'file')} restored"] if undone else []
    parts += [f"{counted(len(plans), 'file')} fixed, {counted(gained, 'window')} more"] if plans else []
    if refused := sum(bool(step.error) for step in steps):
        parts.append(f"{refused} not fixed" if not undone else f"{refused} not restored")
    if left := sum(not step.done and not step.error for step in steps):
        parts.append(f"{left} left out (--max)")
    if linked := sum(step.names > 0 for step in steps):
        parts.append(f"{linked} had other names (hard links), which keep the old file")
    return "; ".join(parts) or "nothing to do"


def gains_table(gains: Sequence[Gain]) -> str:
    """Return the table for people."""
    lines = [f"{'COVERED':>10}  {'TEXT':>10}  {'WINDOWS':>7}  {'EXECUTABLE':>10}  {'LEVEL':<8}  {'RUNNING':>7}  FILE"]
    lines += [
        f"{f'+{format_size(g.covered)}':>10}  {format_size(g.text):>10}  {f'+{g.windows}':>7}  "
        f"{format_size(g.executable):>10}  {g.level:<8}  {g.users or '--':>7}  {printable(g.place.path)}"
        for g in gains[:_SHOWN]
    ]
    if len(gains) > _SHOWN:
        lines.append(f"and {len(gains) - _SHOWN} more")
    total = sum(gain.windows for gain in gains)
    sizes = " and ".join(map(format_size, sorted({gain.page_size for gain in gains})))
    of_size = f" of {sizes}" if gains else ""
    lines.append(f"{counted(len(gains), 'file')} would gain {counted(total, 'window')}{of_size}")
    return "\n".join(lines)


def _refused(done: Fixed) -> Iterator[str]:
    """Yield why the file cannot have a stronger level."""
    for way in done.tried:
        if way.refused:
            yield f"  not --level={way.level}: {render.text(way.refused)}"


def _more(done: Fixed) -> Iterator[str]:
    if done.more:
        yield f"  {render.text(done.more)}"


def _compared(done: Fixed) -> Iterator[str]:
    yield f"  {'--level':<10}{'windows':>8}{'text in them':>14}{'executable':>12}"
    for way in done.tried:
        if way.plan:
            result = way.plan.result
            share, size = _share(result.covered, result), format_size(result.executable)
            yield f"  {way.level:<10}{result.windows:>8}{share:>14}{size:>12}"
        elif way.refused:
            yield f"  {way.level:<10}{render.text(way.refused)}"


def _steps(plan: Plan) -> Iterator[str]:
    if plan.step:
        yield f"addresses from {plan.step.start:#x} on move by {plan.step.delta:#x}"
    for edit in plan.edits:
        old, name = edit.old, f"LOAD {edit.old.index} ({edit.old.flags})"
        if edit.start == edit.end:
            yield f"{name} becomes part of the text"
            continue
        start, end = old.p_vaddr, old.p_vaddr + old.p_memsz
        if (edit.start, edit.end) != (start, end):
            yield f"{name}: {start:#x}-{end:#x} becomes {edit.start:#x}-{edit.end:#x}"
        if edit.align != old.p_align:
            yield f"{name}: p_align {format_size(old.p_align)} becomes {format_size(edit.align)}"
    for piece in plan.moves:
        yield f"{format_size(piece.size)} at {piece.source:#x} of the file move to {piece.target:#x}"


def _coverage(covered: int, plan: Plan) -> str:
    return f"{_share(covered, plan)} of {format_size(plan.text)}"


def _share(covered: int, plan: Plan) -> str:
    return f"{100 * covered / plan.text:.1f} %"
