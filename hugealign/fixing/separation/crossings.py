"""Find code and data that reach across the break of a file by a distance, which would have to change with the move.

None is moved, so any of them, and any doubt, refuses the file.  In front of the break is what linkers make, which no
object file can name, but for the ELF header and the program headers (``__ehdr_start`` and the like), notes, and the
name of the interpreter.  Refused are

- a symbol that names a place there, since code that was compiled with it may compute with its address in any way;
- an instruction with a distance that leads there.  What holds no distance is excluded by `proof` alone: code of which
  it is not proven what it is counts as data;
- words of data, at any address, that are a distance from themselves to something that can be named there; if they are
  aligned, also a little behind it, as in a table of distances from the table's beginning;
- words of notes in front of the break that are a distance to something behind it.

One case cannot be seen in a file without symbols: an address that code computes from two numbers, neither of which
leads there.  See Intel's SDM, volume 2, 2.1.3 and 2.2.1.6 (addresses relative to RIP), and the Arm ARM, C4.1 (ADR,
ADRP, LDR literal).
"""

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from hugealign.code import x86
from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.constants import SHN_LORESERVE, SHT_DYNSYM, STT_FILE, STT_SECTION, STT_TLS
from hugealign.elf.contents import filled
from hugealign.elf.fixrecord import exactly, reader
from hugealign.elf.image import (
    EM_X86_64,
    PT_DYNAMIC,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHT_NOBITS,
    SHT_NOTE,
    SHT_NULL,
    SHT_SYMTAB,
    Image,
    Section,
    notes_in,
)
from hugealign.errors import TRUNCATED, MalformedElfError
from hugealign.fixing.separation.distances import leading, pieces
from hugealign.fixing.separation.proof import UNWINDING, Instruction, Proof
from hugealign.fixing.understood import PHENTSIZE
from hugealign.io.units import printable

_CANDIDATES_LIMIT = 1 << 17
_WORD = struct.Struct("<i")
_BEHIND = 4  # bytes at most of an instruction behind its distance: an immediate operand
#: How far before the first address, in bytes, an instruction may point and then add something.
_BEFORE_IMAGE = 1 << 16
#: How far from the beginning of a table of distances one may be, in bytes.
_TABLE_LIMIT = 1 << 14
#: REX.W, MOV with an immediate operand of eight bytes, whose last four have been read: in the large code model, a
#: distance from the global offset table.
_MOVABS = re.compile(rb"\xff\xff\xff\xff(?<=[\x48\x49][\xb8-\xbf]........)", re.DOTALL)
_WITHOUT_ADDRESS = (STT_SECTION, STT_FILE, STT_TLS)
#: The C library's start-up code has the first in its note, and nothing refers to it; by the others, assemblers for Arm
#: say what is data (AAELF64, 5.5.5, "Mapping symbols").
_UNUSED = re.compile(rb"__abi_tag\Z|\$[dx](?:\.|\Z)")
#: Linkers give these the address of the ELF header, some without a section, if a program uses them...
_OF_HEADER = (b"__ehdr_start", b"__executable_start", b"__dso_handle", b"__ImageBase")
#: ... except mold, which defines all that it knows in each program.
_OF_MOLD = re.compile(rb"__(?:start|stop)_[EP]HDR\Z|__(?:preinit_array|rela_iplt)_(?:start|end)\Z|_TLS_MODULE_BASE_\Z")
_COMMENT_LIMIT = 1 << 12
#: Notes that hold no distance, by name and type: an ABI, a build ID, a linker's version, properties, and addresses,
#: which `words` steps.
_KNOWN_NOTES = {(b"GNU", kind) for kind in (1, 3, 4, 5)} | {(b"stapsdt", 3), (b"hugealign", 1), (b"Go", 4)}
#: ... or text: what a package is, and which libraries it opens (systemd.io/ELF_PACKAGE_METADATA).
_KNOWN_NOTES |= {(b"FDO", 0xCAFE1A7E), (b"FDO", 0x407C0C0A)}
_NOTES_LIMIT = 1 << 24


class Crossing(NamedTuple):
    """The place of four bytes, and the address across the break to which they lead if they are a distance.

    *seen*: they are one.
    """

    place: int
    target: int
    seen: bool = False


