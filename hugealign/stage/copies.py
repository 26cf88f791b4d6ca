"""One huge copy of a file: which one it is of, what it carries, and whether it is huge."""

import os
from dataclasses import dataclass

from hugealign import replacing
from hugealign.elf.fixrecord import SHIFT, reader
from hugealign.errors import HugealignError
from hugealign.fixing import examine, guarded, writing
from hugealign.fixing.output import Output, fixed
from hugealign.fixing.plan import RefusalError
from hugealign.machine import kernel
from hugealign.pagecache import measure, warming
from hugealign.replacing import ReplaceError


class StageError(HugealignError):
    """The file cannot be staged."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file to stage: *fd* is open for reading, *path* is its real path; *windows* of text a copy of it would have.

    With an *output* the copy is the fixed file (`hugealign fix`).
    """

    path: str
    fd: int
    windows: int
    output: Output | None = None

    @property
    def identity(self) -> str:
        """A name that another state of the file, or another file, does not have."""
        info = os.fstat(self.fd)
        name = f"{info.st_dev:x}-{info.st_ino:x}-{info.st_ctime_ns:x}-{info.st_size:x}"
        return f"{name}-fixed" if self.output else name

    @property
    def size(self) -> int:
        """How long a copy is, in bytes."""
        return self.output.size if self.output else os.fstat(self.fd).st_size


def source(path: str, fd: int, fix: bool = False) -> Source | None:
    """Return what is to be staged of the open file at the real *path*; None if a copy of it would have no window.

    With *fix*, a file without a whole window is fixed in its copy.  Raises HugealignError.
    """
    page_size = kernel.huge_page_size()
    windows = len(measure.text_windows(fd, page_size))
    if windows or not fix:
        return Source(path, fd, windows) if windows else None
    try:
        image = examine.read(fd)
        plan = examine.plan(fd, image, page_size, SHIFT)
        if not plan.edits:
            return None
        output = fixed(reader(fd), image, plan)
    except RefusalError:
        return None
    if guarded.lost(fd, output):
        return None
    return Source(path, fd, plan.windows, output)


def write(origin: Source, target: int) -> None:
    """Write the copy to the empty file *target*; holes stay holes.  Raises StageError."""
    before = _state(origin.fd)
    try:
        if origin.output:
            writing.compose(origin.fd, target, origin.output)
        else:
            replacing.copy_data(origin.fd, target, os.fstat(origin.fd).st_size)
    except (OSError, ReplaceError) as error:
        raise StageError(f"cannot be copied: {getattr(error, 'strerror', None) or error}") from error
    if _state(origin.fd) != before:
        raise StageError("it was changed while it was copied")


def carry(origin: Source, target: int) -> None:
    """Give the copy owner, mode, times and extended attributes of the original.  Raises StageError."""
    try:
        replacing.copy_attributes(origin.fd, target)
    except (OSError, ReplaceError) as error:
        raise StageError(getattr(error, "strerror", None) or str(error)) from error


def huge_windows(fd: int) -> int:
    """Return how many windows of the copy's text are huge; what is not is collapsed, where the kernel can."""
    page_size = kernel.huge_page_size()
    offsets = measure.text_windows(fd, page_size)
    with measure.huge_pages_allowed():
        return sum(warming.warm(fd, offsets, page_size).huge)


def _state(fd: int) -> tuple[int, ...]:
    info = os.fstat(fd)
    return info.st_size, info.st_mtime_ns, info.st_ctime_ns
