"""A diagnosis that ends what was to be done: `RefusalError`; and the diagnoses that other errors are."""

import errno

from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.errors import UNREADABLE, HugealignError, NoProcError
from hugealign.io.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class RefusalError(HugealignError):
    """Something is not done, because it would break what there is or gain nothing: *diagnosis* says why.

    What raises it need not know the subject: `Diagnosis.about`.
    """

    exit_status = 1

    def __init__(self, code: str, remedy: Remedy | None = None, **facts: int | str) -> None:
        super().__init__(code)
        self.diagnosis = Diagnosis(code, "", facts, remedy)

    def __str__(self) -> str:
        """Return the diagnosis in words."""
        from hugealign.diagnosis import render

        return render.text(self.diagnosis)

    @classmethod
    def of(cls, diagnosis: Diagnosis) -> "RefusalError":
        """Return the error for a *diagnosis* from elsewhere."""
        return cls(diagnosis.code, diagnosis.remedy, **diagnosis.facts)


def error_name(error: Exception) -> str:
    """Return the name (``EACCES``) of the system's error that *error* is, or was raised from; empty if it is none."""
    found = _system_error(error)
    return errno.errorcode.get(found.errno or 0, "") if found else ""


def _system_error(error: Exception) -> OSError | None:
    return next((e for e in (error, error.__cause__) if isinstance(e, OSError)), None)


def _unreadable(path: str, error: Exception) -> Diagnosis:
    if isinstance(_system_error(error), NoProcError):
        return Diagnosis("machine.no-proc", path, {})
    return Diagnosis(UNREADABLE, path, {"error": error_name(error)})


def diagnosis_of(path: str, error: Exception) -> Diagnosis | None:
    """Return what *error* says about the file at *path*, a system's error that it cannot be read; None if nothing."""
    if isinstance(error, RefusalError):
        return error.diagnosis.about(path)
    if not isinstance(error, HugealignError) or (error.code == UNREADABLE and "error" not in error.facts):
        return _unreadable(path, error)
    return Diagnosis(error.code, path, dict(error.facts)) if error.code else None


def diagnosed(path: str, error: Exception) -> Diagnosis:
    """Return what *error* says about the file at *path*, at least that it cannot be read."""
    return diagnosis_of(path, error) or _unreadable(path, error)


def words(path: str, error: HugealignError) -> str:
    """Return what is printed after the name of the file at *path* about an *error*."""
    from hugealign.diagnosis import render

    found = diagnosis_of(path, error)
    return render.text(found) if found else str(error)


def failure(path: str, error: HugealignError) -> "dict[str, Any]":
    """Return the JSON form of an *error* about the file at *path*: a diagnosis, or else a message."""
    from hugealign.diagnosis import render

    found = diagnosis_of(path, error)
    return {"message": None if found else printable(str(error)), "diagnosis": render.document(found)}
