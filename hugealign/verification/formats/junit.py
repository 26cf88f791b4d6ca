"""The report as JUnit's XML, a test case for each file.  Pure.

``units.printable`` leaves no character that XML 1.0 forbids (production 2, Char): controls, surrogates and
non-characters are all unprintable.
"""

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from hugealign.diagnosis import forms, render
from hugealign.io.units import printable
from hugealign.verification.formats.text import summary
from hugealign.verification.result import FAILED, OK, UNKNOWN, FileResult, Verification


def render_junit(outcome: Verification) -> str:
    """Return the document.  A file that could not be checked is an error; one with too little text to gain, skipped."""
    verdicts = outcome.verdicts()
    skipped = sum(_skipped(file) for file in outcome.files)
    numbers = (
        f'tests="{len(outcome.files)}" failures="{verdicts[FAILED]}" errors="{verdicts[UNKNOWN]}" skipped="{skipped}"'
    )
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuites name="hugealign" {numbers}>']
    lines.append(f'  <testsuite name="hugealign verify" {numbers}>')
    for file in outcome.files:
        name = printable(file.report.path)
        lines.append(f'    <testcase classname="hugealign.verify" name={quoteattr(name)}>')
        lines += _result(file)
        lines.append("    </testcase>")
    lines += ["  </testsuite>", "</testsuites>"]
    return "".join(line + "\n" for line in lines)


def _skipped(file: FileResult) -> bool:
    coverage = file.report.coverage
    return file.verdict == OK and (file.report.small or coverage is None or not coverage.text)


def _result(file: FileResult) -> "Iterator[str]":
    if file.report.problem:
        yield f'      <error type="not checked" message={quoteattr(render.text(file.report.problem))}/>'
        return
    words = escape("\n".join(map(forms.junit, file.diagnoses)))
    if file.verdict == FAILED:
        codes = dict.fromkeys(diagnosis.code for diagnosis in file.diagnoses)
        message = quoteattr(f"{summary(file.report)}; {', '.join(codes)}")
        yield f'      <failure type="{next(iter(codes))}" message={message}>{words}</failure>'
        return
    if _skipped(file):
        yield f"      <skipped message={quoteattr(summary(file.report))}/>"
    if words:
        yield f"      <system-out>{words}</system-out>"
