"""One exception class per kind of failure, each with its exit status.

Statuses of the tool: 1 findings, 2 wrong usage, 3 could not check.  Statuses of the wrapper follow ``env`` and
``timeout``: 125 our own failure, 126 not executable, 127 not found (POSIX, XCU 2.8.2).
"""


class HugealignError(Exception):
    """Base of all errors that the user sees as one line."""

    exit_status = 3


class UsageError(HugealignError):
    """The command line or a ``HUGEALIGN_*`` variable is invalid."""

    exit_status = 2


class NumberFormatError(HugealignError, ValueError):
    """A number in untrusted text is malformed, or larger than it may be."""


class NotElfError(HugealignError):
    """The file does not begin with the ELF magic."""


class MalformedElfError(HugealignError):
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
