"""The contents of the separated file, and those of the original one: pieces, words that change by a distance, headers.

The new section headers go behind everything else; the old table stays where its piece goes, unused.
"""

import hashlib
import os
import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hugealign.elf.fixrecord import HEADERS_SECTION, MAGIC, SECTION, Piece, digest
from hugealign.elf.image import PAD_SECTIONS, SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS, Image
from hugealign.elf.objectfile import TRAP
from hugealign.elf.windows import align_up
from hugealign.errors import MalformedElfError
from hugealign.fixing.plan import RefusalError
from hugealign.fixing.separation.plan import Layout
from hugealign.fixing.separation.record import WORDS_SECTION, Separated, pack, pack_words, unpack, unpack_words
from hugealign.fixing.separation.step import Step
from hugealign.fixing.separation.words import Words
from hugealign.io.descriptors import write_all
from hugealign.io.replacing import copy_range

_EHDR, _PHDR, _SHDR = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQQQ"), struct.Struct("<IIQQQQIIQQ")
_SHT_PROGBITS, _SHT_NOTE, _NT_GNU_BUILD_ID = 1, 7, 3
_SHN_LORESERVE = 0xFF00
_STRINGS_LIMIT = _RECORD_LIMIT = 1 << 20
_NOTE_LIMIT = 1 << 16
_WORDS_LIMIT = 1 << 29  # bytes of the section of words
_GAP_LIMIT = 1 << 21
_BLOCK = 1 << 20  # bytes that are rewritten together
#: Contents are first copied up to a multiple of this in the new file: see `hugealign.fixing.writing`.
_BOUNDARY = 8 << 20


@dataclass(frozen=True, slots=True)
class Output:
    """A new file: *pieces* of the old one; then *words*, places in the new file by what is added there; then *writes*.

    What none of them covers is a hole.
    """

    pieces: tuple[Piece, ...]
    words: dict[int, "array[int]"]
    writes: tuple[tuple[int, bytes], ...]
    size: int


