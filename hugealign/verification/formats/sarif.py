"""The report as SARIF 2.1.0, the form that code-scanning services take.  Pure."""

from collections.abc import Iterator

from hugealign.diagnosis import catalogue, forms
from hugealign.diagnosis.values import Diagnosis
from hugealign.io.units import printable
from hugealign.verification.result import FileReport, Verification


def render_sarif(outcome: Verification, base: str) -> str:
    """Return the document; paths below *base* are made relative to it, as repository services want them."""
    rules = catalogue.rules()
    results = [
        forms.sarif_result(diagnosis, rules, base, file.build_id, _region(file, diagnosis), accepted)
        for file in outcome.files
        for diagnosis, accepted in _judged(file)
    ]
    unchecked = [file.problem for file in outcome.files if file.problem]
    return forms.sarif(rules, results, unchecked, base)


def _judged(file: FileReport) -> Iterator[tuple[Diagnosis, str]]:
    """Yield each diagnosis, and why it is accepted, empty if it counts."""
    yield from ((diagnosis, "") for diagnosis in file.diagnoses)
    for accepted in file.accepted:
        yield accepted.diagnosis, printable(accepted.reason) or "accepted by the baseline"


def _region(report: FileReport, diagnosis: Diagnosis) -> dict[str, int]:
    """Return the bytes of the segment of text that *diagnosis* is about; a hostile header may put it anywhere."""
    for segment in report.segments:
        if segment.index == diagnosis.facts["segment"] and segment.p_offset + segment.p_filesz <= report.file_size:
            return {"byteOffset": segment.p_offset, "byteLength": segment.p_filesz}
    return {}
