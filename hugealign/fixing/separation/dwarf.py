"""Find the addresses in debug information: DWARF 2 to 5, .debug_frame and GDB's index.

See the DWARF standard, version 5, chapter 7 (data representation), and version 4 for ``.debug_loc`` and
``.debug_ranges``.  Lists are reached from the entries that refer to them, since GCC puts other things between them.
What is not understood, or would take a number of another length for an address, raises `Unclear`.
"""

import struct
from collections.abc import Callable, Iterator, Mapping

_ADDRESS = struct.Struct("<Q")
_SIZES = {1: struct.Struct("<B"), 2: struct.Struct("<H"), 4: struct.Struct("<I"), 8: struct.Struct("<Q")}
_LINKAGE = 4  # bytes of an offset in 32-bit DWARF; in 64-bit DWARF 8

#: The sections that are read, and those that hold no address.
SECTIONS = frozenset(
    [".debug_" + name for name in ("info", "types", "abbrev", "line", "aranges", "addr", "frame", "ranges", "loc")]
    + [".debug_" + name for name in ("rnglists", "loclists", "str", "line_str", "str_offsets", "macro", "macinfo")]
    + [".debug_" + name for name in ("pubnames", "pubtypes", "gnu_pubnames", "gnu_pubtypes", "names", "sup")]
    + [".gdb_index", ".debug_gdb_scripts"]
)

