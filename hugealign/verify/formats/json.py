"""The report for programs, as JSON.  Pure: returns a string, never prints."""

import json

from hugealign import __version__
from hugealign.units import printable
from hugealign.verify.model import FAILED, OK, UNKNOWN, FileReport

#: The version of the JSON's shape; ``verify-1.schema.json`` beside this package describes it.
SCHEMA = "hugealign.verify/1"


def render(reports: list[FileReport], page_size: int) -> str:
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
