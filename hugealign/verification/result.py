"""What `verify` says: the reports on the files, and how its options judge them.  Pure.

Records, not dataclasses or named tuples: `dataclasses` would cost `verify` 7 ms of 50, `typing` 5.
"""

from hugealign.diagnosis.catalogue import ERROR, SEVERITIES, row
from hugealign.diagnosis.values import Diagnosis
from hugealign.elf.coverage import Coverage, total
from hugealign.records import Record
from hugealign.verification.rules import Policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import Counter

    from hugealign.elf.image import Segment
    from hugealign.verification.kernels import Eligibility

OK, FAILED, UNKNOWN = "ok", "failed", "unknown"
NEVER = "never"
#: The identity of a diagnosis from one build to the next: path, code and protection of the segment, not addresses.
Key = tuple[str, str, str]


class Placed(Record):
    """How many hot functions the *order* of a link has, and how many functions lie where it puts them.

    These are more where objects were *placed* whole; None if no symbols say it.
    """

    order: int
    placed: int | None


class Accepted(Record):
    """A diagnosis that does not count, and the configuration's *reason*, which is empty if a baseline accepts it."""

    diagnosis: Diagnosis
    reason: str = ""


class FileReport(Record):
    """What is known about one file: the *diagnoses* that count, or the *problem* that kept it from being checked.

    *coverages* has an entry for each of *segments*, and *coverage* is their sum; *file_size* is in bytes.  *small*: the
    text is too small to gain.  *kernels* says what each known kernel and loader would do with the text.  *build_id* is
    hexadecimal, empty if there is none.  *debug*: it is a separate debug file, which has no text.  *fix_level* is the
    level of the `hugealign fix` that made the file; *undoable*: no other tool has changed its headers since.  *order*
    says what became of the profile's order that the link was given.  *accepted* are the diagnoses that do not count.
    *policy* is what was required of it, with the sizes of its processor, whose base pages are *pages*.  *fail_on* is a
    severity or NEVER.
    """

    path: str
    coverage: Coverage | None = None
    diagnoses: tuple[Diagnosis, ...] = ()
    segments: "tuple[Segment, ...]" = ()
    small: bool = False
    problem: Diagnosis | None = None
    coverages: tuple[Coverage, ...] = ()
    file_size: int = 0
    kernels: "tuple[Eligibility, ...]" = ()
    build_id: str = ""
    debug: bool = False
    fix_level: str = ""
    undoable: bool = False
    order: Placed | None = None
    accepted: tuple[Accepted, ...] = ()
    policy: Policy = Policy()
    pages: str = "4 KiB"
    fail_on: str = ERROR

    @property
    def verdict(self) -> str:
        """OK, FAILED if a diagnosis is as grave as *fail_on*, or UNKNOWN if the file could not be checked."""
        if self.problem:
            return UNKNOWN
        # --fail-on=never spares only the exit status; the report still says what is so.
        level = ERROR if self.fail_on == NEVER else self.fail_on
        return FAILED if any(at_or_above(diagnosis, level) for diagnosis in self.diagnoses) else OK

    def every(self) -> tuple[Diagnosis, ...]:
        """Return the diagnoses that count, and the problem if there is one."""
        return (self.problem, *self.diagnoses) if self.problem else self.diagnoses


class Verification(Record):
    """A run.  *fixed* are diagnoses of the baseline that are gone; *skipped* counts what was passed over.

    *empty* counts the archives and directories that hold no program and are allowed not to.
    """

    files: tuple[FileReport, ...]
    fail_on: str = ERROR
    fixed: tuple[Key, ...] = ()
    skipped: "Counter[str] | None" = None
    empty: int = 0

    def verdicts(self) -> dict[str, int]:
        """Return how many files have each verdict."""
        return {verdict: sum(file.verdict == verdict for file in self.files) for verdict in (OK, FAILED, UNKNOWN)}

    def severities(self) -> dict[str, int]:
        """Return how many diagnoses there are of each severity."""
        every = [row(diagnosis.code).severity for file in self.files for diagnosis in file.diagnoses]
        return {severity: every.count(severity) for severity in SEVERITIES}

    def accepted(self) -> int:
        """Return how many diagnoses the baseline or the configuration accepted."""
        return sum(len(file.accepted) for file in self.files)

    def coverage(self) -> Coverage:
        """Return the coverage of all files that were checked, taken together."""
        return total([file.coverage for file in self.files if file.coverage])

    def small_text(self) -> int:
        """Return the bytes of text in files that are too small to gain."""
        return sum(file.coverage.text for file in self.files if file.coverage and file.small)

    @property
    def status(self) -> int:
        """The exit status: 1 for diagnoses at or above *fail_on*, else 3 if a file could not be checked, else 0."""
        verdicts = self.verdicts()
        if verdicts[FAILED] and self.fail_on != NEVER:
            return 1
        return 3 if verdicts[UNKNOWN] or not (self.files or self.empty) else 0


def at_or_above(diagnosis: Diagnosis, level: str) -> bool:
    """Return whether *diagnosis* is as grave as the severity *level* or graver; nothing is as grave as NEVER."""
    return level != NEVER and SEVERITIES.index(row(diagnosis.code).severity) <= SEVERITIES.index(level)
