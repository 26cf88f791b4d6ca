"""Separate one file into another, or undo that."""

import os
from dataclasses import dataclass

from hugealign import settings
from hugealign.diagnosis.values import Remedy
from hugealign.elf.coverage import is_debug_file
from hugealign.elf.image import read_image
from hugealign.errors import HugealignError
from hugealign.fixing.plan import RefusalError
from hugealign.fixing.separation import check, crossings, words
from hugealign.fixing.separation.output import Output, compose, original, separated
from hugealign.fixing.separation.plan import Layout, make_layout
from hugealign.io import replacing
from hugealign.io.regular import opened
from hugealign.settings import PAGE_SIZE


@dataclass(frozen=True, slots=True)
class Result:
    """What was done: sizes are bytes of the files; *layout* is None if nothing was to do, or after an undo."""

    before: int
    after: int
    layout: Layout | None = None


def separate(path: str, output: str, page_size: int = PAGE_SIZE) -> Result:
    """Write the file at *path* to *output* with its text whole; nothing is written if nothing is to do.

    Raises RefusalError, HugealignError.
    """
    with opened(path) as fd:
        before = os.fstat(fd).st_size
        layout, made = planned(fd, page_size)
        if layout is None or made is None:
            return Result(before, before)

        def fill(old: int, new: int, _size: int) -> None:
            compose(old, new, made)
            check.check(old, new, layout.step)

        replacing.create(output, fd, fill)
        return Result(before, made.size, layout)


def undo(path: str, output: str) -> Result:
    """Write the file at *path* to *output* as it was before it was separated.  Raises RefusalError, HugealignError."""
    with opened(path) as fd:
        made = original(fd, read_image(fd))
        replacing.create(output, fd, lambda old, new, _: compose(old, new, made))
        return Result(os.fstat(fd).st_size, made.size)


def planned(fd: int, page_size: int) -> tuple[Layout | None, Output | None]:
    """Return what becomes of the file behind *fd*; nothing if nothing is to do.  Raises HugealignError, OSError."""
    image = read_image(fd)
    if is_debug_file(image):
        raise RefusalError("file.debug", Remedy("fix-program"))
    crossings.decoder()
    layout = make_layout(image, page_size, settings.min_text())
    if layout is None:
        return None, None
    found = words.find_words(fd, image, layout.step)
    crossings.refuse_crossings(fd, image, layout.step.start)
    return layout, separated(fd, image, layout, found)


__all__ = ["HugealignError", "Result", "planned", "separate", "undo"]
