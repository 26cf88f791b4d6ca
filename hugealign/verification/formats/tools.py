"""The report for other tools: a compiler's lines, commands to GitHub's runner, JUnit's XML, SARIF.  Pure."""

from collections.abc import Iterator

from hugealign.diagnosis import catalogue, forms, render
from hugealign.diagnosis.values import Diagnosis
from hugealign.io.units import printable
from hugealign.verification.formats.text import log_lines, summary, totals
from hugealign.verification.result import FAILED, OK, UNKNOWN, FileReport, Verification


def render_gcc(outcome: Verification) -> str:
    """Return a line for each diagnosis, as a compiler would write it, for editors."""
    return log_lines([forms.gcc(diagnosis) for file in outcome.files for diagnosis in file.every()])


def render_github(outcome: Verification, base: str) -> str:
    """Return a command to GitHub's runner for each diagnosis, and the totals as plain lines.

    Paths below *base* become relative to it.
    """
    lines = [forms.github(diagnosis, base) for file in outcome.files for diagnosis in file.every()]
    return "".join(line + "\n" for line in [*lines, *totals(outcome)])


def render_junit(outcome: Verification) -> str:
    """Return the report as JUnit's XML, a test case for each file.

    A file that could not be checked is an error; one with too little text to gain, skipped.  ``units.printable`` leaves
    no character that XML 1.0 forbids (production 2, Char): controls, surrogates and non-characters are unprintable.
    """
    from xml.sax.saxutils import quoteattr

    verdicts = outcome.verdicts()
    skipped = sum(_skipped(file) for file in outcome.files)
    numbers = (
        f'tests="{len(outcome.files)}" failures="{verdicts[FAILED]}" errors="{verdicts[UNKNOWN]}" skipped="{skipped}"'
    )
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuites name="hugealign" {numbers}>']
    lines.append(f'  <testsuite name="hugealign verify" {numbers}>')
    for file in outcome.files:
        name = printable(file.path)
        lines.append(f'    <testcase classname="hugealign.verify" name={quoteattr(name)}>')
        lines += _result(file)
        lines.append("    </testcase>")
    lines += ["  </testsuite>", "</testsuites>"]
    return "".join(line + "\n" for line in lines)


def _skipped(file: FileReport) -> bool:
    coverage = file.coverage
    return file.verdict == OK and (file.small or coverage is None or not coverage.text)


def _result(file: FileReport) -> Iterator[str]:
    from xml.sax.saxutils import escape, quoteattr

    if file.problem:
        yield f'      <error type="not checked" message={quoteattr(render.text(file.problem))}/>'
        return
    words = escape("\n".join(map(forms.junit, file.diagnoses)))
    if file.verdict == FAILED:
        codes = dict.fromkeys(diagnosis.code for diagnosis in file.diagnoses)
        message = quoteattr(f"{summary(file)}; {', '.join(codes)}")
        yield f'      <failure type="{next(iter(codes))}" message={message}>{words}</failure>'
        return
    if _skipped(file):
        yield f"      <skipped message={quoteattr(summary(file))}/>"
    if words:
        yield f"      <system-out>{words}</system-out>"


def render_sarif(outcome: Verification, base: str) -> str:
    """Return the report as SARIF 2.1.0; paths below *base* become relative to it, as repository services want."""
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
