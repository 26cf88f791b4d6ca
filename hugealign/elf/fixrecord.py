"""The record that `hugealign fix` leaves in a file: the file's former state, in sections that are not loaded.

``.hugealign.fix`` says how contents moved.  ``.gnu.prelink_undo`` holds the former headers: the ELF header, the program
headers and all section headers but the first.  Its name and form are those of prelink(8), because libdw looks for it:
without this section, libdw takes the end of the first ``PT_LOAD``, which we may change, for something that a program
and its separate debug file have in common (``find_prelink_address_sync`` in libdwfl/dwfl_module_getdwarf.c).

Where addresses moved, the former headers are in ``.hugealign.headers``: by the other name elfutils would take the moved
symbols and debug information for those of the original.  ``.hugealign.words`` then has the places of all words that
changed: for each distance, the steps from each to the next, compressed.

A fix changes nothing else in the file, so these sections undo it byte for byte.
"""

import os
import sys
from binascii import a2b_base64, b2a_base64, crc32
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.image import PT_LOAD, SHF_ALLOC, SHT_PROGBITS, HeaderFormat, Image, Segment, segments_of
from hugealign.errors import TRUNCATED, MalformedElfError
from hugealign.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array

#: How much a fix changes, from the least invasive to the most.  The last one moves addresses.
ALIGN, SHIFT, SEPARATE = LEVELS = ("align", "shift", "separate")

SECTION, WORDS_SECTION = ".hugealign.fix", ".hugealign.words"
HEADERS_SECTION, MOVED_HEADERS_SECTION = ".gnu.prelink_undo", ".hugealign.headers"
SECTIONS = (SECTION, WORDS_SECTION, HEADERS_SECTION, MOVED_HEADERS_SECTION)
#: The record begins with this, which identifies the remains of an interrupted fix.
MAGIC = b"hugealign.fix/1\n"
_LIMIT = 1 << 20  # bytes: a record holds a few hundred, the headers of a file with many sections some thousands
_REPLACED_LIMIT = 1 << 22  # bytes that a record keeps of the original
_WORDS_LIMIT = 1 << 27  # words
_WORDS_SECTION_LIMIT = 1 << 29  # bytes
_DISTANCE_LIMIT = 1 << 46  # beyond what Linux gives a program on the processors whose addresses move
_OFFSET_LIMIT = 1 << 63  # off_t is signed: the kernel has no byte there, and Python cannot request it
_EHDR_SIZE, _PHDR_SIZE, _E_PHNUM = 64, 56, 56  # of a 64-bit ELF file, whose program headers follow the ELF header here

Read = Callable[[int, int], bytes]  # (size, offset) -> bytes


class Piece(Record):
    """Bytes that a fix copies."""

    source: int
    """Their offset in the file as it is."""
    target: int
    """Their offset in the new file."""
    size: int

    JSON = "source target bytes=size"


class Step(Record):
    """How addresses move: those from *start* on by *delta* bytes.

    Those from *behind* to *start*, what the loader reads beside the program headers, move by *room*: 0, or enough for
    one more program header.
    """

    start: int
    delta: int
    behind: int = 0
    room: int = 0

    JSON = "start bytes=delta"

    def distance(self, address: int) -> int:
        """Return by how much *address* moves."""
        return self.delta if address >= self.start else self.room if address >= self.behind else 0

    def __call__(self, address: int) -> int:
        """Return where *address* is afterwards."""
        return address + self.distance(address)


class FixRecord(Record):
    """What undoes one plan.

    *size* is the length of the original file, whose headers took *headers* bytes; *digest* is that of the headers which
    replace them.  *pieces* are as in the plan; parts of the original that they leave out were zero.  *windows* is how
    many windows of text a fix can make of the file.

    Addresses have moved by *step*, if by any.  *replaced* are then the bytes of the original where more than addresses
    changed, with their offsets, and *words* the distances that were added, with the number of words that each changed.
    """

    level: str
    page_size: int
    size: int
    headers: int
    digest: str
    pieces: tuple[Piece, ...]
    windows: int
    step: Step | None = None
    replaced: tuple[tuple[int, bytes], ...] = ()
    words: tuple[tuple[int, int], ...] = ()

    @property
    def headers_section(self) -> str:
        """The name of the section that holds the former headers."""
        return MOVED_HEADERS_SECTION if self.step else HEADERS_SECTION


