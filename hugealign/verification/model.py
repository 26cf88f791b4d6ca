"""What is known about one checked file.

Records here, and wherever else `verify` passes, are named tuples: `dataclasses` would cost it 7 ms of 50.
"""

from typing import NamedTuple

from hugealign.elf.coverage import Coverage, RodataCoverage
from hugealign.elf.image import Segment
from hugealign.verification.kernels import Eligibility
from hugealign.verification.rules import ERROR, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.diagnosis.values import Remedy

OK, FAILED, UNKNOWN = "ok", "failed", "unknown"


class Placed(NamedTuple):
    """How many hot functions the *order* of a link has, and how many functions lie where it puts them.

    These are more where objects were *placed* whole; None if no symbols say it.
    """

    order: int
    placed: int | None


class FileReport(NamedTuple):
    """What is known about one file: *verdict* is OK, FAILED or UNKNOWN, and *reason* says why it is UNKNOWN.

    *coverages* has an entry for each of *segments*, and *coverage* is their sum; *file_size* is in bytes.  *small*: the
    text is too small to gain.  *kernels* says what each known kernel and loader would do with the text.  *build_id* is
    hexadecimal, empty if there is none.  *debug*: it is a separate debug file, which has no text.  *fix_level* is the
    level of the `hugealign fix` that made the file; *undoable*: no other tool has changed its headers since.  *edit*
    gives the file windows as it is, if it was looked for and found.  *rodata* is the coverage of read-only data,
    counted separately from the text.  *order* says what became of the profile's order that the link was given.
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
    edit: "Remedy | None" = None
    rodata: RodataCoverage | None = None
    undoable: bool = False
    order: "Placed | None" = None

    @property
    def verdict(self) -> str:
        """OK unless a finding is an error; UNKNOWN if the file could not be checked."""
        if self.reason:
            return UNKNOWN
        return FAILED if any(f.rule.severity == ERROR for f in self.findings) else OK
