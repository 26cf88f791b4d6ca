"""The words that several forms of the report share.  Pure."""

import os

from hugealign.elf.coverage import Coverage
from hugealign.io.units import counted, format_size, without_commands
from hugealign.verification.model import FAILED, OK, UNKNOWN, FileReport
from hugealign.verification.result import Verification


def log_lines(lines: list[str]) -> str:
    """Return *lines* as text, `without_commands`."""
    return without_commands("".join(line + "\n" for line in lines))


def relative(path: str, base: str) -> str:
    """Return *path* as services that annotate files want it: relative to *base* if it lies below, and normalised."""
    if path.startswith(base.rstrip("/") + "/"):
        path = path[len(base.rstrip("/")) + 1 :].lstrip("/")
    return os.path.normpath(path)


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
        return f"{size} of text: small, 4 KiB pages serve it"
    return f"{percent(coverage)} of {size} of text in {counted(coverage.windows, 'window')}"


def totals(outcome: Verification) -> list[str]:
    """Return the lines that add up all files."""
    verdicts, coverage = outcome.verdicts(), outcome.coverage()
    checked = f"{verdicts[OK]} ok, {verdicts[FAILED]} failed, {verdicts[UNKNOWN]} not checked"
    found = [counted(number, severity) for severity, number in outcome.findings().items() if number]
    if accepted := outcome.accepted():
        found.append(f"{accepted} accepted")
    lines = [f"{counted(len(outcome.files), 'file')}: {'; '.join([checked, ', '.join(found)] if found else [checked])}"]
    if coverage.text:
        small = outcome.small_text()
        rest = f"; {format_size(small)} of it in small files" if small else ""
        lines.append(f"{percent(coverage)} of {format_size(coverage.text)} of text in whole windows{rest}")
    return lines
