"""Files that were passed over without a report of their own."""

from collections import Counter

from hugealign.io.units import counted

OBJECT, OTHER, LINK = "object file", "other file", "further hard link"


class Counts(Counter[str]):
    """How many files were passed over, by what they are."""

    def skipped(self) -> str:
        """Return what was passed over, in words: ``3 object files, 12 other files``; empty if nothing was."""
        return ", ".join(counted(self[noun], noun) for noun in (OBJECT, OTHER, LINK) if self[noun])
