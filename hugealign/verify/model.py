"""What is known of one file that was checked."""

from hugealign.elf.image import Segment
from hugealign.verify.rules import ERROR, Coverage, Finding

OK, FAILED, UNKNOWN = "ok", "failed", "unknown"


class FileReport:
    """What is known of one file: *verdict* OK, FAILED or UNKNOWN, and for UNKNOWN the *reason*."""

    __slots__ = ("coverage", "findings", "path", "reason", "segments", "small")

    def __init__(
        self,
        path: str,
        coverage: Coverage | None = None,
        findings: list[Finding] | None = None,
        segments: tuple[Segment, ...] = (),
        small: bool = False,
        reason: str = "",
    ) -> None:
        self.path = path
        self.coverage = coverage
        self.findings = findings or []
        self.segments = segments
        self.small = small
        self.reason = reason

    @property
    def verdict(self) -> str:
        """OK unless a finding is an error; UNKNOWN if the file could not be checked."""
        if self.reason:
            return UNKNOWN
        return FAILED if any(f.rule.severity == ERROR for f in self.findings) else OK
