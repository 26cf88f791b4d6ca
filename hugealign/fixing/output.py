"""The contents of the fixed file: bytes of the input at their places, and the headers and tables written over them.

The new section headers go behind everything else; the old table stays where it was, unused, so undoing only has to
restore the first bytes and the length.
"""

import struct
from collections.abc import Callable, Iterator, Sequence

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.fixrecord import (
    HEADERS_SECTION,
    SECTION,
    FixRecord,
    Piece,
    Read,
    contents,
    digest,
    exactly,
    pack,
    recorded,
    unpack,
)
from hugealign.elf.image import PAD_SECTIONS, SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS, Image, Section
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

_SHT_PROGBITS = 1
_KEPT_FLAGS = 0x7  # SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR: the rest says how a tool may merge or link the section
_SHN_LORESERVE = 0xFF00
_STRINGS_LIMIT = 1 << 20
_CHUNK = 1 << 20
_FILL_LIMIT = 1 << 28  # bytes between texts and the ends of their windows; twice a window if that is more
_ZEROS_LIMIT = 4096  # bytes that may follow the contents; patchelf leaves some
_ALIGNMENT = 8  # of what is appended


class Output(Record):
    """A new file: *pieces* of the old one, then *writes* (offset, bytes) over them; what neither covers is a hole.

    *words* are numbers that are added, and the places in the new file of the words of eight bytes to which each is
    added before the writes, ascending.  *check* gets the old and the new file, open, and raises RefusalError if the new
    one is not what it should be.
    """

    pieces: tuple[Piece, ...]
    writes: tuple[tuple[int, bytes | memoryview], ...]
    size: int
    words: "tuple[tuple[int, array[int]], ...]" = ()
    check: Callable[[int, int], None] | None = None


