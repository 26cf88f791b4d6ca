"""The record that undoes a separation: where contents and words were, in sections that are not loaded.

``.hugealign.fix`` has the numbers, as for other levels; ``.hugealign.words`` the places of all words that were changed:
for each distance, the steps from each to the next, compressed.  ``.hugealign.headers``
has the former headers: not ``.gnu.prelink_undo``, by which elfutils would take the moved symbols and debug information
for those of the original.
"""

import base64
import itertools
import json
import sys
import zlib
from array import array
from collections.abc import Sequence
from operator import sub

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.fixrecord import MAGIC, SEPARATE, Piece
from hugealign.errors import MalformedElfError
from hugealign.fixing.plan import Step
from hugealign.records import Record

WORDS_SECTION, HEADERS_SECTION = ".hugealign.words", ".hugealign.headers"
_LIMIT = 1 << 20  # bytes of the record; a file's own words take more
_WORDS_LIMIT = 1 << 27  # words
_OFFSET_LIMIT = 1 << 63


class Separated(Record):
    """What undoes a separation.

    *size* is the length of the original file, of whose headers the last *headers* bytes before the end of the section
    are kept; *digest* is that of those which replace them.  *pieces* are where its contents went, *bytes* what they
    were where more than addresses changed (offset in the original, contents).  *words* are the distances that were
    added and how many words each changed, and *step* is what they follow from.
    """

    page_size: int
    size: int
    headers: int
    digest: str
    pieces: tuple[Piece, ...]
    bytes: tuple[tuple[int, bytes], ...]
    words: tuple[tuple[int, int], ...]
    windows: int
    step: Step


def pack(record: Separated) -> bytes:
    """Return the contents of the section."""
    document = {
        "level": SEPARATE,
        "page_size": record.page_size,
        "size": record.size,
        "headers": record.headers,
        "digest": record.digest,
        "pieces": [[p.source, p.target, p.size] for p in record.pieces],
        "bytes": [[at, base64.b64encode(zlib.compress(data)).decode()] for at, data in record.bytes],
        "words": [list(word) for word in record.words],
        "windows": record.windows,
        "step": [record.step.start, record.step.delta, record.step.behind, record.step.room],
    }
    return MAGIC + json.dumps(document).encode()


def unpack(data: bytes) -> Separated:
    """Return the record in the contents of the section.  Raises MalformedElfError."""
    if not data.startswith(MAGIC) or len(data) > _LIMIT:
        raise MalformedElfError(".hugealign.fix")
    try:
        document = json.loads(data[len(MAGIC) :])
        record = Separated(
            _number(document["page_size"]),
            _number(document["size"]),
            _number(document["headers"]),
            str(document["digest"]),
            tuple(Piece(*map(_number, piece)) for piece in document["pieces"]),
            tuple((_number(at), _inflated(base64.b64decode(text), _LIMIT)) for at, text in document["bytes"]),
            tuple((_number(distance), _number(count)) for distance, count in document["words"]),
            _number(document["windows"]),
            Step(*map(_number, document["step"])),
        )
    except (ValueError, TypeError, KeyError, RecursionError, zlib.error) as error:
        raise MalformedElfError(".hugealign.fix") from error
    if document.get("level") != SEPARATE or not _sound(record):
        raise MalformedElfError(".hugealign.fix")
    return record


def pack_words(places: dict[int, "array[int]"]) -> tuple[bytes, tuple[tuple[int, int], ...]]:
    """Return the contents of the section for the *places* by distance, ascending, and how many each distance has.

    Raises RefusalError.
    """
    steps = array("I")
    try:
        for offsets in places.values():
            steps.extend(iter(offsets[:1]))
            steps.extend(map(sub, itertools.islice(offsets, 1, None), offsets))
    except OverflowError as error:  # more than 4 GiB without an address
        raise RefusalError("fix.many-addresses") from error
    return zlib.compress(_little(steps), 1), tuple((distance, len(offsets)) for distance, offsets in places.items())


def unpack_words(data: bytes, counts: Sequence[tuple[int, int]]) -> dict[int, "array[int]"]:
    """Return the places by distance.  Raises MalformedElfError."""
    total = sum(count for _, count in counts)
    if total > _WORDS_LIMIT:
        raise MalformedElfError(".hugealign.fix")
    try:
        raw = _inflated(data, 4 * total + 1)
    except zlib.error as error:
        raise MalformedElfError(".hugealign.fix") from error
    if len(raw) != 4 * total:
        raise MalformedElfError(".hugealign.fix")
    steps = array("I", raw)
    if sys.byteorder == "big":
        steps.byteswap()
    places: dict[int, array[int]] = {}
    at = 0
    for distance, count in counts:
        places[distance] = array("Q", itertools.accumulate(steps[at : at + count]))
        at += count
    return places


def _little(steps: "array[int]") -> bytes:
    if sys.byteorder == "big":
        steps.byteswap()
    return steps.tobytes()


def _inflated(data: bytes, limit: int) -> bytes:
    return zlib.decompressobj().decompress(data, limit)


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value < _OFFSET_LIMIT:
        raise ValueError
    return value


def _sound(record: Separated) -> bool:
    """Return whether the pieces follow one another in both files."""
    pieces = record.pieces
    return (
        len(pieces) > 0
        and pieces[0].source == pieces[0].target == 0
        and all(p.size > 0 for p in pieces)
        and all(a.source + a.size <= b.source for a, b in itertools.pairwise(pieces))
        and all(a.target + a.size <= b.target for a, b in itertools.pairwise(pieces))
        and pieces[-1].source + pieces[-1].size <= record.size
        and all(0 < distance < 1 << 46 for distance, _ in record.words)
        and all(at + len(data) <= record.size for at, data in record.bytes)
        and 64 <= record.headers <= _LIMIT
    )
