"""Which bytes of x86-64 code are proven to be instructions, and which ones.

Code can hold data, and what decodes need not be what runs.  So only those instructions are proven that control
reaches, branch by branch, from where a function is known to begin: by unwinding tables, symbols, pointers that are
relocated, or landing pads of exceptions.  Control also goes through tables of distances that a function refers to.
Such a table does not say where it ends, so an entry counts only if it leads to where an instruction begins when the
whole function is decoded in a row, from its beginning to exactly its end.  All other bytes may be data.
"""

import functools
import os
import re
import struct
from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress, pairwise
from typing import NamedTuple

from hugealign.code import x86
from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.constants import SHT_DYNAMIC, SHT_DYNSYM, SHT_FINI_ARRAY, SHT_INIT_ARRAY, SHT_PREINIT_ARRAY
from hugealign.elf.contents import filled
from hugealign.elf.frames import Frame, FrameTable
from hugealign.elf.image import SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS, SHT_RELA, Image, Section
from hugealign.elf.ranges import function_ranges
from hugealign.fixing.separation.distances import leading, pieces

_DECODED_LIMIT = 1 << 26  # bytes, in addition to eight times the code
_ROOM_LIMIT = 1 << 20  # bytes of code without unwinding tables that are followed: all of it could be one function
_ARRAY_LIMIT = 1 << 20  # bytes of an array of functions
_TABLE_LIMIT = 1 << 14  # entries of a table of distances
_GAP_LIMIT = 1 << 8  # bytes of a function that nothing reaches
_SHORT = tuple(bytes([opcode]) for opcode in (*range(0x70, 0x80), *range(0xE0, 0xE4), 0xEB))  # short branches
_ARRAYS = (SHT_INIT_ARRAY, SHT_FINI_ARRAY, SHT_PREINIT_ARRAY)
_RELATIVE, _IRELATIVE = frozenset((8, 37)), 37  # R_X86_64_RELATIVE, R_X86_64_IRELATIVE
_CHUNK = 1 << 10  # entries that are read together
#: LEA with an address relative to the next instruction: how code gets the address of a table.
_LEA = re.compile(rb"\x8d(?<=[\x48\x4c].)[" + re.escape(x86.RELATIVE) + b"](?=(....))", re.DOTALL)
#: Sections whose distances are known: from unwinding information to code.
UNWINDING = (".eh_frame", ".eh_frame_hdr")
#: Sections that are code from one end to the other, whatever calls them.
_ALL_CODE = (".init", ".fini", ".plt")
_CALL = re.compile(rb"\xe8(?=(....))", re.DOTALL)
#: LEA and CALL whose distances stay within a function of this many bytes.
_NEAR = 1 << 16
_LEA_NEAR, _CALL_NEAR = (
    re.compile(pattern.pattern.replace(b"(....)", rb"(..(?:\x00\x00|\xff\xff))"), re.DOTALL)
    for pattern in (_LEA, _CALL)
)
_LEA_SIZE, _CALL_SIZE = 7, 5
#: Instructions that control does not pass.
_LAST = frozenset((x86.JUMP8, x86.JUMP32, x86.INDIRECT, x86.END))
#: The bytes of a branch's distance.
_DISTANCES = {x86.BRANCH8: 1, x86.JUMP8: 1, x86.BRANCH32: 4, x86.JUMP32: 4}
_LOCK = 0xF0  # a prefix that a branch may skip, as in the C library while a process has one thread


class Instruction(NamedTuple):
    """An instruction: the address of its first byte, and its bytes."""

    address: int
    code: bytes


