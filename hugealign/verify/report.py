"""What was found, as text for people and as JSON for programs.  Pure: returns strings, never prints."""

import json

from hugealign import __version__
from hugealign.elf.image import Segment
from hugealign.units import format_size, printable
from hugealign.verify.rules import ERROR, Coverage, Finding

#: The version of the JSON's shape; ``verify-1.schema.json`` beside this file describes it.
SCHEMA = "hugealign.verify/1"

OK, FAILED, UNKNOWN = "ok", "failed", "unknown"


class FileReport:
    """What is known of one file: *verdict* OK, FAILED or UNKNOWN, and for UNKNOWN the *reason*."""

    __slots__ = ("coverage", "findings", "path", "reason", "segments", "small")

    def __init__(
        self,
        path: str,
        coverage: Coverage | None = None,
        findings: list[Finding] | None = None,
        segments: tuple[Segment, ...] = (),
        small: bool = False,
        reason: str = "",
    ) -> None:
        self.path = path
        self.coverage = coverage
        self.findings = findings or []
        self.segments = segments
        self.small = small
        self.reason = reason

    @property
    def verdict(self) -> str:
        """OK unless a finding is an error; UNKNOWN if the file could not be checked."""
        if self.reason:
            return UNKNOWN
        return FAILED if any(f.rule.severity == ERROR for f in self.findings) else OK


def text(reports: list[FileReport], quiet: bool = False) -> str:
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


def to_json(reports: list[FileReport], page_size: int) -> str:
    """Return the report for programs, in the shape of SCHEMA."""
    files = [_file_object(report) for report in reports]
    verdicts = [report.verdict for report in reports]
    document = {
        "schema": SCHEMA,
        "tool": {"name": "hugealign", "version": __version__},
        "page_size": page_size,
        "files": files,
        "summary": {verdict: verdicts.count(verdict) for verdict in (OK, FAILED, UNKNOWN)},
    }
    return json.dumps(document, indent=2) + "\n"


def _file_object(report: FileReport) -> dict[str, object]:
    document: dict[str, object] = {"path": printable(report.path), "verdict": report.verdict}
    if report.reason:
        return document | {"reason": report.reason, "findings": []}
    coverage = report.coverage
    assert coverage is not None  # noqa: S101  # always there when there is no reason
    document["coverage"] = {
        "text_bytes": coverage.text,
        "huge_bytes": coverage.huge,
        "windows": coverage.windows,
        "pad_bytes": coverage.pad,
    }
    document["small"] = report.small
    document["segments"] = [
        {
            "index": s.index,
            "flags": s.flags,
            "p_vaddr": s.p_vaddr,
            "p_offset": s.p_offset,
            "p_filesz": s.p_filesz,
            "p_memsz": s.p_memsz,
            "p_align": s.p_align,
        }
        for s in report.segments
    ]
    document["findings"] = [
        {
            "id": f.rule.id,
            "severity": f.rule.severity,
            "title": f.rule.title,
            "message": f.message,
            "segment": f.segment.index,
            "fix": f.rule.fix,
        }
        for f in report.findings
    ]
    return document
