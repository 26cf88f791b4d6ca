"""Find the addresses in debug information: DWARF 2 to 5, split or not, .debug_frame and GDB's index.

See the DWARF standard, version 5, chapter 7 (data representation), version 4 for ``.debug_loc`` and ``.debug_ranges``,
and https://gcc.gnu.org/wiki/DebugFission for what GNU's split form adds to version 4.  Lists are reached from the
entries that refer to them, since GCC puts other things between them.  What is not understood, or would take a number
of another length for an address, raises `UnclearError`.
"""

import os
import re
import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import pairwise

from hugealign.errors import TRUNCATED, MalformedElfError
from hugealign.fixing.separation.places import ascending

_SIZES = {1: struct.Struct("<B"), 2: struct.Struct("<H"), 4: struct.Struct("<I"), 8: struct.Struct("<Q")}
_LONG = 0xFFFFFFFF  # instead of a length: offsets have eight bytes
_ADDRESS_SIZE, _PAIR, _HIGHEST = 8, struct.Struct("<QQ"), (1 << 64) - 1

#: The sections that hold addresses or what is needed to find them, and those that hold none.
SECTIONS = frozenset(
    [".debug_" + name for name in ("info", "types", "abbrev", "line", "aranges", "addr", "frame", "ranges", "loc")]
    + [".debug_rnglists", ".debug_loclists", ".gdb_index"]
)
WITHOUT = frozenset(
    [".debug_" + name for name in ("str", "line_str", "str_offsets", "macro", "macinfo", "names", "sup")]
    + [".debug_" + name for name in ("pubnames", "pubtypes", "gnu_pubnames", "gnu_pubtypes", "gdb_scripts")]
)

#: The forms by what they take: a number of bytes, an offset, LEB128, a length and so many bytes.
_FIXED = {
    **dict.fromkeys((0x0B, 0x0C, 0x11, 0x25, 0x29), 1),  # data1, flag, ref1, strx1, addrx1
    **dict.fromkeys((0x05, 0x12, 0x26, 0x2A), 2),  # data2, ref2, strx2, addrx2
    **dict.fromkeys((0x27, 0x2B), 3),  # strx3, addrx3
    **dict.fromkeys((0x06, 0x13, 0x1C, 0x28, 0x2C), 4),  # data4, ref4, ref_sup4, strx4, addrx4
    **dict.fromkeys((0x07, 0x14, 0x20, 0x24), 8),  # data8, ref8, ref_sig8, ref_sup8
    0x1E: 16,  # data16
    **dict.fromkeys((0x19, 0x21), 0),  # flag_present, implicit_const
}
_OFFSETS = (0x0E, 0x10, 0x17, 0x1D, 0x1F, 0x1F20, 0x1F21)  # strp, ref_addr, sec_offset, strp_sup, line_strp, GNU's
_LEBS = (0x0D, 0x0F, 0x15, 0x1A, 0x1B, 0x22, 0x23, 0x1F01, 0x1F02)  # sdata, udata, ref_udata, strx, addrx, lists, GNU's
_BLOCKS = {0x0A: 1, 0x03: 2, 0x04: 4, 0x09: 0, 0x18: 0}  # block1, block2, block4, block, exprloc; 0: LEB128
_FORM_ADDR, _FORM_STRING, _FORM_EXPRLOC, _FORM_REF_ADDR, _FORM_IMPLICIT_CONST = 0x01, 0x08, 0x18, 0x10, 0x21
_FORM_SEC_OFFSET, _FORM_DATA4, _FORM_DATA8, _FORM_LOCLISTX, _FORM_RNGLISTX = 0x17, 0x06, 0x07, 0x22, 0x23
_AT_LOW_PC, _AT_LOCLISTS_BASE, _AT_RNGLISTS_BASE, _AT_ADDR_BASE = 0x11, 0x8C, 0x74, 0x73
_AT_GNU_RANGES_BASE, _AT_GNU_ADDR_BASE = 0x2132, 0x2133
_BASES = {_AT_LOCLISTS_BASE: ".debug_loclists", _AT_RNGLISTS_BASE: ".debug_rnglists"}
#: Attributes whose offset is that of a list of ranges (start_scope, ranges), or of a list of locations.
_RANGES, _LOCATIONS = frozenset((0x2C, 0x55)), frozenset((0x02, 0x19, 0x2A, 0x38, 0x40, 0x46, 0x48, 0x4A, 0x4D))
_LISTED = _RANGES | _LOCATIONS
_CONSTANTS = frozenset((0x1C, 0x3D))  # const_value, discr_list: the attributes of which a block is no expression
_UNIT_TYPE, _UNIT_SKELETON, _UNIT_SPLIT, _UNIT_SPLIT_TYPE = 0x02, 0x04, 0x05, 0x06
#: What a value of an attribute is to the search, other than bytes to pass over.
_ADDRESS, _NUMBER, _STRING, _BLOCK, _EXPRESSION, _LIST, _LIST_BY_INDEX = range(7)

