"""The additive form of profiles, ``hugealign.counts/1``: text that is merged by adding the counts of equal lines.

The first line is fixed.  ``build``, a build-id (``-``: not known) and the name of a file begin a section.  Every other
line is a key and a count, with a tab before the count; docs/reference/counts.md has the keys.  Sections, and lines
within, come in the order of their bytes, each once.  The last line has the number of lines before it and their CRC-32.
So equal counts are equal bytes, and a cut or damaged file is noticed.

A key is checked when it is first seen; after that it costs one look-up.
"""

import gzip
import operator
import re
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO

from hugealign.io.numbers import decimal
from hugealign.orderfile import escape, unescape
from hugealign.profile.model import MemoryRoom, ProfileError

MAGIC = b"# hugealign.counts/1\n"
_VERSIONS = b"# hugealign.counts/"
_BUILD = b"build\t"
#: The largest count; larger sums stay at it, in whatever order they are added up.
MOST = 10**18 - 1
LIMIT = 256 << 20  # bytes of a file
ROOM, _KEPT = 512 << 20, 200  # bytes of memory for the distinct lines of a merge, and of one without its key
MOST_BUILDS = 1 << 20  # of a file, and of a merge: each takes half a KiB of memory, and six bytes of a file
UNKNOWN = b"-"  # a build
HOSTS, FOREIGN, OUTSIDE, BAD = b"hosts", b"foreign", b"outside", b"bad"
FUNCTION, CALL = b"f\t", b"c\t"
KINDS = (FUNCTION, CALL, b"r\t", b"j\t", b"b\t", HOSTS, FOREIGN, OUTSIDE, BAD)
CHUNK = 4 << 20  # bytes of rows that are handled together
_HEX = rb"(?:0|[1-9a-f][0-9a-f]{0,15})"
_TEXT = rb"[^\x00-\x1f\x7f]"
_END = rb"(?:@" + _HEX + rb"\t|" + _TEXT + rb"+\t" + _TEXT + rb"*)"  # a function: by address, or name and source file
_KEY = re.compile(
    rb"f\t(?:" + _HEX + rb"\t" + _TEXT + rb"*|\t" + _TEXT + rb"+)\t" + _TEXT + rb"*\t(?:[0-9a-f]{16})?"
    rb"|c\t" + _END + rb"\t(?:" + _HEX + rb")?\t" + _END +
    rb"|[rj]\t" + _HEX + rb"\t" + _HEX +
    rb"|b\t" + _HEX +
    rb"|hosts|foreign|outside|bad"
)  # fmt: skip
_HEAD = re.compile(rb"(-|[0-9a-f]{2,128})\t[^\x00-\x1f\x7f/]{1,4080}")
_COUNT = re.compile(rb"\t(\d{1,18})\n")
_LAST = re.compile(rb"# end: (\d{1,12}) ([0-9a-f]{8})\n\Z")
_LAST_LONGEST = 64
_MODULE = 255  # characters of the name of a file, each at most four bytes in a file system, here or escaped

#: Ascending keys, and their counts.
Rows = tuple[list[bytes], list[int]]
#: Counts by section (build-id, tab, name of the file) and key.
Counts = dict[bytes, dict[bytes, int]]


def whole(stream: BinaryIO) -> bytes:
    """Return all bytes of *stream*, using no more memory than they need.  Raises ProfileError."""
    parts, left = [], LIMIT
    while part := stream.read(1 << 20):
        parts.append(part)
        left -= len(part)
        if left < 0:
            raise ProfileError(f"has more than {LIMIT >> 20} MiB of lines")
    return b"".join(parts)


def _body(data: bytes) -> tuple[int, int]:
    """Return where the sections of the counts file *data* begin and end.

    Raises ProfileError if it is not whole as it was written.
    """
    if not data.startswith(MAGIC):
        if data.startswith(_VERSIONS):
            version = data[len(_VERSIONS) : len(_VERSIONS) + 16].split(b"\n")[0].decode("ascii", "replace")
            raise ProfileError(f"has counts of version {version!a}; this hugealign reads version 1")
        raise ProfileError("is not a counts file, which `hugealign profile reduce` writes")
    last = _LAST.search(data, max(len(MAGIC), len(data) - _LAST_LONGEST))
    if not last or data[last.start() - 1 : last.start()] != b"\n":
        raise ProfileError("is truncated: its last line is missing")
    if zlib.crc32(memoryview(data)[: last.start()]) != int(last[2], 16):
        raise ProfileError("is damaged: its checksum does not match")
    if data.count(b"\n") - 1 != decimal(last[1], 10**12):
        raise ProfileError("is damaged: lines are missing")
    return len(MAGIC), last.start()


def sections(data: bytes) -> Iterator[tuple[bytes, memoryview]]:
    """Yield each section of the counts file *data*: its head, and its lines, not copied.  Raises ProfileError."""
    at, end = _body(data)
    before = b""
    builds = 0
    while at < end:
        if not data.startswith(_BUILD, at):
            raise ProfileError("has lines before the first build")
        line = data.index(b"\n", at)
        head = data[at + len(_BUILD) : line]
        if not _HEAD.fullmatch(head) or not _printable(head) or head <= before:
            raise ProfileError("has an invalid or unsorted build ID")
        builds += 1
        if builds > MOST_BUILDS:
            raise ProfileError(f"has more than {MOST_BUILDS} builds")
        at = data.find(b"\n" + _BUILD, line, end) + 1 or end
        before = head
        yield head, memoryview(data)[line + 1 : at]


