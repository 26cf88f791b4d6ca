"""Find code and data that reach from behind the break of a file to something before it by a distance.

Such a distance would have to change with the move; none is moved, so any of them, and any doubt, refuses the file.
First a search for bytes that could be such a distance, which all of them are among; then, on x86-64, a real decoder
says what the few instructions are that hold them.  See Intel's SDM, volume 2, 2.1.3 and 2.2.1.6 (addresses relative to
RIP), and the Arm ARM, C4.1 (ADR, ADRP, LDR literal).
"""

import os
import re
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.fixrecord import exactly, reader
from hugealign.elf.image import (
    EM_X86_64,
    PT_DYNAMIC,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHT_NOBITS,
    SHT_NOTE,
    Image,
    Section,
)
from hugealign.errors import TRUNCATED, MalformedElfError
from hugealign.fixing.separation import decoder

_PIECE = 1 << 20  # bytes of code or data that are searched together
_AROUND = 16  # bytes that are read beyond a piece on both sides: no instruction is longer
_LONGEST = 15  # bytes of an instruction
_SYNC = 48  # bytes in which decoding from a wrong place nearly always comes right
_AT_ONCE = 4  # instructions
_FAR = 1 << 16  # bytes that are decoded together
_CANDIDATES_LIMIT, _DECODED_LIMIT = 1 << 17, 1 << 23
_DISTANCE = struct.Struct("<i")
#: What x86-64 has before a distance of four bytes, of which the last has been read: ModRM with mod 00 and r/m 101,
#: CALL, JMP; Jcc; XBEGIN.
_BEFORE = (
    rb"(?:(?<=[\x05\x0d\x15\x1d\x25\x2d\x35\x3d\xe8\xe9]....)"
    rb"|(?<=\x0f[\x80-\x8f]....)|(?<=\xc7\xf8....))"
)
#: ... and before one of eight bytes, of which the last is the fifth: REX.W, MOV with an immediate operand.
_MOVABS = re.compile(rb"\xff(?<=[\x48\x49][\xb8-\xbf].....)(?=\xff\xff\xff)", re.DOTALL)
#: ... and how many bytes can follow it in its instruction: an immediate operand.
_BEHIND = (0, 1, 2, 4)
#: Where ModRM follows the first byte of a prefix that has an opcode in it: EVEX, VEX of three and two bytes, REX2, XOP.
_MODRM = {0x62: 5, 0xC4: 4, 0xC5: 3, 0xD5: 3, 0x8F: 4}
_NOT_SEARCHED = (".eh_frame", ".eh_frame_hdr", ".gcc_except_table")


class Crossing(NamedTuple):
    """The place of a distance, and the address before the break to which it leads."""

    place: int
    target: int


def refuse_crossings(fd: int, image: Image, start: int) -> None:
    """Raise RefusalError if the file behind *fd* reaches from *start* on to something before by a distance.

    Raises MalformedElfError, OSError.
    """
    search = _Search(fd, image, start)
    crossings = search.code_x86() if image.e_machine == EM_X86_64 else search.code_aarch64()
    crossing = next(crossings, None) or next(search.data(), None)
    if crossing:
        raise RefusalError("fix.crosses", place=f"{crossing.place:#x}", address=f"{crossing.target:#x}")


