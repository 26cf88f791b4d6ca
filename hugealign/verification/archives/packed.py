"""Compressed data: gzip, bzip2 and xz by the standard library, zstd by its program."""

import subprocess
import zlib
from collections.abc import Callable
from typing import IO, Protocol

from hugealign.verification.archives.limits import ArchiveError, Work
from hugealign.verification.archives.source import CHUNK, ByteSource, spool, unnamed_file

_FIRST = 1 << 12  # bytes that are unpacked at first, to find out the kind of a file
WINDOW = 68 << 20  # memory for one xz decompressor: `xz -9` needs 65 MiB


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

    __slots__ = ("_ended", "_error", "_given", "_make", "_out", "_packed", "_source", "_step", "_work", "magic")

    def __init__(self, source: ByteSource, make: Callable[[], Decompressor], magic: bytes, work: Work) -> None:
        super().__init__()
        self.magic = magic
        self._source = source
        self._make = make
        self._work = work
        work.members()
        self._packed = make()
        self._out = b""
        self._given = 0  # bytes of _out
        self._step = _FIRST
        self._ended = False
        self._error = ""

    def _next(self, size: int) -> bytes:
        # More than is asked for: a decompressor that is asked for a few bytes copies its whole input each time.
        if self._given == len(self._out):
            self._out, self._given = self._unpack(max(self._step, min(size, CHUNK))), 0
            self._step = min(2 * self._step, CHUNK)
        data = self._out[self._given : self._given + size]
        self._given += len(data)
        return data

    def _unpack(self, size: int) -> bytes:
        if self._error:
            raise ArchiveError(self._error)
        while not self._ended:
            data = self._input()
            if self._ended:
                break
            try:
                out = self._packed.decompress(data, size)
            except (zlib.error, OSError, EOFError, ValueError) as error:
                self._error = f"damaged: {error}"
            except _lzma_error() as error:
                self._error = f"damaged xz data, or packed with more than -9: {error}"
            if self._error:  # and never call again after a failure: libbzip2 answers with a RuntimeError
                raise ArchiveError(self._error)
            if out:
                self._work.unpacked(len(out))
                return out
            if not data and self._packed.needs_input and not self._packed.eof:
                raise ArchiveError("the compressed data is truncated")
        return b""

    def _input(self) -> bytes:
        if not self._packed.eof:
            return self._source.read(CHUNK) if self._packed.needs_input else b""
        data = self._packed.unused_data or self._source.read(CHUNK)
        if self.magic and len(data) < len(self.magic):
            data += self._source.read(CHUNK)
        if self.magic and data.startswith(self.magic):
            self._work.members()
            self._packed = self._make()
        else:
            self._ended = True  # padding, a signature: gzip(1) and xz(1) pass over zeros, and others over anything
        return data

    def again(self) -> "Inflated | None":
        """Return the same bytes once more, if *source* can be read again."""
        source = self._source.again()
        return Inflated(source, self._make, self.magic, self._work) if source else None


class Zstd(ByteSource):
    """What *source* unpacks to, by the zstd program: Python has no zstd of its own before 3.14."""

    __slots__ = ("_packed", "_process", "_work")

    def __init__(self, source: ByteSource, work: Work) -> None:
        super().__init__()
        # Its input is a file, not a pipe, so that no thread has to feed it while its output is read.
        self._packed = unnamed_file()
        spool(source, self._packed.fileno(), work)
        self._work = work
        self._process: subprocess.Popen[bytes] | None = None

    def _output(self) -> IO[bytes]:
        if self._process is None:
            self._work.process()
            self._packed.seek(0)
            try:
                self._process = subprocess.Popen(
                    ["zstd", "-dcq", "--memory=128MB"],
                    stdin=self._packed,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    bufsize=0,
                )
            except FileNotFoundError:
                raise ArchiveError("needs the zstd program: apt install zstd") from None
        assert self._process.stdout is not None  # noqa: S101  # asked for above
        return self._process.stdout

    def _next(self, size: int) -> bytes:
        data = self._output().read(min(size, CHUNK))
        if data:
            self._work.unpacked(len(data))
        elif self._process is not None and self._process.wait():
            raise ArchiveError("damaged zstd data, or packed with a window over 128 MiB")
        return data

    def close(self) -> None:
        """End the program, if it runs."""
        if self._process is not None:
            process, self._process = self._process, None
            assert process.stdout is not None  # noqa: S101  # asked for when it was started
            process.stdout.close()
            process.kill()
            process.wait()

    def __del__(self) -> None:
        if hasattr(self, "_process"):
            self.close()


def gzip(source: ByteSource, work: Work) -> ByteSource:
    """Return what the gzip file *source* unpacks to (RFC 1952)."""
    return Inflated(source, lambda: _Zlib(31), b"\x1f\x8b", work)


def deflate(source: ByteSource, work: Work) -> ByteSource:
    """Return what the bare deflate stream *source* unpacks to (RFC 1951)."""
    return Inflated(source, lambda: _Zlib(-15), b"", work)


def bzip2(source: ByteSource, work: Work) -> ByteSource:
    """Return what the bzip2 file *source* unpacks to."""
    import bz2

    return Inflated(source, bz2.BZ2Decompressor, b"BZh", work)


def xz(source: ByteSource, work: Work, memory: int = WINDOW) -> ByteSource:
    """Return what the xz file *source* unpacks to; its dictionary may take *memory* bytes."""
    import lzma

    return Inflated(source, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memory), b"\xfd7zXZ\0", work)


def _lzma_error() -> type[Exception]:
    import lzma

    return lzma.LZMAError
