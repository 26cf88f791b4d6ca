"""`hugealign fix -r`: fix what gains below directories in place, what gains most first, or undo all fixes there."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence

from hugealign import settings
from hugealign.elf.fixrecord import reader, recorded
from hugealign.elf.image import read_image
from hugealign.errors import HugealignError
from hugealign.fixing import gains
from hugealign.fixing.fix import Fixed, FixOptions, fix
from hugealign.io.progress import silent
from hugealign.io.regular import opened
from hugealign.io.units import printable
from hugealign.records import Record
from hugealign.verification import inputs


class TreeStep(Record):
    """One file at *path* of a tree: what was *done* with it, or the *error*; neither if there was no room for it.

    *names* is the number of its other names (hard links), which keep the old file.
    """

    path: str
    done: Fixed | None = None
    error: HugealignError | None = None
    names: int = 0


def fix_below(
    tops: Sequence[str], options: FixOptions, most: int | None = None, progress: Callable[[str], None] = silent
) -> Iterator[TreeStep]:
    """Fix the files among and below *tops* in place, or undo that, and yield each when it is done.

    Text comes into whole windows until there are *most* bytes of it.  What an earlier run has fixed counts and stays.
    Raises HugealignError if one of *tops* is missing, or is a directory that cannot be listed.
    """
    options = options.changed(in_place=True, one_name=True)
    programs = inputs.programs(tops, settings.min_text(), progress)
    fixed = _fixed(programs)
    if options.undo:
        paths = list(fixed)
    else:
        for path in fixed:  # a run that was killed may not have finished with it
            with contextlib.suppress(HugealignError):
                fix(path, options)
        found = gains.gather(programs, options, progress, search=False)
        left = None if most is None else most - sum(fixed.values())
        paths = []
        for gain in found:
            if left is None or gain.covered <= left:
                paths.append(gain.path)
                left = None if left is None else left - gain.covered
            else:
                yield TreeStep(gain.path)
    for number, path in enumerate(paths, 1):
        progress(f"{number:,} of {len(paths):,} files: {printable(path)}")
        try:
            names = os.stat(path).st_nlink - 1
            done = fix(path, options)
        except (OSError, HugealignError) as error:
            known = error if isinstance(error, HugealignError) else HugealignError(error.strerror or "")
            yield TreeStep(path, error=known)
        else:
            yield TreeStep(path, done, names=names)


def _fixed(paths: Sequence[str]) -> dict[str, int]:
    """Return the bytes of text in whole windows of each file among *paths* that a fix has made."""
    found = {}
    for path in paths:
        with contextlib.suppress(HugealignError, OSError), opened(path) as fd:
            if record := recorded(reader(fd), read_image(fd)):
                found[path] = record.windows * record.page_size
    return found
