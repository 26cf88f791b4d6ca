"""Account for every byte of a separated file against the original: ``python -m tests.referee ORIGINAL FIXED``.

Nothing here uses hugealign's own reader, nor its record: what moved, and how far, follows from the two files.  The
referee makes of the original what the fixed file should have in memory (each byte where the step function puts it, each
address stepped) and compares that with what it has.  It does the same with symbols and other tables that no segment
holds.  What the fixed file has in memory beyond that must be traps, or zeros that cannot be executed.  No byte has more
rights than before.  Each difference that all this does not explain is a line; the exit status is then 1.

Of debug information it demands less: each difference is a word of eight bytes that was stepped.  It does not read
sections that zstd compressed.
"""

import argparse
import io
import itertools
import lzma
import mmap
import re
import struct
import sys
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

_PAGE = 4096
_BLOCK = 1 << 16
_WORD = struct.Struct("<Q")
_EHDR, _PHDR = 64, 56
_R, _W, _X = 4, 2, 1
_WRITE, _ALLOC, _EXECINSTR, _COMPRESSED = 1, 2, 4, 0x800
_OWN = re.compile(r"\.hugealign\.(pad|fix|words|headers)")
#: The instruction that fills what was not there before: int3; UDF #0.
_TRAPS = {"EM_X86_64": b"\xcc", "EM_AARCH64": bytes(4)}
#: Tags whose value is an address: PLTGOT, HASH, STRTAB, SYMTAB, RELA, INIT, FINI, REL, JMPREL, INIT_ARRAY, FINI_ARRAY,
#: PREINIT_ARRAY, SYMTAB_SHNDX, RELR; GNU_HASH, TLSDESC_PLT, TLSDESC_GOT, VERSYM, VERDEF, VERNEED.
_POINTERS = {3, 4, 5, 6, 7, 12, 13, 17, 23, 25, 26, 32, 34, 36}
_POINTERS |= {0x6FFFFEF5, 0x6FFFFEF6, 0x6FFFFEF7, 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFE}
_RELA, _RELASZ, _JMPREL, _PLTRELSZ, _RELR, _RELRSZ, _PLTGOT, _PLTREL = 7, 8, 23, 2, 36, 35, 3, 20


@dataclass(frozen=True, slots=True)
class _Machine:
    """The numbers of dynamic relocations: their addend is an address; is one without a symbol; the rest."""

    relative: tuple[int, ...]
    absolute: int
    slot: int
    others: tuple[int, ...]


_MACHINES = {
    # RELATIVE, IRELATIVE; 64; JUMP_SLOT; NONE, COPY, GLOB_DAT, DTPMOD64, DTPOFF64, TPOFF64, TLSDESC
    "EM_X86_64": _Machine((8, 37), 1, 7, (0, 5, 6, 16, 17, 18, 36)),
    "EM_AARCH64": _Machine((1027, 1032), 257, 1026, (0, 1024, 1025, 1028, 1029, 1030, 1031)),
}


class UnjudgedError(Exception):
    """The two files are not an original and its separated copy, as far as the referee understands them."""


@dataclass(frozen=True, slots=True)
class Step:
    """Addresses from *start* on move by *delta*, those from *behind* on by *room*."""

    start: int
    delta: int
    behind: int
    room: int

    def __call__(self, address: int) -> int:
        if address >= self.start:
            return address + self.delta
        return address + self.room if address >= self.behind else address


@dataclass(frozen=True, slots=True)
class _Load:
    index: int
    flags: int
    offset: int
    start: int
    filled: int
    end: int
    align: int

    @property
    def pages(self) -> tuple[int, int]:
        return self.start // _PAGE * _PAGE, -(-self.end // _PAGE) * _PAGE


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    type: str
    flags: int
    address: int
    offset: int
    size: int
    others: tuple[int, ...]

    @property
    def loaded(self) -> bool:
        return bool(self.flags & _ALLOC)

    @property
    def end(self) -> int:
        return self.address + self.size


