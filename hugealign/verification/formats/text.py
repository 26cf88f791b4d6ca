"""The report for people: 80 columns, where names allow.  Pure: returns a string, never prints."""

import itertools
from collections.abc import Iterator

from hugealign.diagnosis import render
from hugealign.diagnosis.catalogue import ERROR, WARNING, row
from hugealign.diagnosis.values import Diagnosis
from hugealign.elf.coverage import Coverage
from hugealign.elf.image import Segment
from hugealign.io.units import counted, format_size, printable, without_commands
from hugealign.records import Record
from hugealign.settings import PAGE_SIZE
from hugealign.verification.archives import LINK, OBJECT, OTHER
from hugealign.verification.result import FAILED, OK, UNKNOWN, FileReport, Verification

_WIDTH = 80
_SEVERITIES = {FAILED: ERROR, UNKNOWN: WARNING}  # whose colours verdicts have
_PASSED = {OBJECT: "object file", OTHER: "other file", LINK: "further hard link"}


class Style(Record):
    """How much to say: *quiet*, only files that are not ok; *verbose*, tables too; *kernels*, each kernel's answer."""

    quiet: bool = False
    verbose: bool = False
    kernels: bool = False
    colour: bool = False

    def paint(self, text: str, meaning: str) -> str:
        """Return *text* in the colour of *meaning*, a verdict or a severity."""
        return render.painted(text, _SEVERITIES.get(meaning, meaning)) if self.colour else text


def render_text(outcome: Verification, style: Style) -> str:
    """Return the report for people."""
    lines: list[str] = []
    for file in outcome.files:
        if file.verdict != OK or file.diagnoses or not style.quiet:
            lines += _file(file, style)
    if style.verbose:
        lines += ["", *_table(outcome)]
        lines += [f"fixed since the baseline: {path}: {code}" for path, code, _ in outcome.fixed]
        if outcome.skipped:
            passed = ((outcome.skipped[what], noun) for what, noun in _PASSED.items())
            lines.append(f"skipped: {', '.join(counted(number, noun) for number, noun in passed if number)}")
    if len(outcome.files) > 1 and not style.quiet:
        lines += ["", *totals(outcome)]
    return log_lines(lines)


def _file(file: FileReport, style: Style) -> "Iterator[str]":
    name = printable(file.path)
    if file.problem:
        yield f"{name}: {style.paint('could not check', UNKNOWN)}: {render.text(file.problem)}"
        return
    yield f"{name}: {style.paint('ok' if file.verdict == OK else 'FAILED', file.verdict)}  {summary(file)}"
    segments = {segment.index: segment for segment in file.segments}
    for index, diagnoses in itertools.groupby(file.diagnoses, lambda diagnosis: diagnosis.facts["segment"]):
        for diagnosis in diagnoses:
            yield from diagnosis_lines(diagnosis, style)
        if index in segments:
            yield segment_line(segments[index])
    fixes: dict[object, Diagnosis] = {}
    for diagnosis in file.diagnoses:
        fixes.setdefault(diagnosis.remedy or row(diagnosis.code).fix, diagnosis)
    for fix in filter(None, map(render.what_helps, fixes.values())):
        yield from _wrapped(f"fix: {fix}", 4, 9)
    if file.fix_level:
        since = (
            "; --undo restores the old file"
            if file.undoable
            else ", and since then by another tool: it cannot be undone"
        )
        yield from _wrapped(f"changed by hugealign fix --level={file.fix_level}{since}", 2, 4)
    if style.verbose and file.order:
        requested = counted(file.order.order, "hot function")
        there = file.order.placed
        placed = "no symbols say how many it placed" if there is None else f"{counted(there, 'function')} placed"
        yield f"  order of {requested}: {placed}"
    for reason in dict.fromkeys(accepted.reason for accepted in file.accepted):
        codes = [accepted.diagnosis.code for accepted in file.accepted if accepted.reason == reason]
        rules = ", ".join(dict.fromkeys(codes))
        if reason:
            yield from _wrapped(f"{counted(len(codes), 'finding')} accepted, {rules}: {printable(reason)}", 2, 4)
        else:
            yield f"  {counted(len(codes), 'finding')} accepted by the baseline: {rules}"
    if style.kernels:
        for kernel in file.kernels:
            windows = counted(kernel.windows, "window")
            yield f"  {kernel.system.title:46}  {kernel.answer:7}  {windows:>10}"


def diagnosis_lines(diagnosis: Diagnosis, style: Style, lead: str = "") -> list[str]:
    """Return what is wrong, after *lead*, in one line or more."""
    head = render.label(diagnosis)
    first, *more = _wrapped(f"{lead}{head}: {render.sentence(diagnosis)}", 2, 4)
    return [first.replace(head, style.paint(head, row(diagnosis.code).severity), 1), *more]


def segment_line(segment: Segment) -> str:
    """Return the line that says where the findings above it are."""
    return (
        f"    --> LOAD {segment.index}  {segment.flags}  vaddr {segment.p_vaddr:#x}  offset {segment.p_offset:#x}"
        f"  {format_size(segment.p_memsz)}  align {segment.p_align:#x}"
    )


def _wrapped(text: str, indent: int, further: int) -> list[str]:
    import textwrap  # where nothing is wrong, there is nothing to wrap

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
        if file.coverage is None:
            continue
        yield _row(file.coverage, printable(file.path))
        for segment, part in zip(file.segments, file.coverages, strict=True):
            yield _row(part, f"  LOAD {segment.index} {segment.flags}")
    yield _row(outcome.coverage(), "TOTAL")


def _row(part: Coverage, name: str) -> str:
    sizes = f"{format_size(part.text):>10}  {format_size(part.huge):>10}  {percent(part):>7}"
    return f"{sizes}  {part.windows:>7}  {format_size(part.pad) if part.pad else '--':>10}  {name}"


def log_lines(lines: list[str]) -> str:
    """Return *lines* as text, `without_commands`."""
    return without_commands("".join(line + "\n" for line in lines))


def percent(coverage: Coverage) -> str:
    """Return how much of the text lies in whole windows, rounded down so that 100 % means all; ``--`` without text."""
    if not coverage.text:
        return "--"
    tenths = coverage.huge * 1000 // coverage.text
    return f"{tenths // 10}.{tenths % 10} %" if tenths < 1000 else "100 %"


def summary(report: FileReport) -> str:
    """Return the coverage of a checked file in words."""
    coverage = report.coverage
    if coverage is None or not coverage.text:
        return "no text"
    size = format_size(coverage.text)
    if report.small:
        return f"{size} of text: small; {report.pages} pages are enough"
    page = report.policy.page_size
    other = f" of {format_size(page)}" if page != PAGE_SIZE else ""
    return f"{percent(coverage)} of {size} of text in {counted(coverage.windows, 'window')}{other}"


def totals(outcome: Verification) -> list[str]:
    """Return the lines that add up all files."""
    verdicts, coverage = outcome.verdicts(), outcome.coverage()
    checked = f"{verdicts[OK]} ok, {verdicts[FAILED]} failed, {verdicts[UNKNOWN]} not checked"
    counts = [counted(number, severity) for severity, number in outcome.severities().items() if number]
    if accepted := outcome.accepted():
        counts.append(f"{accepted} accepted")
    lines = [
        f"{counted(len(outcome.files), 'file')}: {'; '.join([checked, ', '.join(counts)] if counts else [checked])}"
    ]
    if coverage.text:
        small = outcome.small_text()
        rest = f"; {format_size(small)} of it in small files" if small else ""
        lines.append(f"{percent(coverage)} of {format_size(coverage.text)} of text in whole windows{rest}")
    return lines
