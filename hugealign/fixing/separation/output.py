"""The contents of the separated file, and those of the original one: pieces, words that change by a distance, headers.

The new section headers go behind everything else; the old table stays where its piece goes, unused.
"""

import os
from array import array
from bisect import bisect_left
from collections.abc import Iterator

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.fixrecord import SECTION, Piece, digest, reader
from hugealign.elf.image import PAD_SECTIONS, SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS, Image
from hugealign.elf.machines import MACHINES
from hugealign.elf.objectfile import EHDR, PHDR, SHDR
from hugealign.elf.windows import align_up
from hugealign.errors import TRUNCATED, MalformedElfError
from hugealign.fixing.moves import moved, place
from hugealign.fixing.output import Output, old_headers, packed_headers, zeros_behind
from hugealign.fixing.plan import Plan, Step
from hugealign.fixing.separation.check import check
from hugealign.fixing.separation.crossings import refuse_crossings
from hugealign.fixing.separation.debug import place_contents
from hugealign.fixing.separation.debugfile import MINI_SECTION, moved_inside
from hugealign.fixing.separation.identity import Identity
from hugealign.fixing.separation.record import (
    HEADERS_SECTION,
    WORDS_SECTION,
    Separated,
    pack,
    pack_words,
    unpack,
    unpack_words,
)
from hugealign.fixing.separation.words import find_words

_SHT_PROGBITS = 1
_SHN_LORESERVE = 0xFF00
_RECORD_LIMIT = 1 << 20
_WORDS_LIMIT = 1 << 29  # bytes of the section of words
_GAP_LIMIT = 1 << 21