def refuse_crossings(fd: int, image: Image, start: int) -> None:
    """Raise RefusalError if the file behind *fd* may reach across *start* by a distance.

    Raises MalformedElfError, OSError.
    """
    search = _Search(fd, image, start)
    search.refuse_symbols()
    code = search.code_x86() if image.e_machine == EM_X86_64 else search.code_aarch64()
    for found in (search.notes(), code, search.words()):
        if crossing := next(found, None):
            place, address = f"{crossing.place:#x}", f"{crossing.target:#x}"
            raise RefusalError("fix.crosses" if crossing.seen else "fix.may-cross", place=place, address=address)


class _Search:
    def __init__(self, fd: int, image: Image, start: int) -> None:
        self._fd, self._image, self._start = fd, image, start
        loads = image.load_segments
        self._first, self._end = loads[0].p_vaddr, max(s.p_vaddr + s.p_memsz for s in loads)
        self._held = [
            s
            for s in image.sections
            if s.sh_flags & SHF_ALLOC and s.sh_type not in (SHT_NULL, SHT_NOBITS) and s.sh_size
        ]
        self._code = [s for s in self._held if s.sh_flags & SHF_EXECINSTR]
        if any(s.sh_addr < start for s in self._code):
            raise RefusalError("fix.may-cross", place=f"{self._code[0].sh_addr:#x}", address=f"{start:#x}")
        for s in self._held:
            if s.sh_offset + s.sh_size > image.file_size:
                raise MalformedElfError(code=TRUNCATED)
        self._proof = Proof(fd, image) if image.e_machine == EM_X86_64 else None
        self._left = _CANDIDATES_LIMIT

    def refuse_symbols(self) -> None:
        """Raise RefusalError for a symbol that names a place in front of the break."""
        kept = {i for i, s in enumerate(self._image.sections) if i and not s.sh_flags & SHF_ALLOC}  # of the file alone
        by_mold = any(self._is_of_mold(section) for section in self._image.sections if section.name == ".comment")
        for table in self._image.sections:
            if table.sh_type not in (SHT_SYMTAB, SHT_DYNSYM) or table.sh_link >= len(self._image.sections):
                continue
            names = self._image.sections[table.sh_link]
            for _, part in filled(self._fd, table.sh_offset, table.sh_size, 24):
                for first, value, _ in struct.iter_unpack("<QQQ", part):
                    section, kind = first >> 48, first >> 32 & 15
                    if value < self._start and section and section not in kept and kind not in _WITHOUT_ADDRESS:
                        self._refuse_symbol(first, value, names, by_mold)

    def _is_of_mold(self, comment: Section) -> bool:
        return b"mold " in exactly(reader(self._fd), min(comment.sh_size, _COMMENT_LIMIT), comment.sh_offset)

    def _refuse_symbol(self, first: int, value: int, names: Section, by_mold: bool) -> None:
        """Raise RefusalError if the symbol of *value* is there to be used; *first* is its first word."""
        at, section = first & 0xFFFFFFFF, first >> 48
        name = exactly(reader(self._fd), min(256, max(0, names.sh_size - at)), names.sh_offset + at).partition(b"\0")[0]
        if by_mold and (name in _OF_HEADER or _OF_MOLD.match(name)):
            return
        if name in _OF_HEADER if section >= SHN_LORESERVE else not _UNUSED.match(name):
            text = printable(name.decode("utf-8", "surrogateescape"))
            raise RefusalError("fix.unmoved-symbol", symbol=text, address=f"{value:#x}")

    def notes(self) -> Iterator[Crossing]:
        """Yield words of notes in front of the break that may be a distance to something behind it."""
        for section in self._held:
            if section.sh_type != SHT_NOTE or section.sh_addr >= self._start:
                continue
            if section.sh_size > _NOTES_LIMIT:
                raise RefusalError("fix.many-addresses")
            data = exactly(reader(self._fd), section.sh_size, section.sh_offset)
            for begin, end in _unknown(data, self._image.order, section.sh_addralign):
                for at in range(begin, end - 3):
                    target = section.sh_addr + at + _WORD.unpack_from(data, at)[0]
                    if self._start <= target < self._end:
                        yield Crossing(section.sh_addr + at, target)

    def code_x86(self) -> Iterator[Crossing]:
        """Yield what code of x86-64 reaches, as far as it is not proven to be something else."""
        low, tables = self._first - _BEFORE_IMAGE, {s.sh_addr for s in self._held if s.name in (".got", ".got.plt")}
        before = x86.LAST_BEFORE_DISTANCE, x86.before_distance()
        for section in self._code:
            # An immediate operand may follow the distance, so it may lead a little farther.
            for place, target in leading(self._fd, section, low - _BEHIND, self._start, 4, *before):
                yield from self._judged(place, target)
            for begin, end, address, data in pieces(self._fd, section):
                behind = 0
                while match := _MOVABS.search(data, behind):
                    at, behind = match.start() - 4, match.start() + 1  # another one may overlap
                    (distance,) = _WORD.unpack_from(data, at)
                    for table in tables:
                        if begin <= at < end and self._first <= table + distance < self._start:
                            yield Crossing(address + at, table + distance)

    def _judged(self, place: int, target: int) -> Iterator[Crossing]:
        """Yield the four bytes at *place*, which lead to *target*, unless they are proven to be something else."""
        instruction = self._proven(place - 1)
        if not instruction:
            if not self._is_unused(place):
                yield Crossing(place, target)
        elif instruction.address + x86.distance_at(instruction.code) == place:
            target += instruction.address + len(instruction.code) - place - 4
            if target < self._start:
                yield Crossing(place, target, seen=True)

    def _proven(self, address: int) -> Instruction | None:
        """Return the proven instruction with a byte at *address*.  Raises RefusalError after too many questions."""
        self._left -= 1
        if self._left < 0:
            raise RefusalError("fix.many-addresses")
        return self._proof.instruction(address) if self._proof else None

    def code_aarch64(self) -> Iterator[Crossing]:
        """Yield what code of aarch64 reaches: every word that is ADR, ADRP or the load of a literal."""
        page, named = self._start & ~0xFFF, self._named()
        for section in self._code:
            for low, high, address, data in pieces(self._fd, section):
                # The third byte has the sign of the distance: backwards, or within the first page.
                for match in re.finditer(
                    rb"[\x00\x80-\xff](?=[\x10\x30\x50\x70\x90\xb0\xd0\xf0\x18\x58\x98\x1c\x5c\x9c])", data
                ):
                    at = match.start() - 2
                    if at < low or at >= high or (address + at) % 4:
                        continue
                    target, whole = _reached(int.from_bytes(data[at : at + 4], "little"), address + at)
                    if not self._first <= target < self._start:
                        continue
                    if whole and target == page and self._start != page:
                        if not any(page < end for _, end in named):
                            continue  # of this page, code can name only what moves
                        if target + _added(data[at : at + 68]) >= self._start:
                            continue
                    yield Crossing(address + at, target, seen=True)

    def words(self) -> Iterator[Crossing]:
        """Yield words behind the break, of data and of what is not proven to be code, that may be a distance."""
        dynamic = {s.p_vaddr for s in self._image.segments if s.p_type == PT_DYNAMIC}
        named = self._named()
        for section in self._held:
            if section.sh_addr < self._start or section.name in UNWINDING or section.sh_addr in dynamic:
                continue
            is_code = bool(section.sh_flags & SHF_EXECINSTR)
            # An instruction's distance counts from its end.
            low, high = min(named)[0] - x86.LONGEST, max(end for _, end in named)
            for place, target in leading(self._fd, section, low, min(high + _TABLE_LIMIT, self._start), 0):
                if any(begin - x86.LONGEST <= target < end for begin, end in named):
                    # Code of aarch64 is not decoded, but aligned.
                    if not is_code or (not self._is_harmless(place) if self._proof else place % 4 == 0):
                        yield Crossing(place, target)
                elif not (is_code or place % 4) and self._is_in_table(section, place, target, named):
                    yield Crossing(place, target)

    def _is_in_table(self, section: Section, place: int, target: int, named: list[tuple[int, int]]) -> bool:
        """Return whether the word at *place* may be in a table of distances, from its beginning to something *named*.

        Then all words before it lead to something in the file, as small numbers also do.
        """
        first = place - (place - max(section.sh_addr, place - target + min(named)[0]) & ~3)
        data = exactly(reader(self._fd), place - first, first - section.sh_addr + section.sh_offset)
        least = most = target - place
        for begin, (word,) in zip(range(place - 4, first - 4, -4), reversed([*_WORD.iter_unpack(data)]), strict=True):
            least, most = min(least, word), max(most, word)
            if most - least >= self._end - self._first:
                return False
            to = target - (place - begin)
            if self._first <= begin + least and begin + most < self._end and any(a <= to < b for a, b in named):
                return True
        return False

    def _named(self) -> list[tuple[int, int]]:
        """Return what an object file can name in front of the break: ranges of addresses, with the ends of notes."""
        headers = self._image.segments[0].header + PHENTSIZE * len(self._image.segments)
        sections = [s for s in self._held if s.sh_addr < self._start and (s.sh_type == SHT_NOTE or s.name == ".interp")]
        return [(self._first, self._first + headers), *((s.sh_addr, s.sh_addr + s.sh_size + 1) for s in sections)]

    def _is_harmless(self, place: int) -> bool:
        """Return whether nothing reads the four bytes at *place* as data: they are unused, or code (`code_x86`)."""
        at = place
        while at < place + 4:
            instruction = self._proven(at)
            if not instruction:
                return self._is_unused(place)
            at = instruction.address + len(instruction.code)
        return True

    def _is_unused(self, place: int) -> bool:
        return bool(self._proof and self._proof.is_unused(place))


