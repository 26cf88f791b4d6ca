"""Read a separated file again, and compare it with the original: another way through both than the one that wrote it.

The writer adds distances at places; this follows each file's own program headers and dynamic section, as a loader does,
and holds what it finds in one against the step function of what it finds in the other.  What is not an address has to
be the same, byte for byte.  All but the headers is read here once more, so that a mistake in `words` is not made twice.

Debug information is not read again: nothing runs by it, and only a second reader of every form of DWARF, as long as
`dwarf` is, could say what in it is an address.  In tests/link/test_separate_debug.py two of these, pyelftools and LLVM,
compare all addresses in programs of several compilers and in the debug file of the C library.
"""

import itertools
import os
import struct
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from operator import sub
from typing import NoReturn, TypeVar

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf import constants as elf
from hugealign.elf.fixrecord import Step
from hugealign.elf.image import (
    EM_AARCH64,
    EM_X86_64,
    PF_X,
    PT_DYNAMIC,
    PT_GNU_RELRO,
    PT_LOAD,
    PT_PHDR,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHT_NOBITS,
    SHT_NOTE,
    SHT_SYMTAB,
    Image,
    Section,
    Segment,
    read_image,
)
from hugealign.elf.windows import BASE_PAGE, align_down, align_up
from hugealign.errors import MalformedElfError

_PIECE = 1 << 20
_ENTRY = struct.Struct("<QQ")
#: The tags whose values are addresses.
_POINTERS = (
    elf.DT_PLTGOT, elf.DT_HASH, elf.DT_STRTAB, elf.DT_SYMTAB, elf.DT_RELA, elf.DT_INIT, elf.DT_FINI, elf.DT_JMPREL,
    elf.DT_INIT_ARRAY, elf.DT_FINI_ARRAY, elf.DT_PREINIT_ARRAY, elf.DT_RELR, elf.DT_GNU_HASH, elf.DT_VERSYM,
    elf.DT_VERDEF, elf.DT_VERNEED,
)  # fmt: skip
#: Relocations whose addend is an address if they have no symbol: RELATIVE, IRELATIVE, 64; by processor.
_ADDRESSES = {EM_X86_64: (8, 37, 1), EM_AARCH64: (1027, 1032, 257)}

_Item = TypeVar("_Item")


