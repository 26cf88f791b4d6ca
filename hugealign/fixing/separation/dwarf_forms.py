"""How DWARF encodes what is in debug information: forms, operations, entries of lists, numbers.

See the DWARF standard, version 5, chapter 7 (data representation), and https://gcc.gnu.org/wiki/DebugFission for what
GNU's split form adds to version 4.
"""

import re
import struct

from hugealign.elf.leb128 import end_of, read_one

SIZES = {1: struct.Struct("<B"), 2: struct.Struct("<H"), 4: struct.Struct("<I"), 8: struct.Struct("<Q")}
LONG = 0xFFFFFFFF  # instead of a length: offsets have eight bytes
ADDRESS_SIZE, PAIR, HIGHEST = 8, struct.Struct("<QQ"), (1 << 64) - 1

#: What each form takes: a number of bytes, an offset, a LEB128 number, or a length and that many bytes.
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
FORM_ADDR, _FORM_STRING, _FORM_EXPRLOC, _FORM_REF_ADDR, FORM_IMPLICIT_CONST = 0x01, 0x08, 0x18, 0x10, 0x21
_FORM_SEC_OFFSET, _FORM_DATA4, _FORM_DATA8, _FORM_LOCLISTX, _FORM_RNGLISTX = 0x17, 0x06, 0x07, 0x22, 0x23
AT_LOW_PC, _AT_LOCLISTS_BASE, _AT_RNGLISTS_BASE, AT_ADDR_BASE = 0x11, 0x8C, 0x74, 0x73
AT_GNU_RANGES_BASE, AT_GNU_ADDR_BASE = 0x2132, 0x2133
BASES = {_AT_LOCLISTS_BASE: ".debug_loclists", _AT_RNGLISTS_BASE: ".debug_rnglists"}

#: Attributes whose offset leads to a list of ranges (start_scope, ranges), or to a list of locations.
RANGES, _LOCATIONS = frozenset((0x2C, 0x55)), frozenset((0x02, 0x19, 0x2A, 0x38, 0x40, 0x46, 0x48, 0x4A, 0x4D))
LISTED = RANGES | _LOCATIONS
_CONSTANTS = frozenset((0x1C, 0x3D))  # const_value, discr_list: attributes whose block is not an expression
UNIT_TYPE, UNIT_SKELETON, UNIT_SPLIT, UNIT_SPLIT_TYPE = 0x02, 0x04, 0x05, 0x06

#: What a value of an attribute is to the search, other than bytes to pass over.
ADDRESS, NUMBER, STRING, _BLOCK, EXPRESSION, LIST, LIST_BY_INDEX = range(7)

