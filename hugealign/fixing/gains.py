"""Which programs and libraries would gain the most by a fix, and who runs them."""

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hugealign import settings
from hugealign.errors import HugealignError
from hugealign.fixing.fix import FIX, FixOptions, made
from hugealign.process import processes, smaps
from hugealign.progress import silent
from hugealign.regular import opened
from hugealign.units import printable


@dataclass(frozen=True, slots=True)
class Gain:
    """What a fix would do for the file at *path*: sizes in bytes, *windows* more than now, *users* processes."""

    path: str
    text: int
    windows: int
    executable: int
    users: int


def gather(paths: Sequence[str], page_size: int, level: str, progress: Callable[[str], None] = silent) -> list[Gain]:
    """Return the files among and below *paths* that would gain windows: those that run first, then the largest gain.

    Names of one file count once; what cannot be read or fixed, and text so small that 4 KiB pages serve it as well
    (`settings.MIN_TEXT`), is left out.  Raises HugealignError if there is no such path.
    """
    running = _running()
    seen = set()
    gains = []
    for number, path in enumerate(_files(paths), 1):
        progress(f"{number:,} files")
        with contextlib.suppress(HugealignError, OSError), opened(path) as fd:
            info = os.fstat(fd)
            if (info.st_dev, info.st_ino) in seen or os.pread(fd, 4, 0) != b"\x7fELF":
                continue
            seen.add((info.st_dev, info.st_ino))
            # All that a fix does but writing: what it would refuse is not promised.
            action, _, plan = made(fd, FixOptions(level, page_size))
            if action == FIX and plan and plan.text >= settings.MIN_TEXT:
                users = max(running[info.st_dev, info.st_ino], running[os.path.realpath(path)])
                gains.append(Gain(path, plan.text, plan.windows - plan.windows_before, plan.executable, users))
    return sorted(gains, key=lambda gain: (-min(gain.users, 1), -gain.windows, gain.path))


def _files(paths: Sequence[str]) -> Iterator[str]:
    """Yield the regular files among and below *paths*; symbolic links below them are not followed."""
    for top in paths:
        if not os.path.isdir(top):
            if not os.path.exists(top):
                raise HugealignError(f"{printable(top)}: No such file or directory")
            yield top
        for directory, directories, names in os.walk(top):
            directories.sort()
            for name in sorted(names):
                path = os.path.join(directory, name)
                if os.path.isfile(path) and not os.path.islink(path):
                    yield path


def _running() -> "Counter[object]":
    """Return how many processes have which text mapped: by (st_dev, st_ino), and by path for layered file systems."""
    count: Counter[object] = Counter()
    for pid in processes.pids():
        try:
            with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
                text = [m for m in smaps.parse(lines) if m.executable and m.is_file]
        except OSError:
            continue  # ended, or not ours
        count.update({(os.makedev(*m.device), m.inode) for m in text})
        count.update({m.path for m in text})
    return count