#: The forms by what they take: a number of bytes, LEB128, or what the names say.
_FIXED = {
    **dict.fromkeys((0x0B, 0x0C, 0x11, 0x25, 0x29), 1),  # data1, flag, ref1, strx1, addrx1
    **dict.fromkeys((0x05, 0x12, 0x26, 0x2A), 2),  # data2, ref2, strx2, addrx2
    **dict.fromkeys((0x27, 0x2B), 3),  # strx3, addrx3
    **dict.fromkeys((0x06, 0x13, 0x1C, 0x28, 0x2C), 4),  # data4, ref4, ref_sup4, strx4, addrx4
    **dict.fromkeys((0x07, 0x14, 0x20, 0x24), 8),  # data8, ref8, ref_sig8, ref_sup8
    **dict.fromkeys((0x1E,), 16),  # data16
    **dict.fromkeys((0x19, 0x21), 0),  # flag_present, implicit_const
}
_OFFSETS = (0x0E, 0x10, 0x17, 0x1D, 0x1F, 0x1F20, 0x1F21)  # strp, ref_addr, sec_offset, strp_sup, line_strp, GNU's
_LEBS = (0x0D, 0x0F, 0x15, 0x1A, 0x1B, 0x22, 0x23, 0x1F01, 0x1F02)  # sdata, udata, ref_udata, strx, addrx, lists, GNU's
_FORM_ADDR, _FORM_STRING, _FORM_INDIRECT, _FORM_EXPRLOC = 0x01, 0x08, 0x16, 0x18
_FORM_SEC_OFFSET, _FORM_DATA4, _FORM_DATA8, _FORM_LOCLISTX, _FORM_RNGLISTX = 0x17, 0x06, 0x07, 0x22, 0x23
_BLOCKS = {0x0A: 1, 0x03: 2, 0x04: 4, 0x09: 0}  # block1, block2, block4, block
_AT_LOW_PC, _AT_RANGES, _AT_LOCLISTS_BASE, _AT_RNGLISTS_BASE, _AT_GNU_ADDR_BASE = 0x11, 0x55, 0x8C, 0x74, 0x2133
_AT_GNU_RANGES_BASE, _AT_ADDR_BASE = 0x2132, 0x73
#: Attributes whose offset is that of a list of locations.
_LOCATIONS = {0x02, 0x19, 0x2A, 0x38, 0x40, 0x46, 0x48, 0x4A, 0x4D}
_UNIT_TYPE, _UNIT_SPLIT_TYPE, _UNIT_SKELETON, _UNIT_SPLIT = 0x02, 0x06, 0x04, 0x05
#: Operations by what follows them: bytes, LEB128 numbers (as negative), or None for those with rules of their own.
_OPERANDS: dict[int, tuple[int, ...]] = {
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
_GNU = {0xF2: _OP_POINTER, 0xF3: _OP_ENTRY, 0xF4: _OP_CONST_TYPE}
_TLS = (0x9B, 0xE0)  # form_tls_address, GNU_push_tls_address: what is before is an offset


class Unclear(Exception):  # noqa: N818 - it is no error of the file's
    """The debug information is of a form that is not moved, or damaged."""


#: The entries of lists of version 5, by number: an address is A, LEB128 is L.  They are end_of_list, base_addressx,
#: startx_endx, startx_length, offset_pair, and those with addresses; of locations also default and GNU's view_pair.
_RANGE_ENTRIES = ("end", "L", "LL", "LL", "LL", "A", "AA", "AL")
_LOCATION_ENTRIES = ("end", "L", "LL", "LL", "LL", "", "A", "AA", "AL", "LL")

#: What is called with the name of a section and the offset of each address in it.
Found = Callable[[str, int], None]


def find_addresses(sections: Mapping[str, bytes], found: Found) -> None:
    """Call *found* for each address in the debug *sections*, by name.  Raises Unclear."""
    try:
        _Finder(sections, found).run()
    except (IndexError, ValueError, struct.error, KeyError, OverflowError, RecursionError) as error:
        raise Unclear from error


class _Unit:
    """What the entries of a unit need to know of it."""

    __slots__ = ("base", "is64", "loclists", "offset_size", "rnglists", "version")

    def __init__(self, version: int, is64: bool) -> None:
        self.version, self.is64 = version, is64
        self.offset_size = 8 if is64 else _LINKAGE
        self.base = 0
        self.loclists = self.rnglists = 20 if is64 else 12  # behind the header of the section


class _Finder:
    def __init__(self, sections: Mapping[str, bytes], found: Found) -> None:
        self._sections, self._found = sections, found
        self._abbreviations: dict[int, dict[int, list[tuple[int, int]]]] = {}
        self._lists: set[tuple[str, int, bool]] = set()
        # Attributes may take no byte, and lists may overlap: the work is bounded by the size nevertheless.
        self._left = 1 << 16 | 16 * sum(map(len, sections.values()))

    def run(self) -> None:
        for name in (".debug_info", ".debug_types"):
            self._units(name)
        self._lines()
        self._aranges()
        self._addr()
        self._frames()
        self._index()

    def _pay(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise Unclear

    def _units(self, name: str) -> None:
        data = self._sections.get(name, b"")
        for start, end, is64 in _parts(data):
            at, version = start, _number(data, start, 2)
            unit = _Unit(version, is64)
            at += 2
            if version == 5:
                kind, address_size = data[at], data[at + 1]
                abbreviations = _number(data, at + 2, unit.offset_size)
                at += 2 + unit.offset_size
                if kind in (_UNIT_SKELETON, _UNIT_SPLIT):
                    at += 8
                elif kind in (_UNIT_TYPE, _UNIT_SPLIT_TYPE):
                    at += 8 + unit.offset_size
            elif 2 <= version <= 4:
                abbreviations, address_size = _number(data, at, unit.offset_size), data[at + unit.offset_size]
                at += unit.offset_size + 1
                if name == ".debug_types":
                    at += 8 + unit.offset_size
            else:
                raise Unclear
            if address_size != 8:
                raise Unclear
            self._entries(name, data, at, end, unit, self._abbreviated(abbreviations))

    def _abbreviated(self, at: int) -> dict[int, list[tuple[int, int]]]:
        """Return attributes and forms of each abbreviation of the table at *at* in .debug_abbrev."""
        if at in self._abbreviations:
            return self._abbreviations[at]
        data, start = self._sections[".debug_abbrev"], at
        table: dict[int, list[tuple[int, int]]] = {}
        while True:
            code, at = _leb(data, at)
            if not code:
                break
            _, at = _leb(data, at)
            at += 1  # whether it has children
            pairs: list[tuple[int, int]] = []
            while True:
                attribute, at = _leb(data, at)
                form, at = _leb(data, at)
                if form == 0x21:  # implicit_const: the value is here
                    _, at = _leb(data, at)
                if not attribute and not form:
                    break
                pairs.append((attribute, form))
            table[code] = pairs
        self._abbreviations[start] = table
        return table

    def _entries(
        self,
        name: str,
        data: bytes,
        at: int,
        end: int,
        unit: _Unit,
        abbreviations: dict[int, list[tuple[int, int]]],
    ) -> None:
        first = True
        offset = unit.offset_size
        while at < end:
            code = data[at]
            at += 1
            if code > 0x7F:
                code, at = _leb(data, at - 1)
            if not code:
                continue
            pairs = abbreviations[code]
            self._pay(len(pairs))
            if first:  # the base of its lists comes before any list
                self._bases(data, at, unit, pairs)
                first = False
            for attribute, form in pairs:
                if form in _FIXED:
                    if form in (_FORM_DATA4, _FORM_DATA8) and unit.version < 4:
                        self._list(attribute, _number(data, at, _FIXED[form]), unit)
                    at += _FIXED[form]
                elif form in _OFFSETS:
                    if form == _FORM_SEC_OFFSET:
                        self._list(attribute, _number(data, at, offset), unit)
                    at += 8 if form == 0x10 and unit.version == 2 else offset  # ref_addr: an address in version 2
                elif form == _FORM_ADDR:
                    self._found(name, at)
                    at += 8
                else:
                    at = self._variable(name, data, at, unit, attribute, form)
        if at != end:
            raise Unclear

    def _variable(self, name: str, data: bytes, at: int, unit: _Unit, attribute: int, form: int) -> int:
        """Read an attribute whose length depends on its contents; return where it ends."""
        if form in _LEBS:
            value, at = _leb(data, at)
            if form in (_FORM_LOCLISTX, _FORM_RNGLISTX):
                section = ".debug_loclists" if form == _FORM_LOCLISTX else ".debug_rnglists"
                base = unit.loclists if form == _FORM_LOCLISTX else unit.rnglists
                entry = _number(self._sections[section], base + value * unit.offset_size, unit.offset_size)
                self._list(attribute, base + entry, unit)
            return at
        if form == _FORM_STRING:
            return data.index(b"\0", at) + 1
        if form == _FORM_EXPRLOC or form in _BLOCKS:
            width = _BLOCKS.get(form, 0)
            if width:
                size, at = _number(data, at, width), at + width
            else:
                size, at = _leb(data, at)
            # Before version 4, blocks are expressions, too, where an attribute is a location.
            if form == _FORM_EXPRLOC or (unit.version < 4 and attribute in _LOCATIONS):
                self._expression(name, data, at, at + size, unit)
            return at + size
        raise Unclear

    def _bases(self, data: bytes, at: int, unit: _Unit, pairs: list[tuple[int, int]]) -> None:
        """Read what the first entry of a unit, at *at*, says about the rest: its address, and where its lists begin."""
        for attribute, form in pairs:
            if attribute in (_AT_GNU_ADDR_BASE, _AT_GNU_RANGES_BASE):
                raise Unclear
            if attribute == _AT_LOW_PC:
                # Addresses by index count as some base: lists without a base of their own are relative to it.
                unit.base = _number(data, at, 8) if form == _FORM_ADDR else 1
            elif attribute == _AT_LOCLISTS_BASE:
                unit.loclists = _number(data, at, unit.offset_size)
            elif attribute == _AT_RNGLISTS_BASE:
                unit.rnglists = _number(data, at, unit.offset_size)
            if form in _FIXED:
                at += _FIXED[form]
            elif form in _OFFSETS:
                at += unit.offset_size
            elif form == _FORM_ADDR:
                at += 8
            elif form == _FORM_STRING:
                at = data.index(b"\0", at) + 1
            elif form in _LEBS:
                _, at = _leb(data, at)
            elif form in _BLOCKS or form == _FORM_EXPRLOC:
                width = _BLOCKS.get(form, 0)
                size, at = (_number(data, at, width), at + width) if width else _leb(data, at)
                at += size
            else:
                raise Unclear

    def _list(self, attribute: int, at: int, unit: _Unit) -> None:
        """Read the list at *at* to which an *attribute* refers, if it is one; each once."""
        if attribute == _AT_RANGES:
            section = ".debug_rnglists" if unit.version >= 5 else ".debug_ranges"
        elif attribute in _LOCATIONS:
            section = ".debug_loclists" if unit.version >= 5 else ".debug_loc"
        else:
            return
        if (section, at, bool(unit.base)) in self._lists:
            return
        if (section, at, not unit.base) in self._lists:
            raise Unclear  # one list, relative to one base and to another
        self._lists.add((section, at, bool(unit.base)))
        data = self._sections[section]
        if unit.version >= 5:
            self._entries_of_list(section, data, at, unit, with_expressions=section == ".debug_loclists")
        else:
            self._pairs(section, data, at, unit)

    def _pairs(self, section: str, data: bytes, at: int, unit: _Unit) -> None:
        """Read a list of version 4 or before: pairs of addresses, or of distances from a base."""
        base = unit.base
        while True:
            self._pay(1)
            low, high = _number(data, at, 8), _number(data, at + 8, 8)
            if low == high == 0:
                return
            if low == 0xFFFFFFFFFFFFFFFF:
                base = high
                self._found(section, at + 8)
                at += 16
                continue
            if not base:
                self._found(section, at)
                self._found(section, at + 8)
            at += 16
            if section == ".debug_loc":
                size = _number(data, at, 2)
                self._expression(section, data, at + 2, at + 2 + size, unit)
                at += 2 + size

    def _entries_of_list(self, section: str, data: bytes, at: int, unit: _Unit, *, with_expressions: bool) -> None:
        """Read a list of version 5.  Both kinds have the same entries, with other numbers."""
        shapes = _LOCATION_ENTRIES if with_expressions else _RANGE_ENTRIES
        based = bool(unit.base)
        while True:
            self._pay(1)
            kind = data[at]
            at += 1
            shape = shapes[kind]
            if shape == "end":
                return
            if kind == 4 and not based:
                raise Unclear  # addresses as LEB128, whose length would change
            based = based or shape in ("A", "L")
            for part in shape:
                if part == "A":
                    self._found(section, at)
                    at += 8
                else:
                    _, at = _leb(data, at)
            if with_expressions and shape not in ("A", "L") and kind != 9:  # 9: GNU's pair of views
                size, at = _leb(data, at)
                self._expression(section, data, at, at + size, unit)
                at += size

    def _expression(self, name: str, data: bytes, at: int, end: int, unit: _Unit) -> None:
        """Read the operations from *at* to *end*."""
        if end > len(data):
            raise Unclear
        while at < end:
            self._pay(1)
            operation = _GNU.get(data[at], data[at])
            at += 1
            if operation == _OP_ADDR:
                if at + 8 >= end or data[at + 8] not in _TLS:
                    self._found(name, at)
                at += 8
            elif operation in _OPERANDS:
                for size in _OPERANDS[operation]:
                    if size > 0:
                        at += size
                    else:
                        _, at = _leb(data, at)
            elif operation == _OP_IMPLICIT:
                size, at = _leb(data, at)
                at += size
            elif operation == _OP_ENTRY:
                size, at = _leb(data, at)
                self._expression(name, data, at, at + size, unit)
                at += size
            elif operation == _OP_CONST_TYPE:
                _, at = _leb(data, at)
                at += 1 + data[at]
            elif operation in (_OP_CALL_REF, _OP_POINTER, 0xFD):
                at += 8 if unit.version == 2 else unit.offset_size
                if operation == _OP_POINTER:
                    _, at = _leb(data, at)
            elif not (operation in (0x06, 0x96, 0x97, 0x9B, 0x9C, 0x9F, 0xE0, 0xF0) or 0x12 <= operation <= 0x6F):
                raise Unclear
        if at != end:
            raise Unclear

    def _lines(self) -> None:
        data = self._sections.get(".debug_line", b"")
        for start, end, is64 in _parts(data):
            offset = 8 if is64 else _LINKAGE
            at, version = start + 2, _number(data, start, 2)
            if version == 5:
                if data[at] != 8:
                    raise Unclear
                at += 2
            elif not 2 <= version <= 4:
                raise Unclear
            program = at + offset + _number(data, at, offset)
            at += offset + (1 if version < 4 else 2) + 3  # lengths, default_is_stmt, line_base, line_range
            first_special = data[at]
            lengths = data[at : at + first_special]  # from number 1 on
            self._line_program(data, program, end, first_special, lengths)

    def _line_program(self, data: bytes, at: int, end: int, first_special: int, lengths: bytes) -> None:
        while at < end:
            operation = data[at]
            at += 1
            if operation >= first_special:
                continue
            if operation == 0:
                size, at = _leb(data, at)
                if size == 9 and data[at] == 2:  # DW_LNE_set_address
                    self._found(".debug_line", at + 1)
                elif size and data[at] == 2:
                    raise Unclear
                at += size
            elif operation == 9:  # DW_LNS_fixed_advance_pc
                at += 2
            else:
                for _ in range(lengths[operation]):
                    while data[at] > 0x7F:
                        at += 1
                    at += 1
        if at != end:
            raise Unclear

    def _aranges(self) -> None:
        data = self._sections.get(".debug_aranges", b"")
        begin = 0
        for start, end, is64 in _parts(data):
            header = start + 2 + (8 if is64 else _LINKAGE)
            if data[header] != 8 or data[header + 1]:
                raise Unclear
            at = header + 2 + -(header + 2 - begin) % 16
            while at + 16 <= end:
                if _number(data, at, 8) or _number(data, at + 8, 8):
                    self._found(".debug_aranges", at)
                at += 16
            begin = end

    def _addr(self) -> None:
        data = self._sections.get(".debug_addr", b"")
        for at, end, _ in _parts(data):
            if _number(data, at, 2) != 5 or data[at + 2] != 8 or data[at + 3] or (end - at - 4) % 8:
                raise Unclear
            for place in range(at + 4, end, 8):
                self._found(".debug_addr", place)

    def _frames(self) -> None:
        data = self._sections.get(".debug_frame", b"")
        for at, _, is64 in _parts(data):
            size = 8 if is64 else 4
            if _number(data, at, size) != (1 << 8 * size) - 1:  # of a function, not common information
                self._found(".debug_frame", at + size)

    def _index(self) -> None:
        """Read GDB's index; see its manual, "Index Section Format"."""
        data = self._sections.get(".gdb_index", b"")
        if data:
            if not 4 <= _number(data, 0, 4) <= 9:
                raise Unclear
            start, end = _number(data, 12, 4), _number(data, 16, 4)
            if not start <= end <= len(data) or (end - start) % 20:
                raise Unclear
            for at in range(start, end, 20):
                self._found(".gdb_index", at)
                self._found(".gdb_index", at + 8)


def _parts(data: bytes) -> Iterator[tuple[int, int, bool]]:
    """Yield beginning and end of each part that has its length in front, and whether it is 64-bit DWARF."""
    at = 0
    while at + 4 <= len(data):
        size, at = _number(data, at, 4), at + 4
        is64 = size == 0xFFFFFFFF
        if is64:
            size, at = _number(data, at, 8), at + 8
        if at + size > len(data):
            raise Unclear
        if size:
            yield at, at + size, is64
        at += size


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
            raise Unclear
