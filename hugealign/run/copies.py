"""One huge copy of a file: its original, its attributes, and whether it is huge."""

import functools
import os
from collections.abc import Container, Iterable
from contextlib import suppress

from hugealign.diagnosis.refusal import RefusalError, error_name
from hugealign.elf.coverage import text_size
from hugealign.elf.image import read_image
from hugealign.elf.windows import joined
from hugealign.errors import HugealignError
from hugealign.io import copying
from hugealign.io.caches import cached
from hugealign.io.descriptors import using
from hugealign.io.regular import opened
from hugealign.pagecache import measure, warming
from hugealign.records import Record
from hugealign.system import kernel, memory, namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.diagnosis.values import Diagnosis
    from hugealign.fixing.output import Output

#: The suffix of the identities of fixed copies.
FIXED = "-fixed"
#: Copies get one part in this many of the memory that a limited control group has left.
_SHARE = 4


class StagedFile(Record):
    """A file to stage: *path* is its real path, *fd* is open for reading, and its copy would have *windows* of text.

    *info* is its state from before anything of it was looked at.  With an *output*, the copy is the fixed file
    (`hugealign fix`); *executable* bytes of read-only data can be executed there, unlike in the original.  A fixed copy
    that is *there* already has so many bytes.
    """

    path: str
    fd: int
    info: os.stat_result
    windows: int
    output: "Output | None" = None
    executable: int = 0
    there: int = 0

    @property
    def fixed(self) -> bool:
        """Whether the copy is the fixed file."""
        return bool(self.output or self.there)

    @property
    def identity(self) -> str:
        """A name that no other file, and no other state of this file, has."""
        return identity(self.info, self.fixed)

    @property
    def size(self) -> int:
        """The size of a copy in bytes."""
        return self.output.size if self.output else self.there or self.info.st_size


class Fixes:
    """What a fix makes of files, each found once for a command: all code of a file is searched for it."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, Output, int] | None] = {}

    def of(self, fd: int, windows: int) -> "tuple[int, Output, int] | None":
        """Return the windows of the fixed file, the file, and how many bytes of data it makes executable.

        None if a fix gains no window, where there are *windows*.  Raises HugealignError.
        """
        from hugealign.fixing.fix import FIX, FixOptions, most_windows, outcome

        key = identity(os.fstat(fd), fixed=True)
        if key not in self._known:
            self._known[key] = None
            options = FixOptions(page_size=kernel.huge_page_size())
            with suppress(RefusalError):
                if most_windows(fd, options) <= windows:  # all code would be searched for nothing
                    return None
                new = outcome(fd, options)
                if new.plan and new.action == FIX and new.plan.windows > windows:
                    self._known[key] = new.plan.windows, new.output, new.plan.executable
        return self._known[key]


def identity(info: os.stat_result, fixed: bool) -> str:
    """Return a name for the state *info* of a file, or for the *fixed* file made from it."""
    name = f"{info.st_dev:x}-{info.st_ino:x}-{info.st_ctime_ns:x}-{info.st_size:x}"
    return f"{name}{FIXED}" if fixed else name


def is_identity(name: str) -> bool:
    """Return whether *name* looks like one that `identity` returns."""
    parts = name.removesuffix(FIXED).split("-")
    return len(parts) == 4 and all(part and not part.strip("0123456789abcdef") for part in parts)


def source(path: str, fd: int, fixes: Fixes | None = None) -> StagedFile | None:
    """Return what to stage of the open file at the real *path*; None if a copy of it would have no window.

    With *fixes*, the copy of a file that a fix gives more windows is fixed, unless a program has unpacked the file into
    a cache.  Raises HugealignError.
    """
    info = os.fstat(fd)
    if fixes:  # which takes memory, less than the copy
        _check_room(info.st_size)
    windows = len(measure.text_windows(fd))
    if fixes and not cached(path, fd) and (new := fixes.of(fd, windows)):
        return StagedFile(path, fd, info, *new)
    return StagedFile(path, fd, info, windows) if windows else None


def is_small_library(path: str) -> bool:
    """Return whether the library at *path* has less than half a window of text: not worth the windows of a copy.

    It has no whole window, and a fixed copy of it takes up to three more huge pages than its file.
    """
    with suppress(OSError, HugealignError), opened(path) as fd:
        return text_size(read_image(fd)) < kernel.huge_page_size() // 2
    return False


def in_windows(origin: StagedFile, offsets: Iterable[int]) -> list[bool]:
    """Return for each of *offsets* of the original whether the byte there is in a window of the copy.

    All of a copy is huge, so windows of a segment with code count even if they hold none.
    """
    page_size = kernel.huge_page_size()
    if origin.output is None:
        windows = _windows(origin.fd)
        return [any(offset // page_size in some for some in windows) for offset in offsets]
    from hugealign.fixing.moves import moved

    with using(os.memfd_create("headers", os.MFD_CLOEXEC)) as headers:  # they say where the text is
        os.ftruncate(headers, origin.output.size)
        for at, data in origin.output.writes:
            os.pwrite(headers, data, at)
        windows = _windows(headers)
    numbers = (moved(origin.output.pieces, offset) // page_size for offset in offsets)
    return [any(number in some for some in windows) for number in numbers]


def _windows(fd: int) -> list[Container[int]]:
    """Return the numbers of the windows of the open file that hold code, and of all of each segment with such."""
    page_size = kernel.huge_page_size()
    code = {offset // page_size for offset in measure.text_windows(fd)}
    wholes = [
        range(-(-segment.p_offset // page_size), (segment.p_offset + segment.p_filesz) // page_size)
        for segment in joined(read_image(fd).text_segments)
    ]
    return [code, *(whole for whole in wholes if any(number in whole for number in code))]


def pages_inside(origin: StagedFile, pages: Iterable[int]) -> set[int]:
    """Return those *pages*, numbers of pages of 4 KiB of the original, that are in a window of the copy's text."""
    listed = list(pages)
    good = in_windows(origin, (page << 12 for page in listed))
    return {page for page, is_good in zip(listed, good, strict=True) if is_good}


