"""What a fixed file keeps of the file that it was: the section ``.hugealign.fix``.

It is not loaded.  It holds the ELF header and the program headers as they were, and how contents moved, as JSON;
nothing else of the file was changed, so this undoes it byte for byte.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from hugealign.errors import MalformedElfError
from hugealign.fix.plan import LEVELS, Piece

SECTION = ".hugealign.fix"
_VERSION = 1
_LIMIT = 1 << 20  # bytes: a record holds a few kilobytes of headers


@dataclass(frozen=True, slots=True)
class Record:
    """The undoing of one plan.

    *size* and *headers* are the original file's length and first bytes; *digest* is that of the bytes which stand in
    their place now.  *pieces* are as in the plan.
    """

    level: str
    page_size: int
    size: int
    headers: bytes
    digest: str
    pieces: tuple[Piece, ...]


def digest(headers: bytes) -> str:
    """Return what identifies *headers*, so that a file which another tool has changed since is recognised."""
    return hashlib.sha256(headers).hexdigest()


def pack(record: Record) -> bytes:
    """Return the contents of the section."""
    document = {
        "version": _VERSION,
        "level": record.level,
        "page_size": record.page_size,
        "size": record.size,
        "headers": record.headers.hex(),
        "digest": record.digest,
        "pieces": [[p.source, p.target, p.size] for p in record.pieces],
    }
    return json.dumps(document).encode()


def unpack(data: bytes) -> Record:
    """Return the record in the contents of the section.  Raises MalformedElfError."""
    try:
        document = json.loads(data[:_LIMIT])
        record = Record(
            str(document["level"]),
            int(document["page_size"]),
            int(document["size"]),
            bytes.fromhex(document["headers"]),
            str(document["digest"]),
            tuple(Piece(*map(int, piece)) for piece in document["pieces"]),
        )
        version = document["version"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise MalformedElfError(f"the record of the fix is damaged: {error}") from error
    if version != _VERSION or record.level not in LEVELS or not _whole(record):
        raise MalformedElfError("the record of the fix is damaged or of a later version")
    return record


def _whole(record: Record) -> bool:
    """Return whether the pieces make up the original file, each byte once, and the headers stay in place."""
    pieces: Sequence[Piece] = record.pieces
    ends = [0, *(p.source + p.size for p in pieces)]
    starts = [*(p.source for p in pieces), record.size]
    return (
        len(pieces) > 0
        and starts == ends
        and all(p.size > 0 and p.target >= p.source for p in pieces)
        and pieces[0].target == 0
        and 64 <= len(record.headers) <= pieces[0].size
    )
