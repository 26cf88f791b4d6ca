"""The contents of the separated file, and those of the original one: pieces, words that change by a distance, headers.

The new section headers go behind everything else; the old table stays where its piece goes, unused.
"""

import hashlib
import os
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.fixrecord import HEADERS_SECTION, SECTION, Piece, digest, reader
from hugealign.elf.image import PAD_SECTIONS, SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS, Image
from hugealign.elf.objectfile import EHDR, PHDR, SHDR, TRAP
from hugealign.elf.windows import align_up
from hugealign.errors import TRUNCATED, MalformedElfError
from hugealign.fixing.moves import moved, place
from hugealign.fixing.output import Output, old_headers, packed_headers, zeros_behind
from hugealign.fixing.plan import Plan, Step
from hugealign.fixing.separation.check import check
from hugealign.fixing.separation.crossings import refuse_crossings
from hugealign.fixing.separation.record import WORDS_SECTION, Separated, pack, pack_words, unpack, unpack_words
from hugealign.fixing.separation.words import Words, find_words

_SHT_PROGBITS, _SHT_NOTE, _NT_GNU_BUILD_ID = 1, 7, 3
_SHN_LORESERVE = 0xFF00
_RECORD_LIMIT = 1 << 20
_NOTE_LIMIT = 1 << 16
_WORDS_LIMIT = 1 << 29  # bytes of the section of words
_GAP_LIMIT = 1 << 21


def separated(fd: int, image: Image, plan: Plan, step: Step) -> Output:
    """Return the file that *plan*, by which addresses move by *step*, makes of the one behind *fd*.

    Raises RefusalError, MalformedElfError, OSError.
    """
    words = find_words(fd, image, step)
    refuse_crossings(fd, image, step.start)
    old = old_headers(reader(fd), image, plan.pieces)
    ehdr, strings = list(old.fields), old.strings
    if ehdr[5] != EHDR.size:
        raise RefusalError("fix.header-tables")
    if found := next((s.name for s in image.sections if s.name in (SECTION, WORDS_SECTION)), ""):
        raise RefusalError("fix.prelinked", section=found)
    trap = TRAP[image.e_machine]
    fills = [(low, high, place(plan.segments, low)) for low, high in plan.pads]
    at_id, old_id = build_id(fd, image)
    changed = [*_dropped(fd, plan), *([(at_id, old_id, new_build_id(old_id, step))] if old_id else ())]
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

    at_record = align_up(plan.size, 8)
    appended = b""
    parts = ((SECTION, record(b"")), (HEADERS_SECTION, old.headers + old.tables[SHDR.size :]), (WORDS_SECTION, packed))
    for name, data in parts:
        entries.append([len(strings), _SHT_PROGBITS, 0, 0, at_record + len(appended), len(data), 0, 0, 8, 0])
        strings += name.encode() + b"\0"
        appended += data.ljust(align_up(len(data), 8), b"\0")
    appended += replace_contents(entries, image, words, at_record + len(appended))
    entries[ehdr[13]][4:6] = at_record + len(appended), len(strings)
    appended += strings.ljust(align_up(len(strings), 8), b"\0")
    ehdr[4] = step(ehdr[4])
    ehdr[6], ehdr[10], ehdr[12] = at_record + len(appended), len(plan.segments), len(entries)
    table, new_headers = packed_headers(ehdr, plan, entries)
    appended += table
    made = record(new_headers)
    unpack(made)  # what could not be undone is not written
    writes = [(at, (trap * ((high - low) // len(trap) + 1))[: high - low]) for low, high, at in fills]
    writes += [(moved(plan.pieces, at), new) for at, _, new in changed if new]
    writes += [(at_record, made + appended[len(made) :]), (0, new_headers)]
    changes = tuple((d, _moved(plan.pieces, places)) for d, places in words.places.items())
    size = at_record + len(appended)
    return Output(plan.pieces, tuple(writes), size, changes, lambda before, after: check(before, after, step))


def original(fd: int, image: Image) -> Output:
    """Return the file as it was before it was separated.  Raises RefusalError, MalformedElfError, OSError."""
    found = {s.name: s for s in image.sections if not s.sh_flags & SHF_ALLOC and s.sh_type == _SHT_PROGBITS}
    if not {SECTION, HEADERS_SECTION, WORDS_SECTION} <= set(found):
        raise RefusalError("fix.no-record")
    record, headers, packed = (
        _read(fd, min(found[name].sh_size, limit), found[name].sh_offset)
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
        there.extend([place + distance for place in places[first:last]] if distance else places[first:last])
    if len(there) != len(places):
        raise RefusalError("fix.address-tables")
    return there


def replace_contents(entries: list[list[int]], image: Image, words: Words, at: int) -> bytes:
    """Return the new contents of compressed sections, to be written at offset *at*; tell their headers *entries*."""
    appended = b""
    for entry, section in zip(entries, image.sections, strict=False):
        if section.name in words.replaced and not section.sh_flags & SHF_ALLOC:
            data = words.replaced[section.name]
            entry[4:6] = at + len(appended), len(data)
            appended += data.ljust(align_up(len(data), 8), b"\0")
    return appended


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


def build_id(fd: int, image: Image) -> tuple[int, bytes]:
    """Return where the build ID of a file is, and its bytes; none if it has none."""
    for section in image.sections:
        if section.sh_type != _SHT_NOTE or not section.sh_flags & SHF_ALLOC:
            continue
        data = _read(fd, min(section.sh_size, _NOTE_LIMIT), section.sh_offset)
        at = 0
        while at + 12 <= len(data):
            name_size, desc_size, kind = struct.unpack_from("<III", data, at)
            desc = at + 12 + name_size
            desc += -desc % 4
            found = data[desc : desc + desc_size]
            if (data[at + 12 : desc].rstrip(b"\0"), kind) == (b"GNU", _NT_GNU_BUILD_ID) and len(found) == desc_size:
                return section.sh_offset + desc, found
            at = desc + desc_size
            at += -at % (8 if section.sh_addralign == 8 else 4)
    return 0, b""


def new_build_id(old: bytes, step: Step) -> bytes:
    """Return the build ID of a separated file: the same for the same original and addresses, as long as the *old*.

    A build ID names code at its very addresses: debuggers' caches and servers keep symbols by it, and would take those
    of the original for the new file.
    """
    said = b"hugealign separate\0" + struct.pack("<QQQQ", step.start, step.delta, step.behind, step.room) + old
    return hashlib.shake_256(said).digest(len(old))


def _read(fd: int, size: int, offset: int) -> bytes:
    data = os.pread(fd, size, offset)
    if len(data) != size:
        raise MalformedElfError(code=TRUNCATED)
    return data
