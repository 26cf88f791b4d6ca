"""What was passed over without a report of its own."""

from collections.abc import Iterable

_NOUNS = (
    ("objects", "object file", "object files"),
    ("other", "other file", "other files"),
    ("links", "further hard link", "further hard links"),
)


class Counts:
    """How many files were passed over, by kind; *archives* were looked into."""

    __slots__ = ("archives", "links", "objects", "other")

    def __init__(self, values: Iterable[int] = (0, 0, 0, 0)) -> None:
        self.archives, self.links, self.objects, self.other = values

    def values(self) -> tuple[int, int, int, int]:
        """Return the counts, in the order of the constructor."""
        return self.archives, self.links, self.objects, self.other

    def add(self, more: "Counts") -> None:
        """Count *more* as well."""
        self.__init__(map(sum, zip(self.values(), more.values(), strict=True)))  # type: ignore[misc]

    def since(self, before: "Counts") -> "Counts":
        """Return what was counted after *before*."""
        return Counts(a - b for a, b in zip(self.values(), before.values(), strict=True))

    def skipped(self) -> str:
        """Return what was passed over, in words: ``3 object files, 12 other files``; empty if nothing was."""
        counted = ((getattr(self, name), one, many) for name, one, many in _NOUNS)
        return ", ".join(f"{n} {one if n == 1 else many}" for n, one, many in counted if n)
