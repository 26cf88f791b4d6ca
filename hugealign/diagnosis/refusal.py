"""A diagnosis that ends what was to be done: `RefusalError`."""

from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.errors import HugealignError
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


def failure(path: str, error: HugealignError) -> "dict[str, Any]":
    """Return the JSON form of an *error* about the file at *path*: a diagnosis, or else a message."""
    from hugealign.diagnosis import render

    if isinstance(error, RefusalError):
        return {"message": None, "diagnosis": render.document(error.diagnosis.about(path))}
    return {"message": printable(str(error)), "diagnosis": None}
