"""`hugealign fix -r`: fix what gains below directories in place, what gains most first, or undo all fixes there."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

from hugealign.elf.fixrecord import reader, recorded
from hugealign.elf.image import read_image
from hugealign.errors import HugealignError
from hugealign.fixing import gains
from hugealign.fixing.fix import Fixed, FixOptions, fix
from hugealign.io.places import Place
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
        chosen = firsts
    else:
        for place in fixed:  # a killed run may have left it unfinished
            with contextlib.suppress(HugealignError):
                fix(place, options)
        room = inputs.TextLimit(most)
        room.take(sum(fixed[place] for place in firsts))
        chosen = []
        for gain in gains.gather(programs, options, progress, search=False):
            if room.fits(gain.covered):
                chosen.append(gain.place)
                room.take(gain.covered)
            else:
                yield TreeStep(gain.place.path)
    for number, place in enumerate(chosen, 1):
        progress(f"{number:,} of {len(chosen):,} files: {printable(place.path)}")
        try:
            before = place.status()
            others = [name for name in names.get((before.st_dev, before.st_ino), ()) if name != place]
            done = fix(place, options, others)
        except (OSError, HugealignError) as error:
            known = error if isinstance(error, HugealignError) else HugealignError(error.strerror or "")
            yield TreeStep(place.path, error=known)
        else:
            yield TreeStep(place.path, done, names=before.st_nlink - 1 - len(others))


def _names(places: Sequence[Place]) -> dict[tuple[int, int], list[Place]]:
    names: dict[tuple[int, int], list[Place]] = {}
    for place in places:
        with contextlib.suppress(OSError):
            info = place.status()
            names.setdefault((info.st_dev, info.st_ino), []).append(place)
    return names


def _fixed(places: Sequence[Place]) -> dict[Place, int]:
    """Return the bytes of text in whole windows of each file among *places* that a fix has made."""
    sizes = {}
    for place in places:
        with contextlib.suppress(HugealignError, OSError), opened(place) as fd:
            if record := recorded(reader(fd), read_image(fd)):
                sizes[place] = record.windows * record.page_size
    return sizes
