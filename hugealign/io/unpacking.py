"""Unpack compressed data within bounds: bytes that are read once, from front to back, and what they may cost.

Every size in a packed file is untrusted.  Whatever it says, its readers pay from one `Budget` for what they do: for
each byte from a decompressor or a hole, each byte that is copied to a temporary file or parsed, each
header, name and stream, each program that is started.  All levels of nesting pay from the same budget: a bound per
stream or per level would multiply.

The factors leave room for every honest file that we know: packages unpack to at most 20 times their size, perf's text
to 50 times, and a file of an archive takes more than 8 bytes even among a hundred thousand empty ones.
"""

import errno
import io
import os
import subprocess
import zlib
from collections.abc import Callable
from typing import IO, Protocol

from hugealign.errors import TRUNCATED, DamagedError, HugealignError
from hugealign.io.descriptors import write_all
from hugealign.io.units import format_size, printable

CHUNK = 1 << 17
WINDOW = 68 << 20  # bytes of memory for one xz decompressor: `xz -9` needs 65 MiB
#: What a packed file may unpack to by default: bytes in any case, and bytes per byte of its own.
FREE, FACTOR = 64 << 20, 128
_MEMBER, _PROCESS = 1 << 10, 256 << 10  # in unpacked bytes, what a header counts, and a run of zstd
_FIRST = 1 << 12  # bytes that are unpacked at first, to find out the kind of a file
_ZEROS = bytes(CHUNK)


class UnpackError(DamagedError):
    """The packed data are damaged, or of a form that is not known."""


class LimitError(HugealignError):
    """The file causes more work than it may; ends the check of the named file."""


class Budget:
    """What one named file of *size* bytes may unpack to: *most* bytes, by default in proportion to its size."""

    __slots__ = ("_left", "_most", "_proportional")

    def __init__(self, size: int = 0, most: int | None = None) -> None:
        self._proportional = most is None
        self._most = self._left = FREE + FACTOR * size if most is None else most

    def grow(self, size: int) -> None:
        """Note that the file, which may be a pipe, has *size* bytes more."""
        if self._proportional:
            self._most += FACTOR * size
            self._left += FACTOR * size

    def spend(self, size: int) -> None:
        """Pay for *size* bytes out of a decompressor or a hole, copied or parsed.  Raises LimitError."""
        self._left -= size
        if self._left < 0:
            raise LimitError(
                f"unpacks to more than {format_size(self._most)}; --max-unpacked=SIZE allows more",
                "file.too-large",
                limit=self._most,
            )

    def members(self, count: int = 1) -> None:
        """Pay for *count* headers, names, references or streams.  Raises LimitError."""
        self.spend(count * _MEMBER)

    def process(self) -> None:
        """Pay for a program that is started.  Raises LimitError."""
        self.spend(_PROCESS)


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
        """Return *size* bytes.  Raises UnpackError if there are fewer."""
        data = self.peek(size)
        if len(data) < size:
            raise UnpackError(code=TRUNCATED)
        self._ahead = self._ahead[size:]
        return data

    def skip(self, size: int) -> None:
        """Pass over *size* bytes.  Raises UnpackError if there are fewer."""
        while size > 0:
            data = self.read(min(size, CHUNK))
            if not data:
                raise UnpackError(code=TRUNCATED)
            size -= len(data)

    def part(self, size: int) -> "ByteSource":
        """Return the next *size* bytes as a source of their own; `finish` it before this one is read on."""
        return Slice(self, size)

    def finish(self) -> None:
        """Pass over the rest, so that checksums at the end are seen."""
        self._ahead = b""
        while self._next(CHUNK):
            pass

    def reopened(self) -> "ByteSource | None":
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

    @property
    def at(self) -> int:
        """The offset of the next byte in the file."""
        return self._at - len(self._ahead)

    def _next(self, size: int) -> bytes:
        data = os.pread(self.fd, min(size, self.end - self._at), self._at)
        self._at += len(data)
        return data

    def skip(self, size: int) -> None:
        """Pass over *size* bytes without reading them.  Raises UnpackError if there are fewer."""
        if size > len(self._ahead) + self.end - self._at:
            raise UnpackError(code=TRUNCATED)
        ahead = min(size, len(self._ahead))
        self._ahead = self._ahead[ahead:]
        self._at += size - ahead

    def part(self, size: int) -> "FileSource":
        """Return the next *size* bytes, and pass over them.  Raises UnpackError if there are fewer."""
        start = self.at
        self.skip(size)
        return FileSource(self.fd, start, start + size)

    def finish(self) -> None:
        """Pass over the rest."""
        self._ahead = b""
        self._at = self.end

    def reopened(self) -> "FileSource":
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
            raise UnpackError(code=TRUNCATED)
        self._left -= len(data)
        return data

    def skip(self, size: int) -> None:
        """Pass over *size* bytes, as cheaply as the whole can.  Raises UnpackError if there are fewer."""
        ahead = min(size, len(self._ahead))
        self._ahead = self._ahead[ahead:]
        if size - ahead > self._left:
            raise UnpackError(code=TRUNCATED)
        self._left -= size - ahead
        self._whole.skip(size - ahead)

    def finish(self) -> None:
        """Pass over the rest, so that the whole can be read on."""
        self._ahead = b""
        left, self._left = self._left, 0
        self._whole.skip(left)


