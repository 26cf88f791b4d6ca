"""A diagnosis and its remedy as values.  `hugealign.diagnosis.render` words them."""

from hugealign.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: What a command lacks: privileges, or words at its end.
ROOT, COMMAND, OUTPUT, SUBJECT, ARGUMENTS = "root", "command", "output", "subject", "arguments"


class Remedy(Record):
    """What changes a diagnosis: *kind* is a row of `hugealign.diagnosis.catalogue.REMEDIES`.

    *argv* is a command, empty if a person has to act.  *needs* is what the command lacks, empty if it runs as it
    stands: ROOT (privileges) or, at its end, COMMAND (the command to start), ARGUMENTS (of the program that it starts),
    OUTPUT (the path of a new file) or SUBJECT (see `Diagnosis.about`).  *before* and *after* are the windows of the
    subject, None if that is not known.
    """

    kind: str
    argv: "tuple[str, ...]" = ()
    needs: str = ""
    before: int | None = None
    after: int | None = None


class Diagnosis(Record):
    """What is wrong with *subject*: *code* is a row of the catalogue.

    *subject* is the path of a file, which may be a process's program, the name of a service, or empty for this machine.
    *facts* are numbers, in bytes or windows or as their names say, and names as they were read: nothing is escaped yet.
    """

    code: str
    subject: str
    facts: "Mapping[str, int | str]"
    remedy: Remedy | None = None

    def about(self, path: str) -> "Diagnosis":
        """Return the diagnosis for the file at *path*, which the code that found it did not know."""
        remedy = self.remedy
        if remedy and remedy.needs == SUBJECT:
            file = path if not path.startswith("-") else f"./{path}"
            remedy = remedy.changed(argv=(*remedy.argv, file), needs="")
        return self.changed(subject=path, remedy=remedy)

    def __hash__(self) -> int:
        return hash((self.code, self.subject, *sorted(self.facts.items()), self.remedy))

    def packed(self) -> "tuple[Any, ...]":
        """Return the diagnosis as what `marshal` takes, for `unpacked` in another process."""
        remedy = self.remedy
        values = remedy and (remedy.kind, remedy.argv, remedy.needs, remedy.before, remedy.after)
        return self.code, self.subject, dict(self.facts), values


def unpacked(values: "tuple[Any, ...]") -> Diagnosis:
    """Return the diagnosis that was `packed` into *values*."""
    code, subject, facts, remedy = values
    return Diagnosis(code, subject, facts, remedy and Remedy(*remedy))