class _Search:
    def __init__(self, fd: int, image: Image, start: int) -> None:
        self._fd, self._image, self._start = fd, image, start
        self._first = image.load_segments[0].p_vaddr
        self._decoded = _DECODED_LIMIT
        held = [s for s in image.sections if s.sh_flags & SHF_ALLOC and s.sh_type not in (0, SHT_NOBITS) and s.sh_size]
        self._code = [s for s in held if s.sh_flags & SHF_EXECINSTR]
        self._data = [s for s in held if not s.sh_flags & SHF_EXECINSTR and s.sh_addr >= start]
        if any(s.sh_addr < start for s in self._code):
            raise RefusalError("fix.crosses", place="", address=f"{self._code[0].sh_addr:#x}")
        for s in (*self._code, *self._data):
            if s.sh_offset + s.sh_size > image.file_size:
                raise MalformedElfError(code=TRUNCATED)
        self._starts: list[int] | None = None

    def _pieces(self, section: Section) -> Iterator[tuple[int, int, int, bytes]]:
        """Yield the contents in pieces: offsets of the piece's beginning and end in the data, its address, the data."""
        for at in range(0, section.sh_size, _PIECE):
            low, high = max(0, at - _AROUND), min(section.sh_size, at + _PIECE + _AROUND)
            data = exactly(reader(self._fd), high - low, section.sh_offset + low)
            yield at - low, min(section.sh_size, at + _PIECE) - low, section.sh_addr + low, data

    def code_x86(self) -> Iterator[Crossing]:
        """Yield what code of x86-64 reaches, as far as a decoder does not say that it is something else."""
        capstone = decoder.load()
        left = _CANDIDATES_LIMIT
        for section in self._code:
            candidates: list[Crossing] = []
            for low, high, address, data in self._pieces(section):
                candidates += self._relative(low, high, address, data)
                candidates += self._absolute(low, high, address, data)
                if len(candidates) > left:
                    raise RefusalError("fix.many-addresses")
            left -= len(candidates)
            if candidates:
                yield from self._judged(capstone, section, sorted(candidates))

    def _relative(self, low: int, high: int, address: int, data: bytes) -> Iterator[Crossing]:
        """Yield the distances of four bytes behind what can be before one."""
        least = self._first - (address + high + 8)
        most = self._start - 1 - (address + low + 4)
        end = address + 4
        for part in _patterns(least, most, _BEFORE):
            for match in re.finditer(part, data, re.DOTALL):
                at = match.start() - 3
                if low <= at < high and (target := end + at + _DISTANCE.unpack_from(data, at)[0]) < self._start:
                    for behind in _BEHIND:
                        if self._first <= target + behind < self._start:
                            yield Crossing(address + at, target + behind)
                            break

    def _absolute(self, low: int, high: int, address: int, data: bytes) -> Iterator[Crossing]:
        """Yield the distances of eight bytes from the global offset table that movabs holds (large code model)."""
        tables = {s.sh_addr for s in self._data if s.name in (".got", ".got.plt")}
        for match in _MOVABS.finditer(data):
            at = match.start() - 4
            if low <= at < high:
                (distance,) = _DISTANCE.unpack_from(data, at)
                for table in tables:
                    if self._first <= table + distance < self._start:
                        raise RefusalError("fix.crosses", place=f"{address + at:#x}", address=f"{table + distance:#x}")
        yield from ()

    def _judged(self, capstone: Any, section: Section, candidates: Sequence[Crossing]) -> Iterator[Crossing]:
        """Yield those of *candidates* that are distances in an instruction, or may be.

        Nearly all are cleared by the code just before them; for the rest, the function is decoded from its beginning.
        """
        machine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        machine.skipdata = True
        for candidate in candidates:
            if self._in_a_stream(machine, section, candidate):
                starts = self._function_starts()
                first = max(starts[bisect_right(starts, candidate.place) - 1], section.sh_addr)
                if self._in_function(machine, section, first, candidate):
                    yield candidate

    def _in_a_stream(self, machine: Any, section: Section, crossing: Crossing) -> bool:
        """Return whether decoding from any of 15 places in a row shows the distance *crossing*.

        An instruction is no longer than that, so one of them is where one begins, and with it all that follow.
        """
        low = max(section.sh_addr, crossing.place - _SYNC - _LONGEST)
        code = os.pread(self._fd, crossing.place + 2 * _AROUND - low, low - section.sh_addr + section.sh_offset)
        seen: set[int] = set()  # where instructions began: streams that converge continue as one
        for first in range(low, max(low + 1, crossing.place - _SYNC)):
            at = first
            while at < crossing.place and at not in seen:
                for where, length, name, _ in machine.disasm_lite(code[at - low :], at, _AT_ONCE):
                    at = where + length
                    if where in seen:
                        break
                    seen.add(where)
                    if (at > crossing.place or name == ".byte") and self._shows(
                        machine, code[where - low :], (where, length, name), crossing
                    ):
                        return True
                    if at > crossing.place:
                        break
                else:
                    if at + 2 * _AROUND < crossing.place and not code[at - low :]:
                        return True
                    continue
                break
            self._pay(at - first)
        return False

    def _in_function(self, machine: Any, section: Section, first: int, crossing: Crossing) -> bool:
        """Return whether decoding from *first* on shows the distance *crossing*."""
        at, end = first, section.sh_addr + section.sh_size
        while at <= crossing.place:
            size = min(_FAR, crossing.place + 4 * _AROUND - at, end - at)
            self._pay(size)
            code = os.pread(self._fd, size, at - section.sh_addr + section.sh_offset)
            start = at
            for where, length, name, _ in machine.disasm_lite(code, start):
                if where + length > start + size - _AROUND and start + size < end:
                    break  # perhaps cut: the next part begins here
                at = where + length
                if self._shows(machine, code[where - start :], (where, length, name), crossing):
                    return True
                if at > crossing.place:
                    return False
            if at == start:
                return True
        return False

    def _pay(self, size: int) -> None:
        self._decoded -= size
        if self._decoded < 0:
            raise RefusalError("fix.many-addresses")

    def _shows(self, machine: Any, code: bytes, decoded: tuple[int, int, str], crossing: Crossing) -> bool:
        """Return whether an instruction, *decoded* from the start of *code*, holds the distance *crossing*, or may."""
        at, length, name = decoded
        if name == ".byte":  # unknown to the decoder, but perhaps not to a processor
            modrm = _MODRM.get(code[0], 0)
            return crossing.place - at == modrm + 1 and code[modrm] & 0xC7 == 5
        if at + length <= crossing.place or at + length - crossing.place - 4 not in _BEHIND:
            return False  # the instruction ends before the distance, or elsewhere
        return self._is_distance(machine, code[:length], at, crossing)

    def _is_distance(self, machine: Any, code: bytes, at: int, crossing: Crossing) -> bool:
        """Return whether the instruction at *at* holds the distance *crossing* as its operand."""
        machine.detail, machine.skipdata = True, False
        try:
            instruction = next(machine.disasm(code, at, 1), None)
            if instruction is None:
                return True
            if instruction.disp_offset and instruction.disp_size == 4:
                return bool(instruction.disp_offset == crossing.place - at and (instruction.modrm & 0xC7) == 5)
            return bool(
                instruction.imm_offset == crossing.place - at
                and instruction.imm_size == 4
                and crossing.target == _branch(instruction)
            )
        finally:
            machine.detail, machine.skipdata = False, True

    def _function_starts(self) -> list[int]:
        """Return where functions begin, as unwinding tables, symbols and sections say."""
        if self._starts is None:
            from hugealign.elf.symbols import function_starts

            self._starts = sorted({s.sh_addr for s in self._code} | function_starts(self._image, self._fd))
        return self._starts

    def code_aarch64(self) -> Iterator[Crossing]:
        """Yield what code of aarch64 reaches: every word that is ADR, ADRP or the load of a literal."""
        page = self._start & ~0xFFF
        for section in self._code:
            for low, high, address, data in self._pieces(section):
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
                        low12 = _offset_in_page(data[at : at + 68])
                        if low12 >= 0 and target + low12 >= self._start:
                            continue
                    yield Crossing(address + at, target)

    def data(self) -> Iterator[Crossing]:
        """Yield aligned words of data whose distance leads to the ELF header or the beginning of a note."""
        targets = sorted(
            {self._first}
            | {
                s.sh_addr
                for s in self._image.sections
                if s.sh_flags & SHF_ALLOC and s.sh_type == SHT_NOTE and s.sh_addr < self._start
            }
        )
        dynamic = {s.p_vaddr for s in self._image.segments if s.p_type == PT_DYNAMIC}
        for section in self._data:
            if section.name in _NOT_SEARCHED or section.sh_addr in dynamic:
                continue
            for low, high, address, data in self._pieces(section):
                least, most = targets[0] - (address + high), targets[-1] - (address + low)
                for part in _patterns(least, most, b""):
                    for match in re.finditer(part, data, re.DOTALL):
                        at = match.start() - 3
                        if low <= at < high and (address + at) % 4 == 0:
                            target = address + at + _DISTANCE.unpack_from(data, at)[0]
                            place = bisect_left(targets, target)
                            if place < len(targets) and targets[place] == target:
                                yield Crossing(address + at, target)


