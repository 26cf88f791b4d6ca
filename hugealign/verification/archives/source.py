"""Bytes that are read once, from front to back: from a file, from a part of it, or from a decompressor.

Every size in an archive is untrusted.  `Work` bounds the work: each unpacked byte is charged to it.
"""

import io
import os

from hugealign.io.descriptors import write_all
from hugealign.io.units import printable
from hugealign.verification.archives.limits import ArchiveError, Work

CHUNK = 1 << 17
_ZEROS = bytes(CHUNK)


class ByteSource:
    """Bytes from front to back; subclasses supply `_next`."""

    __slots__ = ("_ahead",)

    def __init__(self) -> None:
        self._ahead = b""

    def _next(self, size: int) -> bytes:
        """Return one to *size* bytes, or none at the end."""
        raise NotImplementedError

    def peek(self, size: int) -> bytes:
        """Return the next *size* bytes, fewer only at the end, without passing over them."""
        if len(self._ahead) < size:
            parts = [self._ahead]
            left = size - len(self._ahead)
            while left > 0 and (more := self._next(left)):
                parts.append(more)
                left -= len(more)
            self._ahead = b"".join(parts)  # once: with many small parts, each addition would copy all before
        return self._ahead[:size]

    def read(self, size: int) -> bytes:
        """Return one to *size* bytes, or none at the end."""
        if self._ahead:
            data, self._ahead = self._ahead[:size], self._ahead[size:]
            return data
        return self._next(size) if size else b""

    def exactly(self, size: int) -> bytes:
        """Return *size* bytes.  Raises ArchiveError if there are fewer."""
        data = self.peek(size)
        if len(data) < size:
            raise ArchiveError("the archive is truncated")
        self._ahead = self._ahead[size:]
        return data

    def skip(self, size: int) -> None:
        """Pass over *size* bytes.  Raises ArchiveError if there are fewer."""
        while size > 0:
            data = self.read(min(size, CHUNK))
            if not data:
                raise ArchiveError("the archive is truncated")
            size -= len(data)

    def part(self, size: int) -> "ByteSource":
        """Return the next *size* bytes as a source of their own; `finish` it before this one is read on."""
        return Slice(self, size)

    def finish(self) -> None:
        """Pass over the rest, so that checksums at the end are seen."""
        self._ahead = b""
        while self._next(CHUNK):
            pass

    def again(self) -> "ByteSource | None":
        """Return the same bytes once more from the front, or None if they can be read only once."""
        return None


class FileSource(ByteSource):
    """The bytes of *fd* from *start* to *end*; passing over them costs nothing."""

    __slots__ = ("_at", "end", "fd", "start")

    def __init__(self, fd: int, start: int, end: int) -> None:
        super().__init__()
        self.fd = fd
        self.start = self._at = start
        self.end = end

    def _next(self, size: int) -> bytes:
        data = os.pread(self.fd, min(size, self.end - self._at), self._at)
        self._at += len(data)
        return data

    def skip(self, size: int) -> None:
        """Pass over *size* bytes without reading them.  Raises ArchiveError if there are fewer."""
        if size > len(self._ahead) + self.end - self._at:
            raise ArchiveError("the archive is truncated")
        ahead = min(size, len(self._ahead))
        self._ahead = self._ahead[ahead:]
        self._at += size - ahead

    def part(self, size: int) -> "FileSource":
        """Return the next *size* bytes, and pass over them.  Raises ArchiveError if there are fewer."""
        start = self._at - len(self._ahead)
        self.skip(size)
        return FileSource(self.fd, start, start + size)

    def finish(self) -> None:
        """Pass over the rest."""
        self._ahead = b""
        self._at = self.end

    def again(self) -> "FileSource":
        """Return the same bytes once more."""
        return FileSource(self.fd, self.start, self.end)


class Slice(ByteSource):
    """The next *size* bytes of another source."""

    __slots__ = ("_left", "_whole")

    def __init__(self, whole: ByteSource, size: int) -> None:
        super().__init__()
        self._whole = whole
        self._left = size

    def _next(self, size: int) -> bytes:
        if not self._left:
            return b""
        data = self._whole.read(min(size, self._left))
        if not data:
            raise ArchiveError("the archive is truncated")
        self._left -= len(data)
        return data

    def skip(self, size: int) -> None:
        """Pass over *size* bytes, as cheaply as the whole can.  Raises ArchiveError if there are fewer."""
        ahead = min(size, len(self._ahead))
        self._ahead = self._ahead[ahead:]
        if size - ahead > self._left:
            raise ArchiveError("the archive is truncated")
        self._left -= size - ahead
        self._whole.skip(size - ahead)

    def finish(self) -> None:
        """Pass over the rest, so that the whole can be read on."""
        self._ahead = b""
        left, self._left = self._left, 0
        self._whole.skip(left)


class Member:
    """One regular file in an archive."""

    __slots__ = ("name", "source")

    def __init__(self, name: bytes, source: ByteSource) -> None:
        self.name = os.fsdecode(name)
        self.source = source


def temporary_directory() -> str:
    """Return where temporary files go."""
    return os.environ.get("TMPDIR") or "/tmp"  # noqa: S108  # files there have no name


def unnamed_file() -> io.FileIO:
    """Return a temporary file without a name, which vanishes however we end.  Raises ArchiveError."""
    # Not tempfile's: it tests the directory with a named file, which a kill leaves behind.
    flags = os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC
    try:
        return io.FileIO(os.open(temporary_directory(), flags, 0o600), "r+")
    except OSError:
        import tempfile  # for file systems that have no O_TMPFILE

        try:
            with tempfile.TemporaryFile(buffering=0, dir=temporary_directory()) as file:
                return io.FileIO(os.dup(file.fileno()), "r+")
        except OSError as error:
            where = printable(temporary_directory())
            raise ArchiveError(f"no temporary file in {where}: {error.strerror}; TMPDIR names another place") from error


def spool(source: ByteSource, fd: int, work: Work) -> None:
    """Make *source* the content of the file behind *fd*; zeros become holes.  Raises what *source* raises, OSError."""
    os.ftruncate(fd, 0)
    size = 0
    while data := source.read(CHUNK):
        if data == (_ZEROS if len(data) == CHUNK else _ZEROS[: len(data)]):
            work.unpacked(len(data))
        else:
            work.copied(len(data))
            write_all(fd, data, size)
        size += len(data)
    os.ftruncate(fd, size)
