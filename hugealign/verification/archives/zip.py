"""Archives of zip(1), such as Python's wheels: read by their central directory, as every unpacker does.

Format: PKWARE's APPNOTE.TXT, sections 4.3 and 4.5.  Not `zipfile`: it keeps a record of every member.
"""

import struct
import zlib
from collections import Counter
from collections.abc import Iterator

from hugealign.errors import TRUNCATED
from hugealign.io import unpacking
from hugealign.io.unpacking import Budget, ByteSource, FileSource, UnpackError
from hugealign.verification.archives.kinds import Member

_STORED, _DEFLATED, _BZIP2, _ZSTD = 0, 8, 12, 93
_SMALLEST = 16  # packed bytes: no ELF file, whose header has 52, packs to less
_FULL32 = 0xFFFFFFFF


class Checked(ByteSource):
    """What a member unpacks to, checked against its checksum at the end."""

    __slots__ = ("_crc", "_source", "_wanted")

    def __init__(self, source: ByteSource, wanted: int) -> None:
        super().__init__()
        self._source = source
        self._wanted = wanted
        self._crc = 0

    def _next(self, size: int) -> bytes:
        data = self._source.read(size)
        self._crc = zlib.crc32(data, self._crc)
        if not data and self._crc != self._wanted:
            raise UnpackError("CRC-32")
        return data


def members(fd: int, start: int, end: int, budget: Budget, passed: "Counter[int]") -> Iterator[Member]:
    """Yield the files of the archive that lies from *start* to *end* in *fd*.

    *passed* counts the files that cannot be checked: by their unknown method, and the encrypted ones as 0.  Entries
    may overlap: each pays for what it unpacks to.
    """
    first, last, base = _directory(fd, start, end)
    entries = FileSource(fd, first, last)
    while entries.peek(1):
        fixed = entries.exactly(46)
        if fixed[:4] != b"PK\1\2":
            raise UnpackError("zip directory")
        flags, method, crc, size, _, name_size, extra_size, comment_size, mode, offset = struct.unpack(
            "<8xHH4xIIIHHH6xHI", fixed
        )
        budget.members(1 + extra_size // 64)
        name = entries.exactly(name_size)
        size, offset = _wide(entries.exactly(extra_size), fixed, size, offset)
        entries.skip(comment_size)
        if name.endswith(b"/") or mode & 0o170000 not in (0, 0o100000):
            continue
        if flags & 1:
            passed[0] += 1
            continue
        data: ByteSource = _data(fd, base + offset, first, size)
        if size < _SMALLEST:
            data = FileSource(fd, 0, 0)
        elif method == _DEFLATED:
            data = Checked(unpacking.deflate(data, budget), crc)
        elif method == _BZIP2:
            data = Checked(unpacking.bzip2(data, budget), crc)
        elif method == _ZSTD:
            data = Checked(unpacking.Zstd(data, budget), crc)
        elif method != _STORED:
            passed[method] += 1
            continue
        yield Member(name, data)


def _directory(fd: int, start: int, end: int) -> tuple[int, int, int]:
    """Return where the central directory begins and ends, and where its offsets count from; all offsets in *fd*."""
    tail = FileSource(fd, max(start, end - (1 << 16) - 22), end).exactly(min(end - start, (1 << 16) + 22))
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < 22:
        raise UnpackError(code=TRUNCATED)
    size, offset = struct.unpack_from("<12xII", tail, at)
    last = end - len(tail) + at
    locator = _read(fd, last - 20, 20, start, end) if last - start >= 20 else b""
    if locator[:4] == b"PK\6\7":  # zip64: a record in front of the locator, wherever that says it is
        last -= 20 + 56
        record = _read(fd, last, 56, start, end)
        if record[:4] != b"PK\6\6":
            raise UnpackError("zip directory")
        size, offset = struct.unpack_from("<40xQQ", record)
    base = last - size - offset  # the bytes in front of the archive
    if last - size < start or base < start:
        raise UnpackError("zip directory")
    return last - size, last, base


def _read(fd: int, at: int, size: int, start: int, end: int) -> bytes:
    if not start <= at <= end:
        raise UnpackError("zip directory")
    return FileSource(fd, at, end).exactly(size)


def _wide(extra: bytes, fixed: bytes, size: int, offset: int) -> tuple[int, int]:
    """Return the packed size and the offset, from the zip64 field of *extra* if they do not fit 32 bits."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            values = list(struct.unpack_from(f"<{min(length, len(extra) - at - 4) // 8}Q", extra, at + 4))[::-1]
            if fixed[24:28] == b"\xff\xff\xff\xff" and values:
                values.pop()
            if size == _FULL32 and values:
                size = values.pop()
            if offset == _FULL32 and values:
                offset = values.pop()
            break
        at += 4 + length
    return size, offset


def _data(fd: int, at: int, end: int, size: int) -> FileSource:
    """Return the data of the member whose own header is at *at*; all of it lies before *end*."""
    header = _read(fd, at, 30, 0, end)
    if header[:4] != b"PK\3\4":
        raise UnpackError("zip header")
    data = at + 30 + sum(struct.unpack_from("<HH", header, 26))
    if data + size > end:
        raise UnpackError("zip directory")
    return FileSource(fd, data, data + size)
