"""Find the addresses in the parts of debug information that stand alone: tables of lines and ranges, frames, an index.

See the DWARF standard, version 5, sections 6.1, 6.2 and 6.4.
"""

import re
from array import array
from collections.abc import Iterator, Mapping

from hugealign.elf.fixrecord import exactly, reader
from hugealign.elf.leb128 import read_one
from hugealign.fixing.separation.dwarf_forms import (
    CFA_SET_LOC,
    FRAME,
    GNU,
    LNE_SET_ADDRESS,
    LONG,
    OP_ADDR,
    OP_CALL_REF,
    OP_CONST_TYPE,
    OP_ENTRY,
    OP_GNU_VARIABLE_VALUE,
    OP_IMPLICIT,
    OP_POINTER,
    OPERANDS,
    TLS,
    Dialect,
    UnknownFormError,
    after,
    lines_without_addresses,
    number,
)

_KINDS = 64  # line program headers with different operands that are kept


class UnclearError(Exception):
    """The debug information in *section* is of a form that is not moved, or damaged."""

    def __init__(self, section: str) -> None:
        super().__init__(section)
        self.section = section


class Contents:
    """The contents of a section: *size* bytes at *offset* of the file behind *fd*."""

    __slots__ = ("fd", "offset", "size")

    def __init__(self, fd: int, offset: int, size: int) -> None:
        self.fd, self.offset, self.size = fd, offset, size

    def read(self, at: int, size: int) -> bytes:
        """Return *size* bytes from *at* on.  Raises IndexError, MalformedElfError."""
        if not 0 <= at <= at + size <= self.size:
            raise IndexError
        return exactly(reader(self.fd), size, self.offset + at)