def _patterns(least: int, most: int, before: bytes) -> Iterator[bytes]:
    """Yield patterns that find the last byte of each distance from *least* to *most*, little-endian.

    *before* is what else has to be true once that byte has been read.
    """
    least = max(least, -1 << 31)
    most = min(most, (1 << 31) - 1)
    for top in range(least >> 24, (most >> 24) + 1):
        low = (max(least, top << 24) >> 16) & 0xFF
        high = (min(most, (top << 24) + 0xFFFFFF) >> 16) & 0xFF
        last, thirds = (re.escape(bytes([top & 0xFF])), b"-".join(re.escape(bytes([third])) for third in (low, high)))
        yield last + b"(?<=[" + thirds + b"]" + last + b")" + before


def _branch(instruction: Any) -> int:
    """Return where a branch leads; -1 if it is none."""
    name = instruction.mnemonic
    if not name.startswith(("j", "call", "xbegin")):
        return -1
    return int(instruction.operands[0].imm) & 0xFFFFFFFFFFFFFFFF if instruction.operands else -1


def _reached(word: int, at: int) -> tuple[int, bool]:
    """Return the address that an instruction of aarch64 at *at* refers to, and whether it is that of a whole page."""
    if word & 0x1F000000 == 0x10000000:  # ADR, ADRP
        distance = _signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
        return ((at & ~0xFFF) + (distance << 12), True) if word >> 31 else (at + distance, False)
    if word & 0x3B000000 == 0x18000000:  # LDR (literal)
        return at + (_signed(word >> 5 & 0x7FFFF, 19) << 2), False
    return -1, False


def _signed(value: int, bits: int) -> int:
    return value - (value >> bits - 1 << bits)


def _offset_in_page(code: bytes) -> int:
    """Return what the instructions behind ADRP, the first, add to its result; -1 if none does soon."""
    first, *others = (word for (word,) in struct.iter_unpack("<I", code[: len(code) // 4 * 4]))
    register = first & 31
    for word in others:
        if word >> 5 & 31 == register:
            if word & 0xFFC00000 == 0x91000000:  # ADD (immediate), 64 bits
                return int(word >> 10 & 0xFFF)
            if word & 0x3B000000 == 0x39000000:  # loads and stores with an unsigned offset
                scale = 4 if word & 0x04800000 == 0x04800000 and not word >> 30 else word >> 30
                return int((word >> 10 & 0xFFF) << scale)
        calls = word >> 26 == 0x25 or word & 0xFFFFFC1F == 0xD63F0000  # BL, BLR: they keep registers 19 to 28
        if word >> 26 == 0x05 or word & 0xFF9FFC1F == 0xD61F0000 or (calls and not 19 <= register <= 28):
            return -1
    return -1
