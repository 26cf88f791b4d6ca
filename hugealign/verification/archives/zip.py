"""Archives of zip(1), such as Python's wheels: read by their central directory, as every unpacker does.

Format: PKWARE's APPNOTE.TXT, sections 4.3 and 4.5.  Not `zipfile`: it keeps a record of every member.
"""

import os
import struct
import zlib
from collections import Counter
from collections.abc import Iterator

from hugealign.errors import TRUNCATED
from hugealign.io import unpacking
from hugealign.io.unpacking import Budget, ByteSource, FileSource, UnpackError
from hugealign.verification.archives import OTHER
from hugealign.verification.archives.kinds import HEAD, Member, kind

_STORED, _DEFLATED, _BZIP2, _ZSTD = 0, 8, 12, 93
_SMALLEST = 16  # packed bytes: no ELF file, whose header has 52, packs to less
_FULL32 = 0xFFFFFFFF
#: In front of the name in the directory: magic, flags, method, CRC-32, packed size, size, the lengths of name, extra
#: field and comment, mode, offset of the member's own header.  There: magic, the lengths of name and extra field.
_ENTRY, _HEADER = struct.Struct("<4s4xHH4xIIIHHH6xHI"), struct.Struct("<4s22xHH")
_BLOCK = 256 << 10  # bytes of the directory to read at once: more than any entry
_NEAR = 1 << 10  # bytes to read at once of a member: its header, name and extra field, and what HEAD is packed in


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


def members(
    fd: int, start: int, end: int, budget: Budget, counts: "Counter[str]", passed: "Counter[int]"
) -> Iterator[Member]:
    """Yield the files of the archive that lies from *start* to *end* in *fd*.

    *counts* counts those whose first bytes show that they are neither programs nor archives; these are not yielded.
    *passed* counts the files that cannot be checked: by their unknown method, and the encrypted ones as 0.  Entries
    may overlap: each pays for what it unpacks to.
    """
    first, last, base = _directory(fd, start, end)
    for flags, method, crc, size, full, mode, offset, name, extra in _entries(fd, first, last):
        budget.members(1 + len(extra) // 64)
        if _FULL32 in (size, offset):
            size, offset = _wide(extra, size, full, offset)  # noqa: PLW2901 - its true values
        if name.endswith(b"/") or mode & 0o170000 not in (0, 0o100000):
            continue
        if flags & 1:
            passed[0] += 1
            continue
        if method == _DEFLATED:
            head = _head(fd, base + offset, first, size, crc, budget)
            if head is not None and not kind(head):
                counts[OTHER] += 1
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


def _entries(fd: int, first: int, last: int) -> Iterator[tuple[int, int, int, int, int, int, int, bytes, bytes]]:
    """Yield the fields, the name and the extra field of each entry of the directory, from *first* to *last*."""
    while first < last:
        block = os.pread(fd, min(_BLOCK, last - first), first)
        at = 0
        while at + _ENTRY.size <= len(block):
            magic, flags, method, crc, size, full, length, more, comment, mode, offset = _ENTRY.unpack_from(block, at)
            if magic != b"PK\1\2":
                raise UnpackError("zip directory")
            name = at + _ENTRY.size
            extra = name + length
            end = extra + more + comment
            if end > len(block):
                break
            yield flags, method, crc, size, full, mode, offset, block[name:extra], block[extra : extra + more]
            at = end
        if not at:
            raise UnpackError(code=TRUNCATED)
        first += at


def _head(fd: int, at: int, end: int, size: int, crc: int, budget: Budget) -> bytes | None:
    """Return the first HEAD bytes of the deflated member whose own header is at *at*, all of it before *end*.

    None if one read is not enough: the name is long, or the data pack badly or are damaged.  Jars have thousands of
    members, few of them programs, so `verify -r` spends its time here.
    """
    near = os.pread(fd, min(_NEAR, end - at), at) if 0 <= at < end else b""
    if len(near) < _HEADER.size:
        return None
    magic, name, extra = _HEADER.unpack_from(near)
    data = _HEADER.size + name + extra
    if magic != b"PK\3\4" or at + data + size > end:
        return None
    budget.members()
    deflated = zlib.decompressobj(-15)
    try:
        head = deflated.decompress(near[data : data + size], HEAD)
    except zlib.error:
        return None
    budget.spend(len(head))
    return head if len(head) == HEAD or (deflated.eof and zlib.crc32(head) == crc) else None


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


def _wide(extra: bytes, size: int, full: int, offset: int) -> tuple[int, int]:
    """Return the packed *size* and the *offset*, from the zip64 field of *extra* if they do not fit 32 bits.

    *full* is the unpacked size, which comes first there if it does not fit either.
    """
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            values = list(struct.unpack_from(f"<{min(length, len(extra) - at - 4) // 8}Q", extra, at + 4))[::-1]
            if full == _FULL32 and values:
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
    magic, name, extra = _HEADER.unpack(_read(fd, at, _HEADER.size, 0, end))
    if magic != b"PK\3\4":
        raise UnpackError("zip header")
    data = at + _HEADER.size + name + extra
    if data + size > end:
        raise UnpackError("zip directory")
    return FileSource(fd, data, data + size)
