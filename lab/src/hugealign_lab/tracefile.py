"""The file format ``hugealign.trace/1``: see docs/reference/trace-file.md.  Input is untrusted, and bounded."""

import json
import os
import stat
import struct
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO

from hugealign.errors import HugealignError, cause
from hugealign.io.units import printable

MAGIC = b"hugealign.trace\x01"
_END = b"hugealign.end\x01\0\0"
CHUNK = struct.Struct("<IIII")
BLOCK = struct.Struct("<QIHH")
_FOOTER = struct.Struct("<QQQI4x16s")
LAST, RAW = 1, 2
EVENTS_LIMIT = 1 << 14
_BYTES_PER_EVENT = 10  # two numbers of up to 5 bytes
BLOCK_LIMIT = 4096  # bytes of a block: it spans two pages at most
_BLOCKS_LIMIT = 1 << 23
_PACKED_LIMIT = 17 * _BLOCKS_LIMIT  # bytes; incompressible data grows a little
_DESCRIPTION_LIMIT = 1 << 24
_FILES_LIMIT = 1 << 10
_SEGMENTS_LIMIT = 64


class TraceError(HugealignError):
    """The file is not a trace, or is damaged; the message does not name it."""


@dataclass(frozen=True, slots=True)
class TracedSegment:
    """A ``PT_LOAD`` of a file: the fields that decide addresses, and whether huge pages can serve it."""

    p_vaddr: int
    p_offset: int
    p_filesz: int
    p_memsz: int
    executable: bool


@dataclass(frozen=True, slots=True)
class File:
    """A file with code; *identity* is ``build-id:HEX``, ``sha256:HEX`` without a build-id, or empty if unknown."""

    path: str
    identity: str = ""
    segments: tuple[TracedSegment, ...] = ()


@dataclass(slots=True)
class Description:
    """A trace's description of itself.

    *files* are by number; 0 is memory without a file.  *program* is the number of the file that was run, *cut* the
    reason why the recording ended early, *execs* how often a process became another program, which was not recorded,
    and *lost* the number of unrecorded threads.  *events* are executed blocks.
    """

    command: tuple[str, ...]
    machine: str
    files: tuple[File, ...]
    program: int
    events: int = 0
    cut: str | None = None
    execs: int = 0
    lost: int = 0

    def remarks(self) -> list[str]:
        """Return what is missing from the trace."""
        remarks = (
            (self.cut, f"the trace is cut: {printable(self.cut or '')}"),
            (self.execs, f"{self.execs} times, a process became another program, which is not in the trace"),
            (self.lost, f"{self.lost} threads are not in the trace"),
        )
        return [remark for true, remark in remarks if true]


@dataclass(frozen=True, slots=True)
class Chunk:
    """The place of some events of a stream: *offset* and *size* of their bytes."""

    offset: int
    size: int
    events: int
    raw: bool