class Tables:
    """The *sections* of debug information, and the *places* of addresses in each; one *section* at a time is read."""

    def __init__(self, sections: Mapping[str, Contents]) -> None:
        self.sections = sections
        self.section = ".debug_info"
        self.places = {name: array("Q") for name in sections}
        self.wholes: dict[str, bytes] = {}
        self.dialects: dict[tuple[int, int], Dialect] = {}

    def parts(self) -> Iterator[tuple[int, bytes, int]]:
        """Yield each part of the section that has its length in front: its offset, contents, and size of offsets."""
        contents, at = self.sections[self.section], 0
        while at + 4 <= contents.size:
            size, at, offset_size = number(contents.read(at, 4), 0, 4), at + 4, 4
            if size == LONG:
                size, at, offset_size = number(contents.read(at, 8), 0, 8), at + 8, 8
            data = contents.read(at, size)
            if size:
                yield at, data, offset_size
            at += size

    def whole(self, section: str) -> bytes:
        """Return all of a *section* in which others point anywhere."""
        if section not in self.wholes:
            contents = self.sections[section]
            self.wholes[section] = contents.read(0, contents.size)
        return self.wholes[section]

    def dialect(self, version: int, offset_size: int) -> Dialect:
        """Return the dialect of units with this *version* and this size of offsets."""
        if (version, offset_size) not in self.dialects:
            self.dialects[version, offset_size] = Dialect(version, offset_size)
        return self.dialects[version, offset_size]

    def expression(self, start: int, data: bytes, at: int, size: int, dialect: Dialect) -> None:
        """Read an expression of *size* bytes at *at* of *data*, which is at *start* in the section."""
        places, end = self.places[self.section], at + size
        if end > len(data):
            raise UnknownFormError
        while at < end:
            operation = GNU.get(data[at], data[at])
            at += 1
            if operation == OP_ADDR:
                if at + 8 >= end or data[at + 8] not in TLS:
                    places.append(start + at)
                at += 8
            elif operation == OP_IMPLICIT:
                length, at = read_one(data, at)
                at += length
            elif operation == OP_ENTRY:
                length, at = read_one(data, at)
                self.expression(start, data, at, length, dialect)
                at += length
            elif operation == OP_CONST_TYPE:
                _, at = read_one(data, at)
                at += 1 + data[at]
            elif operation in (OP_CALL_REF, OP_POINTER, OP_GNU_VARIABLE_VALUE):
                at += 8 if dialect.version == 2 else dialect.offset_size
                if operation == OP_POINTER:
                    _, at = read_one(data, at)
            else:
                at = after(data, at, OPERANDS[operation])
        if at != end:
            raise UnknownFormError

    def lines(self) -> None:
        """Read the line programs (6.2)."""
        runs: dict[bytes, re.Pattern[bytes]] = {}
        for start, data, offset_size in self.parts():
            version, at = number(data, 0, 2), 2
            if version == 5:
                if data[at] != 8:
                    raise UnknownFormError
                at += 2
            elif not 2 <= version <= 4:
                raise UnknownFormError
            program = at + offset_size + number(data, at, offset_size)
            at += offset_size + (1 if version < 4 else 2) + 3  # lengths, default_is_stmt, line_base, line_range
            # opcode_base, then the number of operands of each standard opcode
            operands = data[at : at + data[at]]
            if operands not in runs:
                if len(runs) == _KINDS:
                    raise UnknownFormError
                runs[operands] = lines_without_addresses(operands)
            self._line_program(start, data, program, runs[operands])

    def _line_program(self, start: int, data: bytes, at: int, run: re.Pattern[bytes]) -> None:
        places, end = self.places[".debug_line"], len(data)
        while at < end:
            if (passed := run.match(data, at)) and passed.end() > at:
                at = passed.end()
                continue
            if data[at]:
                raise UnknownFormError
            size, at = read_one(data, at + 1)
            if size and data[at] == LNE_SET_ADDRESS:
                if size != 9:
                    raise UnknownFormError
                places.append(start + at + 1)
            at += size
        if at != end:
            raise UnknownFormError

    def aranges(self) -> None:
        """Read the ranges of addresses by unit (6.1.2)."""
        for start, data, offset_size in self.parts():
            at = 2 + offset_size
            if data[at] != 8 or data[at + 1]:
                raise UnknownFormError
            at += 2
            at += -(at + (4 if offset_size == 4 else 12)) % 16  # from where the part's length is
            self.places[".debug_aranges"].extend(range(start + at, start + len(data) - 15, 16))

    def frames(self) -> None:
        """Read the instructions for unwinding (6.4)."""
        for start, data, offset_size in self.parts():
            at = offset_size
            if number(data, 0, offset_size) == (1 << 8 * offset_size) - 1:  # common to several functions
                version = data[at]
                if version not in (1, 3, 4) or data[at + 1]:  # an augmentation
                    raise UnknownFormError
                at += 2
                if version == 4:
                    if data[at] != 8 or data[at + 1]:
                        raise UnknownFormError
                    at += 2
                at = after(data, at, (-1, -1, 1 if version == 1 else -1))
            else:
                self.places[".debug_frame"].append(start + at)
                at += 16
            self._instructions(start, data, at)

    def _instructions(self, start: int, data: bytes, at: int) -> None:
        """Read instructions for unwinding, from *at* to the end of *data*, which is at *start* in the section."""
        dialect = self.dialect(4, 4)
        while at < len(data):
            operation = data[at]
            at += 1
            if operation == CFA_SET_LOC:
                self.places[".debug_frame"].append(start + at)
                at += 8
            elif operation < 0x40:
                for operand in FRAME[operation]:
                    if operand:
                        at = after(data, at, (operand,))
                    else:
                        size, at = read_one(data, at)
                        self.expression(start, data, at, size, dialect)
                        at += size
            elif operation >> 6 == 2:  # of the others, only "offset" has an operand
                _, at = read_one(data, at)
        if at != len(data):
            raise UnknownFormError

    def index(self) -> None:
        """Read GDB's index; see its manual, "Index Section Format"."""
        data = self.whole(".gdb_index")
        if not data:
            return
        start, end = number(data, 12, 4), number(data, 16, 4)
        if not 4 <= number(data, 0, 4) <= 9 or not start <= end <= len(data) or (end - start) % 20:
            raise UnknownFormError
        self.places[".gdb_index"].extend(range(start, end, 20))
        self.places[".gdb_index"].extend(range(start + 8, end, 20))
