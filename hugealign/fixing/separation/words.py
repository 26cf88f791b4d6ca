"""Find all that holds an address in a linked file: words of eight bytes to which a distance is added.

See System V ABI, chapters 4 (symbols, relocations) and 5 (dynamic section), and the supplements of both processors.
Distances are not among them: what they join moves together, which `crossings` makes sure of.  Every number in the file
is untrusted: what is not understood is refused, and the work is in proportion to the file.
"""

import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import compress
from operator import eq

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf import constants as elf
from hugealign.elf.fixrecord import Step, exactly, reader
from hugealign.elf.image import (
    DYNAMIC_LIMIT,
    EM_AARCH64,
    EM_X86_64,
    PT_DYNAMIC,
    SHF_ALLOC,
    SHT_NOBITS,
    SHT_NOTE,
    SHT_NULL,
    SHT_RELA,
    SHT_SYMTAB,
    Image,
    Section,
    Segment,
    dynamic_entries,
    notes_in,
)
from hugealign.elf.wordarrays import added, aligned
from hugealign.fixing.separation import debug
from hugealign.fixing.separation.places import Words

_CHUNK = 1 << 16  # entries of a table that are looked at together
_SPAN = 8 << 20  # bytes in which the places of one chunk of relocations are read together
_ENTRIES_LIMIT = 1 << 26  # of all tables together
_TYPE, _SHNDX = 0xFFFFFFFF, 48
_NEGATIVE = 1 << 63  # an address from here on would be in front of the file
_WORD, _DYN, _RELA, _SYM = struct.Struct("<Q"), 16, 24, 24

#: Dynamic relocations by processor.  Without a symbol, the addend is an address: RELATIVE, IRELATIVE, 64 or ABS64.
_VALUES = {EM_X86_64: (8, 37, 1), EM_AARCH64: (1027, 1032, 257)}
#: The word at the place can be an address of code: JUMP_SLOT, IRELATIVE.
_SLOTS = {EM_X86_64: (7, 37), EM_AARCH64: (1026, 1032)}
#: Neither: NONE, COPY, GLOB_DAT, TLS.
_OTHERS = {EM_X86_64: (0, 5, 6, 16, 17, 18, 36), EM_AARCH64: (0, 1024, 1025, 1028, 1029, 1030, 1031)}

#: The tags whose values are addresses.
_POINTERS = {
    elf.DT_PLTGOT, elf.DT_HASH, elf.DT_STRTAB, elf.DT_SYMTAB, elf.DT_RELA, elf.DT_INIT, elf.DT_FINI, elf.DT_JMPREL,
    elf.DT_INIT_ARRAY, elf.DT_FINI_ARRAY, elf.DT_PREINIT_ARRAY, elf.DT_SYMTAB_SHNDX, elf.DT_RELR, elf.DT_VERSYM,
    elf.DT_VERDEF, elf.DT_VERNEED,
}  # fmt: skip
_STRINGS = (elf.DT_CONFIG, elf.DT_DEPAUDIT, elf.DT_AUDIT)  # in the range of pointers, but offsets of names
#: Tags with a pointer, or with contents, that we do not follow: REL, Android's packed relocations.
_UNKNOWN = (elf.DT_REL, 0x6000000F, 0x60000011, 0x6FFFE000)
_NOTES_LIMIT = 1 << 24
_BUILD_ATTRIBUTES = (0x100, 0x101)  # types of note


def find_words(fd: int, image: Image, step: Step) -> Words:
    """Return all words of the file behind *fd* that hold an address which *step* changes.

    Raises RefusalError, MalformedElfError, OSError.
    """
    return _Search(fd, image, step).run()


def find_words_of_debug_file(fd: int, image: Image, step: Step) -> Words:
    """Return the words in the symbols and the debug information of a separate debug file.  Raises as `find_words`."""
    return _Search(fd, image, step).run(loaded=False)


