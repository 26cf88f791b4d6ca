"""The report as SARIF 2.1.0, the form that code-scanning services take.  Pure.

Section numbers are those of "Static Analysis Results Interchange Format Version 2.1.0", OASIS.
"""

import hashlib
import json
import os
from typing import Any
from urllib.parse import quote

from hugealign.io.units import printable
from hugealign.verification.formats.words import relative
from hugealign.verification.model import UNKNOWN, FileReport
from hugealign.verification.result import FileResult, Verification
from hugealign.verification.rules import RULES, Finding, Rule
from hugealign.version import __version__

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def render(outcome: Verification, base: str) -> str:
    """Return the document; paths below *base* are made relative to it, as repository services want them."""
    places = {rule_id: index for index, rule_id in enumerate(RULES)}
    results = [
        _result(file.report, finding, places, base, why)
        for file in outcome.files
        for finding, why in (
            *((finding, "") for finding in file.findings),
            *((finding, printable(reason) or "accepted by the baseline") for finding, reason in file.accepted),
        )
    ]
    unchecked = [_notification(file, base) for file in outcome.files if file.verdict == UNKNOWN]
    run = {
        "tool": {
            "driver": {"name": "hugealign", "version": __version__, "rules": [_rule(rule) for rule in RULES.values()]}
        },
        # 3.20.14: false if the run did not check everything that it was asked to check.
        "invocations": [{"executionSuccessful": not unchecked, "toolExecutionNotifications": unchecked}],
        "results": results,
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(rule: Rule) -> "dict[str, Any]":
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.condition},
        "help": {"text": f"{rule.condition}\n\nFix: {rule.fix}\n\nMore: hugealign explain {rule.id}"},
        "defaultConfiguration": {"level": rule.severity},
    }


def _result(report: FileReport, finding: Finding, places: dict[str, int], base: str, accepted: str) -> "dict[str, Any]":
    rule, segment = finding.rule, finding.segment
    # GitHub wants a line; the place in a binary file is in bytes (3.30.4), which a hostile header may put anywhere.
    region = {"startLine": 1}
    if segment.p_offset + segment.p_filesz <= report.file_size:
        region |= {"byteOffset": segment.p_offset, "byteLength": segment.p_filesz}
    path = relative(report.path, base)
    result: dict[str, Any] = {
        "ruleId": rule.id,
        "ruleIndex": places[rule.id],
        "level": rule.severity,
        "message": {"text": f"{finding.message}. Fix: {rule.fix}"},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(path)}, "region": region}}],
        # 3.27.17.  The first follows a file through rebuilds, and is the one that GitHub reads; the second is the
        # same wherever the file is copied to.
        "partialFingerprints": {"primaryLocationLineHash": f"{_hash(path, rule.id, segment.index)}:1"}
        | ({"buildId/v1": f"{report.build_id}:{rule.id}:{segment.index}"} if report.build_id else {}),
    }
    if accepted:
        result["suppressions"] = [{"kind": "external", "justification": accepted}]
    return result


def _notification(file: FileResult, base: str) -> "dict[str, Any]":
    path = file.report.path
    return {
        "level": "error",
        "message": {"text": f"{printable(path)}: could not check: {file.reason}"},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(relative(path, base))}}}],
    }


def _hash(path: str, rule: str, index: int) -> str:
    return hashlib.sha256(b"\0".join((os.fsencode(path), rule.encode(), str(index).encode()))).hexdigest()[:16]


def _uri(path: str) -> str:
    """Return *path* as a URI reference (RFC 3986): percent-encoded, the colon too, which would make a scheme."""
    return ("file://" if path.startswith("/") else "") + quote(os.fsencode(path))
