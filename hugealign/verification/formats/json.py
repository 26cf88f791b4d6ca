"""The report for programs, as JSON.  Pure: returns a string, never prints."""

from typing import Any

from hugealign.diagnosis import documents
from hugealign.diagnosis.render import document as diagnosis_object
from hugealign.elf.coverage import Coverage
from hugealign.io.units import printable
from hugealign.verification.result import FileReport, Verification

#: The version of the JSON's shape; ``verify-1.schema.json`` beside this package describes it.
SCHEMA = "hugealign.verify/1"
_SEGMENT = ("index", "flags", "p_vaddr", "p_offset", "p_filesz", "p_memsz", "p_align")


def render_json(outcome: Verification) -> str:
    """Return the report for programs, in the shape of SCHEMA."""
    body: dict[str, Any] = {
        "files": [file_object(file) for file in outcome.files],
        "summary": outcome.verdicts(),
        "totals": coverage_object(outcome.coverage())
        | {"small_text_bytes": outcome.small_text()}
        | outcome.severities()
        | {"accepted": outcome.accepted()},
    }
    if outcome.fixed:
        body["fixed"] = [{"path": path, "code": code, "flags": flags} for path, code, flags in outcome.fixed]
    return documents.to_json(SCHEMA, body)


def file_object(file: FileReport) -> "dict[str, Any]":
    """Return what is known about one file."""
    document: dict[str, Any] = {"path": printable(file.path), "verdict": file.verdict}
    if file.problem or file.coverage is None:
        return document | {"problem": diagnosis_object(file.problem), "diagnoses": []}
    if file.build_id:
        document["build_id"] = file.build_id
    if file.fix_level:
        document["fix_level"] = file.fix_level
    document["file_bytes"] = file.file_size
    document["page_size"] = file.policy.page_size
    document["coverage"] = coverage_object(file.coverage)
    if file.order:
        document["order"] = {"hot_functions": file.order.order, "placed_functions": file.order.placed}
    document["small"] = file.small
    document["segments"] = [
        {name: getattr(s, name) for name in _SEGMENT} | {"coverage": coverage_object(part)}
        for s, part in zip(file.segments, file.coverages, strict=True)
    ]
    document["diagnoses"] = [diagnosis_object(diagnosis) for diagnosis in file.diagnoses]
    if file.accepted:
        document["accepted"] = [
            {"diagnosis": diagnosis_object(accepted.diagnosis), "reason": printable(accepted.reason) or None}
            for accepted in file.accepted
        ]
    document["kernels"] = [
        {name: getattr(kernel.system, name) for name in ("system", "title", "source")}
        | {"answer": kernel.answer, "windows": kernel.windows}
        for kernel in file.kernels
    ]
    return document


def coverage_object(coverage: Coverage) -> dict[str, int]:
    """Return the numbers of *coverage*."""
    return {
        "text_bytes": coverage.text,
        "huge_bytes": coverage.huge,
        "windows": coverage.windows,
        "pad_bytes": coverage.pad,
    }