#: Operations by what follows them: bytes, or LEB128 numbers (as negative).
_OPERANDS: dict[int, tuple[int, ...]] = {
    **dict.fromkeys((0x06, 0x96, 0x97, 0x9B, 0x9C, 0x9F, 0xE0, 0xF0, *range(0x12, 0x70)), ()),
    **dict.fromkeys((0x08, 0x09, 0x15, 0x94, 0x95), (1,)),
    **dict.fromkeys((0x0A, 0x0B, 0x28, 0x2F, 0x98), (2,)),
    **dict.fromkeys((0x0C, 0x0D, 0x99, 0xFA), (4,)),
    **dict.fromkeys((0x0E, 0x0F), (8,)),
    **dict.fromkeys((0x10, 0x11, 0x23, 0x90, 0x91, 0x93, *range(0x70, 0x90)), (-1,)),
    **dict.fromkeys((0xA1, 0xA2, 0xA8, 0xA9, 0xF7, 0xF9, 0xFB, 0xFC), (-1,)),  # addrx, constx, convert, reinterpret
    **dict.fromkeys((0x92, 0x9D, 0xA5, 0xF5), (-1, -1)),  # bregx, bit_piece, regval_type
    **dict.fromkeys((0xA6, 0xA7, 0xF6), (1, -1)),  # deref_type
}
_OP_ADDR, _OP_CALL_REF, _OP_IMPLICIT, _OP_POINTER, _OP_ENTRY, _OP_CONST_TYPE = 0x03, 0x9A, 0x9E, 0xA0, 0xA3, 0xA4
_OP_GNU_VARIABLE_VALUE = 0xFD
_GNU = {0xF2: _OP_POINTER, 0xF3: _OP_ENTRY, 0xF4: _OP_CONST_TYPE}
_TLS = (0x9B, 0xE0)  # form_tls_address, GNU_push_tls_address: what is before is an offset

#: The entries of lists of version 5, by number: how many addresses and LEB128 they have, and whether an expression.
#: They are end_of_list, base_addressx, startx_endx, startx_length, offset_pair, (default_location,) base_address,
#: start_end, start_length; GNU's view_pair.  Those with one value set a base.
_RANGE_ENTRIES = (
    *((0, 0, False), (0, 1, False), (0, 2, False), (0, 2, False), (0, 2, False)),
    *((1, 0, False), (2, 0, False), (1, 1, False)),
)
_LOCATION_ENTRIES = (
    *((0, 0, False), (0, 1, False), (0, 2, True), (0, 2, True), (0, 2, True), (0, 0, True)),
    *((1, 0, False), (2, 0, True), (1, 1, True), (0, 2, False)),
)
_OFFSET_PAIR = 4

#: Instructions for unwinding by what follows them: as in _OPERANDS, and 0 for a length and an expression.
_FRAME: dict[int, tuple[int, ...]] = {
    **dict.fromkeys((0x00, 0x0A, 0x0B, 0x2D), ()),
    **dict(zip((0x02, 0x03, 0x04, 0x1D, 0x0F), ((1,), (2,), (4,), (8,), (0,)), strict=True)),
    **dict.fromkeys((0x06, 0x07, 0x08, 0x0D, 0x0E, 0x13, 0x2E), (-1,)),
    **dict.fromkeys((0x05, 0x09, 0x0C, 0x11, 0x12, 0x14, 0x15, 0x2F), (-1, -1)),
    **dict.fromkeys((0x10, 0x16), (-1, 0)),
}
_CFA_SET_LOC, _LNE_SET_ADDRESS, _LNS_FIXED_ADVANCE_PC = 0x01, 2, 9

