"""The large code of a process besides its program: libraries, and code without a file."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from hugealign.errors import HugealignError
from hugealign.process import texts
from hugealign.process.processes import Process
from hugealign.process.smaps import Mapping
from hugealign.watch.parts import CodeKind, CodePart, split
from hugealign.watch.runtimes import Runtime, runtime


def look(process: Process, shown: Sequence[Mapping], page_size: int) -> tuple[list[CodePart], Runtime | None]:
    """Return the large parts of *process* without the mappings that are *shown* already, and its runtime."""
    with suppress(OSError, HugealignError):
        seen = texts.look(process.pid, page_size, page_size)
        if seen is not None:
            starts = {mapping.start for mapping in shown}
            parts = [
                replace(part, mappings=tuple(m for m in part.mappings if m.start not in starts))
                for part in split(process.exe, seen.mappings)
                if part.kind != CodeKind.PROGRAM
            ]
            return [part for part in parts if part.text >= page_size], runtime(process.exe, seen.files)
    return [], None
