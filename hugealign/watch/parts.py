"""Split the code of a process into parts: its program, each library, and code without a file.  Pure."""

from collections.abc import Sequence
from enum import StrEnum

from hugealign.process.smaps import Mapping
from hugealign.records import Record


class CodeKind(StrEnum):
    """Where code comes from: the program's file, a library, or no file."""

    PROGRAM = "program"
    LIBRARY = "library"
    CODE = "code"  # without a file


class CodePart(Record):
    """The executable *mappings* of one file, or of code without a file; then *path* is empty."""

    kind: CodeKind
    path: str
    mappings: tuple[Mapping, ...]

    @property
    def count(self) -> int:
        """The number of its mappings."""
        return len(self.mappings)

    @property
    def text(self) -> int:
        """Its size in bytes."""
        return sum(mapping.size for mapping in self.mappings)

    @property
    def deleted(self) -> bool:
        """Whether its file is gone or was replaced."""
        return self.kind != CodeKind.CODE and any(mapping.deleted for mapping in self.mappings)

    def huge(self) -> int:
        """Return how many of its windows are huge."""
        return sum(mapping.windows_huge for mapping in self.mappings)

    def touched(self) -> int:
        """Return how many of its windows have a page, or may have one where that is unknown."""
        known = [(mapping.touched(), mapping.windows_possible) for mapping in self.mappings]
        return sum(count if touched is None else len(touched) for touched, count in known)

    def possible(self) -> int:
        """Return how many windows it has."""
        return sum(mapping.windows_possible for mapping in self.mappings)


def split(exe: str, mappings: Sequence[Mapping]) -> list[CodePart]:
    """Return the parts of *mappings* of the program *exe*: the program first, code without a file last."""
    by_kind: dict[tuple[CodeKind, str], list[Mapping]] = {}
    for mapping in mappings:
        if mapping.path == exe or mapping.own:
            key = CodeKind.PROGRAM, exe
        elif mapping.without_file:
            key = CodeKind.CODE, ""
        else:
            key = CodeKind.LIBRARY, mapping.path
        by_kind.setdefault(key, []).append(mapping)
    order = list(CodeKind)
    parts = [CodePart(kind, path, tuple(members)) for (kind, path), members in by_kind.items()]
    return sorted(parts, key=lambda part: (order.index(part.kind), -part.text))
