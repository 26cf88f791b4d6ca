"""The contents of the fixed file: bytes of the input at their places, and the headers and tables written over them.

The new section headers go behind everything else; the old table stays where it was, unused, so undoing only has to
restore the first bytes and the length.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.constants import SHN_LORESERVE
from hugealign.elf.fixrecord import (
    SECTION,
    SECTIONS,
    WORDS_SECTION,
    FixRecord,
    Piece,
    Read,
    contents,
    digest,
    exactly,
    pack,
    pack_words,
    present_headers,
    recorded,
    unpack,
    unpack_words,
)
from hugealign.elf.image import (
    PAD_SECTIONS,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHT_NOBITS,
    SHT_NULL,
    SHT_PROGBITS,
    Image,
    Section,
)
from hugealign.elf.machines import MACHINES
from hugealign.elf.objectfile import EHDR, PHDR, SHDR
from hugealign.elf.windows import align_up
from hugealign.errors import MalformedElfError
from hugealign.fixing.moves import moved, place
from hugealign.fixing.plan import Plan
from hugealign.fixing.texts import divisible
from hugealign.fixing.understood import end_of_contents
from hugealign.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array

_KEPT_FLAGS = 0x7  # SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR; other flags say how to merge or link a section
_STRINGS_LIMIT = 1 << 20
_CHUNK = 1 << 20
_FILL_LIMIT = 1 << 28  # bytes between texts and the ends of their windows; twice a window if that is more
_ZEROS_LIMIT = 4096  # bytes that may follow the contents; patchelf leaves some
ALIGNMENT = 8  # of what is appended


class Output(Record):
    """A new file: *pieces* of the old one, then *writes* (offset, bytes) over them; what neither covers is a hole.

    *words* are distances, each with the ascending places of the words of eight bytes in the new file to which it is
    added before the writes.  *check* receives the old and the new file, open, and raises RefusalError if the new file
    is wrong.
    """

    pieces: tuple[Piece, ...]
    writes: tuple[tuple[int, bytes | memoryview], ...]
    size: int
    words: "tuple[tuple[int, array[int]], ...]" = ()
    check: Callable[[int, int], None] | None = None


def fixed(read: Read, image: Image, plan: Plan) -> Output:
    """Return the file that *plan* makes of *image*.  Raises RefusalError, MalformedElfError."""
    old = old_headers(read, image, plan.pieces)
    ehdr = list(old.ehdr)
    # BOLT and some patchers leave the program headers in the middle of the file, where they move with the contents.
    ehdr[5] = moved(plan.pieces, ehdr[5])
    ranges = [(place(plan.segments, start), end - start) for start, end in plan.pads]
    pieces, filled = carved(read, image, plan.pieces, ranges)
    entries = list(_entries([list(entry) for entry in SHDR.iter_unpack(old.tables)], image, plan))
    at = align_up(plan.size, ALIGNMENT)
    tail, headers = finished(plan.changed(pieces=pieces), old, ehdr, entries, at)
    limit = max(_FILL_LIMIT, 2 * plan.page_size)
    if sum(size for _, size in filled) > limit:
        raise RefusalError("fix.grows", limit=limit)
    trap = MACHINES[image.e_machine].trap
    traps = [(start, trap * (size // len(trap))) for start, size in filled if any(trap)]
    writes = (*traps, (at, tail), *_written(headers.ljust(len(old.headers), b"\0")))
    return Output(pieces, writes, at + len(tail))


def finished(
    plan: Plan,
    old: "OldHeaders",
    ehdr: list[int],
    entries: list[list[int]],
    at: int,
    replaced: tuple[tuple[int, bytes], ...] = (),
    words: "Mapping[int, array[int]] | None" = None,
) -> tuple[bytes, bytes]:
    """Return what *plan* appends from offset *at* on, and the new headers: the ELF header and the program headers.

    It appends the record, which has the *old* headers, *replaced* bytes and the places of *words*, and the section
    headers: *entries*, and those of pads and of the record.  *ehdr* has the fields of the ELF header.  Raises
    RefusalError, MalformedElfError.
    """
    strings = old.strings
    # Without a section of its own, strip would drop the traps.
    for start, end in plan.pads:
        flags, offset = SHF_ALLOC | SHF_EXECINSTR, place(plan.segments, start)
        entries.append([len(strings), SHT_PROGBITS, flags, start, offset, end - start, 0, 0, 1, 0])
    strings += PAD_SECTIONS[0].encode() + b"\0"
    packed, counts = pack_words(words) if words else (b"", ())
    sizes = plan.page_size, old.size, len(old.headers)
    record = FixRecord(plan.level, *sizes, digest(b""), plan.pieces, plan.most, plan.step, replaced, counts)
    # The record's length does not depend on the digest, so its place is known before the new headers are.
    parts = [(SECTION, pack(record)), (record.headers_section, old.headers + old.tables[SHDR.size :])]
    tail = b""
    for name, data in [*parts, (WORDS_SECTION, packed)] if record.step else parts:
        entries.append([len(strings), SHT_PROGBITS, 0, 0, at + len(tail), len(data), 0, 0, 1, 0])
        strings += name.encode() + b"\0"
        tail += data.ljust(align_up(len(data), ALIGNMENT), b"\0")
    if len(entries) >= SHN_LORESERVE:
        raise RefusalError("fix.many-sections")
    entries[ehdr[13]][4:6] = at + len(tail), len(strings)
    tail += strings.ljust(align_up(len(strings), ALIGNMENT), b"\0")
    ehdr[6], ehdr[10], ehdr[12] = at + len(tail), len(plan.segments), len(entries)
    try:
        tail += b"".join(SHDR.pack(*entry) for entry in entries)
        headers = EHDR.pack(*ehdr) + b"".join(
            PHDR.pack(s.p_type, s.p_flags, s.p_offset, s.p_vaddr, s.p_vaddr, s.p_filesz, s.p_memsz, s.p_align)
            for s in plan.segments
        )
    except struct.error as error:
        raise MalformedElfError("file offset") from error
    made = pack(record.changed(digest=digest(headers)))
    unpack(made)  # what could not be undone is not written
    return made + tail[len(made) :], headers


class OldHeaders(Record):
    """The present headers of a file of *size* bytes: the fields of the ELF header, *ehdr*; it and the program headers.

    *tables* are the section headers, *strings* the names of sections.
    """

    size: int
    ehdr: tuple[int, ...]
    headers: bytes
    tables: bytes
    strings: bytes


def old_headers(read: Read, image: Image, pieces: Sequence[Piece]) -> OldHeaders:
    """Return the present headers.  Raises RefusalError for those that we do not know how to rewrite."""
    ehdr = EHDR.unpack(exactly(read, EHDR.size, 0))
    e_phoff, e_phnum, e_shnum, e_shstrndx = (ehdr[i] for i in (5, 10, 12, 13))
    if e_phnum != len(image.segments) or e_shnum != len(image.sections):
        raise RefusalError("fix.header-tables")
    if not 0 < e_shstrndx < e_shnum or image.sections[e_shstrndx].sh_size > _STRINGS_LIMIT:
        raise RefusalError("fix.section-names")
    if reserved := next((s.name for s in image.sections if s.name in SECTIONS), ""):
        raise RefusalError("fix.prelinked", section=reserved)
    headers = present_headers(read, image)
    if len(headers) > pieces[0].size or 0 < e_phoff < EHDR.size:
        raise RefusalError("fix.header-tables")
    if any(p_vaddr != p_paddr for *_, p_vaddr, p_paddr, _, _, _ in PHDR.iter_unpack(headers[EHDR.size :])):
        raise RefusalError("fix.physical-addresses")
    tables = exactly(read, e_shnum * SHDR.size, image.e_shoff)
    names = image.sections[e_shstrndx]
    strings = exactly(read, names.sh_size, names.sh_offset)
    if any(sh_name >= len(strings) for sh_name, *_ in SHDR.iter_unpack(tables)) or strings[-1:] != b"\0":
        raise RefusalError("fix.section-names")
    return OldHeaders(image.file_size + zeros_behind(read, image), ehdr, headers, tables, strings)


def _written(headers: bytes) -> tuple[tuple[int, bytes], ...]:
    """Return the writes that give a file these *headers*: the ELF header, then the program headers."""
    e_phoff = EHDR.unpack(headers[: EHDR.size])[5]
    if e_phoff == EHDR.size:
        return ((0, headers),)
    return (e_phoff, headers[EHDR.size :]), (0, headers[: EHDR.size])


def unchanged(read: Read, image: Image) -> Output:
    """Return the file as it is."""
    size = image.file_size + zeros_behind(read, image)
    return Output((Piece(0, 0, image.file_size),), (), size)


def carved(
    read: Read, image: Image, pieces: Sequence[Piece], ranges: Sequence[tuple[int, int]]
) -> tuple[tuple[Piece, ...], list[tuple[int, int]]]:
    """Return *pieces* without their bytes in *ranges* (offset, size) of the new file, and the ranges left empty.

    Only zeros that nothing claims are left out; undoing makes a hole of them.  A range that holds anything else stays
    as it is.
    """
    kept = list(pieces)
    filled = []
    for at, size in ranges:
        overlaps = [
            (max(at, p.target) - p.target + p.source, min(at + size, p.target + p.size) - p.target + p.source)
            for p in kept
            if p.target < at + size and at < p.target + p.size
        ]
        if all(not _claimed(image, *overlap) and _zero(read, *overlap) for overlap in overlaps):
            kept = [part for piece in kept for part in _without(piece, at, at + size)]
            filled.append((at, size))
    return tuple(kept), filled


def _without(piece: Piece, start: int, end: int) -> Iterator[Piece]:
    """Yield the parts of *piece* that do not lie between *start* and *end* of the new file."""
    before = min(piece.size, max(0, start - piece.target))
    after = min(piece.size, max(0, piece.target + piece.size - end))
    if before + after >= piece.size:
        yield piece
        return
    if before:
        yield piece.changed(size=before)
    if after:
        skipped = piece.size - after
        yield Piece(piece.source + skipped, piece.target + skipped, after)


def _claimed(image: Image, start: int, end: int) -> bool:
    return any(
        s.sh_type not in (SHT_NULL, SHT_NOBITS) and s.sh_offset < end and start < s.sh_offset + s.sh_size
        for s in image.sections
    )


def _zero(read: Read, start: int, end: int) -> bool:
    return not any(read(min(_CHUNK, end - at), at).strip(b"\0") for at in range(start, end, _CHUNK))


def _entries(table: Sequence[list[int]], image: Image, plan: Plan) -> Iterator[list[int]]:
    """Yield the section headers with their new offsets; the second halves of sections that had to be cut come last."""
    halves = []
    for entry, section in zip(table, image.sections, strict=True):
        new = list(entry)
        if section.sh_type:
            new[4] = _offset(section, plan)
        # Cut from the end, so that the first part keeps its index, to which symbols refer, and its name.
        for cut in sorted(plan.cuts, reverse=True):
            address, size = new[3], new[5]
            cuttable = section.sh_flags & SHF_ALLOC and section.sh_type != SHT_NOBITS and divisible(section)
            if cuttable and address < cut < address + size:
                first = cut - address
                rest = [*new[:1], SHT_PROGBITS, new[2] & _KEPT_FLAGS, cut, new[4] + first, size - first, 0, 0, 1, 0]
                halves.append(rest)
                new[5] = first
                if new[9] and first % new[9]:
                    # Tools no longer see a table here; the dynamic section says where it is.
                    new[1], new[6:10] = SHT_PROGBITS, [0, 0, new[8], 0]
        yield new
    yield from halves


def _offset(section: Section, plan: Plan) -> int:
    """Return where the contents of *section* are in the new file."""
    at = place(plan.segments, section.sh_addr) if section.sh_flags & SHF_ALLOC else -1
    return at if at >= 0 else moved(plan.pieces, section.sh_offset)


def original(read: Read, image: Image) -> Output:
    """Return the file as it was before it was fixed.  Raises RefusalError, MalformedElfError."""
    record = recorded(read, image)
    headers = contents(read, image, record.headers_section) if record else None
    packed = contents(read, image, WORDS_SECTION) if record and record.step else b""
    if record is None or headers is None or packed is None:
        raise RefusalError("fix.no-record")
    if digest(present_headers(read, image)) != record.digest:
        raise RefusalError("fix.changed-since")
    if len(headers) < record.headers:
        raise MalformedElfError(SECTION)
    words = unpack_words(packed, record.words) if record.step else {}
    writes = (*record.replaced, *_written(headers[: record.headers]))
    if (
        any(at + len(data) > record.size for at, data in writes)  # old headers may say that they lie anywhere
        or any(places[-1] + 8 > record.size for places in words.values() if places)
        or record.size > image.file_size + _ZEROS_LIMIT  # zeros behind the contents may have been more than we append
        or any(p.target + p.size > image.file_size for p in record.pieces)
    ):
        raise MalformedElfError(SECTION)
    back = tuple(Piece(p.target, p.source, p.size) for p in record.pieces)
    return Output(back, writes, record.size, tuple((-distance, places) for distance, places in words.items()))


def without_tail(read: Read, image: Image) -> Image:
    """Return *image* as if the file ended where its contents do, if only a few zeros follow."""
    end = end_of_contents(image)
    if not (image.is64 and image.little) or end >= image.file_size:
        return image
    cut = image.changed(file_size=end)
    return cut if zeros_behind(read, cut) == image.file_size - end else image


def zeros_behind(read: Read, image: Image) -> int:
    """Return how many bytes follow the file that *image* describes, 0 if they are many or not all zero."""
    tail = read(_ZEROS_LIMIT + 1, image.file_size)
    return 0 if len(tail) > _ZEROS_LIMIT or tail.strip(b"\0") else len(tail)