class _File:
    """One of the two: headers by pyelftools, bytes by a mapping of the file."""

    def __init__(self, path: Path) -> None:
        stream = path.open("rb")
        self.bytes = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        elf = ELFFile(stream)
        if elf.elfclass != 64 or not elf.little_endian or elf["e_type"] != "ET_DYN":
            raise UnjudgedError(f"{path.name}: not a shared object of 64 bits, little-endian")
        self.header = dict(elf.header)
        self.segments = [dict(s.header) for s in elf.iter_segments()]
        self.loads = [
            _Load(i, s["p_flags"], s["p_offset"], a := s["p_vaddr"], a + s["p_filesz"], a + s["p_memsz"], s["p_align"])
            for i, s in enumerate(self.segments)
            if s["p_type"] == "PT_LOAD"
        ]
        self.sections = _sections(elf)
        self._starts = [load.start for load in self.loads]
        stream.close()
        dynamic = next((s for s in self.segments if s["p_type"] == "PT_DYNAMIC"), None)
        if dynamic is None or not self.loads or not self.sections:
            raise UnjudgedError(f"{path.name}: no dynamic section, no segments or no sections")
        self.dynamic_address, size = dynamic["p_vaddr"], dynamic["p_filesz"] & ~15
        pairs = struct.iter_unpack("<QQ", self.at(self.dynamic_address, size))
        self.dynamic = list(itertools.takewhile(lambda pair: pair[0], pairs))
        self.tags = dict(reversed(self.dynamic))

    def load(self, address: int) -> _Load | None:
        """Return the segment that has a byte at *address*."""
        i = bisect_right(self._starts, address) - 1
        return self.loads[i] if i >= 0 and address < self.loads[i].end else None

    def at(self, address: int, size: int) -> bytes:
        """Return what memory has at *address*, zeros behind the contents of the file; less at the segment's end."""
        load = self.load(address)
        if load is None:
            return b""
        size = min(size, load.end - address)
        start = address - load.start + load.offset
        data = self.bytes[start : start + max(0, min(size, load.filled - address))]
        return data if len(data) == size else data.ljust(size, b"\0")

    def word(self, address: int) -> int:
        """Return the word of eight bytes at *address*, 0 if there is none."""
        data = self.at(address, 8)
        return int(_WORD.unpack(data)[0]) if len(data) == 8 else 0

    def section(self, section: _Section) -> bytes:
        """Return the contents of a *section*."""
        return self.bytes[section.offset : section.offset + section.size] if section.type != "SHT_NOBITS" else b""

    @cached_property
    def build_id(self) -> tuple[int, bytes]:
        """The address and the bytes of the build ID."""
        for name, kind, address, data in self.notes():
            if (name, kind) == (b"GNU\0", 3):
                return address, data
        return 0, b""

    def notes(self) -> Iterator[tuple[bytes, int, int, bytes]]:
        """Yield owner, type, address and contents of the notes in memory."""
        for s in self.segments:
            if s["p_type"] == "PT_NOTE":
                contents = self.at(s["p_vaddr"], s["p_filesz"])
                for name, kind, at, data in _notes(contents, 8 if s["p_align"] == 8 else 4):
                    yield name, kind, s["p_vaddr"] + at, data


def _sections(elf: ELFFile) -> list[_Section]:
    return [
        _Section(
            s.name,
            str(s["sh_type"]),
            s["sh_flags"],
            s["sh_addr"],
            s["sh_offset"],
            s["sh_size"],
            tuple(s[key] for key in ("sh_link", "sh_info", "sh_addralign", "sh_entsize")),
        )
        for s in elf.iter_sections()
    ]


