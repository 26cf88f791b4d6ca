"""Before and after, for people and for programs.  Pure."""

from collections.abc import Callable, Iterator

from hugealign.diagnosis import render
from hugealign.elf.coverage import Coverage
from hugealign.io.units import format_size, printable
from hugealign.verification.compare import BETTER, SAME, WORSE, Comparison, Pair
from hugealign.verification.formats.text import Style, diagnosis_lines, log_lines, percent
from hugealign.verification.result import FAILED, OK, UNKNOWN, FileReport

_COLOURS = {WORSE: FAILED, BETTER: OK, SAME: OK, UNKNOWN: UNKNOWN}
_WORDS = {UNKNOWN: "could not compare"}


def render_text(comparison: Comparison, style: Style) -> str:
    """Return a small table for each pair, and the diagnoses that only one side has."""
    lines: list[str] = []
    for pair in comparison.pairs:
        if style.quiet and pair.verdict in (BETTER, SAME):
            continue
        lines += _pair(pair, style)
    return log_lines(lines)


def _pair(pair: Pair, style: Style) -> "Iterator[str]":
    verdict = style.paint(_WORDS.get(pair.verdict, pair.verdict), _COLOURS[pair.verdict])
    sides = [side for side in (pair.new, pair.old) if side]
    if len(sides) == 2:
        against = f"against {printable(sides[1].path)}"
    else:
        against = "(only in NEW)" if pair.new else "(only in OLD)"
    yield f"{printable(sides[0].path)} {against}: {verdict}"
    if pair.graver:
        yield "  worse: findings that the old file does not have"
    if pair.lower:
        yield "  worse: less of the text is in whole windows"
    for report in sides:
        if report.problem:
            yield f"  {printable(report.path)}: could not check: {render.text(report.problem)}"
    if len(sides) == 2 and all(report.coverage for report in sides):
        yield from _table(sides[0], sides[1])
    for lead, diagnoses in (("gained ", pair.gained), ("lost ", pair.lost)):
        for diagnosis in diagnoses:
            yield from diagnosis_lines(diagnosis, style, lead)


def _table(new: FileReport, old: FileReport) -> "Iterator[str]":
    after, before = new.coverage, old.coverage
    assert after is not None  # noqa: S101  # the caller has looked
    assert before is not None  # noqa: S101
    sizes = {"text": (before.text, after.text), "pad": (before.pad, after.pad), "file": (old.file_size, new.file_size)}
    for row in (
        ("", "OLD", "NEW", "CHANGE"),
        ("coverage", percent(before), percent(after), _points(after, before)),
        ("windows", before.windows, after.windows, _change(after.windows - before.windows, str)),
        *((name, format_size(a), format_size(b), _change(b - a, format_size)) for name, (a, b) in sizes.items()),
    ):
        yield "  {:10}  {:>10}  {:>10}  {:>12}".format(*row)


def _points(after: Coverage, before: Coverage) -> str:
    """Return the change of coverage in percentage points, of the figures as they are printed."""
    if not after.text or not before.text:
        return "--"
    return _change(after.huge * 1000 // after.text - before.huge * 1000 // before.text, lambda n: f"{n / 10:.1f} pp")


def _change(number: int, form: Callable[[int], str]) -> str:
    return f"{'-' if number < 0 else '+'}{form(abs(number))}" if number else "--"
