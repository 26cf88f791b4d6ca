"""One exception class per kind of failure, each with its exit status; and the table of all statuses."""

import errno

#: What an exit status means.  125 to 127 are those of ``env`` and ``timeout`` (POSIX, XCU 2.8.2), 130 and 141 a shell's
#: for SIGINT and SIGPIPE.
STATUSES = {
    0: "done",
    1: "findings, or less than requested",
    2: "wrong usage",
    3: "something could not be read or written",
    125: "hugealign failed before the command ran",
    126: "the command is not executable",
    127: "the command was not found",
    130: "interrupted",
    141: "the reader of the output went away",
}
#: Those of a command that runs another one.
COMMAND_STATUSES = {-1: "the command's own", 0: "", 3: "", 125: STATUSES[125], 126: STATUSES[126], 127: STATUSES[127]}


#: Codes of diagnoses that errors of this package carry.
UNREADABLE, DAMAGED, TRUNCATED = "file.unreadable", "file.damaged", "file.truncated"
UNKNOWN_FORM, OTHERS_MAY_WRITE = "file.unknown-form", "file.others-may-write"
_DAMAGES = {DAMAGED: "damaged: {}", TRUNCATED: "truncated", UNKNOWN_FORM: "of an unknown form: {}"}


class HugealignError(Exception):
    """Base of all errors that the user sees as one line.

    *code* and *facts* are those of the diagnosis of the file that it is about (`hugealign.diagnosis.refusal`), empty
    without one: for a wrong option, say.
    """

    exit_status = 3

    def __init__(self, message: str = "", code: str = "", **facts: int | str) -> None:
        super().__init__(message)
        self.code = code
        self.facts = facts


class NoProcError(FileNotFoundError):
    """A descriptor cannot be opened again, because /proc is not mounted."""

    def __init__(self) -> None:
        super().__init__(errno.ENOENT, "/proc is not mounted")


class UsageError(HugealignError):
    """The command line or a ``HUGEALIGN_*`` variable is invalid."""

    exit_status = 2


class NumberFormatError(HugealignError, ValueError):
    """A number in untrusted text is malformed, or larger than it may be."""

    def __init__(self, message: str) -> None:
        super().__init__(message, DAMAGED)


class NotElfError(HugealignError):
    """The file does not begin with the ELF magic."""


class DamagedError(HugealignError):
    """A file contradicts itself in a *part* that its format names, or is TRUNCATED or of an UNKNOWN_FORM (*code*)."""

    def __init__(self, part: str = "", code: str = DAMAGED) -> None:
        super().__init__(_DAMAGES[code].format(part), code, **({"part": part} if part else {}))


class MalformedElfError(DamagedError):
    """The file claims to be ELF, but its headers contradict each other or the file."""


class WrapperError(HugealignError):
    """hugealign itself failed while standing in for a linker."""

    exit_status = 125


class NotRunnableError(HugealignError):
    """The command cannot be executed; *exit_status* is 126 or 127, as in env(1)."""

    def __init__(self, message: str, exit_status: int) -> None:
        super().__init__(message)
        self.exit_status = exit_status


def cause(error: Exception) -> str:
    """Return the message of *error*; of one of the system's, without the file that it names."""
    return str(getattr(error, "strerror", None) or error)
