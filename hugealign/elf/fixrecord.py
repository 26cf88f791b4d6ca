"""The record that `hugealign fix` leaves in a file: the file's former state, in two sections that are not loaded.

``.hugealign.fix`` says how contents moved.  ``.gnu.prelink_undo`` holds the former headers: the ELF header, the program
headers and all section headers but the first.  Its name and form are those of prelink(8), because libdw looks for it:
without this section, libdw takes the end of the first ``PT_LOAD``, which we may change, for something that a program
and its separate debug file have in common (``find_prelink_address_sync`` in libdwfl/dwfl_module_getdwarf.c).  A fix
changes nothing else in the file, so the two sections undo it byte for byte.
"""

import os
from collections.abc import Callable, Sequence

from hugealign.elf.image import PT_LOAD, SHF_ALLOC, HeaderFormat, Image, Segment, segments_of
from hugealign.errors import TRUNCATED, MalformedElfError
from hugealign.io.checksum import sha256
from hugealign.records import Record

#: How much a fix changes, from the least invasive to the most.  The last one moves addresses:
#: `hugealign.fixing.separation` reads and writes the rest of its record.
ALIGN, SHIFT, SEPARATE = LEVELS = ("align", "shift", "separate")

SECTION = ".hugealign.fix"
HEADERS_SECTION = ".gnu.prelink_undo"
#: The record begins with this, which identifies the remains of an interrupted fix.
MAGIC = b"hugealign.fix/1\n"
_LIMIT = 1 << 20  # bytes: a record holds a few hundred, the headers of a file with many sections some thousands
_OFFSET_LIMIT = 1 << 63  # off_t is signed: the kernel has no byte there, and Python cannot request it
_SHT_PROGBITS = 1
_EHDR_SIZE, _E_PHNUM = 64, 56  # of a 64-bit ELF header, which the program headers follow here

Read = Callable[[int, int], bytes]  # (size, offset) -> bytes


class Piece(Record):
    """*size* bytes at *source* in the file as it is, at *target* in the new one."""

    source: int
    target: int
    size: int


class FixRecord(Record):
    """What undoes one plan.

    *size* is the length of the original file, whose headers took *headers* bytes; *digest* is that of the bytes
    which replace them now.  *pieces* are as in the plan; parts of the original that they leave out were zero.
    *windows* is how many windows of text a fix can make of the file.
    """

    level: str
    page_size: int
    size: int
    headers: int
    digest: str
    pieces: tuple[Piece, ...]
    windows: int


def digest(headers: bytes) -> str:
    """Return what identifies *headers*; it shows whether another tool has changed the file since."""
    return sha256(headers).hexdigest()


def pack(record: FixRecord) -> bytes:
    """Return the contents of the section."""
    document = {
        "level": record.level,
        "page_size": record.page_size,
        "size": record.size,
        "headers": record.headers,
        "digest": record.digest,
        "pieces": [[p.source, p.target, p.size] for p in record.pieces],
        "windows": record.windows,
    }
    import json  # 3 ms, and a plan needs no record

    return MAGIC + json.dumps(document).encode()


def unpack(data: bytes) -> FixRecord:
    """Return the record in the contents of the section.  Raises MalformedElfError."""
    if not data.startswith(MAGIC) or len(data) > _LIMIT:
        raise MalformedElfError(".hugealign.fix")
    import json

    try:
        document = json.loads(data[len(MAGIC) :])
        page_size, size, headers, windows = (
            _number(document[name]) for name in ("page_size", "size", "headers", "windows")
        )
        triples = [tuple(map(_number, piece)) for piece in document["pieces"]]
        pieces = tuple(Piece(source, target, length) for source, target, length in triples)
        record = FixRecord(str(document["level"]), page_size, size, headers, str(document["digest"]), pieces, windows)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise MalformedElfError(".hugealign.fix") from error
    if record.level not in LEVELS or not _sound(record):
        raise MalformedElfError(".hugealign.fix")
    return record


def reader(fd: int) -> Read:
    """Return a function that reads the file behind *fd*: as much as there is, nothing beyond any possible end."""
    return lambda size, offset: os.pread(fd, size, offset) if offset + size < _OFFSET_LIMIT else b""


def exactly(read: Read, size: int, offset: int) -> bytes:
    """Return *size* bytes at *offset*.  Raises MalformedElfError if there are fewer."""
    data = read(size, offset)
    if len(data) != size:
        raise MalformedElfError(code=TRUNCATED)
    return data


def contents(read: Read, image: Image, name: str) -> bytes | None:
    """Return the contents of the section *name*, None if there is none.  Raises MalformedElfError."""
    section = next((s for s in image.sections if s.name == name and not s.sh_flags & SHF_ALLOC), None)
    if section is None or section.sh_type != _SHT_PROGBITS:
        return None
    return exactly(read, min(section.sh_size, _LIMIT), section.sh_offset)


def recorded(read: Read, image: Image) -> FixRecord | None:
    """Return the record in a file that has been fixed, None in any other.  Raises MalformedElfError."""
    data = contents(read, image, SECTION)
    return None if data is None else unpack(data)


def loaded_before(read: Read, image: Image) -> tuple[Segment, ...]:
    """Return the PT_LOADs that a file had before it was fixed, none for any other.  Raises MalformedElfError."""
    record = recorded(read, image) if image.is64 else None
    # Where addresses moved, those of the headers before are of no use for what is there now.
    headers = contents(read, image, HEADERS_SECTION) if record and record.level != SEPARATE else None
    if headers is None or len(headers) < _EHDR_SIZE:
        return ()
    layout = HeaderFormat(is64=True)
    count = int.from_bytes(headers[_E_PHNUM : _E_PHNUM + 2], "little")
    count = min(count, (len(headers) - _EHDR_SIZE) // layout.phentsize)
    table = headers[_EHDR_SIZE : _EHDR_SIZE + count * layout.phentsize]
    return tuple(s for s in segments_of(table, "<", layout, _EHDR_SIZE) if s.p_type == PT_LOAD)


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value < _OFFSET_LIMIT:
        raise ValueError
    return value


def _sound(record: FixRecord) -> bool:
    """Return whether the pieces follow one another in the original file, and the headers stay in place."""
    pieces: Sequence[Piece] = record.pieces
    ends = [0, *(p.source + p.size for p in pieces)]
    starts = [*(p.source for p in pieces), record.size]
    return (
        len(pieces) > 0
        and all(start >= end for start, end in zip(starts, ends, strict=True))
        and all(p.size > 0 and p.target >= p.source for p in pieces)
        and pieces[0].source == pieces[0].target == 0
        and 64 <= record.headers <= min(pieces[0].size, _LIMIT)
    )
