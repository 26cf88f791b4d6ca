"""The report for people.  Pure: returns a string, never prints."""

from hugealign.units import format_size, printable
from hugealign.verify.model import FAILED, OK, UNKNOWN, FileReport
from hugealign.verify.rules import Coverage


def render(reports: list[FileReport], quiet: bool = False) -> str:
    """Return the report for people; with *quiet* only files that are not ok."""
    lines: list[str] = []
    for report in reports:
        if report.verdict == OK and quiet and not report.findings:
            continue
        lines += _file_lines(report)
    if len(reports) > 1 and not quiet:
        count = {v: sum(r.verdict == v for r in reports) for v in (OK, FAILED, UNKNOWN)}
        lines += ["", f"{len(reports)} files: {count[OK]} ok, {count[FAILED]} failed, {count[UNKNOWN]} not checked"]
    return "".join(line + "\n" for line in lines)


def _file_lines(report: FileReport) -> list[str]:
    name = printable(report.path)
    if report.reason:
        return [f"{name}: could not check: {report.reason}"]
    assert report.coverage is not None  # noqa: S101  # always there when there is no reason
    lines = [f"{name}: {'ok' if report.verdict == OK else 'FAILED'}  {summary(report)}"]
    for finding in report.findings:
        segment = finding.segment
        lines.append(f"  {finding.rule.severity}[{finding.rule.id}]: {finding.message}")
        lines.append(
            f"    --> LOAD {segment.index}  {segment.flags}  vaddr {segment.p_vaddr:#x}  offset {segment.p_offset:#x}"
            f"  {format_size(segment.p_memsz)}  align {segment.p_align:#x}"
        )
    lines.extend(f"    fix: {fix}" for fix in dict.fromkeys(finding.rule.fix for finding in report.findings))
    return lines


def summary(report: FileReport) -> str:
    """Return the coverage of a checked file in words."""
    coverage = report.coverage
    if coverage is None or not coverage.text:
        return "no text"
    size = format_size(coverage.text)
    if report.small:
        return f"{size} of text: small, 4 KiB pages serve it"
    noun = "window" if coverage.windows == 1 else "windows"
    return f"{percent(coverage)} of {size} of text in {coverage.windows} {noun}"


def percent(coverage: Coverage) -> str:
    """Return how much of the text lies in whole windows, rounded down so that 100 % means all; ``--`` without text."""
    if not coverage.text:
        return "--"
    tenths = coverage.huge * 1000 // coverage.text
    return f"{tenths // 10}.{tenths % 10} %" if tenths < 1000 else "100 %"