class Proof:
    """The code of the file behind *fd*.  Raises MalformedElfError, OSError, as its methods do."""

    def __init__(self, fd: int, image: Image) -> None:
        self._fd, self._image = fd, image
        held = [s for s in image.sections if s.sh_flags & SHF_ALLOC and s.sh_type != SHT_NOBITS and s.sh_size]
        self._sections = sorted(held, key=lambda s: s.sh_addr)
        self._begins = [s.sh_addr for s in self._sections]
        self._code = [s for s in self._sections if s.sh_flags & SHF_EXECINSTR]
        self._left = _DECODED_LIMIT + 8 * sum(s.sh_size for s in self._code)
        self._function: _Function | None = None
        self._elsewhere = False
        self._gaps: dict[tuple[int, int], bool] = {}  # whether something leads there

    def instruction(self, address: int) -> Instruction | None:
        """Return the proven instruction that has a byte at *address*; None without one.  Raises RefusalError."""
        function = self._function
        if not function or not function.start <= address < function.end:
            function = self._function = self._function_around(address)
        while True:
            function.reach(address)
            found = function.instruction(address)
            arrivals = None if found else next(function.arrivals, None)
            if arrivals is None:
                return found
            function.add(arrivals)

    def _function_around(self, address: int) -> "_Function":
        """Return the function around *address*; where none is known, the room between two."""
        section = self._section(address)
        if not section or not section.sh_flags & SHF_EXECINSTR:
            return _Function(address, b"\0")
        start, end = section.sh_addr, section.sh_addr + section.sh_size
        frame = None
        if not section.name.startswith(_ALL_CODE):
            frame = self._frames.around(address)
            low, high = (frame.start, frame.end) if frame else self._room(address)
            start, end = max(start, low), min(end, high)
        if not frame and end - start > _ROOM_LIMIT:
            return _Function(address, b"\0")
        self._pay(end - start)
        function = _Function(start, os.pread(self._fd, end - start, start - section.sh_addr + section.sh_offset))
        function.described = bool(frame)
        function.arrivals = function.all() if section.name.startswith(_ALL_CODE) else self._arrivals(function, frame)
        return function

    def _room(self, address: int) -> tuple[int, int]:
        """Return the range around *address* of a symbol, or between two functions."""
        low, high = self._frames.neighbours(address)
        starts, ends = self._symbols
        i = bisect_right(starts, address) - 1
        if i >= 0 and address < ends[i]:
            return max(low, starts[i]), min(high, ends[i])
        return low, high

    def _arrivals(self, function: "_Function", frame: Frame | None) -> Iterator[Iterable[int]]:
        """Yield the addresses at which control arrives in *function*, the cheapest to find first."""
        start, end = function.start, function.end
        yield self._frames.starts(start, end)
        known = [_from(places, start, end) for places in (self._symbols[0], self._entries)]
        yield chain(*known, self._frames.landing_pads(frame) if frame else ())
        yield from self._through_tables(function)
        if frame and not self._elsewhere:  # a part that a compiler split off is entered at many places
            yield self._from_elsewhere(start, end)
            yield from self._through_tables(function)

    def _through_tables(self, function: "_Function") -> Iterator[list[int]]:
        """Yield where control may go if reached code of *function* jumps through a register.

        Relocated pointers lead there, and tables of distances whose addresses that code takes.
        """
        known: set[int] = set()
        pointers = _from(self._pointers, function.start, function.end)
        while function.jumps and (pointers or function.taken() - known):
            new = function.taken() - known
            known |= new
            ends = dict(pairwise([*sorted(known), 1 << 64]))
            entries = [place for at in sorted(new) for place in function.followed(self._table(at, ends[at]))]
            yield [*entries, *(place for pointer in pointers for place in function.followed([pointer]))]
            pointers = []

    def _table(self, address: int, end: int) -> Iterator[int]:
        """Yield where the entries of a table of distances from its own beginning, *address*, lead: always to code.

        It ends at *end* or before.
        """
        section = self._section(address)
        if not section or address % 4:
            return
        end = min(end, section.sh_addr + section.sh_size, address + 4 * _TABLE_LIMIT)
        low = high = 0  # of a section of code
        for at in range(address, end, 4 * _CHUNK):
            data = os.pread(self._fd, min(4 * _CHUNK, end - at), at - section.sh_addr + section.sh_offset)
            for (distance,) in struct.iter_unpack("<i", data[: len(data) & ~3]):
                there = address + distance
                if not low <= there < high:
                    to = self._section(there)
                    if not to or not to.sh_flags & SHF_EXECINSTR:
                        return
                    low, high = to.sh_addr, to.sh_addr + to.sh_size
                yield there

    def _from_elsewhere(self, start: int, end: int) -> list[int]:
        """Return where branches and calls of proven code elsewhere lead, from *start* up to *end*."""
        self._pay(sum(section.sh_size for section in self._code))
        function, self._elsewhere = self._function, True
        arrivals = []
        for section in self._code:
            for place, target in leading(self._fd, section, start, end, 4, x86.LAST_BEFORE_DISTANCE):
                if not start <= place < end:
                    # Any other instruction takes an address, perhaps of data.
                    found = self.instruction(place - 1)
                    if found and found.address + x86.distance_at(found.code) == place and x86.branches(found.code):
                        arrivals.append(target)
        self._function, self._elsewhere = function, False
        return arrivals

    def is_unused(self, place: int) -> bool:
        """Return whether nothing runs or reads the four bytes at *place*, as code behind a trap that has no label.

        They lie in a function that unwinding tables describe, between instructions that control reaches, where
        instructions follow each other; no computed jump is in the function, and no number in the file leads there.
        """
        if self._elsewhere or any(self.instruction(address) for address in range(place, place + 4)):
            return False
        function = self._function
        gap = function.gap(place) if function and function.described else None
        if not gap or not gap[0] <= place <= gap[1] - 4 or gap[1] - gap[0] > _GAP_LIMIT:
            return False
        if gap not in self._gaps:
            self._elsewhere = True
            self._gaps[gap] = any(True for _ in self._leading_to(*gap))
            self._elsewhere = False
        return not self._gaps[gap]

    def _leading_to(self, low: int, high: int) -> Iterator[int]:
        """Yield where numbers lead from elsewhere to an address from *low* up to *high*: distances, pointers, symbols.

        Distances of instructions count up to four bytes earlier, as an immediate operand may follow them.
        """
        self._pay(sum(section.sh_size for section in self._sections))
        for section in self._sections:
            is_code = bool(section.sh_flags & SHF_EXECINSTR)
            if is_code:
                before = x86.LAST_BEFORE_DISTANCE, x86.before_distance()
                for place, _ in leading(self._fd, section, low - 4, high, 4, *before):
                    if not low <= place < high and not self._is_other(place):
                        yield place
            known = section.name in UNWINDING or section.sh_type in (SHT_RELA, SHT_DYNAMIC, SHT_DYNSYM)
            words = leading(self._fd, section, low, high + 4 * _TABLE_LIMIT, 0)
            for place, target in iter(()) if known else words:
                if is_code and (place % 4 or low <= place < high or self._is_other(place)):
                    continue  # of data in code, aligned words
                # In a table, a distance counts from its beginning, whose address something takes.
                begins = range(low + place - target, min(place, high + place - target - 1) + 1)
                if target < high or (not place % 4 and not self._taken.isdisjoint(begins)):
                    yield place
            for begin, end, address, data in pieces(self._fd, section):
                for value in {low & -0x10000, high - 1 & -0x10000}:
                    for found in re.finditer(re.escape(value.to_bytes(8, "little")[2:]), data):
                        at = found.start() - 2
                        if begin <= at < end and low <= int.from_bytes(data[at : at + 8], "little") < high:
                            yield address + at
        for place in (*range(low - 0x81, low), *range(high, high + 0x7F)):
            near = self._section(place)
            if near and near.sh_flags & SHF_EXECINSTR:
                code = os.pread(self._fd, 2, place - near.sh_addr + near.sh_offset)
                target = place + 2 + int.from_bytes(code[1:], "little", signed=True)
                if code[:1] in _SHORT and low <= target < high and not self._is_no_branch(place):
                    yield place
        symbols = list(self._dynamic_symbols())
        yield from (value for value in symbols if low <= value < high)
        for section in self._sections:
            if section.sh_type == SHT_RELA:
                for _, part in filled(self._fd, section.sh_offset, section.sh_size, 24):
                    for place, info, addend in struct.iter_unpack("<QQq", part):
                        named = 0 < info >> 32 < len(symbols) and addend
                        if named and low <= symbols[info >> 32] + addend < high:
                            yield place

    @functools.cached_property
    def _taken(self) -> set[int]:
        """Which addresses anything takes: what may be LEA, and relocated pointers."""
        taken = set(self._relocated)
        for section in self._code:
            for _, _, address, data in pieces(self._fd, section):
                taken.update(address + found.end(1) + _distance(found[1]) for found in _LEA.finditer(data))
        return taken

    def _is_other(self, place: int) -> bool:
        """Return whether the byte before *place* is in a proven instruction whose distance, if any, is elsewhere."""
        found = self.instruction(place - 1)
        return bool(found and found.address + x86.distance_at(found.code) != place)

    def _is_no_branch(self, place: int) -> bool:
        """Return whether the byte at *place* is in a proven instruction, and not the opcode of a short branch."""
        found = self.instruction(place)
        return bool(found and not (found.address + len(found.code) == place + 2 and x86.is_prefixes(found.code[:-2])))

    def _dynamic_symbols(self) -> Iterator[int]:
        for section in self._sections:
            if section.sh_type == SHT_DYNSYM:
                for _, part in filled(self._fd, section.sh_offset, section.sh_size, 24):
                    yield from array("Q", part)[1::3]

    @functools.cached_property
    def _frames(self) -> FrameTable:
        return FrameTable(self._image, self._fd)

    @functools.cached_property
    def _symbols(self) -> tuple[list[int], list[int]]:
        """Where functions with symbols begin, ascending, and where they end."""
        ranges = function_ranges(self._image, self._fd)
        starts = sorted(ranges)
        return starts, [ranges[start] for start in starts]

    @functools.cached_property
    def _entries(self) -> list[int]:
        """Where a program starts, and what a loader calls, ascending."""
        return sorted({self._image.e_entry, *self._leads[0]})

    @functools.cached_property
    def _pointers(self) -> list[int]:
        """Where relocated pointers lead, ascending: to code or to data in it."""
        return sorted(self._leads[1])

    @functools.cached_property
    def _leads(self) -> tuple[set[int], set[int]]:
        """What the loader calls: resolvers, and functions of its arrays; and where pointers to code or in it lead."""
        called: set[int] = set()
        pointers: set[int] = set()
        low, high = self._code[0].sh_addr, self._code[-1].sh_addr + self._code[-1].sh_size
        arrays = [s for s in self._sections if s.sh_type in _ARRAYS and s.sh_size < _ARRAY_LIMIT]
        for section in arrays:
            for _, part in filled(self._fd, section.sh_offset, section.sh_size, 8):
                called.update(array("Q", part))
        slots = {place for s in arrays for place in range(s.sh_addr, s.sh_addr + s.sh_size, 8)}
        for kinds, infos, places, addends in self._relocations():
            if not slots.isdisjoint(places):
                called.update(compress(addends, map(slots.__contains__, places)))
            if _IRELATIVE in kinds:
                called.update(compress(addends, map(_IRELATIVE.__eq__, infos)))
            relative = addends if kinds <= _RELATIVE else compress(addends, map(_RELATIVE.__contains__, infos))
            pointers.update([address for address in relative if low <= address < high])
        return called, pointers

    @functools.cached_property
    def _relocated(self) -> set[int]:
        """Where relocated pointers lead."""
        pointers: set[int] = set()
        for kinds, infos, _, addends in self._relocations():
            pointers.update(addends if kinds <= _RELATIVE else compress(addends, map(_RELATIVE.__contains__, infos)))
        return pointers

    def _relocations(self) -> Iterator[tuple[set[int], "array[int]", "array[int]", "array[int]"]]:
        """Yield relocations, many at once: which types they have, and the types, the places and the addends."""
        for section in self._sections:
            if section.sh_type == SHT_RELA:
                for _, part in filled(self._fd, section.sh_offset, section.sh_size, 24):
                    words = array("Q", part)
                    infos = words[1::3]
                    yield set(infos), infos, words[0::3], words[2::3]

    def _section(self, address: int) -> Section | None:
        """Return the section with contents that holds *address*."""
        i = bisect_right(self._begins, address) - 1
        section = self._sections[i] if i >= 0 else None
        return section if section and address < section.sh_addr + section.sh_size else None

    def _pay(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise RefusalError("fix.many-addresses")


class _Function:
    """The *code* from *start* on, and what control reaches of it: blocks of instructions.

    *arrivals* yields addresses at which more control may arrive.  A branch into the middle of an instruction, or bytes
    that are not an instruction, mean that the function is not what it seems: then nothing is proven.
    """

    def __init__(self, start: int, code: bytes) -> None:
        self.start, self.end = start, start + len(code)
        self.arrivals: Iterator[Iterable[int]] = iter(())
        self._code = code
        self._blocks: list[int] = []  # where they begin: offsets, ascending
        self._ends: list[int] = []  # where they end
        self._todo: list[int] = []  # offsets, ascending
        self._labels: list[int] = []  # offsets whose addresses code takes: of data, or of instructions
        self._through_register = self._broken = False
        self.described = False  # by unwinding tables

    def instruction(self, address: int) -> Instruction | None:
        """Return the reached instruction with a byte at *address*."""
        offset = address - self.start
        at = self._block(offset)
        if at >= 0 and not self._broken:
            at = self._beginning(at, offset)
            found = x86.instruction().match(self._code, at)
            if found and offset < found.end():
                return Instruction(self.start + at, found[0])
        return None

    def gap(self, address: int) -> tuple[int, int] | None:
        """Return the addresses around *address* that control does not reach, if it is known what it reaches.

        None unless instructions in a row fill them.
        """
        i = bisect_right(self._blocks, address - self.start) - 1
        if self._broken or self._through_register or self._todo or i < 0:
            return None
        low, high = self._ends[i], (*self._blocks[i + 1 : i + 2], len(self._code))[0]
        at = low
        while at < high:
            end, _ = _decoded(self._code[:high], at)
            if end == at:
                return None
            at = end
        return self.start + low, self.start + high

    def _run(self, at: int, end: int) -> int:
        """Return where instructions end that begin at *at*: some of those that end up to *end*."""
        found = x86.block().match(self._code, at, end)
        return found.end() if found else at

    def _block(self, offset: int) -> int:
        """Return where the block around *offset* begins; -1 if none is reached."""
        i = bisect_right(self._blocks, offset) - 1
        return self._blocks[i] if i >= 0 and offset < self._ends[i] else -1

    def add(self, addresses: Iterable[int]) -> None:
        """Note that control arrives at the *addresses* within this function."""
        for address in addresses:
            if self.start <= address < self.end:
                self._arrive(address - self.start)

    def reach(self, address: int) -> None:
        """Follow control until *address* is reached, or all that can be."""
        offset, size = address - self.start, len(self._code)
        todo = self._todo
        while todo and not self._broken and self._block(offset) < 0:
            # From as near before it as possible.
            at = todo.pop(max(0, bisect_right(todo, offset) - 1))
            while 0 <= at < size:
                at = self._followed(at)

    def _arrive(self, offset: int) -> None:
        if not self._reached(offset):
            insort(self._todo, offset)

    def _reached(self, offset: int) -> bool:
        """Return whether a block has *offset*, at which control arrives: an instruction has to begin there."""
        i = bisect_right(self._blocks, offset) - 1
        if i < 0 or offset >= self._ends[i]:
            return False
        block = self._blocks[i]
        if block != offset and not self._begins(block, offset):
            self._broken = True
        return True

    def _beginning(self, block: int, offset: int) -> int:
        """Return where the instruction begins that has *offset*, of those in a row from *block* on."""
        at = block
        while at < offset and (end := self._run(at, offset)) > at:
            at = end
        return at

    def _begins(self, block: int, offset: int) -> bool:
        """Return whether an instruction of the block that begins at *block* begins at *offset*, or behind a prefix."""
        at = self._beginning(block, offset)
        return at == offset or (at == offset - 1 and self._code[at] == _LOCK)

    def _followed(self, block: int) -> int:
        """Add the block that begins at *block*, and return where control goes on behind it; -1 where nothing new is.

        Long blocks are cut, so that an instruction is soon found in one.
        """
        blocks, ends, code = self._blocks, self._ends, self._code
        i = bisect_right(blocks, block)
        if i and block < ends[i - 1]:
            self._reached(block)
            return -1
        end, kind = _decoded(code, block)
        if end == block and end < len(code):
            self._broken = True
            return -1
        following = blocks[i] if i < len(blocks) else len(code)
        stop = min(end, following)
        blocks.insert(i, block)
        ends.insert(i, stop)
        for at, target in _between(self._leas, block, stop - _LEA_SIZE + 1) if self._leas else ():
            if self._begins(block, at) and not self._reached(target):
                insort(self._labels, target)
        for at, target in _between(self._calls, block, stop - _CALL_SIZE + 1) if self._calls else ():
            if x86.is_prefixes(code[self._beginning(block, at) : at]):
                self._arrive(target)
        for known in (self._todo, self._labels):
            at = bisect_right(known, block)
            while at < len(known) and known[at] < stop:
                self._broken |= not self._begins(block, known[at])
                at += 1
        if end > following:
            self._broken |= not self._begins(block, following)
            return -1
        if kind == x86.INDIRECT:
            self._through_register = True
        elif size := _DISTANCES.get(kind):
            target = end + _distance(code[end - size : end])
            if 0 <= target < len(code):
                self._arrive(target)
        return -1 if kind in _LAST else end

    @functools.cached_property
    def _leas(self) -> list[tuple[int, int]]:
        """Where bytes are like a LEA that takes the address of something in this function, and of what."""
        size = len(self._code)
        pattern = _LEA_NEAR if size <= _NEAR else _LEA
        leas = ((found.start() - 1, found.end(1) + _distance(found[1])) for found in pattern.finditer(self._code))
        return [(at, target) for at, target in leas if 0 <= target < size]

    @functools.cached_property
    def _calls(self) -> list[tuple[int, int]]:
        """Where bytes are like a call of something in this function, and of what."""
        size = len(self._code)
        pattern = _CALL_NEAR if size <= _NEAR else _CALL
        calls = ((found.start(), found.end(1) + _distance(found[1])) for found in pattern.finditer(self._code))
        return [(at, target) for at, target in calls if 0 <= target < size]

    @property
    def jumps(self) -> bool:
        """Whether reached code jumps through a register or memory."""
        return self._through_register and not self._broken

    def all(self) -> Iterator[Iterable[int]]:
        """Yield the addresses of all instructions, if nothing else is there."""
        yield (self.start + offset for offset in self._in_a_row)

    @functools.cached_property
    def _in_a_row(self) -> "array[int]":
        """The offsets of all instructions in a row; none unless the last one ends where the code does."""
        offsets, end = array("Q"), 0
        for found in x86.instruction().finditer(self._code):
            if found.start() != end:
                break
            offsets.append(end)
            end = found.end()
        return offsets if end == len(self._code) else array("Q")

    @functools.cached_property
    def _blocks_in_a_row(self) -> list[int]:
        """Where blocks begin if all is decoded in a row, and its end; none unless that is where the code ends."""
        code, begins = self._code, [0]
        while (at := begins[-1]) < len(code):
            end, _ = _decoded(code, at)
            if end == at:
                return []
            begins.append(end)
        return begins

    def taken(self) -> set[int]:
        """Return the addresses that reached instructions take, if control goes through a register somewhere."""
        taken = set()
        if self.jumps:
            for found in _LEA.finditer(self._code):
                block = self._block(found.start() - 1)
                if block >= 0 and self._begins(block, found.start() - 1):
                    taken.add(self.start + found.end(1) + _distance(found[1]))
        return taken

    def followed(self, addresses: Iterable[int]) -> Iterator[int]:
        """Yield the *addresses* within this function, up to one at which no instruction begins."""
        begins = self._blocks_in_a_row
        for address in addresses:
            if self.start <= address < self.end:
                offset = address - self.start
                if not begins or self._beginning(begins[bisect_right(begins, offset) - 1], offset) != offset:
                    return
                yield address


def _from(places: Sequence[int], low: int, high: int) -> Sequence[int]:
    """Return the ascending *places* from *low* up to *high*."""
    return places[bisect_left(places, low) : bisect_left(places, high)]


def _between(places: list[tuple[int, int]], low: int, high: int) -> list[tuple[int, int]]:
    """Return those of *places* from *low* up to *high*."""
    return places[bisect_left(places, (low, 0)) : bisect_left(places, (high, 0))] if places else places


def _distance(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _decoded(code: bytes, at: int) -> tuple[int, int]:
    """Return where a block that begins at *at* ends, and the kind of its last instruction; *at* if nothing is there."""
    found = x86.block().match(code, at)
    if found and found.lastindex:
        return found.end(), found.lastindex
    end = found.end() if found else at
    if last := x86.instruction().match(code, end):
        return last.end(), 0  # one more that is like those before it
    return (at if end < len(code) else end), 0