def _notes(data: bytes, align: int) -> Iterator[tuple[bytes, int, int, bytes]]:
    """Yield owner, type, offset and contents of notes."""
    at = 0
    while at + 12 <= len(data):
        name_size, size, kind = struct.unpack_from("<III", data, at)
        start = -(-(at + 12 + name_size) // align) * align
        yield data[at + 12 : at + 12 + name_size], kind, start, data[start : start + size]
        at = -(-(start + size) // align) * align


@dataclass(slots=True)
class _Table:
    """What words of eight bytes should be, by place, and what each of them is."""

    values: dict[int, int] = field(default_factory=dict)
    kinds: list[tuple[int, int, int, str]] = field(default_factory=list)

    def name(self, place: int) -> str:
        """Return what the table at *place* is, with the number of its entry; empty if there is none."""
        return next((f"{kind} {(place - a) // size}" for a, b, size, kind in self.kinds if a <= place < b), "")


class _Referee:
    def __init__(self, original: Path, fixed: Path) -> None:
        self.old, self.new = _File(original), _File(fixed)
        self.faults: list[str] = []
        machine = self.old.header["e_machine"]
        if machine not in _MACHINES:
            raise UnjudgedError(f"{machine}: relocations of this processor are unknown")
        self.machine, self.trap = _MACHINES[machine], _TRAPS[machine]
        self.split = len(self.new.segments) - len(self.old.segments)
        self.step = self._infer()

    def fault(self, text: str) -> None:
        self.faults.append(text)

    def same(self, what: str, expected: object, actual: object) -> None:
        """Note a fault unless both are the same."""
        if expected != actual:
            self.fault(f"{what}: {_number(actual)}, not {_number(expected)}")

    def run(self) -> list[str]:
        self._headers()
        self._segments()
        self._sections()
        memory = _Table()
        self._dynamic(memory)
        self._relocations(memory)
        self._packed(memory)
        self._first_words(memory)
        self._memory_symbols(memory)
        self._notes(memory)
        self._memory(memory)
        self._what_is_new()
        self._rights()
        for was, now in zip(self.old.sections, self.new.sections, strict=False):
            if not was.loaded and was.size and was.type not in ("SHT_NULL", "SHT_NOBITS"):
                self._unloaded(was, now)
        return self.faults

    # What moved, and how far.

    def _infer(self) -> Step:
        """Return the step function that the sections and the segments of the two files show."""
        old, new = self.old, self.new
        delta = new.dynamic_address - old.dynamic_address
        if delta <= 0 or self.split not in (0, 1) or len(new.loads) - len(old.loads) != self.split:
            raise UnjudgedError(f"the dynamic section moves by {delta:#x}, with {self.split} more program headers")
        behind = old.header["e_phoff"] + _PHDR * len(old.segments)
        moves = [
            (a.address, a.end, b.address - a.address)
            for a, b in zip(old.sections, new.sections, strict=False)
            if a.loaded and "TLS" not in a.type
        ]
        front = [item for item in moves if item[2] != delta]
        least = max((end for _, end, _ in front), default=behind)
        most = min((start for start, _, move in moves if move == delta), default=0)
        rooms = {move for start, _, move in front if start >= behind}
        room = rooms.pop() if len(rooms) == 1 else 0
        if rooms or room < 0 or (room and not self.split) or least > most:
            raise UnjudgedError(f"no one step: sections before {least:#x} stay, some from {most:#x} on move")
        ends = [load.end - room for load in new.loads] if self.split else [load.start for load in old.loads]
        starts = [end for end in ends if least <= end <= most]
        if not starts:
            raise UnjudgedError(f"no segment ends between {least:#x} and {most:#x}, where the step should be")
        return Step(starts[0], delta, behind, room)

    def _parts(self, load: _Load) -> Iterator[tuple[int, int]]:
        """Yield the parts of an old segment that stay together."""
        bounds = {load.start, load.end, *(b for b in (self.step.behind, self.step.start) if load.start < b < load.end)}
        yield from itertools.pairwise(sorted(bounds))

    # Headers.

    def _headers(self) -> None:
        a, b, step = self.old.header, self.new.header, self.step
        for key in ("e_ident", "e_type", "e_machine", "e_version", "e_flags", "e_phoff", "e_ehsize", "e_phentsize"):
            self.same(f"ELF header: {key}", a[key], b[key])
        self.same("ELF header: e_entry", step(a["e_entry"]) if a["e_entry"] else 0, b["e_entry"])
        self.same("ELF header: e_shentsize", a["e_shentsize"], b["e_shentsize"])
        self.same("ELF header: e_shstrndx", a["e_shstrndx"], b["e_shstrndx"])
        asked = [s["p_align"] for s in self.old.segments if s["p_type"] in ("PT_LOAD", "PT_TLS")]
        asked += [s.others[2] for s in self.old.sections if s.loaded]
        if odd := [align for align in (*asked, _PAGE) if align and step.delta % align]:
            self.fault(f"step: {step.delta:#x} is no multiple of the alignment {max(odd):#x}")
        if step.room % max([8, *(s.others[2] for s in self.old.sections if s.loaded and s.end <= step.start)]):
            self.fault(f"step: {step.room:#x} before the break is no multiple of an alignment there")

    def _segments(self) -> None:
        step = self.step
        others = [[s for s in file.segments if s["p_type"] != "PT_LOAD"] for file in (self.old, self.new)]
        self.same("program headers: kinds", *([s["p_type"] for s in part] for part in others))
        for a, b in zip(*others, strict=False):
            what = f"program header {a['p_type']}"
            grown = _PHDR * self.split if a["p_type"] == "PT_PHDR" else 0
            self.same(f"{what}: p_flags", a["p_flags"], b["p_flags"])
            self.same(f"{what}: p_align", a["p_align"], b["p_align"])
            self.same(f"{what}: p_vaddr", step(a["p_vaddr"]), b["p_vaddr"])
            self.same(f"{what}: p_paddr", step(a["p_paddr"]), b["p_paddr"])
            self.same(f"{what}: p_filesz", a["p_filesz"] + grown, b["p_filesz"])
            self.same(f"{what}: p_memsz", a["p_memsz"] + grown, b["p_memsz"])
            load = self.new.load(b["p_vaddr"])
            # Only its addresses count; where mold lets it begin with .tbss, the file has nothing there.
            counts = a["p_type"] != "PT_GNU_RELRO" or self.old.load(a["p_vaddr"]) is not None
            if counts and b["p_filesz"] and (load is None or b["p_vaddr"] - b["p_offset"] != load.start - load.offset):
                self.fault(f"{what}: p_offset {b['p_offset']:#x} is not where its address is")
        size = len(self.new.bytes)
        for load in self.new.loads:
            what = f"LOAD {load.index}"
            if load.align & (load.align - 1) or (load.start - load.offset) % max(load.align, _PAGE):
                self.fault(f"{what}: offset and address are not congruent, or {load.align:#x} is no alignment")
            if load.filled > load.end or load.offset + load.filled - load.start > size:
                self.fault(f"{what}: ends behind the file, or has more in the file than in memory")
            if self.new.segments[load.index]["p_paddr"] != load.start:
                self.fault(f"{what}: p_paddr is not p_vaddr")
        for before, after in itertools.pairwise(self.new.loads):
            if before.pages[1] > after.pages[0]:
                self.fault(f"LOAD {after.index}: shares a page with LOAD {before.index}")
        for i, load in enumerate(self.old.loads):
            now = self.new.loads[i + (self.split if load.end > step.start else 0)]
            if now.align < load.align:
                self.fault(f"LOAD {now.index}: p_align {now.align:#x}, less than {load.align:#x}")

    def _sections(self) -> None:
        """Compare section headers one by one; those that are new are the fix's own."""
        for was, now in zip(self.old.sections, self.new.sections, strict=False):
            what = f"section {was.name}"
            kept = (was.name, was.type, was.flags, was.others)
            self.same(f"{what}: header", kept, (now.name, now.type, now.flags, now.others))
            self.same(f"{what}: address", self.step(was.address) if was.loaded else was.address, now.address)
            if not (was.flags & _COMPRESSED or was.name.startswith((".shstrtab", ".gnu_debugdata", ".zdebug_"))):
                self.same(f"{what}: size", was.size, now.size)
            load = self.new.load(now.address)
            if was.loaded and was.size and was.type != "SHT_NOBITS":
                if load is None or load.start - load.offset != now.address - now.offset:
                    self.fault(f"{what}: offset {now.offset:#x} is not where its address is")
            elif not was.loaded and was.type != "SHT_NOBITS" and now.offset + now.size > len(self.new.bytes):
                self.fault(f"{what}: ends behind the file")
        for section in self.new.sections[len(self.old.sections) :]:
            pad = section.name == ".hugealign.pad"
            allowed = _OWN.fullmatch(section.name) and section.flags == (_ALLOC | _EXECINSTR if pad else 0)
            if not allowed or section.type != "SHT_PROGBITS":
                self.fault(f"section {section.name}: new, with flags {section.flags:#x}")
            elif pad and self._unpadded(self.new.section(section)):
                self.fault(f"section {section.name}: at {section.address:#x}, not only traps")
        if len(self.new.sections) < len(self.old.sections):
            self.fault("sections: some are missing")

    # What holds addresses in memory.

    def _dynamic(self, memory: _Table) -> None:
        place = self.old.dynamic_address
        memory.kinds.append((place, place + 16 * len(self.old.dynamic), 16, "dynamic tag"))
        x86 = self.old.header["e_machine"] == "EM_X86_64"
        for tag, value in self.old.dynamic:
            if tag in _POINTERS or (x86 and tag == 0x70000000):  # DT_X86_64_PLT
                memory.values[place + 8] = self.step(value)
            place += 16

    def _relocations(self, memory: _Table) -> None:
        old, step, machine = self.old, self.step, self.machine
        if old.tags.get(_PLTREL, _RELA) != _RELA or 17 in old.tags:
            raise UnjudgedError("relocations without addends")
        text = [(load.start, load.end) for load in old.loads if load.flags & _X]
        known = {*machine.relative, machine.absolute, machine.slot, *machine.others}
        for at, size in ((old.tags.get(_RELA, 0), _RELASZ), (old.tags.get(_JMPREL, 0), _PLTRELSZ)):
            total = old.tags.get(size, 0)
            table = old.at(at, total)
            self.same("relocations: bytes in memory", total, len(table))
            memory.kinds.append((at, at + total, 24, "relocation"))
            values = memory.values
            for place, (offset, info, addend) in zip(itertools.count(at, 24), struct.iter_unpack("<QQQ", table)):
                kind = info & 0xFFFFFFFF
                values[place] = step(offset)
                if kind in machine.relative or info == machine.absolute:
                    stepped = step(addend)
                    values[place + 16] = stepped
                    word = old.word(offset)
                    if word == addend:
                        values[offset] = stepped
                    elif kind == machine.relative[1] and any(low <= word < high for low, high in text):
                        values[offset] = step(word)
                elif kind == machine.slot:
                    word = old.word(offset)
                    if word >= step.start and any(low <= word < high for low, high in text):
                        values[offset] = step(word)
                elif kind not in known:
                    self.fault(f"relocation at {place:#x}: of an unknown type, {kind}")

    def _packed(self, memory: _Table) -> None:
        """Step what RELR has: the addresses in the table, and the words at all places."""
        at, size = self.old.tags.get(_RELR, 0), self.old.tags.get(_RELRSZ, 0)
        where, step = 0, self.step
        memory.kinds.append((at, at + size, 8, "packed relocation"))
        places: list[int] = []
        for entry, (word,) in zip(itertools.count(at, 8), struct.iter_unpack("<Q", self.old.at(at, size))):
            if word & 1:
                places += [where + 8 * bit for bit in range(63) if word >> bit + 1 & 1]
                where += 63 * 8
            else:
                memory.values[entry] = step(word)
                places.append(word)
                where = word + 8
        for place in places:
            memory.values[place] = step(self.old.word(place))

    def _first_words(self, memory: _Table) -> None:
        """The first word of a global offset table is the address of the dynamic section, without a relocation."""
        tables = [s.address for s in self.old.sections if s.loaded and s.name in (".got", ".got.plt")]
        for address in (*tables, self.old.tags.get(_PLTGOT, 0)):
            if address and self.old.word(address) == self.old.dynamic_address:
                memory.values[address] = self.step(self.old.dynamic_address)

    def _memory_symbols(self, memory: _Table) -> None:
        for section in self.old.sections:
            if section.loaded and section.type == "SHT_DYNSYM":
                self._symbols(self.old.section(section), section.address, self.old.sections, memory)

    def _symbols(self, data: bytes | bytearray, place: int, of: Sequence[_Section], table: _Table) -> None:
        """Step the values of symbols, each with its section; the end of one can be the beginning of another."""
        step = self.step
        table.kinds.append((place, place + len(data), 24, "symbol"))
        sections = [(s.loaded, s.address, s.end) for s in of]
        for at, (_, info, _, section, value, _) in zip(itertools.count(place, 24), struct.iter_unpack("<IBBHQQ", data)):
            if not value or info & 15 == 6 or section >= 0xFF00:  # thread-local storage; absolute, common
                continue
            loaded, start, end = sections[section] if section < len(sections) else (False, 0, 0)
            if section and not loaded:
                continue
            stepped = step(value)
            if section and value == end and value - start + step(start) != stepped:
                stepped = value - start + step(start)
            table.values[at + 8] = stepped

    def _notes(self, memory: _Table) -> None:
        for name, kind, address, data in self.old.notes():
            for at in _addresses_in_note(name, kind, data):
                memory.values[address + at] = self.step(self.old.word(address + at))
        (address, old), (moved, new) = self.old.build_id, self.new.build_id
        self.same("build ID: address", self.step(address) if old else 0, moved)
        if len(old) != len(new) or (old and old == new):
            self.fault(f"build ID: {new.hex()}, where {old.hex()} was")

    # Memory.

    def _memory(self, table: _Table) -> None:
        """Compare what is in memory with what should be: every byte of every old segment but the headers."""
        step, phoff = self.step, self.old.header["e_phoff"]
        headers = [(0, _EHDR), (phoff, phoff + _PHDR * len(self.old.segments))]
        (at, old), (_, new) = self.old.build_id, self.new.build_id
        places = array("Q", sorted(table.values))
        for load in self.old.loads:
            for low, high in self._parts(load):
                moved = self.new.load(step(low))
                if moved is None or step(low) + high - low > moved.end:
                    self.fault(f"memory: {low:#x} to {high:#x} is in no segment at {step(low):#x}")
                    continue
                filled = min(high, max(load.filled, low, moved.filled - step(low) + low))
                expected = bytearray(self.old.at(low, filled - low))
                first, last = (bisect_right(places, bound) for bound in (low - 8, high - 1))
                for place in places[first:last]:
                    if low <= place and place + 8 <= filled:
                        _WORD.pack_into(expected, place - low, table.values[place])
                actual = self.new.at(step(low), filled - low)
                if old and low <= at < filled and len(old) == len(new):
                    expected[at - low : at - low + len(old)] = new
                for start, end in headers if load.offset == 0 else ():
                    if low <= start < high:
                        expected[start - low : end - low] = actual[start - low : end - low]
                self._compare(bytes(expected), actual, low, table)

    def _compare(self, expected: bytes, actual: bytes, address: int, table: _Table) -> None:
        for at, end in _differences(expected, actual):
            place = address + at
            word = next((p for p in range(place, place - 8, -1) if p in table.values), place)
            what = table.name(place) or next((s.name for s in self.old.sections if _holds(s, place)), "no section")
            values = expected[at:end][:16].hex(), actual[at:end][:16].hex()
            if word in table.values and (named := table.name(word)):
                what = named
            self.fault(
                f"{what}: {end - at} bytes of {place:#x} (at {self.step(place):#x}): {values[1]}, not {values[0]}"
            )

    def _what_is_new(self) -> None:
        """Of what no old address became, all has to be traps in code, and zeros elsewhere."""
        step = self.step
        taken = sorted(
            (step(low), step(low) + high - low) for load in self.old.loads for low, high in self._parts(load)
        )
        header = step.behind + _PHDR * self.split
        taken.append((step.behind, header))
        for load in self.new.loads:
            for low, high in _without((load.start, load.end), taken):
                data = self.new.at(low, high - low)
                if load.flags & _X:
                    if self._unpadded(data):
                        self.fault(f"traps: {low:#x} to {high:#x} is not only traps")
                elif load.flags & _W or high > step.behind + step.room:
                    self.fault(f"LOAD {load.index}: {low:#x} to {high:#x} is new")
                elif data.strip(b"\0"):
                    self.fault(f"LOAD {load.index}: {low:#x} to {high:#x} is not zero")

    def _unpadded(self, data: bytes) -> bool:
        return bool(data.strip(self.trap[:1])) or (self.trap == bytes(4) and len(data) % 4 != 0)

    # Rights.

    def _rights(self) -> None:
        code = [s for s in self.old.sections if s.loaded and s.flags & _EXECINSTR and s.size]
        for load in self.old.loads:
            for low, high in self._parts(load):
                now = self.new.load(self.step(low))
                if now is None:
                    continue
                if now.flags & ~load.flags or (now.flags ^ load.flags) & ~_X:
                    self.fault(
                        f"LOAD {now.index}: flags {_flags(now.flags)} for {low:#x}, which had {_flags(load.flags)}"
                    )
                if not now.flags & _X and (lost := next((s for s in code if low <= s.address < high), None)):
                    self.fault(f"LOAD {now.index}: flags {_flags(now.flags)} for {lost.name}")
        for load in self.new.loads:
            if load.flags & _X:
                self._edges(load)

    def _edges(self, load: _Load) -> None:
        """Whole pages are executable: around the segment in its pages is nothing but traps or zeros."""
        low, high = load.pages
        for start, end in ((low, load.start), (load.end, high)):
            at = load.offset + start - load.start
            if self._unpadded(data := self.new.bytes[at : at + end - start]) and data.strip(b"\0"):
                self.fault(f"LOAD {load.index}: executes what is at {start:#x} to {end:#x}, in its pages")

    # What is not in memory.

    def _unloaded(self, was: _Section, now: _Section) -> None:
        old, new = self.old.section(was), self.new.section(now)
        table = _Table()
        if was.type == "SHT_SYMTAB":
            self._symbols(old, 0, self.old.sections, table)
        elif was.type == "SHT_RELA":
            if was.others[1] < len(self.old.sections) and self.old.sections[was.others[1]].loaded:
                for place, (offset, _, _) in zip(itertools.count(0, 24), struct.iter_unpack("<QQQ", old)):
                    table.values[place] = self.step(offset)
        elif was.type == "SHT_NOTE" or was.name.startswith(".gnu.build.attributes"):
            for name, kind, start, data in _notes(old, 4):
                for at in _addresses_in_note(name, kind, data):
                    table.values[start + at] = self.step(int(_WORD.unpack_from(old, start + at)[0]))
        elif was.name == ".shstrtab":
            new = new[: len(old)]
        elif was.name == ".gnu_debugdata":
            self._packed_file(lzma.decompress(old), lzma.decompress(new))
            return
        elif was.name.startswith((".debug_", ".zdebug_", ".gdb_index")):
            self._debug(was, old, new)
            return
        expected = bytearray(old)
        for place, value in table.values.items():
            _WORD.pack_into(expected, place, value)
        for at, end in _differences(bytes(expected), new):
            values = bytes(expected[at:end][:16]).hex(), new[at:end][:16].hex()
            what = table.name(at) or f"{end - at} bytes at {at:#x}"
            self.fault(f"section {was.name}: {what}: {values[1]}, not {values[0]}")

    def _packed_file(self, old: bytes, new: bytes) -> None:
        """Compare the sections and the symbols of the file that a program holds for debuggers."""
        before, after = (_sections(ELFFile(io.BytesIO(data))) for data in (old, new))
        self.same(".gnu_debugdata: sections", *([s.name for s in part[: len(before)]] for part in (before, after)))
        for was, now in zip(before, after, strict=False):
            what = f".gnu_debugdata: section {was.name}"
            self.same(f"{what}: address", self.step(was.address) if was.loaded else was.address, now.address)
            if was.type in ("SHT_SYMTAB", "SHT_STRTAB") and was.name != ".shstrtab":
                expected, table = bytearray(old[was.offset : was.offset + was.size]), _Table()
                if was.type == "SHT_SYMTAB":
                    self._symbols(expected, 0, before, table)
                for place, value in table.values.items():
                    _WORD.pack_into(expected, place, value)
                self.same(f"{what}: contents", bytes(expected), new[now.offset : now.offset + now.size])

    def _debug(self, section: _Section, old: bytes, new: bytes) -> None:
        """Each difference in debug information has to be a word of eight bytes that was stepped."""
        if section.flags & _COMPRESSED:
            if int.from_bytes(old[:4], "little") != 1:
                return
            old, new = zlib.decompress(old[24:]), zlib.decompress(new[24:])
        elif old.startswith(b"ZLIB") and new.startswith(b"ZLIB"):
            old, new = zlib.decompress(old[12:]), zlib.decompress(new[12:])
        self.same(f"section {section.name}: size", len(old), len(new))
        done = 0
        for at, end in _differences(old, new):
            while (at := max(at, done)) < end:
                for start in range(at, max(at - 8, done - 1), -1):
                    was, now = (int.from_bytes(data[start : start + 8], "little") for data in (old, new))
                    if was != now == self.step(was):
                        done = start + 8
                        break
                else:
                    self.fault(f"section {section.name}: bytes at {at:#x} changed, and are no address")
                    done = end


def _addresses_in_note(name: bytes, kind: int, data: bytes) -> Iterable[int]:
    """Return where a note has addresses: static probes have three, ranges of build attributes two."""
    count = 0
    if name == b"stapsdt\0" and kind == 3:
        count = 3
    elif name.startswith(b"GA") and kind in (0x100, 0x101) and len(data) == 16:
        count = 2
    return [at for at in range(0, 8 * count, 8) if data[at : at + 8].strip(b"\0")]


def _holds(section: _Section, address: int) -> bool:
    return section.loaded and section.address <= address < section.end


def _without(whole: tuple[int, int], parts: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield what of a range is in none of the *parts*."""
    low, high = whole
    for start, end in sorted(parts):
        if end > low and start < high:
            if start > low:
                yield low, start
            low = max(low, end)
    if low < high:
        yield low, high


def _differences(a: bytes, b: bytes) -> Iterator[tuple[int, int]]:
    """Yield the ranges in which two strings of bytes differ."""
    if a == b:
        return
    for at in range(0, min(len(a), len(b)), _BLOCK):
        x, y = a[at : at + _BLOCK], b[at : at + _BLOCK]
        if x != y:
            size = min(len(x), len(y))
            changed = (int.from_bytes(x[:size], "little") ^ int.from_bytes(y[:size], "little")).to_bytes(size, "little")
            yield from ((at + m.start(), at + m.end()) for m in re.finditer(rb"[^\0]+", changed))
    if len(a) != len(b):
        yield min(len(a), len(b)), max(len(a), len(b))


def _flags(flags: int) -> str:
    return "".join(name if flags & bit else "-" for name, bit in (("R", _R), ("W", _W), ("E", _X)))


def _number(value: object) -> str:
    return f"{value:#x}" if isinstance(value, int) else str(value)


def unexplained(original: Path, fixed: Path) -> list[str]:
    """Return what differs between the *original* and the *fixed* file without being a consequence of the separation."""
    try:
        return _Referee(original, fixed).run()
    except (UnjudgedError, ELFError) as error:
        return [f"not judged: {error}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("original", type=Path)
    parser.add_argument("fixed", type=Path)
    args = parser.parse_args()
    faults = unexplained(args.original, args.fixed)
    for line in faults:
        print(line)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