class StreamSource(ByteSource):
    """What can be read of *stream*, which may be a pipe; *budget* grows with it."""

    __slots__ = ("_budget", "_stream")

    def __init__(self, stream: io.BufferedReader, budget: Budget) -> None:
        super().__init__()
        self._stream = stream
        self._budget = budget

    def _next(self, size: int) -> bytes:
        data = self._stream.read1(size)
        self._budget.grow(len(data))
        return data


class Decompressor(Protocol):
    """What the decompressors of `bz2` and `lzma` have in common."""

    @property
    def eof(self) -> bool: ...  # noqa: D102
    @property
    def needs_input(self) -> bool: ...  # noqa: D102
    @property
    def unused_data(self) -> bytes: ...  # noqa: D102
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...  # noqa: D102


class _Zlib:
    """zlib's decompressor with the interface of the others."""

    __slots__ = ("_tail", "_zlib")

    def __init__(self, wbits: int) -> None:
        self._zlib = zlib.decompressobj(wbits)
        self._tail = b""

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        return not self._tail

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        out = self._zlib.decompress(self._tail + data, max_length)
        self._tail = self._zlib.unconsumed_tail
        return out


class Inflated(ByteSource):
    """What *source* unpacks to.  Further streams behind the first count if they begin with *magic*."""

    __slots__ = ("_budget", "_ended", "_error", "_given", "_make", "_out", "_packed", "_source", "_step", "magic")

    def __init__(self, source: ByteSource, make: Callable[[], Decompressor], magic: bytes, budget: Budget) -> None:
        super().__init__()
        self.magic = magic
        self._source = source
        self._make = make
        self._budget = budget
        budget.members()
        self._packed = make()
        self._out = b""
        self._given = 0  # bytes of _out
        self._step = _FIRST
        self._ended = False
        self._error = ""

    def _next(self, size: int) -> bytes:
        # More than is requested: a decompressor copies all of its input each time, however few bytes are requested.
        if self._given == len(self._out):
            self._out, self._given = self._unpack(max(self._step, min(size, CHUNK))), 0
            self._step = min(2 * self._step, CHUNK)
        data = self._out[self._given : self._given + size]
        self._given += len(data)
        return data

    def _unpack(self, size: int) -> bytes:
        if self._error:
            raise UnpackError(self._error)
        while not self._ended:
            data = self._input()
            if self._ended:
                break
            try:
                out = self._packed.decompress(data, size)
            except (zlib.error, OSError, EOFError, ValueError):
                self._error = "compressed data"
            except _lzma_error():  # or packed with more than -9
                self._error = "xz data"
            if self._error:  # and never call again after a failure: libbzip2 answers with a RuntimeError
                raise UnpackError(self._error)
            if out:
                self._budget.spend(len(out))
                return out
            if not data and self._packed.needs_input and not self._packed.eof:
                raise UnpackError(code=TRUNCATED)
        return b""

    def _input(self) -> bytes:
        if not self._packed.eof:
            return self._source.read(CHUNK) if self._packed.needs_input else b""
        data = self._packed.unused_data or self._source.read(CHUNK)
        if self.magic and len(data) < len(self.magic):
            data += self._source.read(CHUNK)
        if self.magic and data.startswith(self.magic):
            self._budget.members()
            self._packed = self._make()
        else:
            self._ended = True  # padding, a signature: gzip(1) and xz(1) pass over zeros, and others over anything
        return data

    def reopened(self) -> "Inflated | None":
        """Return the same bytes once more, if *source* can be read again."""
        source = self._source.reopened()
        return Inflated(source, self._make, self.magic, self._budget) if source else None


