"""Which programs and libraries would gain the most from a fix, and how many processes run them."""

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Sequence

from hugealign.errors import HugealignError
from hugealign.fixing.fix import FixOptions, outcome, planned, refuse_copy
from hugealign.io.caches import cached
from hugealign.io.places import Place
from hugealign.io.progress import silent
from hugealign.io.regular import opened
from hugealign.io.units import printable
from hugealign.process import processes, procfs, smaps
from hugealign.records import Record


class Gain(Record):
    """What a fix would do for a file."""

    place: Place
    level: str
    """One of `align`, `shift`, `separate`: what the fix would take."""
    text: int
    """Bytes of text."""
    covered: int
    """How many more of them would be in whole windows."""
    windows: int
    """How many more windows there would be."""
    executable: int
    """How many bytes are only readable and would become executable as well."""
    users: int
    """How many processes map its text."""
    page_size: int
    """Bytes of a window."""

    JSON = (
        "path=place.path page_size level windows text_bytes=text covered_bytes=covered executable_bytes=executable "
        "processes=users"
    )


def gather(
    programs: Sequence[Place], options: FixOptions, progress: Callable[[str], None] = silent, *, search: bool = True
) -> list[Gain]:
    """Return the files among *programs* that would gain windows: running ones first, then by text in them.

    Without *search* only their headers are read, and a few files then gain less than they promise.  A file with several
    names counts once.  Files that cannot be read or fixed, or that a program has unpacked into a cache, are left out.
    """
    running = _running()
    gains, seen = [], set()
    for place in programs:
        path = place.path
        progress(printable(path))
        with contextlib.suppress(HugealignError, OSError), opened(place) as fd:
            info = os.fstat(fd)
            if (info.st_dev, info.st_ino) in seen:
                continue
            seen.add((info.st_dev, info.st_ino))
            if cached(path, fd):
                continue
            # Everything that a fix does except the write: no gain is promised that it would refuse.
            plan = outcome(fd, options).plan if search else planned(fd, options)
            refuse_copy(path, fd, one_name=options.one_name)
            if plan and plan.edits:
                users = max(running[info.st_dev, info.st_ino], running[os.path.realpath(path)])
                more, windows = plan.covered - plan.covered_before, plan.windows - plan.windows_before
                gains.append(Gain(place, plan.level, plan.text, more, windows, plan.executable, users, plan.page_size))
    return sorted(gains, key=lambda gain: (-min(gain.users, 1), -gain.covered, gain.place.path))


def _running() -> "Counter[object]":
    """Return how many processes map each text: by (st_dev, st_ino), and by path for layered file systems."""
    count: Counter[object] = Counter()
    for pid in processes.pids():
        try:
            text = [m for m in smaps.parse(procfs.maps(pid)) if m.executable and m.is_file]
        except OSError:
            continue  # ended, or not ours
        count.update({(os.makedev(*m.device), m.inode) for m in text})
        count.update({m.path for m in text})
    return count