def digest(headers: bytes) -> str:
    """Return what identifies *headers*; it shows whether another tool has changed the file since."""
    return f"{crc32(headers):08x}"


def pack(record: FixRecord) -> bytes:
    """Return the contents of the section."""
    import json  # 3 ms, and a plan needs no record

    document = {name: getattr(record, name) for name in ("level", "page_size", "size", "headers", "digest", "windows")}
    document["pieces"] = [[p.source, p.target, p.size] for p in record.pieces]
    if step := record.step:
        import zlib

        packed = [(at, b2a_base64(zlib.compress(data), newline=False).decode()) for at, data in record.replaced]
        document |= {"step": [step.start, step.delta, step.behind, step.room], "replaced": packed}
        document["words"] = record.words
    return MAGIC + json.dumps(document).encode()


def unpack(data: bytes) -> FixRecord:
    """Return the record in the contents of the section.  Raises MalformedElfError."""
    if not data.startswith(MAGIC) or len(data) > _LIMIT:
        raise MalformedElfError(SECTION)
    import json

    try:
        document = json.loads(data[len(MAGIC) :])
        level, digest, *numbers = (
            document[name] for name in ("level", "digest", "page_size", "size", "headers", "windows")
        )
        page_size, size, headers, windows = map(_number, numbers)
        triples = [tuple(map(_number, piece)) for piece in document["pieces"]]
        pieces = tuple(Piece(source, target, length) for source, target, length in triples)
        record = FixRecord(str(level), page_size, size, headers, str(digest), pieces, windows)
        if record.level == SEPARATE:
            start, delta, behind, room = map(_number, document["step"])
            words = tuple((_number(distance), _number(count)) for distance, count in document["words"])
            replaced = tuple(_inflated(document["replaced"]))
            record = record.changed(step=Step(start, delta, behind, room), replaced=replaced, words=words)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise MalformedElfError(SECTION) from error
    if not _sound(record):
        raise MalformedElfError(SECTION)
    return record


def pack_words(places: "Mapping[int, array[int]]") -> tuple[bytes, tuple[tuple[int, int], ...]]:
    """Return the contents of their section for the *places* by distance, ascending, and how many each distance has.

    Raises RefusalError.
    """
    import zlib
    from array import array

    from hugealign.elf.wordarrays import steps

    packed = array("I")
    for offsets in places.values():
        first, distances = offsets[:1], steps(offsets)
        if distances is None or (first and first[0] >> 32):  # more than 4 GiB without an address
            raise RefusalError("fix.many-addresses")
        packed.extend(iter(first))
        packed += distances
    _as_in_file(packed)
    return zlib.compress(packed.tobytes(), 1), tuple((distance, len(offsets)) for distance, offsets in places.items())


def unpack_words(data: bytes, counts: Sequence[tuple[int, int]]) -> "dict[int, array[int]]":
    """Return the places by distance.  Raises MalformedElfError."""
    from array import array

    steps, total = array("I"), sum(count for _, count in counts)
    try:
        steps.frombytes(_decompressed(data, 4 * total + 1) if total <= _WORDS_LIMIT else b"")
    except ValueError as error:  # also for a part of a step at the end
        raise MalformedElfError(SECTION) from error
    if len(steps) != total:
        raise MalformedElfError(SECTION)
    _as_in_file(steps)
    places: dict[int, array[int]] = {}
    at = 0
    for distance, count in counts:
        places[distance] = array("Q", accumulate(steps[at : at + count]))
        at += count
    return places


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
    if section is None or section.sh_type != SHT_PROGBITS:
        return None
    limit = _WORDS_SECTION_LIMIT if name == WORDS_SECTION else _LIMIT
    return exactly(read, min(section.sh_size, limit), section.sh_offset)