def rows(lines: memoryview) -> Iterator[Rows]:
    """Yield the rows of a section, some at a time: ascending keys, and their counts.  Raises ProfileError.

    No Python runs per line: ten thousand hosts have fifty million lines.
    """
    before = b""
    at = 0
    while at < len(lines):
        size = CHUNK
        while not (cut := (piece := bytes(lines[at : at + size])).rfind(b"\n") + 1) and at + size < len(lines):
            size *= 2
        piece = piece[:cut]
        at += cut
        parts = _COUNT.split(piece)
        keys = parts[:-1:2]
        # There are as many counts as lines: no key contains a line's end, and nothing follows the last count.
        if not keys or len(keys) != piece.count(b"\n") or not all(map(operator.lt, [before, *keys], keys)):
            raise ProfileError("has an invalid or unsorted count")
        before = keys[-1]
        yield keys, [*map(int, parts[1::2])]


def span(kind: bytes, keys: Sequence[bytes]) -> slice:
    """Return where the keys of a *kind* are among ascending *keys*; UTF-8 does not have the byte 0xff."""
    return slice(bisect_left(keys, kind), bisect_left(keys, kind + b"\xff"))


def check(keys: Iterable[bytes]) -> int:
    """Return the bytes of memory that *keys* and their counts take.  Raises ProfileError for an invalid one."""
    size = 0
    for key in keys:
        if not _KEY.fullmatch(key) or not _printable(key):
            raise ProfileError("has a line of unknown meaning")
        size += len(key) + _KEPT
    return size


def _printable(line: bytes) -> bool:
    """Whether nothing in *line* moves a cursor: it is printed, and written again, unchanged."""
    try:
        return line.isascii() or line.replace(b"\t", b"").decode().isprintable()
    except UnicodeDecodeError:
        return False


def parse(data: bytes) -> Counts:
    """Return the counts in the file *data*.  Raises ProfileError."""
    counts: Counts = {}
    for head, lines in sections(data):
        counts[head] = section(lines)
    return counts


def section(lines: memoryview, room: MemoryRoom | None = None) -> dict[bytes, int]:
    """Return the counts of a section by key; *room* pays for them.  Raises ProfileError."""
    mine: dict[bytes, int] = {}
    for keys, numbers in rows(lines):
        size = check(keys)
        if room is not None:
            room.take(size, 0)
        mine.update(zip(keys, numbers, strict=True))
    return mine


def write(counts: Mapping[bytes, Mapping[bytes, int]]) -> bytes:
    """Return *counts* as a file."""
    parts = [MAGIC]
    lines = 1
    for head in sorted(counts):
        mine = counts[head]
        lines += 1 + len(mine)
        parts.append(b"build\t%b\n" % head)
        parts += [b"%b\t%d\n" % (key, min(mine[key], MOST)) for key in sorted(mine)]
    data = b"".join(parts)
    return data + b"# end: %d %08x\n" % (lines, zlib.crc32(data))


def add(mine: dict[bytes, int], key: bytes, count: int) -> None:
    """Count *key* *count* times more."""
    mine[key] = mine.get(key, 0) + count


def head(build_id: str, module: str) -> bytes:
    """Return the head of the section of a file named *module*, without directories; *build_id* may be empty."""
    return (build_id.encode() or UNKNOWN) + b"\t" + text(module.rpartition("/")[2][:_MODULE] or "?")


def text(name: str) -> bytes:
    r"""Return *name* as a field; a leading @ becomes ``\x40``, because @ marks an address."""
    field = escape(name)
    return ("\\x40" + field[1:] if field.startswith("@") else field).encode()


def name_of(field: bytes) -> str:
    """Return the name that `text` was given."""
    return unescape(field.decode("utf-8", "surrogateescape"))


def function(address: int | None, name: str, file: str, code: bytes = b"") -> bytes:
    """Return the key of samples in a function; *code* identifies it where its name is gone."""
    where = b"" if address is None else b"%x" % address
    return b"f\t%b\t%b\t%b\t%b" % (where, text(name), text(file.rpartition("/")[2]), code)


def end(address: int | None, name: str, file: str) -> bytes:
    """Return a function as one end of a call."""
    return text(name) + b"\t" + text(file.rpartition("/")[2]) if address is None else b"@%x\t" % address


def call(caller: bytes, offset: int | None, callee: bytes) -> bytes:
    """Return the key of calls from one `end` to another, at *offset* in the caller."""
    return b"c\t%b\t%b\t%b" % (caller, b"" if offset is None else b"%x" % offset, callee)


def samples(lines: memoryview) -> int:
    """Return the number of samples in functions in a section.  Raises ProfileError."""
    return sum(sum(numbers[span(FUNCTION, keys)]) for keys, numbers in rows(lines))


def module_of(head: bytes) -> tuple[str, bytes]:
    """Return the build-id of a section, empty if unknown, and the name of its file as a field."""
    build_id, _, module = head.partition(b"\t")
    return "" if build_id == UNKNOWN else build_id.decode("ascii"), module


def packed(data: bytes) -> bytes:
    """Return *data* compressed by gzip, without a name or a time."""
    return gzip.compress(data, compresslevel=6, mtime=0)