def fixed(read: Read, image: Image, plan: Plan) -> Output:
    """Return the file that *plan* makes of *image*.  Raises RefusalError, MalformedElfError."""
    old = old_headers(read, image, plan.pieces)
    fields, headers, tables, strings = list(old.fields), old.headers, old.tables, old.strings
    e_phoff, e_shstrndx = fields[5], fields[13]
    pads = [(start, end, place(plan.segments, start)) for start, end in plan.pads]
    pieces, filled = _carved(read, image, plan.pieces, [(at, end - start) for start, end, at in pads])
    entries = list(_entries([list(entry) for entry in SHDR.iter_unpack(tables)], image, plan))
    # Without a section of its own, strip would drop the fill of the last window.
    entries += [
        [len(strings), _SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, a, at, end - a, 0, 0, 1, 0] for a, end, at in pads
    ]
    strings += PAD_SECTIONS[0].encode() + b"\0"
    if len(entries) + 2 >= _SHN_LORESERVE:
        raise RefusalError("fix.many-sections")

    size = image.file_size + zeros_behind(read, image)

    # The record's own length does not depend on the new headers, so its place is known before they are.
    def record(new_headers: bytes) -> bytes:
        made = FixRecord(plan.level, plan.page_size, size, len(headers), digest(new_headers), pieces, plan.most)
        return pack(made)

    at_record = align_up(plan.size, _ALIGNMENT)
    appended = b""
    for name, data in ((SECTION, record(b"")), (HEADERS_SECTION, headers + tables[SHDR.size :])):
        entries.append([len(strings), _SHT_PROGBITS, 0, 0, at_record + len(appended), len(data), 0, 0, 1, 0])
        strings += name.encode() + b"\0"
        appended += data.ljust(align_up(len(data), _ALIGNMENT), b"\0")
    entries[e_shstrndx][4:6] = at_record + len(appended), len(strings)
    appended += strings.ljust(align_up(len(strings), _ALIGNMENT), b"\0")
    # BOLT and some patchers leave the program headers in the middle of the file, where they move with the contents.
    fields[5] = moved(plan.pieces, e_phoff)
    fields[6], fields[10], fields[12] = at_record + len(appended), len(plan.segments), len(entries)
    table, new_headers = packed_headers(fields, plan, entries)
    appended += table
    new_headers = new_headers.ljust(len(headers), b"\0")
    made = record(new_headers)
    unpack(made)  # what could not be undone is not written
    limit = max(_FILL_LIMIT, 2 * plan.page_size)
    if sum(size for _, size in filled) > limit:
        raise RefusalError("fix.grows", limit=limit)
    trap = MACHINES[image.e_machine].trap
    traps = [(at, trap * (size // len(trap))) for at, size in filled if any(trap)]
    tail = at_record, made + appended[len(made) :]
    return Output(pieces, (*traps, tail, *_written(new_headers)), at_record + len(appended))


def packed_headers(fields: list[int], plan: Plan, entries: list[list[int]]) -> tuple[bytes, bytes]:
    """Return the table of the section headers *entries*, and the ELF header *fields* with *plan*'s program headers.

    Raises MalformedElfError.
    """
    try:
        return b"".join(SHDR.pack(*entry) for entry in entries), EHDR.pack(*fields) + b"".join(
            PHDR.pack(s.p_type, s.p_flags, s.p_offset, s.p_vaddr, s.p_vaddr, s.p_filesz, s.p_memsz, s.p_align)
            for s in plan.segments
        )
    except struct.error as error:
        raise MalformedElfError("file offset") from error


class OldHeaders(Record):
    """The present headers of a file: the *fields* of the ELF header; its bytes and the program headers (*headers*).

    *tables* are the section headers, *strings* the names of sections.
    """

    fields: tuple[int, ...]
    headers: bytes
    tables: bytes
    strings: bytes


def old_headers(read: Read, image: Image, pieces: Sequence[Piece]) -> OldHeaders:
    """Return the present headers.  Raises RefusalError for those that we do not know how to rewrite."""
    fields = EHDR.unpack(exactly(read, EHDR.size, 0))
    e_phoff, e_phnum, e_shnum, e_shstrndx = (fields[i] for i in (5, 10, 12, 13))
    if e_phnum != len(image.segments) or e_shnum != len(image.sections):
        raise RefusalError("fix.header-tables")
    if not 0 < e_shstrndx < e_shnum or image.sections[e_shstrndx].sh_size > _STRINGS_LIMIT:
        raise RefusalError("fix.section-names")
    if any(section.name == HEADERS_SECTION for section in image.sections):
        raise RefusalError("fix.prelinked", section=HEADERS_SECTION)
    headers = exactly(read, EHDR.size, 0) + exactly(read, e_phnum * PHDR.size, e_phoff)
    if len(headers) > pieces[0].size or 0 < e_phoff < EHDR.size:
        raise RefusalError("fix.header-tables")
    if any(p_vaddr != p_paddr for *_, p_vaddr, p_paddr, _, _, _ in PHDR.iter_unpack(headers[EHDR.size :])):
        raise RefusalError("fix.physical-addresses")
    tables = exactly(read, e_shnum * SHDR.size, image.e_shoff)
    names = image.sections[e_shstrndx]
    strings = exactly(read, names.sh_size, names.sh_offset)
    if any(sh_name >= len(strings) for sh_name, *_ in SHDR.iter_unpack(tables)) or strings[-1:] != b"\0":
        raise RefusalError("fix.section-names")
    return OldHeaders(fields, headers, tables, strings)


def _written(headers: bytes) -> tuple[tuple[int, bytes], ...]:
    """Return the writes that give a file these *headers*: the ELF header, then the program headers."""
    e_phoff = EHDR.unpack(headers[: EHDR.size])[5]
    if e_phoff == EHDR.size:
        return ((0, headers),)
    return (e_phoff, headers[EHDR.size :]), (0, headers[: EHDR.size])


def _headers(read: Read, size: int) -> bytes:
    """Return *size* bytes of headers, as `_written` takes them, or fewer if another tool has damaged them."""
    header = exactly(read, EHDR.size, 0)
    return header + read(size - EHDR.size, EHDR.unpack(header)[5])


def unchanged(read: Read, image: Image) -> Output:
    """Return the file as it is."""
    size = image.file_size + zeros_behind(read, image)
    return Output((Piece(0, 0, image.file_size),), (), size)


def _carved(
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
        s.sh_type not in (0, SHT_NOBITS) and s.sh_offset < end and start < s.sh_offset + s.sh_size
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
                rest = [*new[:1], _SHT_PROGBITS, new[2] & _KEPT_FLAGS, cut, new[4] + first, size - first, 0, 0, 1, 0]
                halves.append(rest)
                new[5] = first
                if new[9] and first % new[9]:
                    # To tools it is no table any more; the dynamic section says where it is.
                    new[1], new[6:10] = _SHT_PROGBITS, [0, 0, new[8], 0]
        yield new
    yield from halves


def _offset(section: Section, plan: Plan) -> int:
    """Return where the contents of *section* are in the new file."""
    at = place(plan.segments, section.sh_addr) if section.sh_flags & SHF_ALLOC else -1
    return at if at >= 0 else moved(plan.pieces, section.sh_offset)


def original(read: Read, image: Image) -> Output:
    """Return the file as it was before it was fixed.  Raises RefusalError, MalformedElfError."""
    record, headers = recorded(read, image), contents(read, image, HEADERS_SECTION)
    if record is None or headers is None:
        raise RefusalError("fix.no-record")
    if digest(_headers(read, record.headers)) != record.digest:
        raise RefusalError("fix.changed-since")
    if len(headers) < record.headers:
        raise MalformedElfError(".hugealign.fix")
    writes = _written(headers[: record.headers])
    if (
        any(at + len(data) > record.size for at, data in writes)  # old headers may say that they lie anywhere
        or record.size > image.file_size + _ZEROS_LIMIT  # zeros behind the contents may have been more than we append
        or any(p.target + p.size > image.file_size for p in record.pieces)
    ):
        raise MalformedElfError(".hugealign.fix")
    back = tuple(Piece(p.target, p.source, p.size) for p in record.pieces)
    return Output(back, writes, record.size)


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
