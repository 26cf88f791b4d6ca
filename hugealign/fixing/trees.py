"""`hugealign fix -r`: fix what gains below directories in place, what gains most first, or undo all fixes there."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence

from hugealign.elf.fixrecord import reader, recorded
from hugealign.elf.image import read_image
from hugealign.errors import HugealignError
from hugealign.fixing import gains
from hugealign.fixing.fix import NOTHING, Fixed, FixOptions, fix, share
from hugealign.io.progress import silent
from hugealign.io.regular import opened
from hugealign.io.units import printable
from hugealign.records import Record
from hugealign.verification import inputs


class TreeStep(Record):
    """One file at *path* of a tree: what was *done* with it, or the *error*; neither if there was no room for it.

    *names* is the number of its other names (hard links) outside of the tree, which keep the old file.
    """

    path: str
    done: Fixed | None = None
    error: HugealignError | None = None
    names: int = 0


def fix_below(
    tops: Sequence[str], options: FixOptions, most: int | None = None, progress: Callable[[str], None] = silent
) -> Iterator[TreeStep]:
    """Fix the files among and below *tops* in place, or undo that, and yield each when it is done.

    Text comes into whole windows until there are *most* bytes of it.  All names of a file in the tree get the new one.
    What an earlier run has fixed counts and stays.
    Raises HugealignError if one of *tops* is missing, or is a directory that cannot be listed.
    """
    options = options.changed(in_place=True, one_name=True)
    programs = inputs.programs(tops, progress)
    names = _names(programs)
    fixed = _fixed(programs)
    firsts = [same[0] for same in names.values() if same[0] in fixed]
    if options.undo:
        paths = firsts
    else:
        for path in fixed:  # a run that was killed may not have finished with it
            with contextlib.suppress(HugealignError):
                fix(path, options)
        room = inputs.Room(most)
        room.take(sum(fixed[path] for path in firsts))
        paths = []
        for gain in gains.gather(programs, options, progress, search=False):
            if room.fits(gain.covered):
                paths.append(gain.path)
                room.take(gain.covered)
            else:
                yield TreeStep(gain.path)
    for number, path in enumerate(paths, 1):
        progress(f"{number:,} of {len(paths):,} files: {printable(path)}")
        try:
            before = os.stat(path)
            others = [name for name in names.get((before.st_dev, before.st_ino), ()) if name != path]
            done = fix(path, options)
            if done.action != NOTHING:
                for other in others:
                    done = done.changed(notes=(*done.notes, *share(path, other, before, done.action)))
        except (OSError, HugealignError) as error:
            known = error if isinstance(error, HugealignError) else HugealignError(error.strerror or "")
            yield TreeStep(path, error=known)
        else:
            yield TreeStep(path, done, names=before.st_nlink - 1 - len(others))


def _names(paths: Sequence[str]) -> dict[tuple[int, int], list[str]]:
    """Return the names of each file among *paths*, by device and inode."""
    names: dict[tuple[int, int], list[str]] = {}
    for path in paths:
        with contextlib.suppress(OSError):
            info = os.stat(path)
            names.setdefault((info.st_dev, info.st_ino), []).append(path)
    return names


def _fixed(paths: Sequence[str]) -> dict[str, int]:
    """Return the bytes of text in whole windows of each file among *paths* that a fix has made."""
    sizes = {}
    for path in paths:
        with contextlib.suppress(HugealignError, OSError), opened(path) as fd:
            if record := recorded(reader(fd), read_image(fd)):
                sizes[path] = record.windows * record.page_size
    return sizes