def without_windows(path: str, *argv: str, needs: str = "") -> "Diagnosis":
    """Return why a copy of the file at *path* would have no window; *argv* is the command that would fix the copy."""
    from hugealign.fixing import remedies

    diagnosis = remedies.diagnose(path, kernel.huge_page_size())
    if diagnosis.remedy and diagnosis.remedy.after is not None:
        diagnosis = diagnosis.changed(remedy=diagnosis.remedy.changed(argv=argv, needs=needs))
    return diagnosis


def check(origin: StagedFile) -> None:
    """Check that a copy on another file system may replace the file.  Raises RefusalError."""
    if namespace.noexec(origin.fd):
        raise RefusalError("copy.mount-option", option="noexec")
    if namespace.privileged(origin.fd) and namespace.nosuid(origin.fd):
        raise RefusalError("copy.mount-option", option="nosuid")
    if copying.sealed(origin.fd):
        raise RefusalError("copy.sealed")


def write(origin: StagedFile, target: int) -> None:
    """Write the copy to the empty file *target*; holes stay holes.  Raises RefusalError."""
    _check_room(origin.size)
    try:
        if origin.output:
            from hugealign.fixing import writing

            writing.compose(origin.fd, target, origin.output)
        else:
            copying.copy_data(origin.fd, target, origin.size)
    except OSError as error:
        raise RefusalError("copy.failed", error=error_name(error)) from error
    refuse_changed(origin)


def _check_room(size: int) -> None:
    """Raise RefusalError if a copy of *size* bytes could take memory that processes need.

    A copy too large for the control group kills processes, us or others; a full tmpfs is only an error.  When the
    program needs memory, the kernel can drop pages of a file, but none of a copy.  So all copies of this process
    together get one part in `_SHARE` of what the group had left before the first.
    """
    rooms, group = [kernel.available_memory()], memory.room()
    if group is not None:
        rooms.append(max(0, group - _kept()))
    room = min((room for room in rooms if room is not None), default=size)
    if size > room:
        raise RefusalError("copy.no-room", size=size, room=room)


@functools.cache
def _kept() -> int:
    """Return the bytes of the control group that no copy of this process may take."""
    room = memory.room() or 0
    return room - room // _SHARE


def refuse_changed(origin: StagedFile) -> None:
    """Raise RefusalError if the file is not as it was when we first looked at it."""
    keys = ("st_size", "st_mtime_ns", "st_ctime_ns", "st_mode")  # owners are others in a user namespace
    now = os.fstat(origin.fd)
    if any(getattr(now, key) != getattr(origin.info, key) for key in keys):
        raise RefusalError(copying.CHANGED)


def carry(origin: StagedFile, target: int, owner: bool = True) -> None:
    """Give the copy owner, mode, times and extended attributes of the original; without *owner*, mode and times only.

    It confers no privileges.  Raises RefusalError.
    """
    info = origin.info
    try:
        if owner:
            copying.copy_attributes(origin.fd, target, info)
        else:
            # We own the copy, and may execute the original, perhaps through its group.
            os.fchmod(target, info.st_mode & 0o777 | 0o500)
            os.utime(target, ns=(info.st_atime_ns, info.st_mtime_ns))
    except OSError as error:
        raise RefusalError("copy.attributes", attribute="owner", error=error_name(error)) from error


def huge_windows(fd: int) -> int:
    """Return how many windows of the copy's text are huge; the others are collapsed if the kernel can."""
    offsets = measure.text_windows(fd)
    with measure.huge_pages_allowed():
        huge = measure.measure(fd, offsets, present=True)
        small = [offset for offset, good in zip(offsets, huge, strict=True) if not good]
        return sum(huge) + sum(warming.warm(fd, small).huge)


def diagnosis(fd: int) -> "Diagnosis":
    """Return why windows of the copy are small; found by another attempt at them."""
    from hugealign.pagecache import diagnose  # not needed as long as all is well

    hits = memory.limit_hits()
    with measure.huge_pages_allowed():
        warmth = warming.warm(fd, measure.text_windows(fd))
    return diagnose.after_copying(warmth, hits)


def uncopied(error: OSError | HugealignError) -> HugealignError:
    """Return what *error* says of the copy that was being made: an error of the system is not about the file.

    AppArmor, for example, can deny even fstat of the file that is copied.
    """
    return RefusalError("copy.failed", error=error_name(error)) if isinstance(error, OSError) else error
