"""What the fixed file consists of: bytes of the input at their places, and the headers and tables written over it.

Section headers are written anew behind everything else; the old table stays where it was, unused, so that undoing only
has to restore the first bytes and the length.
"""

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hugealign.elf.image import PT_LOAD, SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS, Image, Section
from hugealign.elf.objectfile import TRAP
from hugealign.elf.windows import align_up
from hugealign.errors import MalformedElfError
from hugealign.fix.plan import Piece, Plan, RefusalError, moved
from hugealign.fix.record import SECTION, Record, digest, pack, unpack
from hugealign.verify.rules import PAD_SECTIONS

_EHDR, _PHDR, _SHDR = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQQQ"), struct.Struct("<IIQQQQIIQQ")
_SHT_PROGBITS = 1
_KEPT_FLAGS = 0x7  # SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR: the rest says how a tool may merge or link the section
_SHN_LORESERVE = 0xFF00
_STRINGS_LIMIT = 1 << 20

Read = Callable[[int, int], bytes]  # (size, offset) -> bytes


@dataclass(frozen=True, slots=True)
class Output:
    """A new file: *pieces* of the old one, then *writes* (offset, bytes) over them; what neither covers is a hole.

    The last write is the one that makes the file another: until it is done, a file changed in place is the old one
    with something appended.
    """

    pieces: tuple[Piece, ...]
    writes: tuple[tuple[int, bytes], ...]
    size: int