_LEB = rb"[\x80-\xff]*[\x00-\x7f]"
#: At the end of a sequence, and the discriminator: what line programs have most of.
_EXTENDED = rb"\x00\x01\x01|\x00\x02\x04[\x00-\x7f]|\x00\x03\x04[\x80-\xff][\x00-\x7f]"
_TABLES = 64  # of abbreviations, and of the operands of lines, that are known again
_RUN = 4096  # operations that are passed over at once: an expression keeps some bytes for each

#: Entries of lists, with a base, that have no address; no expression of eight bytes or less has one.
_RANGE_RUN = re.compile(rb"(?:[\x02-\x04]%b%b){0,%d}" % (_LEB, _LEB, _RUN))
_SHORT = b"|".join(b"%b.{%d}" % (re.escape(bytes([size])), size) for size in range(_ADDRESS_SIZE + 1))
_LOCATION_RUN = re.compile(
    rb"(?:[\x02-\x04]%b%b(?:%b)|\x09%b%b){0,%d}" % (_LEB, _LEB, _SHORT, _LEB, _LEB, _RUN), re.DOTALL
)


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
        data = os.pread(self.fd, size, self.offset + at)
        if len(data) != size:
            raise MalformedElfError(code=TRUNCATED)
        return data


class _OddError(Exception):
    """What was read is not understood."""


def find_addresses(sections: Mapping[str, Contents]) -> dict[str, "array[int]"]:
    """Return the offsets of all addresses in the debug *sections*, in any order, some twice.  Raises UnclearError."""
    search = _Search(sections)
    try:
        search.run()
    except (_OddError, IndexError, ValueError, struct.error, KeyError, OverflowError, RecursionError) as error:
        raise UnclearError(search.section) from error
    return search.places


class _Dialect:
    """What the encoding depends on, with all that is known of units that are encoded so."""

    def __init__(self, version: int, offset_size: int) -> None:
        self.version, self.offset_size = version, offset_size
        self.fixed = _FIXED | dict.fromkeys(_OFFSETS, offset_size) | {_FORM_ADDR: _ADDRESS_SIZE}
        if version == 2:
            self.fixed[_FORM_REF_ADDR] = _ADDRESS_SIZE
        self.declared: dict[bytes, _Abbreviation] = {}


class _Abbreviation:
    """Attributes and forms of entries, and what has to be done to read one.

    *skip* bytes hold nothing of interest.  Each step of the *plan* has what is next, for which attribute it is a list
    or how many bytes its length has, and how many bytes of no interest are behind it.  Most entries have no step.
    """

    __slots__ = ("pairs", "plan", "skip")

    def __init__(self, pairs: list[tuple[int, int]], dialect: _Dialect) -> None:
        self.pairs = pairs
        self.skip = 0
        self.plan: list[tuple[int, int, int]] = []
        for attribute, form in pairs:
            kind = _kind(attribute, form, dialect)
            if kind is not None:
                detail = attribute if kind in (_LIST, _LIST_BY_INDEX) else _BLOCKS.get(form, 0)
                self.plan.append((kind, detail, 0))
            if kind in (None, _LIST, _ADDRESS):
                size = dialect.fixed[form]
                if self.plan:
                    *_, (kind, detail, skip) = self.plan
                    self.plan[-1] = kind, detail, skip + size
                else:
                    self.skip += size


class _Table:
    """What the abbreviations of a unit say, by their codes; code 0 ends a row of children."""

    __slots__ = ("pairs", "plans", "skips")

    def __init__(self, declared: dict[int, _Abbreviation]) -> None:
        self.pairs = {code: declaration.pairs for code, declaration in declared.items()}
        self.skips = {0: 0} | {code: declaration.skip for code, declaration in declared.items()}
        self.plans = {code: declaration.plan for code, declaration in declared.items() if declaration.plan}


