"""Judging what smaps shows of a process: pure functions, no I/O."""

import shlex
from dataclasses import dataclass

from hugealign.host.processes import Process
from hugealign.host.smaps import Mapping, coverage
from hugealign.units import format_size, printable


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one process shows.

    *text* and *huge* are bytes; *windows*, the huge ones, and *possible* are windows.  *met*: as asked for.
    *reason* says why not all windows are huge, *mend* what to do; both fit a terminal, and are empty when all are.
    """

    process: Process
    mappings: tuple[Mapping, ...]
    text: int
    huge: int
    windows: int
    possible: int
    met: bool
    reason: str
    mend: str

    @property
    def line(self) -> str:
        """The verdict in words, with reason and mend on lines of their own."""
        name = f"{printable(self.process.comm)}[{self.process.pid}]"
        if not self.possible:
            head = f"{name}: no window can be huge"
        elif self.windows == self.possible:
            head = f"{name}: all {self.possible} windows are huge"
        else:
            head = f"{name}: {self.windows} of {self.possible} windows are huge"
        return head + "".join(f"\n  {line}" for line in (self.reason, self.mend) if line)


def judge(
    process: Process, mappings: tuple[Mapping, ...], page_size: int, min_coverage: float | None = None
) -> Verdict:
    """Return the verdict on *mappings* of *process*.

    It is met if there are windows of *page_size* bytes and all are huge; with *min_coverage*, if that many
    per cent of the bytes of text are.
    """
    text = sum(m.size for m in mappings)
    huge = sum(m.huge for m in mappings)
    windows = sum(m.windows_huge(page_size) for m in mappings)
    possible = sum(m.windows_possible(page_size) for m in mappings)
    full = 0 < possible == windows
    met = full if min_coverage is None else text > 0 and coverage(huge, text) >= min_coverage
    reason, mend = ("", "") if full else _shortfall(process, mappings, page_size)
    return Verdict(process, mappings, text, huge, windows, possible, met, reason, mend)


def why_none(mapping: Mapping, page_size: int) -> str:
    """Return why *mapping* has no window that could be huge."""
    if mapping.size < page_size:
        return f"below {format_size(page_size)}"
    return "no whole window" if mapping.congruent(page_size) else "not aligned"


def _shortfall(process: Process, mappings: tuple[Mapping, ...], page_size: int) -> tuple[str, str]:
    short = [m for m in mappings if m.windows_huge(page_size) < m.windows_possible(page_size)]
    worst = max(short or mappings, key=lambda m: (process.is_program(m), m.size), default=None)
    if worst is None:
        return "it maps no text of its program", ""
    name = printable(shlex.quote(worst.path))
    if not short:
        mend = f"see: hugealign verify {name}" if worst.size >= page_size else ""
        return f"its text, {format_size(worst.size)}, is {why_none(worst, page_size)}", mend
    if process.thp_disabled:
        return "huge pages are disabled for it: prctl(PR_SET_THP_DISABLE)", "start it without that"
    if worst.deleted:
        return "its file was deleted or replaced since it started", "start it again"
    if not any(m.small for m in short):
        return "what is in use is huge; the other windows were not touched yet", "look again later"
    if not worst.is_file:
        return "code in anonymous memory is on small pages", ""
    if all(m.small <= m.size - m.windows_possible(page_size) * page_size for m in short):
        # The small pages may all be of head and tail.
        return "the others are in small pages, or not touched yet", f"see: hugealign warm --check {name}"
    return "the page cache holds its text in small pages", f"stop it, then: hugealign warm {name}"
