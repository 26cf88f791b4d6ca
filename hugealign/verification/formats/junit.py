"""The report as JUnit's XML, a test case for each file.  Pure.

``units.printable`` leaves no character that XML 1.0 forbids (production 2, Char): controls, surrogates and
non-characters are all unprintable.
"""

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from hugealign.diagnosis import forms, render
from hugealign.io.units import printable
from hugealign.verification.formats.text import summary
from hugealign.verification.result import FAILED, OK, UNKNOWN, FileReport, Verification


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
        name = printable(file.path)
        lines.append(f'    <testcase classname="hugealign.verify" name={quoteattr(name)}>')
        lines += _result(file)
        lines.append("    </testcase>")
    lines += ["  </testsuite>", "</testsuites>"]
    return "".join(line + "\n" for line in lines)


def _skipped(file: FileReport) -> bool:
    coverage = file.coverage
    return file.verdict == OK and (file.small or coverage is None or not coverage.text)


def _result(file: FileReport) -> "Iterator[str]":
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
