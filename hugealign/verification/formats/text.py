"""The report for people: 80 columns, where names allow.  Pure: returns a string, never prints."""

import textwrap
from collections.abc import Iterator

from hugealign.elf.coverage import Coverage, RodataCoverage
from hugealign.elf.image import Segment
from hugealign.io.units import counted, format_size, printable
from hugealign.records import Record
from hugealign.verification.formats.words import log_lines, percent, summary, totals
from hugealign.verification.model import FAILED, OK, UNKNOWN
from hugealign.verification.result import FileResult, Verification
from hugealign.verification.rules import DATA_IN_TEXT, LACK_WINDOWS, Finding

_WIDTH = 80
#: Terminal attributes (ECMA-48, SGR): bold red, yellow, cyan, green.
_COLOURS = {FAILED: "1;31", "error": "1;31", "warning": "33", UNKNOWN: "33", "note": "36", OK: "32"}


class Style(Record):
    """How much to say: *quiet*, only files that are not ok; *verbose*, tables too; *kernels*, each kernel's answer."""

    quiet: bool = False
    verbose: bool = False
    kernels: bool = False
    colour: bool = False

    def paint(self, text: str, meaning: str) -> str:
        """Return *text* in the colour of *meaning*, a verdict or a severity."""
        return f"\x1b[{_COLOURS[meaning]}m{text}\x1b[0m" if self.colour else text


def render(outcome: Verification, style: Style) -> str:
    """Return the report for people."""
    lines: list[str] = []
    for file in outcome.files:
        if file.verdict != OK or file.findings or not style.quiet:
            lines += _file(file, style)
    if style.verbose:
        lines += ["", *_table(outcome)]
        lines += [f"fixed since the baseline: {path}: {rule}" for path, rule, _ in outcome.fixed]
        if outcome.skipped:
            lines.append(f"passed over: {outcome.skipped}")
    if len(outcome.files) > 1 and not style.quiet:
        lines += ["", *totals(outcome)]
    return log_lines(lines)


def _file(file: FileResult, style: Style) -> "Iterator[str]":
    report = file.report
    name = printable(report.path)
    if file.reason:
        yield f"{name}: {style.paint('could not check', UNKNOWN)}: {file.reason}"
        return
    yield f"{name}: {style.paint('ok' if file.verdict == OK else 'FAILED', file.verdict)}  {summary(report)}"
    for finding, following in zip(file.findings, [*file.findings, None][1:], strict=True):
        yield from finding_lines(finding, style)
        if following is None or following.segment is not finding.segment:
            yield segment_line(finding.segment)
    fixes = dict.fromkeys(_fixes(file))
    for fix in fixes:
        if not any(fix in other and fix != other for other in fixes):  # said within another
            yield from _wrapped(f"fix: {fix}", 4, 9)
    if report.fix_level:
        since = (
            "; --undo gives the old file back"
            if report.undoable
            else ", and by another tool since: it cannot be undone"
        )
        yield from _wrapped(f"changed by hugealign fix --level={report.fix_level}{since}", 2, 4)
    if style.verbose and report.order:
        asked = counted(report.order.order, "hot function")
        there = report.order.placed
        placed = "no symbols say how many it placed" if there is None else f"{counted(there, 'function')} placed"
        yield f"  order of {asked}: {placed}"
    for reason in dict.fromkeys(accepted.reason for accepted in file.accepted):
        ids = [accepted.finding.rule.id for accepted in file.accepted if accepted.reason == reason]
        rules = ", ".join(dict.fromkeys(ids))
        if reason:
            yield from _wrapped(f"{counted(len(ids), 'finding')} accepted, {rules}: {printable(reason)}", 2, 4)
        else:
            yield f"  {counted(len(ids), 'finding')} accepted by the baseline: {rules}"
    if style.kernels:
        for kernel in report.kernels:
            windows = counted(kernel.windows, "window")
            yield f"  {kernel.title:40}  {kernel.answer:7}  {windows:>10}"
            yield from _wrapped(kernel.reason, 6, 6)


def _fixes(file: FileResult) -> "Iterator[str]":
    """Yield the fix for each finding.

    People who have only the finished file cannot link it; they get the edit.  A file that was fixed already gets no fix
    for missing windows, nor for data in its text.
    """
    report = file.report
    for finding in file.findings:
        lacks_windows = finding.rule.id in LACK_WINDOWS
        if report.fix_level and (lacks_windows or finding.rule.id == DATA_IN_TEXT):
            continue
        if lacks_windows and report.edit:
            from hugealign.diagnosis.render import remedy  # rarely needed, and slow to import

            yield f"{remedy(report.edit)}; or {finding.rule.fix}"
        else:
            yield finding.rule.fix


def finding_lines(finding: Finding, style: Style, lead: str = "") -> list[str]:
    """Return what was found, after *lead*, in one line or more."""
    head = f"{finding.rule.severity}[{finding.rule.id}]"
    first, *more = _wrapped(f"{lead}{head}: {finding.message}", 2, 4)
    return [first.replace(head, style.paint(head, finding.rule.severity), 1), *more]


def segment_line(segment: Segment) -> str:
    """Return the line that says where the findings above it are."""
    return (
        f"    --> LOAD {segment.index}  {segment.flags}  vaddr {segment.p_vaddr:#x}  offset {segment.p_offset:#x}"
        f"  {format_size(segment.p_memsz)}  align {segment.p_align:#x}"
    )


def _wrapped(text: str, indent: int, further: int) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * further,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _table(outcome: Verification) -> "Iterator[str]":
    """Yield a line for each file and each of its text segments, and their sum."""
    yield f"{'TEXT':>10}  {'IN WINDOWS':>10}  {'COVERED':>7}  {'WINDOWS':>7}  {'PAD':>10}  FILE"
    for file in outcome.files:
        report = file.report
        if report.coverage is None:
            continue
        yield _row(report.coverage, printable(report.path))
        for segment, part in zip(report.segments, report.coverages, strict=True):
            yield _row(part, f"  LOAD {segment.index} {segment.flags}")
        if report.rodata:
            yield _row(_as_row(report.rodata), "  read-only data")
    yield _row(outcome.coverage(), "TOTAL")
    yield _row(_as_row(outcome.rodata()), "TOTAL of read-only data")


def _as_row(rodata: RodataCoverage) -> Coverage:
    return Coverage(rodata.size, rodata.huge, rodata.windows, rodata.pad)


def _row(part: Coverage, name: str) -> str:
    sizes = f"{format_size(part.text):>10}  {format_size(part.huge):>10}  {percent(part):>7}"
    return f"{sizes}  {part.windows:>7}  {format_size(part.pad) if part.pad else '--':>10}  {name}"
