"""The text of a file in the page cache: `hugealign warm` and `hugealign warm --undo` as functions."""

import os
from collections.abc import Sequence

from hugealign.diagnosis.values import Diagnosis
from hugealign.io import copying, replacing
from hugealign.io.regular import FileError, locked, named, opened
from hugealign.pagecache import diagnose, measure, warming
from hugealign.pagecache.warming import Progress, Warmth
from hugealign.records import Record
from hugealign.system import kernel, memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.io.places import Place


class WarmOptions(Record):
    """What to warm, and how.

    Attributes:
        windows: The number of leading windows to warm; None for as many as the build of the file requests.
        check: Only measure.
        replace: Put a warm copy in place of a file that cannot be warmed.
        wait: Seconds to wait for khugepaged.
        explain: Find out why windows are not huge, which takes longer than all else.
    """

    windows: int | None = None
    check: bool = False
    replace: bool = False
    wait: float = 0.0
    explain: bool = True


class CachedText(Record):
    """The windows of a file, and which of them are huge."""

    path: str
    offsets: Sequence[int]
    """The file offsets of the windows, in bytes."""
    warmth: Warmth
    diagnosis: Diagnosis | None = None
    """Why the goal was not reached; None if it was."""
    replaced: bool = False
    """Whether a copy took the place of the file."""
    notes: Sequence[Diagnosis] = ()
    """What else there is to know."""
    library: bool = False
    """Whether it was not named, but is a library of what was."""

    JSON = (
        "path library replaced windows windows_huge=huge huge_bytes small_offsets=small methods=warmth.methods "
        "diagnosis notes"
    )

    @property
    def windows(self) -> int:
        """The number of windows."""
        return len(self.offsets)

    @property
    def page_size(self) -> int:
        """Bytes of a window."""
        return kernel.huge_page_size()

    @property
    def huge_bytes(self) -> int:
        """Bytes of the huge windows."""
        return self.huge * kernel.huge_page_size()

    @property
    def huge(self) -> int:
        """The number of huge windows."""
        return sum(self.warmth.huge)

    @property
    def small(self) -> list[int]:
        """The file offsets of the windows that are not huge."""
        return [offset for offset, good in zip(self.offsets, self.warmth.huge, strict=True) if not good]


def warm(path: "str | Place", options: WarmOptions | None = None, progress: Progress | None = None) -> CachedText:
    """Bring the text of a file into the page cache in huge folios.

    Args:
        path: The program or library; a Place is reached without links.
        options: What to warm, and how.
        progress: Called after each window with the number of windows done and the total.

    Returns:
        The state of each window afterwards and, where one is not huge, the diagnosis.

    Raises:
        HugealignError: The file cannot be examined.
    """
    options = options or WarmOptions()
    file = named(path) if options.replace and isinstance(path, str) else path
    path = _path(file)
    with measure.huge_pages_allowed(), opened(file) as fd:
        limit, notes = options.windows, list[Diagnosis]()
        if limit is None and (limit := measure.windows_meant(fd)):
            notes.append(Diagnosis("text.windows-meant", path, {"windows": limit}))
        offsets = measure.text_windows(fd, limit)
        hits = memory.limit_hits()
        if options.check:
            warmth = Warmth(tuple(measure.measure(fd, offsets)))
        else:
            warmth = warming.warm(fd, offsets, progress, options.wait)
        diagnosis = None
        if not offsets:
            diagnosis = diagnose.no_window(path)
        elif options.check and not all(warmth.huge):
            diagnosis = diagnose.not_warmed(path)
        elif options.explain and not all(warmth.huge):
            diagnosis = diagnose.after_warming(fd, path, warmth, hits)
        done = CachedText(path, offsets, warmth, diagnosis, notes=notes)
        if isinstance(file, str) or not options.replace or not done.small:
            return done
        return _replaced(file, done, fd, progress)


def _path(file: "str | Place") -> str:
    return file if isinstance(file, str) else file.path


def window_bytes(file: "str | Place") -> int:
    """Return how many bytes of memory the windows of *file* take.  Raises HugealignError."""
    with opened(file) as fd:
        return len(measure.text_windows(fd)) * kernel.huge_page_size()


def cool(path: "str | Place", progress: Progress | None = None) -> CachedText:
    """Bring the text of a file into the page cache in small pages.

    Args:
        path: The program or library; a Place is reached without links.
        progress: Called after each window with the number of windows done and the total.

    Raises:
        HugealignError: The file cannot be examined.
    """
    with measure.huge_pages_allowed(), opened(path) as fd:
        offsets = measure.text_windows(fd, all_text=True)
        warmth = warming.cool(fd, offsets, progress)
        diagnosis = diagnose.after_cooling(fd, _path(path)) if any(warmth.huge) else None
        return CachedText(_path(path), offsets, warmth, diagnosis)


def _replaced(file: "Place", before: CachedText, fd: int, progress: Progress | None) -> CachedText:
    """Replace *file*, open as *fd*, which could not be warmed, by a warm copy, if the copy is warmer."""
    from hugealign.system import journal  # `run` warms and never replaces

    path, warmth = before.path, before.warmth
    hits = memory.limit_hits()

    def warmer(copy: int) -> bool:
        nonlocal warmth
        warmth = warming.warm(copy, before.offsets, progress)
        return sum(warmth.huge) > before.huge

    users = diagnose.users_of(os.fstat(fd), path)
    replaced, notes = True, list(before.notes)
    try:
        with locked(file), journal.noted(journal.REPLACED, file) as unwritten:
            if not (replaced := replacing.replace(file, warmer, held=fd)):  # unless another file has its name now
                notes.append(Diagnosis("cache.no-gain", path, {}))
        notes += [unwritten] if unwritten else []
    except (copying.ReplaceError, FileError) as error:
        replaced = error.code == copying.NOT_SYNCED
        notes.append(Diagnosis(error.code, path, error.facts))
    if not replaced:
        return before.changed(notes=notes)
    notes.insert(0, Diagnosis("cache.copied", path, {}))
    if users:
        notes.append(Diagnosis("cache.replaced", path, users))
    with opened(file) as now:
        diagnosis = None if all(warmth.huge) else diagnose.after_warming(now, path, warmth, hits)
        return before.changed(warmth=warmth, diagnosis=diagnosis, replaced=True, notes=notes)
