"""What `verify` found: the reports on the files, as its options judge them.  Pure."""

from typing import NamedTuple

from hugealign.elf.coverage import Coverage, RodataCoverage, total
from hugealign.io.units import printable
from hugealign.verification.model import FAILED, OK, UNKNOWN, FileReport
from hugealign.verification.rules import ERROR, NOTE, WARNING, Finding

SEVERITIES = (ERROR, WARNING, NOTE)
NEVER = "never"
#: The identity of a finding from one build to the next: path, rule and protection of the segment, not addresses.
Key = tuple[str, str, str]


class Accepted(NamedTuple):
    """A finding that does not count, and the *reason* that the configuration gives; empty if a baseline accepts it."""

    finding: Finding
    reason: str = ""


class FileResult(NamedTuple):
    """One file: the *findings* that count, and the *accepted* ones, which do not.  *fail_on* is a severity or NEVER."""

    report: FileReport
    findings: tuple[Finding, ...]
    accepted: tuple[Accepted, ...]
    fail_on: str

    @property
    def reason(self) -> str:
        """Why the file could not be checked, fit for printing; empty if it could."""
        return printable(self.report.reason)

    @property
    def verdict(self) -> str:
        """OK, FAILED or UNKNOWN."""
        if self.report.reason:
            return UNKNOWN
        # --fail-on=never spares only the exit status; the report still says what is so.
        level = ERROR if self.fail_on == NEVER else self.fail_on
        return FAILED if any(at_or_above(finding.rule.severity, level) for finding in self.findings) else OK


class Verification(NamedTuple):
    """A whole run.  *fixed* are findings of the baseline that are gone; *skipped* says what was passed over.

    *empty* counts the archives and directories that hold no program and are allowed not to.
    """

    files: tuple[FileResult, ...]
    page_size: int
    fail_on: str = ERROR
    fixed: tuple[Key, ...] = ()
    skipped: str = ""
    empty: int = 0

    def verdicts(self) -> dict[str, int]:
        """Return how many files have each verdict."""
        return {verdict: sum(file.verdict == verdict for file in self.files) for verdict in (OK, FAILED, UNKNOWN)}

    def findings(self) -> dict[str, int]:
        """Return how many findings there are of each severity."""
        every = [finding.rule.severity for file in self.files for finding in file.findings]
        return {severity: every.count(severity) for severity in SEVERITIES}

    def accepted(self) -> int:
        """Return how many findings the baseline or the configuration accepted."""
        return sum(len(file.accepted) for file in self.files)

    def coverage(self) -> Coverage:
        """Return the coverage of all files that were checked, taken together."""
        return total([file.report.coverage for file in self.files if file.report.coverage])

    def rodata(self) -> RodataCoverage:
        """Return the coverage of the read-only data of all files that were checked."""
        parts = [file.report.rodata for file in self.files if file.report.rodata]
        sums = (sum(getattr(part, name) for part in parts) for name in ("size", "huge", "windows", "pad"))
        return RodataCoverage(*sums)

    def small_text(self) -> int:
        """Return the bytes of text in files that are too small to gain."""
        reports = [file.report for file in self.files]
        return sum(report.coverage.text for report in reports if report.coverage and report.small)

    @property
    def status(self) -> int:
        """The exit status: 1 for findings at or above *fail_on*, else 3 if a file could not be checked, else 0."""
        verdicts = self.verdicts()
        if verdicts[FAILED] and self.fail_on != NEVER:
            return 1
        return 3 if verdicts[UNKNOWN] or not (self.files or self.empty) else 0


def at_or_above(severity: str, level: str) -> bool:
    """Return whether *severity* is as grave as *level* or graver; nothing is as grave as NEVER."""
    return level != NEVER and SEVERITIES.index(severity) <= SEVERITIES.index(level)
