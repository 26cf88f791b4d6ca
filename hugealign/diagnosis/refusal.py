"""Diagnoses as errors: `DiagnosedError`; and the diagnoses of other errors."""

import errno

from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.errors import UNREADABLE, HugealignError, NoProcError
from hugealign.io.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self


class DiagnosedError(HugealignError):
    """An error that carries a *diagnosis*, whose subject may follow later (`Diagnosis.about`)."""

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
        """Return the error that carries *diagnosis*."""
        error = cls(diagnosis.code)
        error.diagnosis = diagnosis
        return error


class RefusalError(DiagnosedError):
    """Refused, because it would break something or gain nothing."""

    exit_status = 1


def error_name(error: Exception) -> str:
    """Return the name (``EACCES``) of the system's error that *error* is or was raised from; empty without one."""
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
    """Return the diagnosis of *error*, or that a system's error kept the file at *path* from being read; else None."""
    if isinstance(error, DiagnosedError):
        return error.diagnosis.about(path)
    if not isinstance(error, HugealignError) or (error.code == UNREADABLE and "error" not in error.facts):
        return _unreadable(path, error)
    return Diagnosis(error.code, path, dict(error.facts)) if error.code else None


def diagnosed(path: str, error: Exception) -> Diagnosis:
    """Return the diagnosis of *error* about the file at *path*, at least that it cannot be read."""
    return diagnosis_of(path, error) or _unreadable(path, error)


def words(path: str, error: Exception) -> str:
    """Return what is printed after the name of the file at *path* about an *error*."""
    from hugealign.diagnosis import render

    diagnosis = diagnosis_of(path, error)
    return render.text(diagnosis) if diagnosis else str(error)