@dataclass(slots=True)
class Trace:
    """An open trace.  *blocks* are the rows of the table, 16 bytes each, *streams* the chunks of each thread.

    The *file* is read, not mapped: if it were truncated meanwhile, a missing page would end us by SIGBUS (mmap(2)).
    """

    path: str
    file: BinaryIO
    description: Description
    blocks: bytes
    streams: list[list[Chunk]] = field(default_factory=list)

    def block_rows(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield address, file, size in bytes and instructions of each block, from number 0, which is not a block."""
        return BLOCK.iter_unpack(self.blocks)

    @property
    def block_count(self) -> int:
        """The number of rows of the table."""
        return len(self.blocks) // BLOCK.size

    def chunk_bytes(self, chunk: Chunk) -> bytes:
        """Return the bytes of a chunk's events.  Raises TraceError."""
        try:
            return _part(self.file, chunk.offset, chunk.size)
        except TraceError as error:
            raise TraceError(f"{printable(self.path)}: {error}") from None


def write_end(stream: BinaryIO, description: Description, blocks: bytes) -> None:
    """Write the parts after the chunks: description, table of blocks, footer."""
    at = stream.tell()
    text = zlib.compress(json.dumps(asdict(description), ensure_ascii=True).encode())
    table = zlib.compress(blocks, 1)
    stream.write(text + table)
    stream.write(_FOOTER.pack(at, len(text), len(table), zlib.crc32(text + table), _END))


def write_chunk(stream: BinaryIO, number: int, flags: int, events: int, payload: bytes) -> None:
    """Write one chunk of the stream *number*."""
    stream.write(CHUNK.pack(flags, number, events, len(payload)) + payload)


def open_trace(path: str) -> Trace:
    """Return the trace at *path*.  Raises HugealignError, which names the file."""
    try:
        return _read(path, _open(path))
    except TraceError as error:
        raise TraceError(f"{printable(path)}: {error}") from None
    except (OSError, ValueError) as error:
        raise HugealignError(f"{printable(path)}: {cause(error)}") from None


def _open(path: str) -> BinaryIO:
    stream = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        raise TraceError("is not a trace: not a regular file")
    return stream


def _part(stream: BinaryIO, offset: int, size: int) -> bytes:
    data = os.pread(stream.fileno(), size, offset)
    if len(data) < size:
        raise TraceError("was cut while it was read")
    return data


def _read(path: str, stream: BinaryIO) -> Trace:
    size = os.fstat(stream.fileno()).st_size
    if not size:
        raise TraceError("is not a trace: it is empty")
    if os.pread(stream.fileno(), len(MAGIC), 0) != MAGIC:
        raise TraceError("is not a trace (hugealign trace -o FILE -- COMMAND writes one)")
    footer = _part(stream, max(0, size - _FOOTER.size), _FOOTER.size) if size >= len(MAGIC) + _FOOTER.size else b""
    if not footer.endswith(_END):
        raise TraceError("is cut short: its end is missing; record it again")
    end, text_size, table_size, checksum, _ = _FOOTER.unpack(footer)
    if not len(MAGIC) <= end or end + text_size + table_size + _FOOTER.size != size:
        raise TraceError("is damaged: its parts do not add up")
    if max(text_size, table_size) > _PACKED_LIMIT:
        raise TraceError("is damaged, or larger than any trace that hugealign writes")
    text, table = _part(stream, end, text_size), _part(stream, end + text_size, table_size)
    if zlib.crc32(table, zlib.crc32(text)) != checksum:
        raise TraceError("is damaged: the checksum of its description is wrong")
    description = _description(_inflate(text, _DESCRIPTION_LIMIT))
    blocks = _inflate(table, _BLOCKS_LIMIT * BLOCK.size)
    _check_blocks(blocks, len(description.files))
    streams = _streams(stream, end)
    trace = Trace(path, stream, description, blocks, streams)
    if sum(chunk.events for chunks in streams for chunk in chunks) != description.events:
        raise TraceError("is damaged: chunks are missing")
    return trace


def _inflate(packed: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(packed, limit)
    except zlib.error:
        raise TraceError("is damaged: its description cannot be unpacked") from None
    if not inflater.eof:
        raise TraceError("is damaged, or larger than any trace that hugealign writes")
    return plain


def _number(value: Any, limit: int = 1 << 63) -> int:
    if type(value) is not int or not 0 <= value < limit:
        raise TraceError("is damaged: a number in its description is malformed or out of range")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TraceError("is damaged: a text in its description is not one")
    return value


def _description(raw: bytes) -> Description:
    try:
        fields = json.loads(raw)
        files = tuple(
            File(
                _text(file["path"]),
                _text(file["identity"]),
                tuple(
                    TracedSegment(
                        _number(part["p_vaddr"]),
                        _number(part["p_offset"]),
                        _number(part["p_filesz"]),
                        _number(part["p_memsz"]),
                        bool(part["executable"]),
                    )
                    for part in file["segments"][:_SEGMENTS_LIMIT]
                ),
            )
            for file in fields["files"]
        )
        if not 0 < len(files) <= _FILES_LIMIT:
            raise TraceError("is damaged: it names no files, or too many")
        return Description(
            tuple(_text(word) for word in fields["command"]),
            _text(fields["machine"]),
            files,
            _number(fields["program"], len(files)),
            _number(fields["events"]),
            None if fields["cut"] is None else _text(fields["cut"]),
            _number(fields["execs"]),
            _number(fields["lost"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise TraceError("is damaged: its description has another form") from None


def _check_blocks(table: bytes, files: int) -> None:
    """Raise TraceError unless all rows of the *table* are in range."""
    if len(table) % BLOCK.size or not table:
        raise TraceError("is damaged: its table of blocks has another form")
    rows = BLOCK.iter_unpack(table)
    next(rows)
    for address, file, size, instructions in rows:
        if file >= files or not 0 < instructions <= size <= BLOCK_LIMIT or address >= 1 << 57:
            raise TraceError("is damaged: a block is out of range")


def _streams(stream: BinaryIO, end: int) -> list[list[Chunk]]:
    streams: dict[int, list[Chunk]] = {}
    ended: set[int] = set()
    for number, flags, chunk in walk(stream, end):
        if number in ended:
            raise TraceError("is damaged: a thread goes on after its end")
        streams.setdefault(number, []).append(chunk)
        if flags & LAST:
            ended.add(number)
    return list(streams.values())


def walk(stream: BinaryIO, end: int) -> Iterator[tuple[int, int, Chunk]]:
    """Yield stream, flags and place of each chunk before the offset *end*.  Raises TraceError at a damaged one."""
    at = len(MAGIC)
    while at < end:
        if at + CHUNK.size > end:
            raise TraceError("is damaged: a chunk is cut short")
        flags, number, events, size = CHUNK.unpack(_part(stream, at, CHUNK.size))
        at += CHUNK.size
        raw = flags == LAST | RAW
        if flags not in (0, LAST, LAST | RAW) or events > EVENTS_LIMIT or at + size > end:
            raise TraceError("is damaged: a chunk is out of range")
        if size != 4 * events if raw else not 0 < size <= _BYTES_PER_EVENT * events + 5:
            raise TraceError("is damaged: a chunk has the wrong size")
        yield number, flags, Chunk(at, size, events, raw)
        at += size
