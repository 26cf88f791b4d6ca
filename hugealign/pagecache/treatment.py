"""What was done to a file's place in the page cache, as ``warm`` and ``cool`` report it: pure, no I/O."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hugealign import __version__
from hugealign.pagecache.warming import Outcome
from hugealign.units import format_size, printable

if TYPE_CHECKING:
    from hugealign.pagecache.obstacles import Obstacle

WARM_SCHEMA = "hugealign.warm/1"
_SHOWN = 4  # ranges or names in a line


@dataclass(frozen=True, slots=True)
class Treatment:
    """One file: its windows at *offsets*, in bytes, what became of them, and what stood in the way.

    *library*: nobody named it.  *replaced*: a copy took its place; *note*: what else people should know.
    """

    path: str
    page_size: int
    offsets: Sequence[int]
    outcome: Outcome
    obstacle: "Obstacle | None" = None
    library: bool = False
    replaced: bool = False
    note: str = ""

    @property
    def huge(self) -> int:
        """How many windows are huge."""
        return sum(self.outcome.huge)

    @property
    def small(self) -> list[int]:
        """The file offsets of the windows that are not huge."""
        return [offset for offset, good in zip(self.offsets, self.outcome.huge, strict=True) if not good]

    @property
    def lines(self) -> list[str]:
        """What people read: the count, and reason and windows below it."""
        size = format_size(self.huge * self.page_size)
        found = [f"{printable(self.path)}: {self.huge} of {len(self.offsets)} windows huge ({size})"]
        if self.note:
            found.append(f"  {self.note}")
        if self.obstacle:
            found.append(f"  {self.obstacle.text}; {self.obstacle.mend}")
        if self.huge and self.small:
            found.append(f"  not huge: file offsets {ranges(self.small, self.page_size)}")
        return found


def ranges(offsets: Sequence[int], page_size: int) -> str:
    """Return the windows at *offsets* as ranges of file offsets, the first few of them."""
    found: list[list[int]] = []
    for offset in offsets:
        if found and found[-1][1] == offset:
            found[-1][1] += page_size
        else:
            found.append([offset, offset + page_size])
    return shortened([f"{start:#x}-{end:#x}" for start, end in found])


def shortened(words: Sequence[str]) -> str:
    """Return the first few *words* and how many more there are."""
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return ", ".join(itertools.islice(words, _SHOWN)) + more


def document(
    treatments: Sequence[Treatment],
    missing: Sequence[tuple[str, str]],
    errors: Sequence[tuple[str, str]],
    page_size: int,
) -> dict[str, Any]:
    """Return the JSON document ``hugealign.warm/1``; sizes and offsets are integers, in bytes.

    ``files``: ``path``, ``library`` (found by --libs, not named), ``replaced``, ``windows``, ``windows_huge``,
    ``huge_bytes``, ``small_offsets`` (of the windows not huge), ``methods`` (``readahead``, ``collapse``; empty if all
    were huge before), ``reason`` (null, or ``code``: no-window, not-warmed, in-use, dirty, held, memory-limit,
    fragmented, file-system; ``text``, ``mend``).  ``libraries_missing``: ``name``, ``needed_by``.  ``errors``:
    ``target``, ``message``.  ``huge_bytes``: of all files, the memory that it costs.  Names are escaped as in the text.
    """
    return {
        "schema": WARM_SCHEMA,
        "tool": {"version": __version__},
        "page_size": page_size,
        "huge_bytes": sum(t.huge for t in treatments) * page_size,
        "files": [
            {
                "path": printable(t.path),
                "library": t.library,
                "replaced": t.replaced,
                "windows": len(t.offsets),
                "windows_huge": t.huge,
                "huge_bytes": t.huge * page_size,
                "small_offsets": t.small,
                "methods": list(t.outcome.methods),
                "reason": {"code": t.obstacle.code, "text": t.obstacle.text, "mend": t.obstacle.mend}
                if t.obstacle
                else None,
            }
            for t in treatments
        ],
        "libraries_missing": [{"name": printable(name), "needed_by": printable(needing)} for name, needing in missing],
        "errors": [{"target": printable(target), "message": message} for target, message in errors],
    }