def recorded(read: Read, image: Image) -> FixRecord | None:
    """Return the record in a file that has been fixed, None in any other.  Raises MalformedElfError."""
    data = contents(read, image, SECTION)
    return None if data is None else unpack(data)


def present_headers(read: Read, image: Image) -> bytes:
    """Return the ELF header and the program headers of a file of 64 bits.  Raises MalformedElfError."""
    table = image.segments[0].header if image.segments else 0
    return exactly(read, _EHDR_SIZE, 0) + exactly(read, _PHDR_SIZE * len(image.segments), table)


def loaded_before(read: Read, image: Image) -> tuple[Segment, ...]:
    """Return the PT_LOADs that a file had before it was fixed, none for any other.  Raises MalformedElfError."""
    record = recorded(read, image) if image.is64 else None
    # Where addresses moved, those of the headers before are of no use for what is there now.
    headers = contents(read, image, HEADERS_SECTION) if record and not record.step else None
    if headers is None or len(headers) < _EHDR_SIZE:
        return ()
    layout = HeaderFormat(is64=True)
    count = int.from_bytes(headers[_E_PHNUM : _E_PHNUM + 2], "little")
    count = min(count, (len(headers) - _EHDR_SIZE) // layout.phentsize)
    table = headers[_EHDR_SIZE : _EHDR_SIZE + count * layout.phentsize]
    return tuple(s for s in segments_of(table, "<", layout, _EHDR_SIZE) if s.p_type == PT_LOAD)


def build_id_before(read: Read, image: Image, at: int, size: int) -> bytes:
    """Return the build ID that a separated file had before, empty for any other; now it has *size* bytes at *at*.

    Raises MalformedElfError.
    """
    record = recorded(read, image) if image.is64 else None
    if record is None or record.step is None:
        return b""
    for piece in record.pieces:
        former = at - piece.target + piece.source
        if piece.target <= at < piece.target + piece.size:
            inside = ((former - start, data) for start, data in record.replaced if start <= former < start + len(data))
            return next((data[begin : begin + size] for begin, data in inside), b"")
    return b""


def _as_in_file(steps: "array[int]") -> None:
    if sys.byteorder == "big":
        steps.byteswap()


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value < _OFFSET_LIMIT:
        raise ValueError
    return value


def _inflated(rows: Iterable[tuple[object, str]]) -> Iterator[tuple[int, bytes]]:
    """Yield offsets and contents from those of a record.  Raises ValueError."""
    left = _REPLACED_LIMIT
    for at, text in rows:
        data = _decompressed(a2b_base64(text), left)
        left -= len(data)
        if not left:
            raise ValueError
        yield _number(at), data


def _decompressed(data: bytes, limit: int) -> bytes:
    """Return what *data* unpacks to, no more than *limit* bytes.  Raises ValueError."""
    import zlib

    try:
        return zlib.decompressobj().decompress(data, limit)
    except zlib.error as error:
        raise ValueError from error


def _sound(record: FixRecord) -> bool:
    """Return whether the pieces follow one another in both files, and lie in the original, like what was replaced."""
    pieces = record.pieces
    return (
        record.level in LEVELS
        and len(pieces) > 0
        and pieces[0].source == pieces[0].target == 0
        and all(p.size > 0 for p in pieces)
        and all(a.source + a.size <= b.source and a.target + a.size <= b.target for a, b in pairwise(pieces))
        and pieces[-1].source + pieces[-1].size <= record.size
        and _EHDR_SIZE <= record.headers <= min(pieces[0].size, _LIMIT)
        and all(at + len(data) <= record.size for at, data in record.replaced)
        and all(0 < distance < _DISTANCE_LIMIT for distance, _ in record.words)
    )
