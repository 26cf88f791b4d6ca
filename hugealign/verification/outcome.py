"""What a run of ``verify`` came to: the reports of its files, as its options see them.  Pure.

Plain classes with slots, since ``dataclasses`` would cost as much as checking ten files.
"""

from hugealign.elf.coverage import Coverage
from hugealign.units import printable
from hugealign.verification.model import FAILED, OK, UNKNOWN, FileReport
from hugealign.verification.rules import ERROR, NOTE, WARNING, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.verification.baseline import Key

SEVERITIES = (ERROR, WARNING, NOTE)
NEVER = "never"


class FileOutcome:
    """One file: its *findings* that count, those *accepted* by a baseline, and the *verdict* that follows.

    *reason* says, fit for printing, why the file could not be checked.
    """

    __slots__ = ("accepted", "findings", "reason", "report", "verdict")

    def __init__(self, report: FileReport, findings: list[Finding], accepted: list[Finding], fail_on: str) -> None:
        self.report = report
        self.reason = printable(report.reason)
        self.findings = findings
        self.accepted = accepted
        # With --fail-on=never only the exit status is spared; the report says what is so.
        level = ERROR if fail_on == NEVER else fail_on
        failed = any(at_or_above(finding.rule.severity, level) for finding in findings)
        self.verdict = UNKNOWN if report.reason else FAILED if failed else OK


class Outcome:
    """A whole run.  *fixed* are findings of the baseline that are gone; *skipped* says what a walk passed over."""

    __slots__ = ("files", "fixed", "page_size", "skipped")

    def __init__(
        self, files: list[FileOutcome], page_size: int, fixed: "list[Key] | None" = None, skipped: str = ""
    ) -> None:
        self.files = files
        self.page_size = page_size
        self.fixed = fixed or []
        self.skipped = skipped

    def verdicts(self) -> dict[str, int]:
        """Return how many files have each verdict."""
        return {verdict: sum(file.verdict == verdict for file in self.files) for verdict in (OK, FAILED, UNKNOWN)}

    def findings(self) -> dict[str, int]:
        """Return how many findings there are of each severity."""
        every = [finding.rule.severity for file in self.files for finding in file.findings]
        return {severity: every.count(severity) for severity in SEVERITIES}

    def accepted(self) -> int:
        """Return how many findings the baseline accepted."""
        return sum(len(file.accepted) for file in self.files)

    def coverage(self) -> Coverage:
        """Return the coverage of all files that were checked, taken together."""
        return total([file.report.coverage for file in self.files if file.report.coverage])

    def small_text(self) -> int:
        """Return the bytes of text in files that are too small to gain."""
        reports = [file.report for file in self.files]
        return sum(report.coverage.text for report in reports if report.coverage and report.small)

    def status(self, fail_on: str) -> int:
        """Return 1 for findings at or above *fail_on*, else 3 if a file could not be checked, else 0."""
        verdicts = self.verdicts()
        if verdicts[FAILED] and fail_on != NEVER:
            return 1
        return 3 if verdicts[UNKNOWN] or not self.files else 0


def at_or_above(severity: str, level: str) -> bool:
    """Return whether *severity* is as grave as *level* or graver; nothing is as grave as NEVER."""
    return level != NEVER and SEVERITIES.index(severity) <= SEVERITIES.index(level)


def total(parts: list[Coverage]) -> Coverage:
    """Return the sum of *parts*."""
    return Coverage(
        sum(part.text for part in parts),
        sum(part.huge for part in parts),
        sum(part.windows for part in parts),
        sum(part.pad for part in parts),
    )