def _kind(attribute: int, form: int, dialect: _Dialect) -> int | None:
    """Return what the search takes the value of an *attribute* for, None for a number of bytes to pass over."""
    if form == _FORM_ADDR:
        return _ADDRESS
    if form == _FORM_STRING:
        return _STRING
    if form == _FORM_EXPRLOC:
        return _EXPRESSION
    if form in _BLOCKS:  # Go writes expressions as blocks in version 5, too, and debuggers take them for such
        return _BLOCK if attribute in _CONSTANTS else _EXPRESSION
    if form in (_FORM_LOCLISTX, _FORM_RNGLISTX):
        return _LIST_BY_INDEX
    if form in _LEBS:
        return _NUMBER
    old = dialect.version < 4 and form in (_FORM_DATA4, _FORM_DATA8) and _FIXED[form] == dialect.offset_size
    return _LIST if attribute in _LISTED and (form == _FORM_SEC_OFFSET or old) else None


class _Unit:
    """What the entries of a unit need to know of it: whether distances count from an address, and where lists begin."""

    __slots__ = ("based", "bases", "dialect")

    def __init__(self, dialect: _Dialect) -> None:
        self.dialect = dialect
        self.based = False
        first = 12 if dialect.offset_size == 4 else 20  # behind the header of the section
        self.bases = {".debug_loclists": first, ".debug_rnglists": first}


