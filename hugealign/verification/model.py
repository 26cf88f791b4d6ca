"""What is known of one file that was checked.

Records here and wherever `verify` passes are named tuples: `dataclasses` would cost it 7 ms of 50.
"""

from typing import NamedTuple

from hugealign.elf.coverage import Coverage, RodataCoverage
from hugealign.elf.image import Segment
from hugealign.verification.kernels import Eligibility
from hugealign.verification.rules import ERROR, Finding

OK, FAILED, UNKNOWN = "ok", "failed", "unknown"


class FileReport(NamedTuple):
    """What is known of one file: *verdict* OK, FAILED or UNKNOWN, and for UNKNOWN the *reason*.

    *coverages* has an entry for each of *segments*, *coverage* is their sum; *file_size* in bytes.
    *kernels* says what each known kernel and loader would do with the text; *build_id* is hexadecimal, empty without
    one; *debug*: a separate debug file, which has no text; *fix_level*: that of the `hugealign fix` which made it;
    *cure*: the command that gives it windows as it is, if somebody has looked and there is one; *rodata* is what is
    only readable, counted beside the text.
    """

    path: str
    coverage: Coverage | None = None
    findings: tuple[Finding, ...] = ()
    segments: tuple[Segment, ...] = ()
    small: bool = False
    reason: str = ""
    coverages: tuple[Coverage, ...] = ()
    file_size: int = 0
    kernels: tuple[Eligibility, ...] = ()
    build_id: str = ""
    debug: bool = False
    fix_level: str = ""
    cure: str = ""
    rodata: RodataCoverage | None = None

    @property
    def verdict(self) -> str:
        """OK unless a finding is an error; UNKNOWN if the file could not be checked."""
        if self.reason:
            return UNKNOWN
        return FAILED if any(f.rule.severity == ERROR for f in self.findings) else OK