class _Search:
    def __init__(self, fd: int, image: Image, step: Step) -> None:
        self._fd, self._image, self._step = fd, image, step
        self._words = Words()
        self._loads = [s for s in image.load_segments if s.p_memsz]
        self._starts = [s.p_vaddr for s in self._loads]
        self._text = image.text_segments[0]
        self._left = _ENTRIES_LIMIT
        #: What a pointer may name before the break: the ELF header, and notes and the like from end to end.
        self._known = [
            (s.sh_addr, s.sh_addr + s.sh_size)
            for s in image.sections
            if s.sh_flags & SHF_ALLOC and (s.sh_type == SHT_NOTE or s.name == ".interp")
        ]
        self._known = [(a, min(b, step.start)) for a, b in self._known if a < step.start]

    def run(self, *, loaded: bool = True) -> Words:
        if loaded:
            self._loaded()
        # A debug file in a program is another file, and not looked at here; one in a debug file is refused.
        self._sections({".gnu_debugdata"} if loaded else frozenset())
        self._words.sort()
        return self._words

    def _loaded(self) -> None:
        """Look at what the loader reads."""
        dynamic = self._dynamic()
        got = dynamic.get(elf.DT_PLTGOT, 0)
        sized = ((elf.DT_RELA, elf.DT_RELASZ), (elf.DT_JMPREL, elf.DT_PLTRELSZ), (elf.DT_RELR, elf.DT_RELRSZ))
        if any(dynamic.get(size) and at not in dynamic for at, size in sized):
            raise RefusalError("fix.address-tables")
        rela, jmprel, relr = ((dynamic.get(at, 0), dynamic.get(size, 0)) for at, size in sized)
        self._relocations([(at, size) for at, size in (rela, jmprel) if size])
        if relr[1]:
            self._relr(*relr)
        self._first_words([got] * (elf.DT_PLTGOT in dynamic))

    def _read(self, offset: int, size: int) -> bytes:
        return exactly(reader(self._fd), size, offset)

    def _load(self, address: int) -> Segment | None:
        i = bisect_right(self._starts, address) - 1
        return self._loads[i] if i >= 0 and address < self._starts[i] + self._loads[i].p_memsz else None

    def _in_file(self, address: int, size: int) -> int:
        """Return the offset of *size* bytes at *address*, -1 if they are not all in the file."""
        load = self._load(address)
        inside = load and address + size <= load.p_vaddr + load.p_filesz
        return address - load.p_vaddr + load.p_offset if load and inside else -1

    def _table(self, address: int, size: int, entry: int) -> int:
        """Return the offset of a table that the loader reads.  Raises RefusalError."""
        at = self._in_file(address, size)
        if at < 0 or size % entry:
            raise RefusalError("fix.address-tables", address=f"{address:#x}")
        self._left -= size // entry
        if self._left < 0:
            raise RefusalError("fix.many-addresses")
        return at

    def _dynamic(self) -> dict[int, int]:
        """Look at the dynamic section; return its values by tag."""
        segment = next(s for s in self._image.segments if s.p_type == PT_DYNAMIC)
        at = self._in_file(segment.p_vaddr, segment.p_filesz)
        if at != segment.p_offset or segment.p_filesz > DYNAMIC_LIMIT:
            raise RefusalError("fix.address-tables", address=f"{segment.p_vaddr:#x}")
        values: dict[int, int] = {}
        for place, (tag, value) in enumerate(dynamic_entries(self._fd, self._image)):
            if tag in _UNKNOWN or (tag == elf.DT_PLTREL and value != elf.DT_RELA):
                raise RefusalError("fix.unknown-relocations", tag=f"{tag:#x}")
            if tag in values and tag in (elf.DT_RELA, elf.DT_JMPREL, elf.DT_RELR, elf.DT_PLTGOT):
                raise RefusalError("fix.unknown-relocations", tag=f"{tag:#x}")
            values.setdefault(tag, value)
            if self._is_pointer(tag):
                self._words.add(self._step.distance(value), [at + place * _DYN + 8])
        return values

    def _is_pointer(self, tag: int) -> bool:
        if tag == elf.DT_X86_64_PLT and self._image.e_machine == EM_X86_64:
            return True
        return tag in _POINTERS or (0x6FFFFE00 <= tag <= 0x6FFFFEFF and tag not in _STRINGS)

    def _relocations(self, tables: Sequence[tuple[int, int]]) -> None:
        """Look at the tables of dynamic relocations, which may share entries, each entry once."""
        done = 0
        for address, size in sorted(tables):
            first, end = max(address, done), address + size
            if first < end:
                at = self._table(first, end - first, _RELA)
                for start in range(0, end - first, _CHUNK * _RELA):
                    self._rela(at + start, min(_CHUNK * _RELA, end - first - start))
                done = end

    def _rela(self, at: int, size: int) -> None:
        machine, start, step = self._image.e_machine, self._step.start, self._step
        table = _words(self._read(at, size))
        offsets, infos, addends = table[0::3], table[1::3], table[2::3]
        distinct = set(infos)
        kinds = {info & _TYPE for info in distinct}
        if odd := kinds.difference(_VALUES[machine], _SLOTS[machine], _OTHERS[machine]):
            raise RefusalError("fix.unknown-relocations", number=min(odd))
        if any(info >> 32 for info in distinct if info & _TYPE in _VALUES[machine][:2]):
            raise RefusalError("fix.unknown-relocations", number=_VALUES[machine][0])
        values = frozenset(_VALUES[machine])  # whole r_info: without a symbol
        valued = values.issuperset(distinct)
        if moving := valued and min(offsets) >= start and self._move(addends):
            fields = array("Q", range(at, at + size, 8))
            del fields[1::3]  # r_info
            self._words.add(step.delta, fields)
        elif min(offsets) >= start:
            self._words.add(step.delta, range(at, at + size, _RELA))
        else:
            if any(o < start for o, i in zip(offsets, infos, strict=True) if i):
                raise RefusalError("fix.address-tables", address=f"{min(offsets):#x}")
            self._words.add(step.delta, (at + k * _RELA for k, o in enumerate(offsets) if o >= start))
        places: Sequence[int] = range(at + 16, at + size + 16, _RELA)
        slots: list[int] = []
        if not valued:
            chosen = list(map(values.__contains__, infos))
            called = frozenset(_SLOTS[machine])
            slots = [o for o, i in zip(offsets, infos, strict=True) if i & _TYPE in called]
            places = list(compress(places, chosen))
            offsets, addends = (array("Q", list(compress(column, chosen))) for column in (offsets, addends))
        elif not kinds.isdisjoint(_SLOTS[machine]):
            slots = [o for o, i in zip(offsets, infos, strict=True) if i in _SLOTS[machine]]
        self._places(offsets, addends, slots)
        if not moving:
            self._addresses(places, addends)

    def _move(self, addresses: "array[int]") -> bool:
        """Return whether all *addresses* lie behind the break."""
        return min(addresses, default=self._step.start) >= self._step.start and max(addresses, default=0) < _NEGATIVE

    def _addresses(self, places: Sequence[int], addresses: "array[int]") -> None:
        """Note that the words at *places*, which hold *addresses*, move."""
        step = self._step
        if self._move(addresses):
            self._words.add(step.delta, places)
            return
        self._known_early([a for a in addresses if not step.start <= a < _NEGATIVE])
        for low, high, distance in ((step.start, 1 << 64, step.delta), (step.behind, step.start, step.room)):
            self._words.add(distance, [p for p, a in zip(places, addresses, strict=True) if low <= a < high])

    def _known_early(self, addresses: Sequence[int]) -> None:
        """Raise RefusalError for a pointer to a place before the break that it cannot be known to mean."""
        for address in set(addresses):
            if address != self._loads[0].p_vaddr and not any(a <= address < b for a, b in self._known):
                raise RefusalError("fix.crosses", place="", address=f"{address:#x}")

    def _places(self, offsets: "array[int]", addends: "array[int]", slots: Sequence[int]) -> None:
        """Look at the words at the places of relocations.

        GNU ld also writes addends there.  A loader ignores them, other readers may not.
        """
        if not offsets and not slots:
            return
        ends = [end(part) for part in (offsets, slots) if part for end in (min, max)]
        low, high = min(ends), max(ends) + 8
        load = self._load(low)
        if load and high - low <= _SPAN and high <= load.p_vaddr + load.p_filesz:
            base = load.p_offset - load.p_vaddr
            block = self._read(low + base, high - low)
            get = _WORD.unpack_from
            if low % 8 == high % 8 == 0 and aligned(offsets):
                words = _words(block)
                values = array("Q", list(map(words.__getitem__, [o - low >> 3 for o in offsets])))
            else:
                values = array("Q", [get(block, o - low)[0] for o in offsets])
            if values == addends:
                self._addresses(added(offsets, base), addends)
            elif any(values):
                same = list(map(eq, values, addends))
                self._addresses([o + base for o in compress(offsets, same)], array("Q", list(compress(addends, same))))
            first, last = max(self._text.p_vaddr, self._step.start), self._text.p_vaddr + self._text.p_memsz
            self._words.add(self._step.delta, [o + base for o in slots if first <= get(block, o - low)[0] < last])
            return
        if len(offsets) + len(slots) > 1:
            for o, a in zip(offsets, addends, strict=True):
                self._places(array("Q", [o]), array("Q", [a]), [])
            for o in slots:
                self._places(array("Q"), array("Q"), [o])

    def _relr(self, address: int, size: int) -> None:
        """Look at packed relative relocations: the addresses in the table, and the words at all places.

        See https://groups.google.com/g/generic-abi/c/bX460iggiKg, the proposal, and _dl_relocate_static_pie in glibc.
        """
        at = self._table(address, size, 8)
        places: list[int] = []
        where = 0
        for chunk in range(0, size, _CHUNK * 8):
            for k, word in enumerate(_words(self._read(at + chunk, min(_CHUNK * 8, size - chunk)))):
                if not word & 1:
                    if word < self._step.start:
                        raise RefusalError("fix.address-tables", address=f"{word:#x}")
                    self._words.add(self._step.delta, [at + chunk + 8 * k])
                    places.append(word)
                    where = word + 8
                else:
                    if not where:
                        raise RefusalError("fix.address-tables", address=f"{address:#x}")
                    bits, place = word >> 1, where
                    while bits:
                        if bits & 1:
                            places.append(place)
                        bits >>= 1
                        place += 8
                    where += 63 * 8
                if len(places) >= _CHUNK:
                    self._relative(places)
                    places = []
        self._relative(places)

    def _relative(self, places: Sequence[int]) -> None:
        """Look at the words at *places*, to which the loader adds its base."""
        self._left -= len(places)
        if self._left < 0:
            raise RefusalError("fix.many-addresses")
        blocks = _blocks(places)
        for block in blocks:
            low, high = block[0], block[-1] + 8
            at = self._in_file(low, high - low)
            if at < 0 or min(block) < low or max(block) + 8 > high:
                if len(block) == 1:
                    raise RefusalError("fix.address-tables", address=f"{low:#x}")
                for place in block:
                    self._relative([place])
                continue
            data = self._read(at, high - low)
            values = array("Q", [_WORD.unpack_from(data, place - low)[0] for place in block])
            self._addresses([at + place - low for place in block], values)

    def _first_words(self, addresses: list[int]) -> None:
        """Look at the first words of global offset tables: the address of the dynamic section, without a relocation."""
        dynamic = next(s.p_vaddr for s in self._image.segments if s.p_type == PT_DYNAMIC)
        named = [s.sh_addr for s in self._image.sections if s.name in (".got", ".got.plt") and s.sh_flags & SHF_ALLOC]
        for address in {*addresses, *named}:
            at = self._in_file(address, 8)
            if at >= 0 and _WORD.unpack(self._read(at, 8))[0] == dynamic:
                self._words.add(self._step.distance(dynamic), [at])

    def _sections(self, others: Collection[str]) -> None:
        sections: list[Section] = []
        for section in self._image.sections:
            if section.sh_type in (SHT_NULL, SHT_NOBITS) or not section.sh_size or section.name in others:
                continue
            if section.sh_type == elf.SHT_SYMTAB_SHNDX:
                raise RefusalError("fix.many-sections")
            if section.sh_type in (SHT_SYMTAB, elf.SHT_DYNSYM):
                self._symbols(section)
            elif section.name == ".note.stapsdt" or section.name.startswith(".gnu.build.attributes"):
                self._notes(section)
            elif section.sh_flags & SHF_ALLOC:
                continue
            elif debug.is_debug(section):
                sections.append(section)
            elif section.sh_type == SHT_RELA:
                self._kept_relocations(section)
        if sections:
            debug.find_words(self._fd, self._image, sections, self._step, self._words)

    def _contents(self, section: Section, entry: int) -> Iterator[tuple[int, "array[int]"]]:
        """Yield the words of a table in chunks, with their offsets."""
        self._left -= section.sh_size // entry
        if self._left < 0:
            raise RefusalError("fix.many-addresses")
        size = section.sh_size // entry * entry
        for start in range(0, size, _CHUNK * entry):
            yield (
                section.sh_offset + start,
                _words(self._read(section.sh_offset + start, min(_CHUNK * entry, size - start))),
            )

    def _symbols(self, table: Section) -> None:
        """Look at a symbol table: a value moves with its section, since the end of one can be the beginning of another.

        Offsets in thread-local storage, absolute values and values in sections that are not loaded stay.
        """
        ranges = {
            i: (s.sh_addr, s.sh_addr + s.sh_size, self._step.distance(s.sh_addr))
            for i, s in enumerate(self._image.sections)
            if s.sh_flags & SHF_ALLOC and i
        }
        distance = self._step.distance
        for at, words in self._contents(table, _SYM):
            by_distance: dict[int, list[int]] = {}
            for k, (first, value) in enumerate(zip(words[0::3], words[1::3], strict=True)):
                if not value or first >> 32 & 15 == elf.STT_TLS:
                    continue
                shndx = first >> _SHNDX
                if shndx in ranges:
                    low, high, moved = ranges[shndx]
                    if not low <= value <= high:
                        moved = distance(value)
                elif shndx == elf.SHN_UNDEF:
                    moved = distance(value)  # the address of its entry in the procedure linkage table
                else:
                    continue
                if moved:
                    by_distance.setdefault(moved, []).append(at + k * _SYM + 8)
            for moved, places in by_distance.items():
                self._words.add(moved, places)

    def _notes(self, section: Section) -> None:
        """Look at notes that describe code.

        Notes of static probes have the addresses of the probe, of a base and of a counter.  Notes that say how code was
        built have its beginning and end, unless they are the same as in the note before.  See
        https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation and
        https://fedoraproject.org/wiki/Toolchain/Watermark.
        """
        if section.sh_size > _NOTES_LIMIT:
            raise RefusalError("fix.many-addresses")
        data = self._read(section.sh_offset, section.sh_size)
        for name, kind, start, end in notes_in(data, self._image.order, 4):
            if end > len(data):
                raise RefusalError("fix.address-tables")
            count = 0
            if (name, kind) == (b"stapsdt", elf.NT_STAPSDT) and end - start >= 24:
                count = 3
            elif name.startswith(b"GA") and kind in _BUILD_ATTRIBUTES and end - start == 16:
                count = 2
            for place in range(start, start + 8 * count, 8):
                (value,) = _WORD.unpack_from(data, place)
                if value:
                    self._words.add(self._step.distance(value), [section.sh_offset + place])

    def _kept_relocations(self, section: Section) -> None:
        """Look at the linker's input relocations (--emit-relocs) for sections that are loaded: their places move."""
        sections = self._image.sections
        if section.sh_info >= len(sections) or not sections[section.sh_info].sh_flags & SHF_ALLOC:
            return
        for at, words in self._contents(section, _RELA):
            places: dict[int, list[int]] = {}
            for k, place in enumerate(words[0::3]):
                places.setdefault(self._step.distance(place), []).append(at + k * _RELA)
            for moved, offsets in places.items():
                self._words.add(moved, offsets)


def _words(data: bytes) -> "array[int]":
    words = array("Q", data)
    if sys.byteorder == "big":
        words.byteswap()
    return words


def _blocks(places: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield runs of *places* that lie within _SPAN bytes."""
    first = 0
    for i, place in enumerate(places):
        if not 0 <= place - places[first] <= _SPAN or (i > first and place <= places[i - 1]):
            yield places[first:i]
            first = i
    if first < len(places):
        yield places[first:]