def fixed(read: Read, image: Image, plan: Plan) -> Output:
    """Return the file that *plan* makes of *image*.  Raises RefusalError, MalformedElfError."""
    fields = list(_EHDR.unpack(_exactly(read, _EHDR.size, 0)))
    e_phoff, e_phnum, e_shnum, e_shstrndx = (fields[i] for i in (5, 10, 12, 13))
    if not image.sections:
        raise RefusalError("it has no section headers, where the record for undoing would go")
    if e_phoff != _EHDR.size or e_phnum != len(image.segments) or e_shnum != len(image.sections):
        raise RefusalError("its header tables are of an unusual kind")
    if not 0 < e_shstrndx < e_shnum or image.sections[e_shstrndx].sh_size > _STRINGS_LIMIT:
        raise RefusalError("it has no names of sections")
    headers = _exactly(read, e_phoff + e_phnum * _PHDR.size, 0)
    if len(headers) > plan.pieces[0].size:
        raise RefusalError("its program headers are not at the beginning of the file")
    table = [list(_SHDR.unpack(_exactly(read, _SHDR.size, section.header))) for section in image.sections]
    if any(p_vaddr != p_paddr for *_, p_vaddr, p_paddr, _, _, _ in _PHDR.iter_unpack(headers[_EHDR.size :])):
        raise RefusalError("its physical addresses differ from the virtual ones")
    names = image.sections[e_shstrndx]
    strings = _exactly(read, names.sh_size, names.sh_offset)
    entries = list(_entries(table, image, plan))
    pads = [(start, end, _place(plan, start)) for start, end in plan.pads]
    # Without a section of its own, strip would drop what fills the last window.
    flags = SHF_ALLOC | SHF_EXECINSTR
    entries += [[len(strings), _SHT_PROGBITS, flags, a, at, end - a, 0, 0, 1, 0] for a, end, at in pads]
    strings += PAD_SECTIONS[0].encode() + b"\0"
    if len(entries) + 1 >= _SHN_LORESERVE:
        raise RefusalError("it has too many sections")

    # The record's own length does not depend on the new headers, so its place is known before they are.
    def record(new_headers: bytes) -> bytes:
        made = Record(plan.level, plan.page_size, image.file_size, headers, digest(new_headers), plan.pieces)
        return pack(made)

    at_record = align_up(plan.size, 8)
    length = len(record(b""))
    entries.append([len(strings), _SHT_PROGBITS, 0, 0, at_record, length, 0, 0, 1, 0])
    strings += SECTION.encode() + b"\0"
    at_strings = at_record + length
    at_table = align_up(at_strings + len(strings), 8)
    entries[e_shstrndx][4:6] = at_strings, len(strings)
    fields[6], fields[10], fields[12] = at_table, len(plan.segments), len(entries)
    new_headers = _EHDR.pack(*fields) + b"".join(
        _PHDR.pack(s.p_type, s.p_flags, s.p_offset, s.p_vaddr, s.p_vaddr, s.p_filesz, s.p_memsz, s.p_align)
        for s in plan.segments
    )
    new_headers = new_headers.ljust(len(headers), b"\0")
    appended = record(new_headers) + strings
    appended = appended.ljust(at_table - at_record, b"\0") + b"".join(_SHDR.pack(*entry) for entry in entries)
    trap = TRAP[image.e_machine]
    traps = [(at, trap * ((end - start) // len(trap))) for start, end, at in pads if any(trap)]
    return Output(plan.pieces, (*traps, (at_record, appended), (0, new_headers)), at_record + len(appended))


def _entries(table: Sequence[list[int]], image: Image, plan: Plan) -> Iterator[list[int]]:
    """Yield the section headers at their new offsets; the second halves of those that had to be cut come last."""
    halves = []
    for entry, section in zip(table, image.sections, strict=True):
        new = list(entry)
        if section.sh_type:
            new[4] = _offset(section, plan)
        # Cut from the end, so that the first part keeps its index, to which symbols refer, and its name.
        for cut in sorted(plan.cuts, reverse=True):
            address, size = new[3], new[5]
            if section.sh_flags & SHF_ALLOC and section.sh_type != SHT_NOBITS and address < cut < address + size:
                first = cut - address
                rest = [*new[:1], _SHT_PROGBITS, new[2] & _KEPT_FLAGS, cut, new[4] + first, size - first, 0, 0, 1, 0]
                halves.append(rest)
                new[5] = first
                if new[9] and first % new[9]:
                    # No table any more, for tools; the dynamic section says where it is.
                    new[1], new[6:10] = _SHT_PROGBITS, [0, 0, new[8], 0]
        yield new
    yield from halves


def _offset(section: Section, plan: Plan) -> int:
    """Return where in the new file the contents of *section* are."""
    place = _place(plan, section.sh_addr) if section.sh_flags & SHF_ALLOC else -1
    return place if place >= 0 else moved(plan.pieces, section.sh_offset)


def _place(plan: Plan, address: int) -> int:
    """Return where in the new file the byte of *address* is, -1 if no segment maps it."""
    for segment in plan.segments:
        if segment.p_type == PT_LOAD and segment.p_vaddr <= address < segment.p_vaddr + segment.p_memsz:
            return segment.p_offset + address - segment.p_vaddr
    return -1


def recorded(read: Read, image: Image) -> Record | None:
    """Return the record in a file that has been fixed, None in any other.  Raises MalformedElfError."""
    section = next((s for s in image.sections if s.name == SECTION), None)
    if section is None:
        return None
    return unpack(read(min(section.sh_size, _STRINGS_LIMIT + 1), section.sh_offset))


def original(read: Read, image: Image) -> Output:
    """Return the file that this one was before it was fixed.  Raises RefusalError, MalformedElfError."""
    record = recorded(read, image)
    if record is None:
        raise RefusalError("it has not been fixed, or a tool has removed the record since")
    if digest(read(len(record.headers), 0)) != record.digest or any(
        p.target + p.size > image.file_size for p in record.pieces
    ):
        raise RefusalError("another tool has changed it since it was fixed")
    back = tuple(Piece(p.target, p.source, p.size) for p in record.pieces)
    return Output(back, ((0, record.headers),), record.size)


def reader(fd: int) -> Read:
    """Return a function that reads the file behind *fd*."""
    return lambda size, offset: os.pread(fd, size, offset)


def _exactly(read: Read, size: int, offset: int) -> bytes:
    data = read(size, offset)
    if len(data) != size:
        raise MalformedElfError("the file is truncated")
    return data