class Zstd(ByteSource):
    """What *source* unpacks to, by the zstd program: Python has no zstd of its own before 3.14."""

    __slots__ = ("_at", "_budget", "_file", "_process")

    def __init__(self, source: ByteSource, budget: Budget) -> None:
        super().__init__()
        # Its input is a file, not a pipe, so that no thread has to feed it while its output is read.
        if isinstance(source, FileSource) and source.end == os.fstat(source.fd).st_size:
            self._file, self._at = io.FileIO(os.dup(source.fd)), source.at
        else:
            self._file, self._at = unnamed_file(), 0
            spool(source, self._file.fileno(), budget)
        self._budget = budget
        self._process: subprocess.Popen[bytes] | None = None

    def _output(self) -> IO[bytes]:
        if self._process is None:
            self._budget.process()
            self._file.seek(self._at)
            try:
                self._process = subprocess.Popen(
                    ["zstd", "-dcq", "--memory=128MB"],
                    stdin=self._file,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    bufsize=0,
                )
            except FileNotFoundError:
                raise HugealignError("zstd is not installed (Debian: apt install zstd)", "file.no-zstd") from None
        assert self._process.stdout is not None  # noqa: S101  # requested above
        return self._process.stdout

    def _next(self, size: int) -> bytes:
        data = self._output().read(min(size, CHUNK))
        if data:
            self._budget.spend(len(data))
        elif self._process is not None and self._process.wait():
            raise UnpackError("zstd data")  # or packed with a window over 128 MiB
        return data

    def close(self) -> None:
        """End the program, if it runs."""
        if self._process is not None:
            process, self._process = self._process, None
            assert process.stdout is not None  # noqa: S101  # requested when it was started
            process.stdout.close()
            process.kill()
            process.wait()

    def __del__(self) -> None:
        if hasattr(self, "_process"):
            self.close()


class _Raw(io.RawIOBase):
    """A source as a raw stream."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._source.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def stream(source: ByteSource, ahead: int) -> io.BufferedReader:
    """Return *source* as a stream that can be peeked into by *ahead* bytes; it raises what *source* raises."""
    return io.BufferedReader(_Raw(source), ahead)


def gzip(source: ByteSource, budget: Budget) -> ByteSource:
    """Return what the gzip file *source* unpacks to (RFC 1952)."""
    return Inflated(source, lambda: _Zlib(31), b"\x1f\x8b", budget)


def deflate(source: ByteSource, budget: Budget) -> ByteSource:
    """Return what the bare deflate stream *source* unpacks to (RFC 1951)."""
    return Inflated(source, lambda: _Zlib(-15), b"", budget)


def zlib_stream(source: ByteSource, budget: Budget) -> ByteSource:
    """Return what the zlib stream *source* unpacks to (RFC 1950)."""
    return Inflated(source, lambda: _Zlib(15), b"", budget)


def bzip2(source: ByteSource, budget: Budget) -> ByteSource:
    """Return what the bzip2 file *source* unpacks to."""
    import bz2

    return Inflated(source, bz2.BZ2Decompressor, b"BZh", budget)


def xz(source: ByteSource, budget: Budget, memory: int = WINDOW) -> ByteSource:
    """Return what the xz file *source* unpacks to; its dictionary may take *memory* bytes."""
    import lzma

    return Inflated(source, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memory), b"\xfd7zXZ\0", budget)


def _lzma_error() -> type[Exception]:
    import lzma

    return lzma.LZMAError


def temporary_directory() -> str:
    """Return where temporary files go."""
    return os.environ.get("TMPDIR") or "/tmp"  # noqa: S108  # files there have no name


def unnamed_file() -> io.FileIO:
    """Return a temporary file without a name, which vanishes however we end.  Raises HugealignError."""
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
            raise no_room(error) from error


def no_room(error: OSError) -> HugealignError:
    """Return the error that no temporary file can be written because of *error*."""
    where = temporary_directory()
    message = f"no temporary file in {printable(where)}: {error.strerror}; set TMPDIR to another directory"
    return HugealignError(message, "file.no-room", directory=where, error=errno.errorcode.get(error.errno or 0, ""))


def spool(source: ByteSource, fd: int, budget: Budget) -> None:
    """Make *source* the content of the file behind *fd*; zeros become holes.  Raises what *source* raises, OSError."""
    os.ftruncate(fd, 0)
    size = 0
    while data := source.read(CHUNK):
        budget.spend(len(data))
        if data != _ZEROS[: len(data)]:
            write_all(fd, data, size)
        size += len(data)
    os.ftruncate(fd, size)
