"""What a fixed file keeps of the file that it was, in two sections that are not loaded.

``.hugealign.fix`` says how contents moved.  ``.gnu.prelink_undo`` holds the headers as they were: the ELF header, the
program headers and the section headers but the first.  Its name and form are those of prelink(8), because libdw looks
for it: it takes the end of the first ``PT_LOAD``, which we may change, for what a program and its separate debug file
have in common, unless this section is there (``find_prelink_address_sync`` in libdwfl/dwfl_module_getdwarf.c).
Nothing else of the file was changed, so the two undo it byte for byte.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from hugealign.errors import MalformedElfError
from hugealign.fixing.plan import LEVELS, Piece

SECTION = ".hugealign.fix"
HEADERS_SECTION = ".gnu.prelink_undo"
#: What the record begins with, so that the remains of an interrupted fix are recognised.
MAGIC = b"hugealign.fix/1\n"
_LIMIT = 1 << 20  # bytes: a record holds a few hundred


@dataclass(frozen=True, slots=True)
class Record:
    """The undoing of one plan.

    *size* is the length of the original file, whose headers filled *headers* bytes; *digest* is that of the bytes
    which stand in their place now.  *pieces* are as in the plan; what they leave out of the original was zero.
    """

    level: str
    page_size: int
    size: int
    headers: int
    digest: str
    pieces: tuple[Piece, ...]


def digest(headers: bytes) -> str:
    """Return what identifies *headers*, so that a file which another tool has changed since is recognised."""
    return hashlib.sha256(headers).hexdigest()


def pack(record: Record) -> bytes:
    """Return the contents of the section."""
    document = {
        "level": record.level,
        "page_size": record.page_size,
        "size": record.size,
        "headers": record.headers,
        "digest": record.digest,
        "pieces": [[p.source, p.target, p.size] for p in record.pieces],
    }
    return MAGIC + json.dumps(document).encode()


def unpack(data: bytes) -> Record:
    """Return the record in the contents of the section.  Raises MalformedElfError."""
    if not data.startswith(MAGIC) or len(data) > _LIMIT:
        raise MalformedElfError("the record of the fix is damaged or of a later version")
    try:
        document = json.loads(data[len(MAGIC) :])
        record = Record(
            str(document["level"]),
            int(document["page_size"]),
            int(document["size"]),
            int(document["headers"]),
            str(document["digest"]),
            tuple(Piece(*map(int, piece)) for piece in document["pieces"]),
        )
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise MalformedElfError("the record of the fix is damaged") from error
    if record.level not in LEVELS or not _sound(record):
        raise MalformedElfError("the record of the fix is damaged")
    return record


def _sound(record: Record) -> bool:
    """Return whether the pieces lie in the original file one after the other, and the headers stay in place."""
    pieces: Sequence[Piece] = record.pieces
    ends = [0, *(p.source + p.size for p in pieces)]
    starts = [*(p.source for p in pieces), record.size]
    return (
        len(pieces) > 0
        and all(start >= end for start, end in zip(starts, ends, strict=True))
        and all(p.size > 0 and p.target >= p.source for p in pieces)
        and pieces[0].source == pieces[0].target == 0
        and 64 <= record.headers <= pieces[0].size
    )