#: Operations by what follows them: bytes, or LEB128 numbers (as negative).
OPERANDS: dict[int, tuple[int, ...]] = {
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
OP_ADDR, OP_CALL_REF, OP_IMPLICIT, OP_POINTER, OP_ENTRY, OP_CONST_TYPE = 0x03, 0x9A, 0x9E, 0xA0, 0xA3, 0xA4
OP_GNU_VARIABLE_VALUE = 0xFD
GNU = {0xF2: OP_POINTER, 0xF3: OP_ENTRY, 0xF4: OP_CONST_TYPE}
TLS = (0x9B, 0xE0)  # form_tls_address, GNU_push_tls_address: what is before is an offset

#: The entries of lists of version 5, by number: how many addresses and LEB128 they have, and whether an expression.
#: They are end_of_list, base_addressx, startx_endx, startx_length, offset_pair, (default_location,) base_address,
#: start_end, start_length; GNU's view_pair.  Those with one value set a base.
RANGE_ENTRIES = (
    *((0, 0, False), (0, 1, False), (0, 2, False), (0, 2, False), (0, 2, False)),
    *((1, 0, False), (2, 0, False), (1, 1, False)),
)
LOCATION_ENTRIES = (
    *((0, 0, False), (0, 1, False), (0, 2, True), (0, 2, True), (0, 2, True), (0, 0, True)),
    *((1, 0, False), (2, 0, True), (1, 1, True), (0, 2, False)),
)
OFFSET_PAIR = 4

#: Instructions for unwinding by what follows them: as in OPERANDS, and 0 for a length and an expression.
FRAME: dict[int, tuple[int, ...]] = {
    **dict.fromkeys((0x00, 0x0A, 0x0B, 0x2D), ()),
    **dict(zip((0x02, 0x03, 0x04, 0x1D, 0x0F), ((1,), (2,), (4,), (8,), (0,)), strict=True)),
    **dict.fromkeys((0x06, 0x07, 0x08, 0x0D, 0x0E, 0x13, 0x2E), (-1,)),
    **dict.fromkeys((0x05, 0x09, 0x0C, 0x11, 0x12, 0x14, 0x15, 0x2F), (-1, -1)),
    **dict.fromkeys((0x10, 0x16), (-1, 0)),
}
CFA_SET_LOC, LNE_SET_ADDRESS, _LNS_FIXED_ADVANCE_PC = 0x01, 2, 9
_LEB = rb"[\x80-\xff]*[\x00-\x7f]"

#: The commonest extended operations of line programs: the end of a sequence, and the discriminator.
_EXTENDED = rb"\x00\x01\x01|\x00\x02\x04[\x00-\x7f]|\x00\x03\x04[\x80-\xff][\x00-\x7f]"
_RUN = 4096  # operations that are passed over at once: an expression keeps some bytes for each

#: Entries of lists, with a base, that have no address; no expression of eight bytes or less has one.
RANGE_RUN = re.compile(rb"(?:[\x02-\x04]%b%b){0,%d}" % (_LEB, _LEB, _RUN))
_SHORT = b"|".join(b"%b.{%d}" % (re.escape(bytes([size])), size) for size in range(ADDRESS_SIZE + 1))
LOCATION_RUN = re.compile(
    rb"(?:[\x02-\x04]%b%b(?:%b)|\x09%b%b){0,%d}" % (_LEB, _LEB, _SHORT, _LEB, _LEB, _RUN), re.DOTALL
)


class UnknownFormError(Exception):
    """The debug information has a form that is not understood."""


class Dialect:
    """What the encoding of a unit depends on, with the tables for units that are encoded so."""

    def __init__(self, version: int, offset_size: int) -> None:
        self.version, self.offset_size = version, offset_size
        self.fixed = _FIXED | dict.fromkeys(_OFFSETS, offset_size) | {FORM_ADDR: ADDRESS_SIZE}
        if version == 2:
            self.fixed[_FORM_REF_ADDR] = ADDRESS_SIZE
        self.declared: dict[bytes, Abbreviation] = {}


class Abbreviation:
    """Attributes and forms of entries, and what has to be done to read one.

    The first *skip* bytes hold nothing of interest.  Each step of the *plan* says what comes next, the attribute if it
    is a list or else the bytes of its length, and how many bytes to skip behind it.  Most entries have no step.
    """

    __slots__ = ("pairs", "plan", "skip")

    def __init__(self, pairs: list[tuple[int, int]], dialect: Dialect) -> None:
        self.pairs = pairs
        self.skip = 0
        self.plan: list[tuple[int, int, int]] = []
        for attribute, form in pairs:
            kind = _kind(attribute, form, dialect)
            if kind is not None:
                detail = attribute if kind in (LIST, LIST_BY_INDEX) else _BLOCKS.get(form, 0)
                self.plan.append((kind, detail, 0))
            if kind in (None, LIST, ADDRESS):
                size = dialect.fixed[form]
                if self.plan:
                    *_, (kind, detail, skip) = self.plan
                    self.plan[-1] = kind, detail, skip + size
                else:
                    self.skip += size


class Table:
    """What the abbreviations of a unit say, by their codes; code 0 ends a row of children."""

    __slots__ = ("pairs", "plans", "skips")

    def __init__(self, declared: dict[int, Abbreviation]) -> None:
        self.pairs = {code: declaration.pairs for code, declaration in declared.items()}
        self.skips = {0: 0} | {code: declaration.skip for code, declaration in declared.items()}
        self.plans = {code: declaration.plan for code, declaration in declared.items() if declaration.plan}


def _kind(attribute: int, form: int, dialect: Dialect) -> int | None:
    """Return what the search takes the value of an *attribute* for, None for a number of bytes to pass over."""
    if form == FORM_ADDR:
        return ADDRESS
    if form == _FORM_STRING:
        return STRING
    if form == _FORM_EXPRLOC:
        return EXPRESSION
    if form in _BLOCKS:  # Go writes expressions as blocks also in version 5, and debuggers accept that
        return _BLOCK if attribute in _CONSTANTS else EXPRESSION
    if form in (_FORM_LOCLISTX, _FORM_RNGLISTX):
        return LIST_BY_INDEX
    if form in _LEBS:
        return NUMBER
    old = dialect.version < 4 and form in (_FORM_DATA4, _FORM_DATA8) and _FIXED[form] == dialect.offset_size
    return LIST if attribute in LISTED and (form == _FORM_SEC_OFFSET or old) else None


class Unit:
    """What reading the entries of a unit depends on: whether distances count from an address, and where lists begin."""

    __slots__ = ("based", "bases", "dialect")

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.based = False
        first = 12 if dialect.offset_size == 4 else 20  # behind the header of the section
        self.bases = {".debug_loclists": first, ".debug_rnglists": first}


def lines_without_addresses(operands: bytes) -> "re.Pattern[bytes]":
    """Return what matches operations of line programs up to the next one that may have an address.

    *operands* has the number of the first special operation, and how many operands each one before it takes.
    """
    if max(operands[1:], default=0) > 4:
        raise UnknownFormError
    kinds = [b"[%s-\xff]" % re.escape(operands[:1]), _EXTENDED] if operands[0] else [_EXTENDED]
    for operation, count in enumerate(operands[1:], 1):
        taken = b".." if operation == _LNS_FIXED_ADVANCE_PC else _LEB * count
        kinds.append(re.escape(bytes([operation])) + taken)
    return re.compile(b"(?:%s){0,%d}" % (b"|".join(kinds), _RUN), re.DOTALL)


def behind(data: bytes, at: int, form: int, dialect: Dialect) -> int:
    """Return where a value at *at* ends."""
    if form in dialect.fixed:
        return at + dialect.fixed[form]
    if form == _FORM_STRING:
        return data.index(0, at) + 1
    if form in _LEBS:
        return end_of(data, at)
    width = _BLOCKS[form]
    size, at = (number(data, at, width), at + width) if width else read_one(data, at)
    return at + size


def after(data: bytes, at: int, operands: tuple[int, ...]) -> int:
    """Return where *operands* that begin at *at* end."""
    for size in operands:
        if size > 0:
            at += size
        else:
            at = end_of(data, at)
    return at


def number(data: bytes, at: int, size: int) -> int:
    """Return the number of *size* bytes at *at*."""
    (value,) = SIZES[size].unpack_from(data, at)
    return int(value)
