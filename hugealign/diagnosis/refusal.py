"""A diagnosis that ends what was to be done: `DiagnosedError`; and the diagnoses that other errors are."""

import errno

from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.errors import UNREADABLE, HugealignError, NoProcError
from hugealign.io.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self


class DiagnosedError(HugealignError):
    """An error that is a *diagnosis*.  What raises it need not know the subject: `Diagnosis.about`."""

    def __init__(self, code: str, remedy: Remedy | None = None, **facts: int | str) -> None:
        super().__init__(code)
        self.diagnosis = Diagnosis(code, "", facts, remedy)

    def __str__(self) -> str:
        """Return the diagnosis in words, after its subject if that is known."""
        from hugealign.diagnosis import render

        subject = printable(self.diagnosis.subject)
        return f"{subject}: {render.text(self.diagnosis)}" if subject else render.text(self.diagnosis)

    @classmethod
    def of(cls, diagnosis: Diagnosis) -> "Self":
        """Return the error that is *diagnosis*."""
        error = cls(diagnosis.code)
        error.diagnosis = diagnosis
        return error


class RefusalError(DiagnosedError):
    """Something is not done, because it would break what there is or gain nothing."""

    exit_status = 1


def error_name(error: Exception) -> str:
    """Return the name (``EACCES``) of the system's error that *error* is, or was raised from; empty if it is none."""
    raised = _system_error(error)
    return errno.errorcode.get(raised.errno or 0, "") if raised else ""


def _system_error(error: Exception) -> OSError | None:
    return next((e for e in (error, error.__cause__) if isinstance(e, OSError)), None)


def _unreadable(path: str, error: Exception) -> Diagnosis:
    if isinstance(_system_error(error), NoProcError):
        return Diagnosis("machine.no-proc", path, {})
    name = error_name(error)
    number = name == "ENOENT" and path.isascii() and path.isdigit()  # of a process perhaps
    remedy = Remedy("process", ("hugealign", "ps", path)) if number else None
    return Diagnosis(UNREADABLE, path, {"error": name}, remedy)


def diagnosis_of(path: str, error: Exception) -> Diagnosis | None:
    """Return what *error* says about the file at *path*, a system's error that it cannot be read; None if nothing."""
    if isinstance(error, DiagnosedError):
        return error.diagnosis.about(path)
    if not isinstance(error, HugealignError) or (error.code == UNREADABLE and "error" not in error.facts):
        return _unreadable(path, error)
    return Diagnosis(error.code, path, dict(error.facts)) if error.code else None


def diagnosed(path: str, error: Exception) -> Diagnosis:
    """Return what *error* says about the file at *path*, at least that it cannot be read."""
    return diagnosis_of(path, error) or _unreadable(path, error)


def words(path: str, error: Exception) -> str:
    """Return what is printed after the name of the file at *path* about an *error*."""
    from hugealign.diagnosis import render

    diagnosis = diagnosis_of(path, error)
    return render.text(diagnosis) if diagnosis else str(error)
