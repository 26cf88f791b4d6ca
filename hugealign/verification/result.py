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


class PlacedOrder(Record):
    """What became of the profile's order that a link received."""

    order: int
    """How many functions of the order ran."""
    placed: int | None
    """How many functions the link placed, others too if whole objects were placed; None without symbols."""

    JSON = "hot_functions=order placed_functions=placed"


class Accepted(Record):
    """A diagnosis that does not count."""

    diagnosis: Diagnosis
    reason: str = ""
    """The reason in the configuration; empty if the baseline accepts it."""

    JSON = "diagnosis reason?"


class CheckedSegment(Record):
    """An executable PT_LOAD segment."""

    segment: "Segment"
    coverage: Coverage

    JSON = (
        "index=segment.index flags=segment.flags p_vaddr=segment.p_vaddr p_offset=segment.p_offset "
        "p_filesz=segment.p_filesz p_memsz=segment.p_memsz p_align=segment.p_align coverage"
    )


class CheckedFile(Record):
    """What a report has only of a file that could be checked."""

    file: "FileReport"

    JSON = (
        "build_id=file.build_id?? fix_level=file.fix_level?? file_bytes=file.file_size "
        "page_size=file.policy.page_size coverage=file.coverage order=file.order?? small=file.small segments "
        "accepted=file.accepted?? kernels=file.kernels"
    )

    @property
    def segments(self) -> tuple[CheckedSegment, ...]:
        """The executable PT_LOAD segments."""
        return tuple(map(CheckedSegment, self.file.segments, self.file.coverages))


class FileReport(Record):
    """What is known about one file."""

    path: str
    coverage: Coverage | None = None
    """The coverage of all of its text."""
    diagnoses: tuple[Diagnosis, ...] = ()
    """What is wrong; the fact segment is an index in the program header table, flags are its protection."""
    segments: "tuple[Segment, ...]" = ()
    """The executable PT_LOAD segments."""
    small: bool = False
    """Whether the text is too small to gain from huge pages."""
    problem: Diagnosis | None = None
    """Why the file could not be checked."""
    coverages: tuple[Coverage, ...] = ()
    """The coverage of each segment."""
    file_size: int = 0
    """Bytes of the file."""
    kernels: "tuple[Eligibility, ...]" = ()
    """What each known kernel or loader would do with the text."""
    build_id: str = ""
    """The GNU build-id in hexadecimal digits, empty if there is none."""
    debug: bool = False
    """Whether it is a separate debug file, which has no text."""
    fix_level: str = ""
    """The level of the `hugealign fix` that made the file."""
    undoable: bool = False
    """Whether no other tool has changed its headers since that fix."""
    order: PlacedOrder | None = None
    """What became of the profile's order that the link received."""
    accepted: tuple[Accepted, ...] = ()
    """The diagnoses that the baseline or the configuration accepts."""
    policy: Policy = Policy()
    """What was required of it, with the sizes of its processor."""
    pages: str = "4 KiB"
    """The base pages of its processor."""
    fail_on: str = ERROR
    """A severity, or NEVER."""

    JSON = "path verdict problem?? *=checked diagnoses"

    @property
    def checked(self) -> CheckedFile | None:
        """What is known only of a file that could be checked."""
        return CheckedFile(self) if self.coverage and not self.problem else None

    @property
    def verdict(self) -> str:
        """One of `ok`, `failed` (a diagnosis is as grave as `fail_on`), `unknown` (it could not be checked)."""
        if self.problem:
            return UNKNOWN
        # --fail-on=never spares only the exit status; the report still says what is so.
        level = ERROR if self.fail_on == NEVER else self.fail_on
        return FAILED if any(at_or_above(diagnosis, level) for diagnosis in self.diagnoses) else OK

    def every(self) -> tuple[Diagnosis, ...]:
        """Return the diagnoses that count, and the problem if there is one."""
        return (self.problem, *self.diagnoses) if self.problem else self.diagnoses


class Gone(Record):
    """A diagnosis of the baseline that is gone."""

    path: str
    code: str
    flags: str

    JSON = "path code flags"


class Verification(Record):
    """What `hugealign verify` found."""

    files: tuple[FileReport, ...]
    fail_on: str = ERROR
    fixed: tuple[Key, ...] = ()
    """Diagnoses of the baseline that are gone."""
    skipped: "Counter[str] | None" = None
    """How many files were skipped, by kind."""
    empty: int = 0
    """How many archives and directories without a program were accepted."""

    SCHEMA = "hugealign.verify/1"
    JSON = (
        "files summary=verdicts totals.text_bytes=coverage.text totals.huge_bytes=coverage.huge "
        "totals.windows=coverage.windows totals.pad_bytes=coverage.pad totals.small_text_bytes=small_text "
        "totals.error=severities.error totals.warning=severities.warning totals.note=severities.note "
        "totals.accepted=accepted fixed=gone??"
    )

    @property
    def gone(self) -> tuple[Gone, ...]:
        """Diagnoses of the baseline that are gone."""
        return tuple(Gone(*key) for key in self.fixed)

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
