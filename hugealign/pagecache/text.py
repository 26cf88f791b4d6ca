"""The text of a file in the page cache: `hugealign warm` and `hugealign warm --undo` as functions."""

import os
from collections.abc import Sequence

from hugealign.diagnosis.values import Diagnosis
from hugealign.io import replacing
from hugealign.io.regular import FileError, opened
from hugealign.pagecache import diagnose, measure, warming
from hugealign.pagecache.warming import Progress, Warmth
from hugealign.records import Record
from hugealign.system import kernel, memory


class WarmOptions(Record):
    """What to warm, and how.

    *windows*: only this many leading windows; None for as many as the build of the file asks for.  *check*: only
    measure.  *replace*: put a warm copy in place of a file that cannot be warmed.  *wait*: seconds to wait for
    khugepaged.  *rodata*: also the windows of read-only data, even if the build of the file does not ask for them.
    *explain*: find out why windows are not huge, which takes longer than all else.
    """

    windows: int | None = None
    check: bool = False
    replace: bool = False
    wait: float = 0.0
    rodata: bool = False
    explain: bool = True


class _Counted:
    """The common part of results: the windows of a file at *offsets*, and in *warmth* which of them are huge."""

    __slots__ = ()
    offsets: Sequence[int]
    warmth: Warmth

    @property
    def huge(self) -> int:
        """The number of huge windows."""
        return sum(self.warmth.huge)

    @property
    def small(self) -> list[int]:
        """The file offsets of the windows that are not huge."""
        return [offset for offset, good in zip(self.offsets, self.warmth.huge, strict=True) if not good]


class CachedRodata(_Counted, Record):
    """The windows of a file's read-only data, at the file offsets *offsets* in bytes, and which of them are huge.

    *diagnosis* is the reason why the goal was not reached.
    """

    offsets: Sequence[int]
    warmth: Warmth
    diagnosis: Diagnosis | None = None


class CachedText(_Counted, Record):
    """The windows of the file at *path*, at the file offsets *offsets* in bytes, and which of them are huge.

    *diagnosis* is the reason why the goal was not reached, None if it was.  *replaced*: a copy took the place of the
    file; *notes*: what else the user should know.  *rodata* are the windows of read-only data, None if nobody
    asked for them.
    """

    path: str
    page_size: int
    offsets: Sequence[int]
    warmth: Warmth
    diagnosis: Diagnosis | None = None
    replaced: bool = False
    notes: Sequence[Diagnosis] = ()
    rodata: CachedRodata | None = None

    @property
    def whole(self) -> bool:
        """Whether everything that was asked for is huge."""
        return bool(self.offsets) and not self.small and not (self.rodata and self.rodata.small)


def warm(path: str, options: WarmOptions | None = None, progress: Progress | None = None) -> CachedText:
    """Bring the text of the file at *path* into the page cache in huge folios, as *options* say.

    After each window, *progress* is called with the number of windows done and the total.  Raises HugealignError if the
    file cannot be examined.
    """
    options = options or WarmOptions()
    page_size = kernel.huge_page_size()
    with measure.huge_pages_allowed(), opened(path) as fd:
        limit, notes = options.windows, list[Diagnosis]()
        if limit is None and (limit := measure.windows_meant(fd, page_size)):
            notes.append(Diagnosis("text.windows-meant", path, {"windows": limit}))
        offsets = measure.text_windows(fd, page_size, limit)
        asked = options.rodata or measure.rodata_meant(fd, page_size)
        warmth, diagnosis = _warmed(fd, path, offsets, page_size, options, progress)
        if not offsets:
            diagnosis = diagnose.no_window(path, page_size)
        rodata = None
        if asked:
            places = measure.rodata_windows(fd, page_size)
            rodata = CachedRodata(places, *_warmed(fd, path, places, page_size, options))
        done = CachedText(path, page_size, offsets, warmth, diagnosis, notes=notes, rodata=rodata)
        return _replaced(done, fd, progress) if options.replace and offsets and not done.whole else done