def _unknown(data: bytes, order: str, alignment: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of bytes in a section of notes that may be anything."""
    at = 0
    for name, kind, begin, end in notes_in(data, order, alignment):
        if (name, kind) not in _KNOWN_NOTES and not name.startswith(b"GA"):
            yield begin, min(end, len(data))
        at = end
    yield min(at, len(data)), len(data)


def _reached(word: int, at: int) -> tuple[int, bool]:
    """Return the address that an instruction of aarch64 at *at* refers to, and whether it stands for a whole page."""
    if word & 0x1F000000 == 0x10000000:  # ADR, ADRP
        distance = _signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
        return ((at & ~0xFFF) + (distance << 12), True) if word >> 31 else (at + distance, False)
    if word & 0x3B000000 == 0x18000000:  # LDR (literal)
        return at + (_signed(word >> 5 & 0x7FFFF, 19) << 2), False
    return -1, False


def _signed(value: int, bits: int) -> int:
    return value - (value >> bits - 1 << bits)


def _added(code: bytes) -> int:
    """Return the least that is added to the result of ADRP, the first instruction; a negative number if in doubt.

    They follow each other up to one that overwrites the result, and no other one has that register in any field.
    """
    first, *others = struct.unpack_from(f"<{len(code) // 4}I", code)
    register, least = int(first) & 31, 1 << 12
    for word in others:
        target, base, *rest = (word & 31, word >> 5 & 31, word >> 10 & 31, word >> 16 & 31)
        is_load = word & 0x3FC00000 == 0x39400000  # LDR, LDRB, LDRH with an unsigned offset
        if base == register and (is_load or word & 0xFFC00000 == 0x91000000):  # or ADD (immediate), 64 bits
            least = min(least, int(word >> 10 & 0xFFF) << (word >> 30 if is_load else 0))
            if target == register:
                return least
            continue
        # MOV (wide immediate; register), ADRP.
        moves = word & 0x7F800000 == 0x52800000 or word & 0x9F000000 == 0x90000000
        if target == register and (moves or (word & 0x7FE0FFE0 == 0x2A0003E0 and rest[1] != register)):
            return least
        # C4.1.86 (immediate operands), C4.1.94 (unsigned offsets)
        fields = (base,) if word & 0x1C000000 == 0x10000000 or word & 0x3B000000 == 0x39000000 else (base, *rest)
        if register in fields or word & 0x1C000000 == 0x14000000:  # or a branch
            break
        if target == register:
            break
    return -1 << 12