class _File:
    """One of the two files: its headers, its dynamic section, and its bytes by address."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.image: Image = read_image(fd)
        segment = next(s for s in self.image.segments if s.p_type == PT_DYNAMIC)
        self.dynamic = list(
            itertools.takewhile(
                lambda entry: entry[0], _ENTRY.iter_unpack(self.at(segment.p_vaddr, segment.p_filesz & ~15))
            )
        )
        self.value = dict(reversed(self.dynamic))

    def at(self, address: int, size: int) -> bytes:
        """Return *size* bytes at *address*."""
        for s in self.image.load_segments:
            if s.p_vaddr <= address and address + size <= s.p_vaddr + s.p_filesz:
                data = os.pread(self._fd, size, address - s.p_vaddr + s.p_offset)
                if len(data) == size:
                    return data
        return _fail("bytes", address)

    def unloaded(self, segment: Segment) -> bytes:
        """Return what *segment* describes in the file and the loader leaves there; it must be no more than a piece."""
        if segment.p_filesz > _PIECE:
            _fail("program header", segment.p_vaddr)
        return os.pread(self._fd, segment.p_filesz, segment.p_offset)

    def words(self, address: int, size: int) -> "array[int]":
        """Return the words of *size* bytes at *address*."""
        return _words(self.at(address, size))

    def of(self, section: Section, start: int, size: int) -> "array[int]":
        """Return words of the *section* of any kind, *size* bytes from *start* on."""
        return _words(os.pread(self._fd, size, section.sh_offset + start))

    def places(self) -> list[int]:
        """Return the addresses that packed relative relocations give."""
        places: list[int] = []
        following = 0
        if size := self.value.get(elf.DT_RELRSZ, 0):
            for word in self.words(self.value[elf.DT_RELR], size):
                if word % 2 == 0:
                    places.append(word)
                    following = word + 8
                else:
                    places += [following + 8 * bit for bit in range(63) if word >> bit + 1 & 1]
                    following += 63 * 8
        return places


def check(before: int, after: int, step: Step) -> None:
    """Raise RefusalError unless the file behind *after* is the one behind *before*, with *step* applied to addresses.

    Raises MalformedElfError, OSError.
    """
    old, new = _File(before), _new(after)
    was, now = old.image, new.image
    if (now.e_type, now.e_machine, now.e_entry) != (was.e_type, was.e_machine, step(was.e_entry)):
        _fail("header", was.e_entry)
    _check_segments(old, new, step)
    _check_sections(was, now, step)
    _check_dynamic(old, new, step)
    _check_relocations(old, new, step)
    for a, b in zip(was.sections, now.sections, strict=False):
        if a.sh_type in (SHT_SYMTAB, elf.SHT_DYNSYM):
            _check_symbols(old, new, (a, b), step)
        elif a.sh_flags & SHF_ALLOC and a.sh_type != SHT_NOBITS and a.sh_size:
            _check_bytes(old, new, a, step)


def _new(fd: int) -> _File:
    try:
        return _File(fd)
    except (MalformedElfError, StopIteration) as error:
        raise RefusalError("fix.check", part="header", address="0x0") from error


def _fail(what: str, address: int) -> NoReturn:
    raise RefusalError("fix.check", part=what, address=f"{address:#x}")


def _pairs(what: str, old: Sequence[_Item], new: Sequence[_Item]) -> Iterable[tuple[_Item, _Item]]:
    if len(old) != len(new):
        _fail(what, 0)
    return zip(old, new, strict=True)


def _is_loaded(segment: Segment, image: Image) -> bool:
    """Return whether the loader puts the contents of *segment* at its address."""
    return any(
        s.p_vaddr - s.p_offset == segment.p_vaddr - segment.p_offset
        and s.p_vaddr <= segment.p_vaddr < s.p_vaddr + s.p_filesz
        for s in image.load_segments
    )


def _check_segments(before: _File, after: _File, step: Step) -> None:
    old, new = before.image, after.image
    others = ([s for s in image.segments if s.p_type != PT_LOAD] for image in (old, new))
    for a, b in _pairs("program header", *others):
        same = (a.p_type, a.p_flags, a.p_align) == (b.p_type, b.p_flags, b.p_align)
        if not same or b.p_vaddr != step(a.p_vaddr) or (a.p_memsz != b.p_memsz and a.p_type != PT_PHDR):
            _fail("program header", a.p_vaddr)
        # Only the addresses of RELRO count; mold 1.10 lets it begin with .tbss, in front of its bytes in the file.
        if b.p_type == PT_GNU_RELRO or not b.p_filesz:
            continue
        loaded = _is_loaded(a, old)
        if loaded != _is_loaded(b, new) or not (loaded or before.unloaded(a) == after.unloaded(b)):
            _fail("program header", a.p_vaddr)
    for segment, other in itertools.pairwise(s for s in new.load_segments if s.p_memsz):
        if align_up(segment.p_vaddr + segment.p_memsz, BASE_PAGE) > align_down(other.p_vaddr, BASE_PAGE):
            _fail("segment", other.p_vaddr)
    for b in new.load_segments:
        if (b.p_vaddr - b.p_offset) % b.p_align or b.p_offset + b.p_filesz > new.file_size:
            _fail("segment", b.p_vaddr)
    code = [s for s in old.sections if s.sh_flags & SHF_ALLOC and s.sh_flags & SHF_EXECINSTR]
    for a in old.load_segments:
        ends = sorted({a.p_vaddr, a.p_vaddr + a.p_memsz, *(x for x in (step.behind, step.start) if _within(x, a))})
        for low, high in itertools.pairwise(ends):
            changed = [
                s
                for s in new.load_segments
                if s.p_vaddr <= step(low) and step(low) + high - low <= s.p_vaddr + s.p_memsz
            ]
            has_code = any(low <= s.sh_addr < high for s in code)
            if not changed or (changed[0].p_flags ^ a.p_flags) & ~PF_X or changed[0].p_flags & ~a.p_flags:
                _fail("segment", low)
            if has_code and not changed[0].p_flags & PF_X:
                _fail("segment", low)


def _within(address: int, segment: Segment) -> bool:
    return segment.p_vaddr < address < segment.p_vaddr + segment.p_memsz


def _check_sections(old: Image, new: Image, step: Step) -> None:
    for a, b in _pairs("section", old.sections, new.sections[: len(old.sections)]):
        kept = (a.name, a.sh_type, a.sh_flags) == (b.name, b.sh_type, b.sh_flags)
        address = step(a.sh_addr) if a.sh_flags & SHF_ALLOC else a.sh_addr
        if (
            not kept
            or b.sh_addr != address
            or (a.sh_size != b.sh_size and a.name != ".shstrtab" and a.sh_flags & SHF_ALLOC)
        ):
            _fail("section", a.sh_addr)


def _check_dynamic(old: _File, new: _File, step: Step) -> None:
    loads = old.image.load_segments
    first, last = loads[0].p_vaddr, loads[-1].p_vaddr + loads[-1].p_memsz
    for (tag, a), (other, b) in _pairs("dynamic section", old.dynamic, new.dynamic):
        # Sizes and flags stay: one that moved would also differ from what the step function says.
        if tag != other or (b != a and (b != step(a) or not first <= a <= last)):
            _fail("dynamic section", a)
    for tag in _POINTERS:
        if tag in old.value and new.value[tag] != step(old.value[tag]):
            _fail("dynamic section", old.value[tag])


def _check_relocations(old: _File, new: _File, step: Step) -> None:
    kinds = frozenset(_ADDRESSES[old.image.e_machine])
    for at, size in ((elf.DT_RELA, elf.DT_RELASZ), (elf.DT_JMPREL, elf.DT_PLTRELSZ)):
        total = old.value.get(size, 0)
        for done in range(0, total, 24 << 16):
            part = min(24 << 16, total - done)
            a, b = old.words(old.value[at] + done, part), new.words(new.value[at] + done, part)
            if a[1::3] != b[1::3]:
                _fail("relocation", old.value[at])
            _check_all(a[0::3], b[0::3], step)
            if kinds.issuperset(a[1::3]):
                _check_all(a[2::3], b[2::3], step)
                continue
            for info, x, y in zip(a[1::3], a[2::3], b[2::3], strict=True):
                if y != (step(x) if info in kinds else x):
                    _fail("relocation", x)
    places = old.places()
    if new.places() != [step(place) for place in places]:
        _fail("packed relocation", places[0] if places else 0)
    for group in _near(places, sorted(s.p_vaddr for s in old.image.load_segments)):
        low, size = group[0], max(group) + 8 - group[0]
        a_bytes, b_bytes = old.at(low, size), new.at(step(low), size)
        for place in group:
            (x,), (y,) = (struct.unpack_from("<Q", data, place - low) for data in (a_bytes, b_bytes))
            if y != step(x):
                _fail("packed relocation", place)


def _check_all(was: "array[int]", now: "array[int]", step: Step) -> None:
    """Fail unless *step* makes each address of *now* from the one of *was*."""
    if min(was, default=0) < step.start or not {step.delta}.issuperset(map(sub, now, was)):
        for x, y in zip(was, now, strict=True):
            if y != step(x):
                _fail("relocation", x)


def _near(places: list[int], segments: list[int]) -> Iterator[list[int]]:
    """Yield runs of *places* that are near each other, each in one of the segments that begin at *segments*."""
    group: list[int] = []
    end = 0
    for place in places:
        if not group or place >= end or not 0 < place - group[0] < _PIECE:
            if group:
                yield group
            group = []
            end = next((segment for segment in segments if segment > place), 1 << 64)
        group.append(place)
    if group:
        yield group


def _check_symbols(old: _File, new: _File, tables: tuple[Section, Section], step: Step) -> None:
    """Hold each symbol against its section: a symbol that lies in or at the end of it moves with it."""
    a, b = tables
    moved = {i: step(s.sh_addr) - s.sh_addr for i, s in enumerate(old.image.sections) if s.sh_flags & SHF_ALLOC}
    bounds = {i: (s.sh_addr, s.sh_addr + s.sh_size) for i, s in enumerate(old.image.sections) if s.sh_flags & SHF_ALLOC}
    for done in range(0, a.sh_size // 24 * 24, 24 << 16):
        size = min(24 << 16, a.sh_size // 24 * 24 - done)
        x, y = old.of(a, done, size), new.of(b, done, size)
        if x[0::3] != y[0::3] or x[2::3] != y[2::3]:
            _fail("symbol", a.sh_addr)
        for first, was, now in zip(x[0::3], x[1::3], y[1::3], strict=True):
            section, of_thread = first >> 48, first >> 32 & 15 == elf.STT_TLS
            if was == now:
                # Without a section, it is the address of an entry in the procedure linkage table.
                low, high = bounds.get(section, (1, 0)) if section else (was, was)
                moves = low <= was <= high and (moved[section] if section else step.distance(was))
                if moves and not of_thread:
                    _fail("symbol", was)
            elif of_thread or (now - was != moved.get(section, step(was) - was) and now != step(was)):
                _fail("symbol", was)


def _check_bytes(old: _File, new: _File, section: Section, step: Step) -> None:
    """Fail if a section differs in anything but addresses, which only data have; the build ID may be another."""
    if section.sh_addr < step.start:
        return
    for done in range(0, section.sh_size, _PIECE):
        # A word can lie across the ends of pieces.
        low, high = max(0, done - 8), min(section.sh_size, done + _PIECE + 8)
        address = section.sh_addr + low
        a, b = old.at(address, high - low), new.at(step(address), high - low)
        if a == b or section.sh_type == SHT_NOTE:
            continue
        if section.sh_flags & SHF_EXECINSTR:
            _fail("code", address)
        _check_words(a, b, (address, done - low, min(section.sh_size, done + _PIECE) - low), step)


def _check_words(a: bytes, b: bytes, where: tuple[int, int, int], step: Step) -> None:
    """Fail unless *b* differs from *a*, between two offsets, only in words that are addresses.

    *where* is the address of the first byte of both, and the two offsets.
    """
    address, first, last = where
    at = 0
    for byte in _differences(a, b, -address % 8, step):
        if at <= byte < last:
            for start in range(max(at, byte - 7), byte + 1):
                (was, now) = (int.from_bytes(data[start : start + 8], "little") for data in (a, b))
                if start + 8 <= len(a) and was != now == step(was):
                    at = start + 8
                    break
            else:
                if byte >= first:
                    _fail("data", address + byte)


def _differences(a: bytes, b: bytes, skew: int, step: Step) -> Iterator[int]:
    """Yield where bytes differ, but for words that are addresses and lie a multiple of eight behind *skew*."""
    end = len(a) - (len(a) - skew) % 8
    yield from (i for i in range(skew) if a[i] != b[i])
    start, delta = step.start, step.delta
    words = zip(range(skew, end, 8), _words(a[skew:end]), _words(b[skew:end]), strict=True)
    odd = [(at, was, now) for at, was, now in words if was != now and (now - was != delta or was < start)]
    for at in [at for at, was, now in odd if now != step(was)]:
        yield from (i for i in range(at, at + 8) if a[i] != b[i])
    yield from (i for i in range(end, len(a)) if a[i] != b[i])


def _words(data: bytes) -> "array[int]":
    words = array("Q", data[: len(data) & ~7])
    if sys.byteorder == "big":
        words.byteswap()
    return words