class _Search:
    def __init__(self, sections: Mapping[str, Contents]) -> None:
        self._sections = sections
        self.section = ".debug_info"  # that is read
        self.places = {name: array("Q") for name in sections}
        self._dialects: dict[tuple[int, int], _Dialect] = {}
        self._tables: dict[tuple[int, _Dialect], _Table] = {}
        #: The lists that entries refer to: for each section, offset << 1 | whether it counts from a base, by dialect.
        self._lists: dict[tuple[str, _Dialect], array[int]] = {}
        #: Where units say that tables of addresses begin, and whether with a header.
        self._tables_of_addresses: set[tuple[int, bool]] = set()
        #: Where the ranges of units of GNU's split form begin, whose entries are elsewhere; whether they have a base.
        self._split_ranges: set[tuple[int, bool]] = set()
        self._wholes: dict[str, bytes] = {}
        # Tables and lists can begin within others, as some of GCC's do: the work is bounded by the size nevertheless.
        self._left = 1 << 16 | 4 * sum(contents.size for contents in sections.values())

    def run(self) -> None:
        for name, read in (
            (".debug_info", self._units),
            (".debug_types", self._units),
            (".debug_line", self._lines),
            (".debug_aranges", self._aranges),
            (".debug_addr", self._addresses),
            (".debug_frame", self._frames),
            (".debug_loclists", self._new_lists),
            (".debug_rnglists", self._new_lists),
            (".debug_loc", self._old_lists),
            (".debug_ranges", self._old_lists),
            (".gdb_index", self._index),
        ):
            if name in self._sections:
                self.section = name
                read()
                self._wholes.pop(name, None)

    def _pay(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _OddError

    def _parts(self) -> Iterator[tuple[int, bytes, int]]:
        """Yield each part of the section that has its length in front: its offset, contents, and size of offsets."""
        contents, at = self._sections[self.section], 0
        while at + 4 <= contents.size:
            size, at, offset_size = _number(contents.read(at, 4), 0, 4), at + 4, 4
            if size == _LONG:
                size, at, offset_size = _number(contents.read(at, 8), 0, 8), at + 8, 8
            data = contents.read(at, size)
            if size:
                yield at, data, offset_size
            at += size

    def _whole(self, section: str) -> bytes:
        """Return all of a *section* in which others point anywhere."""
        if section not in self._wholes:
            contents = self._sections[section]
            self._wholes[section] = contents.read(0, contents.size)
        return self._wholes[section]

    def _units(self) -> None:
        for start, data, offset_size in self._parts():
            version, at = _number(data, 0, 2), 2
            if version == 5:
                kind, address_size = data[at], data[at + 1]
                abbreviations = _number(data, at + 2, offset_size)
                at += 2 + offset_size
                if kind in (_UNIT_SKELETON, _UNIT_SPLIT):
                    at += 8
                elif kind in (_UNIT_TYPE, _UNIT_SPLIT_TYPE):
                    at += 8 + offset_size
            elif 2 <= version <= 4:
                abbreviations, address_size = _number(data, at, offset_size), data[at + offset_size]
                at += offset_size + 1
                if self.section == ".debug_types":
                    at += 8 + offset_size
            else:
                raise _OddError
            if address_size != 8:
                raise _OddError
            dialect = self._dialect(version, offset_size)
            self._entries(start, data, at, _Unit(dialect), self._table(abbreviations, dialect))

    def _dialect(self, version: int, offset_size: int) -> _Dialect:
        if (version, offset_size) not in self._dialects:
            self._dialects[version, offset_size] = _Dialect(version, offset_size)
        return self._dialects[version, offset_size]

    def _table(self, start: int, dialect: _Dialect) -> _Table:
        """Return the abbreviations of the table at *start* in .debug_abbrev."""
        table = self._tables.get((start, dialect))
        if table is None:
            if len(self._tables) == _TABLES:
                self._tables.clear()
            table = self._tables[start, dialect] = _Table(dict(self._declarations(start, dialect)))
        return table

    def _declarations(self, at: int, dialect: _Dialect) -> Iterator[tuple[int, _Abbreviation]]:
        data = self._whole(".debug_abbrev")
        while True:
            code, at = _leb(data, at)
            if not code:
                return
            start = at
            _, at = _leb(data, at)
            at += 1  # whether it has children
            pairs: list[tuple[int, int]] = []
            while True:
                attribute, at = _leb(data, at)
                form, at = _leb(data, at)
                if form == _FORM_IMPLICIT_CONST:  # the value is here
                    _, at = _leb(data, at)
                if not attribute and not form:
                    break
                pairs.append((attribute, form))
            self._pay(at - start)
            same = data[start:at]  # in most units of a program
            if same not in dialect.declared:
                dialect.declared[same] = _Abbreviation(pairs, dialect)
            yield code, dialect.declared[same]

    def _entries(self, start: int, data: bytes, at: int, unit: _Unit, table: _Table) -> None:
        """Read the entries of a *unit*, of *data* at *start* in the section, from *at* on."""
        if at < len(data):  # the bases of its lists come before any list
            code, first = _leb(data, at)
            if code:
                self._first_entry(data, first, unit, table.pairs[code])
        places, end, read_offset = self.places[self.section], len(data), _SIZES[unit.dialect.offset_size].unpack_from
        lists = {attribute: self._list_of(attribute, unit) for attribute in _LISTED}
        based = unit.based
        skips, plans = table.skips, table.plans
        while at < end:
            code = data[at]
            at += 1
            if code > 0x7F:
                code, at = _leb(data, at - 1)
            at += skips[code]
            if code not in plans:
                continue
            for kind, more, skip in plans[code]:
                if kind == _LIST:
                    lists[more].append(read_offset(data, at)[0] << 1 | based)
                elif kind == _ADDRESS:
                    places.append(start + at)
                elif kind == _NUMBER:
                    while data[at] > 0x7F:
                        at += 1
                    at += 1
                elif kind == _STRING:
                    at = data.index(0, at) + 1
                elif kind == _LIST_BY_INDEX:
                    at = self._refer_by_index(more, data, at, unit)
                else:
                    if more:
                        size, at = _number(data, at, more), at + more
                    else:
                        size = data[at]
                        at += 1
                        if size > 0x7F:
                            size, at = _leb(data, at - 1)
                    if size > _ADDRESS_SIZE and kind == _EXPRESSION:
                        self._expression(start, data, at, size, unit.dialect)
                    at += size
                at += skip
        if at != end:
            raise _OddError

    def _first_entry(self, data: bytes, at: int, unit: _Unit, pairs: list[tuple[int, int]]) -> None:
        """Read what the first entry of a unit, at *at*, says about the rest."""
        self._pay(len(pairs))
        ranges, size = -1, unit.dialect.offset_size
        for attribute, form in pairs:
            if attribute == _AT_LOW_PC:
                # Addresses by index count as some base: lists without a base of their own are relative to it.
                unit.based = form != _FORM_ADDR or _number(data, at, 8) != 0
            elif attribute == _AT_GNU_RANGES_BASE:
                ranges = _number(data, at, size)
            elif attribute == _AT_GNU_ADDR_BASE:
                self._tables_of_addresses.add((_number(data, at, size), False))
            elif attribute == _AT_ADDR_BASE:
                self._tables_of_addresses.add((_number(data, at, size) - 2 * size, True))
            elif attribute in _BASES:
                unit.bases[_BASES[attribute]] = _number(data, at, size)
            at = _behind(data, at, form, unit.dialect)
        if ranges >= 0:
            self._split_ranges.add((ranges, unit.based))

    def _list_of(self, attribute: int, unit: _Unit) -> "array[int]":
        """Return what holds the lists for an *attribute*."""
        new = unit.dialect.version >= 5
        if attribute in _RANGES:
            section = ".debug_rnglists" if new else ".debug_ranges"
        else:
            section = ".debug_loclists" if new else ".debug_loc"
        return self._lists.setdefault((section, unit.dialect), array("Q"))

    def _refer_by_index(self, attribute: int, data: bytes, at: int, unit: _Unit) -> int:
        """Note the list whose number is at *at*; return where the number ends."""
        section = ".debug_rnglists" if attribute in _RANGES else ".debug_loclists"
        index, at = _leb(data, at)
        base, size = unit.bases[section], unit.dialect.offset_size
        offset = base + _number(self._whole(section), base + index * size, size)
        self._list_of(attribute, unit).append(offset << 1 | unit.based)
        return at

    def _noted_lists(self) -> Iterator[tuple[_Dialect, int, bool]]:
        """Yield the lists of the section by offset, each once: how they are encoded, the offset, if it has a base."""
        for (section, dialect), noted in self._lists.items():
            if section == self.section:
                last = -1
                for note in ascending(noted):
                    if note >> 1 == last:
                        raise _OddError  # one list, relative to one base and to another
                    last = note >> 1
                    yield dialect, last, bool(note & 1)

    def _old_lists(self) -> None:
        """Read lists before version 5: pairs of addresses, or of distances from a base."""
        data = self._whole(self.section)
        for dialect, at, based in self._noted_lists():
            self._pairs(data, at, dialect, based=based)
        if self.section == ".debug_ranges" and self._split_ranges:
            starts = {at for _, at, _ in self._noted_lists()} | {at for at, _ in self._split_ranges} | {len(data)}
            ordered = sorted(starts)
            for start, based in self._split_ranges:
                at, end = start, ordered[bisect_right(ordered, start)]
                while at < end:
                    at = self._pairs(data, at, None, based=based)

    def _pairs(self, data: bytes, at: int, dialect: _Dialect | None, *, based: bool) -> int:
        """Read the list at *at*, of locations if it has a *dialect* and is in their section; return where it ends."""
        places, located, start = self.places[self.section], self.section == ".debug_loc", at
        while True:
            low, high = _PAIR.unpack_from(data, at)
            if low == high == 0:
                self._pay(at - start)
                return at + 16
            if low == _HIGHEST:
                based = high != 0
                places.append(at + 8)
                at += 16
                continue
            if not based:
                places.extend((at, at + 8))
            at += 16
            if located and dialect:
                size, at = _number(data, at, 2), at + 2
                if size > _ADDRESS_SIZE:
                    self._expression(0, data, at, size, dialect)
                at += size

    def _new_lists(self) -> None:
        """Read lists of version 5."""
        data = self._whole(self.section)
        for dialect, at, based in self._noted_lists():
            self._pay(self._list(data, at, dialect, based=based) - at)

    def _list(self, data: bytes, at: int, dialect: _Dialect, *, based: bool) -> int:
        """Read the list at *at*; return where it ends.  Ranges and locations have the same entries by other numbers."""
        places, located = self.places[self.section], self.section == ".debug_loclists"
        entries, run = (_LOCATION_ENTRIES, _LOCATION_RUN) if located else (_RANGE_ENTRIES, _RANGE_RUN)
        while True:
            if based and (passed := run.match(data, at)):
                at = passed.end()
            kind = data[at]
            at += 1
            if not kind:
                return at
            addresses, numbers, described = entries[kind]
            if kind == _OFFSET_PAIR and not based:
                raise _OddError  # addresses as LEB128, whose length would change
            for _ in range(addresses):
                places.append(at)
                at += 8
            for _ in range(numbers):
                while data[at] > 0x7F:
                    at += 1
                at += 1
            if described:
                size, at = (data[at], at + 1) if data[at] < 0x80 else _leb(data, at)
                if size > _ADDRESS_SIZE:
                    self._expression(0, data, at, size, dialect)
                at += size
            elif addresses + numbers == 1:
                based = True

    def _expression(self, start: int, data: bytes, at: int, size: int, dialect: _Dialect) -> None:
        """Read an expression of *size* bytes at *at* of *data*, which is at *start* in the section."""
        places, end = self.places[self.section], at + size
        if end > len(data):
            raise _OddError
        while at < end:
            operation = _GNU.get(data[at], data[at])
            at += 1
            if operation == _OP_ADDR:
                if at + 8 >= end or data[at + 8] not in _TLS:
                    places.append(start + at)
                at += 8
            elif operation == _OP_IMPLICIT:
                length, at = _leb(data, at)
                at += length
            elif operation == _OP_ENTRY:
                length, at = _leb(data, at)
                self._expression(start, data, at, length, dialect)
                at += length
            elif operation == _OP_CONST_TYPE:
                _, at = _leb(data, at)
                at += 1 + data[at]
            elif operation in (_OP_CALL_REF, _OP_POINTER, _OP_GNU_VARIABLE_VALUE):
                at += 8 if dialect.version == 2 else dialect.offset_size
                if operation == _OP_POINTER:
                    _, at = _leb(data, at)
            else:
                at = _after(data, at, _OPERANDS[operation])
        if at != end:
            raise _OddError

    def _lines(self) -> None:
        runs: dict[bytes, re.Pattern[bytes]] = {}
        for start, data, offset_size in self._parts():
            version, at = _number(data, 0, 2), 2
            if version == 5:
                if data[at] != 8:
                    raise _OddError
                at += 2
            elif not 2 <= version <= 4:
                raise _OddError
            program = at + offset_size + _number(data, at, offset_size)
            at += offset_size + (1 if version < 4 else 2) + 3  # lengths, default_is_stmt, line_base, line_range
            operands = data[
                at : at + data[at]
            ]  # of each operation: the first of no operation but the first special one
            if operands not in runs:
                if len(runs) == _TABLES:
                    raise _OddError
                runs[operands] = _lines_without_addresses(operands)
            self._line_program(start, data, program, runs[operands])

    def _line_program(self, start: int, data: bytes, at: int, run: re.Pattern[bytes]) -> None:
        places, end = self.places[".debug_line"], len(data)
        while at < end:
            if (passed := run.match(data, at)) and passed.end() > at:
                at = passed.end()
                continue
            if data[at]:
                raise _OddError
            size, at = _leb(data, at + 1)
            if size and data[at] == _LNE_SET_ADDRESS:
                if size != 9:
                    raise _OddError
                places.append(start + at + 1)
            at += size
        if at != end:
            raise _OddError

    def _aranges(self) -> None:
        for start, data, offset_size in self._parts():
            at = 2 + offset_size
            if data[at] != 8 or data[at + 1]:
                raise _OddError
            at += 2
            at += -(at + (4 if offset_size == 4 else 12)) % 16  # from where the part's length is
            self.places[".debug_aranges"].extend(range(start + at, start + len(data) - 15, 16))

    def _addresses(self) -> None:
        """Read tables of addresses: with headers in version 5, one behind the other; without them in GNU's form."""
        places, data = self.places[".debug_addr"], self._whole(".debug_addr")
        bare = [at for at, headed in self._tables_of_addresses if not headed]
        if not bare:
            for start, part, _ in self._parts():
                if _number(part, 0, 2) != 5 or part[2] != 8 or part[3] or len(part) % 8 != 4:
                    raise _OddError
                places.extend(range(start + 4, start + len(part), 8))
            return
        for (at, headed), (end, _) in pairwise([*sorted(self._tables_of_addresses), (len(data), False)]):
            first = at + (0 if not headed else 16 if _number(data, at, 4) == _LONG else 8)
            if not 0 <= first <= end or (end - first) % 8:
                raise _OddError
            places.extend(range(first, end, 8))

    def _frames(self) -> None:
        for start, data, offset_size in self._parts():
            at = offset_size
            if _number(data, 0, offset_size) == (1 << 8 * offset_size) - 1:  # common to several functions
                version = data[at]
                if version not in (1, 3, 4) or data[at + 1]:  # an augmentation
                    raise _OddError
                at += 2
                if version == 4:
                    if data[at] != 8 or data[at + 1]:
                        raise _OddError
                    at += 2
                at = _after(data, at, (-1, -1, 1 if version == 1 else -1))
            else:
                self.places[".debug_frame"].append(start + at)
                at += 16
            self._instructions(start, data, at)

    def _instructions(self, start: int, data: bytes, at: int) -> None:
        """Read instructions for unwinding, from *at* to the end of *data*, which is at *start* in the section."""
        dialect = self._dialect(4, 4)
        while at < len(data):
            operation = data[at]
            at += 1
            if operation == _CFA_SET_LOC:
                self.places[".debug_frame"].append(start + at)
                at += 8
            elif operation < 0x40:
                for operand in _FRAME[operation]:
                    if operand:
                        at = _after(data, at, (operand,))
                    else:
                        size, at = _leb(data, at)
                        self._expression(start, data, at, size, dialect)
                        at += size
            elif operation >> 6 == 2:  # of the others, only "offset" has an operand
                _, at = _leb(data, at)
        if at != len(data):
            raise _OddError

    def _index(self) -> None:
        """Read GDB's index; see its manual, "Index Section Format"."""
        data = self._whole(".gdb_index")
        if not data:
            return
        start, end = _number(data, 12, 4), _number(data, 16, 4)
        if not 4 <= _number(data, 0, 4) <= 9 or not start <= end <= len(data) or (end - start) % 20:
            raise _OddError
        self.places[".gdb_index"].extend(range(start, end, 20))
        self.places[".gdb_index"].extend(range(start + 8, end, 20))


def _lines_without_addresses(operands: bytes) -> "re.Pattern[bytes]":
    """Return what matches operations of line programs up to the next one that may have an address.

    *operands* has the number of the first special operation, and how many operands each one before it takes.
    """
    if max(operands[1:], default=0) > 4:
        raise _OddError
    kinds = [b"[%s-\xff]" % re.escape(operands[:1]), _EXTENDED] if operands[0] else [_EXTENDED]
    for operation, count in enumerate(operands[1:], 1):
        taken = b".." if operation == _LNS_FIXED_ADVANCE_PC else _LEB * count
        kinds.append(re.escape(bytes([operation])) + taken)
    return re.compile(b"(?:%s){0,%d}" % (b"|".join(kinds), _RUN), re.DOTALL)


def _behind(data: bytes, at: int, form: int, dialect: _Dialect) -> int:
    """Return where a value at *at* ends."""
    if form in dialect.fixed:
        return at + dialect.fixed[form]
    if form == _FORM_STRING:
        return data.index(0, at) + 1
    if form in _LEBS:
        return _leb(data, at)[1]
    width = _BLOCKS[form]
    size, at = (_number(data, at, width), at + width) if width else _leb(data, at)
    return at + size


def _after(data: bytes, at: int, operands: tuple[int, ...]) -> int:
    """Return where *operands* that begin at *at* end."""
    for size in operands:
        if size > 0:
            at += size
        else:
            while data[at] > 0x7F:
                at += 1
            at += 1
    return at


def _number(data: bytes, at: int, size: int) -> int:
    (value,) = _SIZES[size].unpack_from(data, at)
    return int(value)


def _leb(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned LEB128 at *at* and where it ends; a signed one has the same length."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 70:
            raise _OddError