def separated(fd: int, image: Image, layout: Layout, words: Words) -> Output:
    """Return the file that *layout* makes of the one behind *fd*.  Raises RefusalError, MalformedElfError, OSError."""
    ehdr = list(_EHDR.unpack(_read(fd, _EHDR.size, 0)))
    e_phoff, e_shnum, e_shstrndx = ehdr[5], ehdr[12], ehdr[13]
    _check_headers(image, ehdr)
    old_headers = _read(fd, _EHDR.size, 0) + _read(fd, len(image.segments) * _PHDR.size, e_phoff)
    if any(v != p for _, _, _, v, p, *_ in _PHDR.iter_unpack(old_headers[_EHDR.size :])):
        raise RefusalError("fix.physical-addresses")
    tables = _read(fd, e_shnum * _SHDR.size, image.e_shoff)
    names = image.sections[e_shstrndx]
    strings = _read(fd, names.sh_size, names.sh_offset)
    if any(sh_name >= len(strings) for sh_name, *_ in _SHDR.iter_unpack(tables)) or strings[-1:] != b"\0":
        raise RefusalError("fix.names-outside")
    step, trap = layout.step, TRAP[image.e_machine]
    fills = [(low, high, layout.place(low)) for low, high in layout.pads]
    at_id, old_id = build_id(fd, image)
    changed = [*_dropped(fd, layout), *([(at_id, old_id, new_build_id(old_id, step))] if old_id else ())]
    entries = _entries(image, layout, [list(entry) for entry in _SHDR.iter_unpack(tables)])
    # Without a section of their own, strip would take the traps away.
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
            layout.page_size,
            image.file_size,
            len(old_headers),
            digest(new_headers),
            layout.pieces,
            tuple((at, old) for at, old, _ in changed),
            counts,
            layout.after,
            step,
        )
        return pack(made)

    at_record = align_up(layout.size, 8)
    appended = b""
    parts = ((SECTION, record(b"")), (HEADERS_SECTION, old_headers + tables[_SHDR.size :]), (WORDS_SECTION, packed))
    for name, data in parts:
        entries.append([len(strings), _SHT_PROGBITS, 0, 0, at_record + len(appended), len(data), 0, 0, 8, 0])
        strings += name.encode() + b"\0"
        appended += data.ljust(align_up(len(data), 8), b"\0")
    appended += replace_contents(entries, image, words, at_record + len(appended))
    entries[e_shstrndx][4:6] = at_record + len(appended), len(strings)
    appended += strings.ljust(align_up(len(strings), 8), b"\0")
    ehdr[4] = step(ehdr[4])
    ehdr[6], ehdr[10], ehdr[12] = at_record + len(appended), len(layout.segments), len(entries)
    try:
        appended += b"".join(_SHDR.pack(*entry) for entry in entries)
        new_headers = _EHDR.pack(*ehdr) + b"".join(
            _PHDR.pack(s.p_type, s.p_flags, s.p_offset, s.p_vaddr, s.p_vaddr, s.p_filesz, s.p_memsz, s.p_align)
            for s in layout.segments
        )
    except struct.error as error:
        raise MalformedElfError("a header holds an impossible file offset") from error
    made = record(new_headers)
    unpack(made)  # what could not be undone is not written
    writes = [(at, (trap * ((high - low) // len(trap) + 1))[: high - low]) for low, high, at in fills]
    writes += [(layout.moved(at), new) for at, _, new in changed if new]
    writes += [(at_record, made + appended[len(made) :]), (0, new_headers)]
    moved = {d: _moved(layout.pieces, places) for d, places in words.places.items()}
    return Output(layout.pieces, moved, tuple(writes), at_record + len(appended))


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
    if digest(_read(fd, _EHDR.size + len(image.segments) * _PHDR.size, 0)) != separation.digest:
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
        raise MalformedElfError("the record of the fix is damaged")
    writes = (*separation.bytes, (0, headers))
    return Output(back, {-d: p for d, p in places.items()}, writes, separation.size)


def compose(source: int, target: int, output: Output) -> None:
    """Write what *output* makes of the file behind *source* to the empty one behind *target*.

    Raises OSError, ReplaceError.
    """
    for piece in output.pieces:
        first = min(piece.size, -piece.target % _BOUNDARY)
        for start, size in ((0, first), (first, piece.size - first)):
            copy_range(source, target, piece.source + start, piece.target + start, size)
    os.ftruncate(target, output.size)
    for distance, places in output.words.items():
        _add(target, distance, places)
    for offset, data in output.writes:
        write_all(target, data, offset)


def _add(fd: int, distance: int, places: "array[int]") -> None:
    """Add *distance* to the words at *places* of the file behind *fd*."""
    i = 0
    while i < len(places):
        low = places[i] & -8
        stop = bisect_left(places, low + _BLOCK, i)
        size = places[stop - 1] + 8 - low
        block = bytearray(os.pread(fd, size, low))
        if len(block) < size:
            raise MalformedElfError("the file was cut while it was read")
        here = places[i:stop]
        try:
            _add_within(block, distance, here, low)
        except (OverflowError, ValueError, struct.error) as error:
            raise MalformedElfError("a word that would move holds no address") from error
        write_all(fd, bytes(block), low)
        i = stop


def _add_within(block: bytearray, distance: int, places: "array[int]", low: int) -> None:
    """Add *distance* to the words at *places* in *block*, whose first byte is at *low*, a multiple of eight."""
    if sys.byteorder == "little" and not any(place & 7 for place in places):
        with memoryview(block) as view, view.cast("Q") as words:
            for place in places:
                words[place - low >> 3] += distance
        return
    word = struct.Struct("<Q")
    for place in places:
        word.pack_into(block, place - low, word.unpack_from(block, place - low)[0] + distance)


def _moved(pieces: tuple[Piece, ...], places: "array[int]") -> "array[int]":
    """Return where the ascending *places* of the old file are in the new one."""
    moved = array("Q")
    for piece in pieces:
        first, last = bisect_left(places, piece.source), bisect_left(places, piece.source + piece.size)
        distance = piece.target - piece.source
        moved.extend([place + distance for place in places[first:last]] if distance else places[first:last])
    if len(moved) != len(places):
        raise RefusalError("fix.address-tables")
    return moved


def replace_contents(entries: list[list[int]], image: Image, words: Words, at: int) -> bytes:
    """Return the new contents of compressed sections, to be written at offset *at*; tell their headers *entries*."""
    appended = b""
    for entry, section in zip(entries, image.sections, strict=False):
        if section.name in words.replaced and not section.sh_flags & SHF_ALLOC:
            data = words.replaced[section.name]
            entry[4:6] = at + len(appended), len(data)
            appended += data.ljust(align_up(len(data), 8), b"\0")
    return appended


def _check_headers(image: Image, ehdr: list[Any]) -> None:
    e_phoff, e_phnum, e_shnum, e_shstrndx = ehdr[5], ehdr[10], ehdr[12], ehdr[13]
    if e_phnum != len(image.segments) or e_shnum != len(image.sections) or e_phoff != _EHDR.size:
        raise RefusalError("fix.header-tables")
    if not 0 < e_shstrndx < e_shnum or image.sections[e_shstrndx].sh_size > _STRINGS_LIMIT:
        raise RefusalError("fix.section-names")
    if found := next((s.name for s in image.sections if s.name in (HEADERS_SECTION, SECTION, WORDS_SECTION)), ""):
        raise RefusalError("fix.prelinked", section=found)


def _entries(image: Image, layout: Layout, table: list[list[int]]) -> list[list[int]]:
    """Return the section headers with their new addresses and offsets."""
    for entry, section in zip(table, image.sections, strict=True):
        if section.sh_flags & SHF_ALLOC:
            entry[3] = layout.step(section.sh_addr)
            at = layout.place(entry[3])
            if section.sh_type != SHT_NOBITS and section.sh_size and at < 0:
                raise RefusalError("fix.address-tables", address=f"{section.sh_addr:#x}")
            entry[4] = at if at >= 0 else layout.moved(section.sh_offset)
            if section.sh_type != SHT_NOBITS and section.sh_size and entry[4] != layout.moved(section.sh_offset):
                raise RefusalError("fix.address-tables", address=f"{section.sh_addr:#x}")
        elif section.sh_type:
            entry[4] = layout.moved(section.sh_offset)
    return table


def _dropped(fd: int, layout: Layout) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield what followed the text in the file, if not only zeros: its offset, the bytes, and nothing instead."""
    start, end = layout.dropped
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
        raise MalformedElfError("the file is truncated")
    return data


__all__ = ["MAGIC", "Output", "compose", "original", "separated"]