def _warmed(
    fd: int,
    path: str,
    offsets: Sequence[int],
    page_size: int,
    options: WarmOptions,
    progress: Progress | None = None,
) -> tuple[Warmth, Diagnosis | None]:
    """Warm the windows at *offsets*, or only measure them, as *options* say; return the result and the diagnosis."""
    hits = memory.limit_hits()
    if options.check:
        warmth = Warmth(tuple(measure.measure(fd, offsets, page_size)))
    else:
        warmth = warming.warm(fd, offsets, page_size, progress, options.wait)
    if all(warmth.huge) or not options.explain:
        return warmth, None
    return warmth, diagnose.not_warmed(path) if options.check else diagnose.after_warming(fd, path, warmth, hits)


def cool(path: str, progress: Progress | None = None, *, rodata: bool = False) -> CachedText:
    """Bring the text of the file at *path* into the page cache in small pages, with *rodata* its read-only data too.

    Like `warm`, it includes read-only data unasked if the build of the file asks for them.  Raises HugealignError as
    `warm` does.
    """
    page_size = kernel.huge_page_size()
    with measure.huge_pages_allowed(), opened(path) as fd:

        def cooled(offsets: Sequence[int], progress: Progress | None) -> tuple[Warmth, Diagnosis | None]:
            warmth = warming.cool(fd, offsets, page_size, progress)
            return warmth, diagnose.after_cooling(fd, path) if any(warmth.huge) else None

        offsets = measure.text_windows(fd, page_size, all_text=True)
        warmth, diagnosis = cooled(offsets, progress)
        data = None
        if rodata or measure.rodata_meant(fd, page_size):
            places = measure.rodata_windows(fd, page_size)
            data = CachedRodata(places, *cooled(places, None))
        return CachedText(path, page_size, offsets, warmth, diagnosis, rodata=data)


def _replaced(before: CachedText, fd: int, progress: Progress | None) -> CachedText:
    """Replace the file behind *fd*, which could not be warmed, by a warm copy, unless the copy is no warmer."""
    from hugealign.system import journal  # `run` warms and never replaces

    path, rodata = before.path, before.rodata
    warmth, cold = before.warmth, rodata.warmth if rodata else Warmth(())
    hits = memory.limit_hits()

    def warmer(copy: int) -> bool:
        nonlocal warmth, cold
        warmth = warming.warm(copy, before.offsets, before.page_size, progress)
        if rodata:
            cold = warming.warm(copy, rodata.offsets, before.page_size)
        return sum(warmth.huge) + sum(cold.huge) > before.huge + (rodata.huge if rodata else 0)

    def kept(reason: str) -> CachedText:
        return before.changed(notes=[*before.notes, Diagnosis("cache.not-replaced", path, {"reason": reason})])

    users = diagnose.users_of(os.fstat(fd), path)
    unsynced = ""
    try:
        with journal.noted(journal.REPLACED, path) as unwritten:
            if not replacing.replace(path, warmer):
                return kept("no-gain")
    except replacing.ReplaceError as error:
        if not error.changed:
            return kept(error.obstacle or diagnose.error_name(error))
        unsynced = diagnose.error_name(error)
    except FileError as error:
        return kept(diagnose.error_name(error))
    notes = [*before.notes, Diagnosis("cache.copied", path, {"error": unsynced})]
    notes += [unwritten] if unwritten else []
    if users:
        notes.append(Diagnosis("cache.replaced", path, users))
    with opened(path) as now:

        def judged(warmth: Warmth) -> Diagnosis | None:
            return None if all(warmth.huge) else diagnose.after_warming(now, path, warmth, hits)

        data = CachedRodata(rodata.offsets, cold, judged(cold)) if rodata else None
        return before.changed(warmth=warmth, diagnosis=judged(warmth), replaced=True, notes=notes, rodata=data)