def separated(fd: int, image: Image, plan: Plan, step: Step) -> Output:
    """Return the file that *plan*, by which addresses move by *step*, makes of the one behind *fd*.

    Raises RefusalError, MalformedElfError, OSError.
    """
    words = find_words(fd, image, step)
    identity = Identity.of(fd, image, step)
    if inner := next((s for s in image.sections if s.name == MINI_SECTION and s.sh_size), None):
        words.replaced[MINI_SECTION] = moved_inside(fd, inner, step, identity)
    refuse_crossings(fd, image, step.start)
    old = old_headers(reader(fd), image, plan.pieces)
    ehdr, strings = list(old.fields), old.strings
    if ehdr[5] != EHDR.size:
        raise RefusalError("fix.header-tables")
    if reserved := next((s.name for s in image.sections if s.name in (SECTION, WORDS_SECTION)), ""):
        raise RefusalError("fix.prelinked", section=reserved)
    trap = MACHINES[image.e_machine].trap
    fills = [(low, high, place(plan.segments, low)) for low, high in plan.pads]
    changed = [*_dropped(fd, plan), *([identity] if identity.old else ())]
    entries = _entries(image, plan, step, [list(entry) for entry in SHDR.iter_unpack(old.tables)])
    # Without a section of its own, strip would take the traps away.
    entries += [
        [len(strings), _SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, low, at, high - low, 0, 0, len(trap), 0]
        for low, high, at in fills
    ]
    strings += PAD_SECTIONS[0].encode() + b"\0"
    if len(entries) + 3 >= _SHN_LORESERVE:
        raise RefusalError("fix.many-sections")
    packed, counts = pack_words(words.places)

    def record(new_headers: bytes) -> bytes:
        made = Separated(
            plan.page_size,
            image.file_size + zeros_behind(reader(fd), image),
            len(old.headers),
            digest(new_headers),
            plan.pieces,
            tuple((at, old) for at, old, _ in changed),
            counts,
            plan.windows,
            step,
        )
        return pack(made)

    replaced, at_record = place_contents(entries, image, words, align_up(plan.size, 8))
    appended = b""
    parts = ((SECTION, record(b"")), (HEADERS_SECTION, old.headers + old.tables[SHDR.size :]), (WORDS_SECTION, packed))
    for name, data in parts:
        entries.append([len(strings), _SHT_PROGBITS, 0, 0, at_record + len(appended), len(data), 0, 0, 8, 0])
        strings += name.encode() + b"\0"
        appended += data.ljust(align_up(len(data), 8), b"\0")
    entries[ehdr[13]][4:6] = at_record + len(appended), len(strings)
    appended += strings.ljust(align_up(len(strings), 8), b"\0")
    ehdr[4] = step(ehdr[4])
    ehdr[6], ehdr[10], ehdr[12] = at_record + len(appended), len(plan.segments), len(entries)
    table, new_headers = packed_headers(ehdr, plan, entries)
    appended += table
    made = record(new_headers)
    unpack(made)  # what could not be undone is not written
    writes: list[tuple[int, bytes | memoryview]] = [
        (at, (trap * ((high - low) // len(trap) + 1))[: high - low]) for low, high, at in fills
    ]
    writes += [(moved(plan.pieces, at), new) for at, _, new in changed if new]
    writes += [*replaced, (at_record, made + appended[len(made) :]), (0, new_headers)]
    changes = tuple((d, _moved(plan.pieces, places)) for d, places in words.places.items())
    size = at_record + len(appended)
    return Output(plan.pieces, tuple(writes), size, changes, lambda before, after: check(before, after, step))


def original(fd: int, image: Image) -> Output:
    """Return the file as it was before it was separated.  Raises RefusalError, MalformedElfError, OSError."""
    by_name = {s.name: s for s in image.sections if not s.sh_flags & SHF_ALLOC and s.sh_type == _SHT_PROGBITS}
    if not {SECTION, HEADERS_SECTION, WORDS_SECTION} <= set(by_name):
        raise RefusalError("fix.no-record")
    record, headers, packed = (
        _read(fd, min(by_name[name].sh_size, limit), by_name[name].sh_offset)
        for name, limit in ((SECTION, _RECORD_LIMIT), (HEADERS_SECTION, 1 << 24), (WORDS_SECTION, _WORDS_LIMIT))
    )
    separation = unpack(record)
    if digest(_read(fd, EHDR.size + len(image.segments) * PHDR.size, 0)) != separation.digest:
        raise RefusalError("fix.changed-since")
    places = unpack_words(packed, separation.words)
    back = tuple(Piece(p.target, p.source, p.size) for p in separation.pieces)
    headers = headers[: separation.headers]
    if (
        len(headers) < separation.headers
        or separation.headers > separation.size
        or any(p.source + p.size > image.file_size for p in back)
        or any(p[-1] + 8 > separation.size for p in places.values() if p)
    ):
        raise MalformedElfError(".hugealign.fix")
    writes = (*separation.bytes, (0, headers))
    return Output(back, writes, separation.size, tuple((-d, p) for d, p in places.items()))


def _moved(pieces: tuple[Piece, ...], places: "array[int]") -> "array[int]":
    """Return where the ascending *places* of the old file are in the new one."""
    there = array("Q")
    for piece in pieces:
        first, last = bisect_left(places, piece.source), bisect_left(places, piece.source + piece.size)
        distance = piece.target - piece.source
        there.extend(map(distance.__add__, places[first:last]))
    if len(there) != len(places):
        raise RefusalError("fix.address-tables")
    return there


def _entries(image: Image, plan: Plan, step: Step, table: list[list[int]]) -> list[list[int]]:
    """Return the section headers with their new addresses and offsets."""
    for entry, section in zip(table, image.sections, strict=True):
        kept = moved(plan.pieces, section.sh_offset)
        if section.sh_flags & SHF_ALLOC:
            entry[3] = step(section.sh_addr)
            at = place(plan.segments, entry[3])
            if section.sh_type != SHT_NOBITS and section.sh_size and at != kept:
                raise RefusalError("fix.address-tables", address=f"{section.sh_addr:#x}")
            entry[4] = at if at >= 0 else kept
        elif section.sh_type:
            entry[4] = kept
    return table


def _dropped(fd: int, plan: Plan) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield what followed the text in the file, if not only zeros: its offset, the bytes, and nothing instead."""
    start, end = plan.dropped
    if end - start > _GAP_LIMIT:
        raise RefusalError("fix.grows", limit=_GAP_LIMIT)
    data = _read(fd, end - start, start)
    if data.strip(b"\0"):
        yield start, data, b""


def _read(fd: int, size: int, offset: int) -> bytes:
    data = os.pread(fd, size, offset)
    if len(data) != size:
        raise MalformedElfError(code=TRUNCATED)
    return data
