"""How long instructions of x86-64 are, and where control goes after them.

Where an instruction ends follows from its prefixes, its opcode, ModRM and SIB alone.  That is a regular language, and
`instruction` returns a pattern of it.  See Intel's SDM, volume 2, chapter 2 (formats) and appendix A (opcode maps); for
XOP, AMD's APM, volume 3, 1.2.  The pattern does not match what we do not know: opcodes that are undefined in 64-bit
mode, the prefix REX2, and the maps of APX; nor near branches with an operand-size prefix, whose length differs between
Intel's and AMD's processors.
"""

import functools
import re
from collections.abc import Iterable

#: The groups of the pattern, by number: a conditional branch (distance of one byte; of four), a jump (likewise),
#: a jump through a register or memory, what control need not go on behind (returns, HLT, INT3, UD0, UD1, UD2),
#: and a call.
BRANCH8, BRANCH32, JUMP8, JUMP32, INDIRECT, END, CALL = range(1, 8)
LONGEST = 15  # bytes of an instruction
RUN = 100  # instructions that are matched at once

_BYTES = [re.escape(bytes([value])) for value in range(256)]
_OPERAND_SIZE = 0x66
_OTHER_PREFIXES = (0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x67, 0xF0, 0xF2, 0xF3)


def _one(values: Iterable[int]) -> bytes:
    """Return a pattern of one byte that is among *values*."""
    wanted = {*values}
    # As ranges: a pattern takes as long to compile as it is long.
    first = sorted(value for value in wanted if value - 1 not in wanted)
    last = sorted(value for value in wanted if value + 1 not in wanted)
    ranges = zip(map(_BYTES.__getitem__, first), map(_BYTES.__getitem__, last), strict=True)
    return b"[" + b"".join(low if low == high else low + b"-" + high for low, high in ranges) + b"]"


def _any(*patterns: bytes) -> bytes:
    return b"(?:" + b"|".join(patterns) + b")"


@functools.cache
def _operand() -> bytes:
    """Return a pattern of ModRM with any register in its middle, SIB, and the displacement."""

    def modrm(mod: int, *low: int) -> bytes:
        return _one(mod << 6 | register << 3 | rm for register in range(8) for rm in low)

    based, bare = (_one(sib for sib in range(256) if (sib & 7 != 5) is has_base) for has_base in (True, False))
    return _any(
        modrm(3, *range(8)),
        modrm(1, 0, 1, 2, 3, 5, 6, 7) + b".",
        modrm(0, 0, 1, 2, 3, 6, 7),
        modrm(0, 5) + b".{4}",
        modrm(2, 0, 1, 2, 3, 5, 6, 7) + b".{4}",
        modrm(1, 4) + b"..",
        modrm(0, 4) + _any(based, bare + b".{4}"),
        modrm(2, 4) + b".{5}",
    )


_ARITHMETIC = range(0, 0x40, 8)
#: One-byte opcodes by what follows them: an operand; nothing; a byte; an operand and a byte; as many bytes as an
#: operand has, four at most.
_WITH_OPERAND = {
    *(row + column for row in _ARITHMETIC for column in range(4)),
    *(0x63, *range(0x84, 0x8F), *range(0xD0, 0xD4), *range(0xD8, 0xE0), 0xFE),
}
_ALONE = {
    *(*range(0x50, 0x60), *range(0x6C, 0x70), *range(0x90, 0x9A), *range(0x9B, 0xA0), *range(0xA4, 0xA8)),
    *(*range(0xAA, 0xB0), 0xC9, 0xD7, *range(0xEC, 0xF0), 0xF1, 0xF5, *range(0xF8, 0xFE)),
}
_WITH_BYTE = {*(row + 4 for row in _ARITHMETIC), 0x6A, 0xA8, *range(0xB0, 0xB8), 0xCD, *range(0xE4, 0xE8)}
_WITH_OPERAND_AND_BYTE = (0x6B, 0x80, 0x83, 0xC0, 0xC1)
_WITH_WORD = {*(row + 5 for row in _ARITHMETIC), 0x68, 0xA9}
#: Opcodes behind 0F likewise.
_TWO_ALONE = {*range(5, 10), 0x0E, *range(0x30, 0x36), 0x37, 0x77, *range(0xA0, 0xA3), *range(0xA8, 0xAB)}
_TWO_ALONE |= {*range(0xC8, 0xD0)}
_TWO_WITH_BYTE = {0x0F, *range(0x70, 0x74), 0xA4, 0xAC, 0xBA, 0xC2, *range(0xC4, 0xC7)}
#: ... undefined (SDM, table A-3; 78 takes two more bytes in SSE4a), escapes, branches, traps, control registers.
_TWO_OTHERS = {0x04, 0x0A, 0x0B, 0x0C, *range(0x20, 0x28), 0x36, *range(0x38, 0x40), 0x78, 0x7A, 0x7B}
_TWO_OTHERS |= {*range(0x80, 0x90), 0xA6, 0xA7, 0xB9, 0xFF}
_TWO_WITH_OPERAND = {*range(256)} - _TWO_ALONE - _TWO_WITH_BYTE - _TWO_OTHERS


def _registers(*registers: int) -> bytes:
    """Return a pattern that ModRM follows with one of *registers* in its middle: part of the opcode (/0 to /7)."""
    return (
        b"(?="
        + _one(mod << 6 | register << 3 | rm for mod in range(4) for register in registers for rm in range(8))
        + b")"
    )


def _opcodes(size: int) -> bytes:
    """Return a pattern of opcodes and what follows them if operands have *size* bytes, as far as immediate ones can."""
    operand, word = _operand(), b".{%d}" % size
    unary = _registers(2, 3, 4, 5, 6, 7)
    return _any(
        _any(
            _one(_WITH_OPERAND),
            rb"\x0f(?:" + _one(_TWO_WITH_OPERAND) + rb"|\x38.)",
            rb"\xff" + _registers(0, 1, 2, 3, 6),
            rb"[\xf6\xf7]" + unary,
            rb"\x8f" + _registers(0),
        )
        + operand,
        _any(_one(_ALONE), rb"\x0f" + _one(_TWO_ALONE)),
        _any(
            _one(_WITH_OPERAND_AND_BYTE),
            rb"\x0f(?:" + _one(_TWO_WITH_BYTE) + rb"|\x3a.)",
            rb"\xf6" + _registers(0, 1),
            rb"\xc6" + _registers(0),
        )
        + operand
        + b".",
        _one(_WITH_BYTE) + b".",
        _any(rb"[\x69\x81]", rb"\xf7" + _registers(0, 1), rb"\xc7" + _registers(0)) + operand + word,
        _one(_WITH_WORD) + word,
        rb"\x0f[\x20-\x23].",  # control and debug registers: ModRM has no memory operand, whatever its mode
        rb"\xc6\xf8.",  # XABORT
        rb"\xc8...",  # ENTER
    )


_CALL = rb"\xe8.{4}"


def _flow() -> bytes:
    """Return a pattern of what changes where control goes, in the groups BRANCH8 to CALL."""
    return _any(
        rb"([\x70-\x7f\xe0-\xe3].)",
        rb"(\x0f[\x80-\x8f].{4}|\xc7\xf8.{4})",  # XBEGIN goes to its target if the transaction fails
        rb"(\xeb.)",
        rb"(\xe9.{4})",
        rb"(\xff" + _registers(4, 5) + _operand() + b")",
        rb"([\xc3\xcb\xcc\xcf\xf4]|[\xc2\xca]..|\x0f\x0b|\x0f[\xb9\xff]" + _operand() + b")",
        b"(" + _CALL + b")",
    )


def _vector() -> bytes:
    """Return a pattern of prefixes that hold the opcode's map (VEX, EVEX, XOP), the opcode, and what follows."""
    operand = _operand()

    def of_map(bits: int, *numbers: int) -> bytes:
        return _one(byte for byte in range(256) if byte & (1 << bits) - 1 in numbers)

    first = _any(rb"\xc5", rb"\xc4" + of_map(5, 1), rb"\x62" + of_map(4, 1) + b".") + b"."
    plain = _any(rb"\xc4" + of_map(5, 2), rb"\x62" + of_map(4, 2, 5, 6) + b".", rb"\x8f" + of_map(5, 9)) + b".."
    with_byte = _any(rb"\xc4" + of_map(5, 3), rb"\x62" + of_map(4, 3) + b".", rb"\x8f" + of_map(5, 8)) + b".."
    return _any(
        _any(first + rb"[^\x70-\x73\x77\xc2\xc4-\xc6]", plain) + operand,
        _any(first + rb"[\x70-\x73\xc2\xc4-\xc6]", with_byte) + operand + b".",
        _any(rb"\xc5", rb"\xc4" + of_map(5, 1)) + rb".\x77",  # VZEROUPPER, VZEROALL
        rb"\x8f" + of_map(5, 10) + b".." + operand + b".{4}",
    )


def _prefixed(*opcodes: bytes) -> bytes:
    """Return a pattern of one of *opcodes*, whose operand has four bytes, behind prefixes."""
    prefixes, with_66 = _one(_OTHER_PREFIXES) + b"*+", _one((_OPERAND_SIZE, *_OTHER_PREFIXES)) + b"++"
    return _any(prefixes + rb"[\x40-\x4f]?+", with_66 + rb"[\x48-\x4f]") + _any(*opcodes)


def _instruction(*others: bytes) -> bytes:
    """Return a pattern of one instruction, either of *others* behind prefixes, or one that changes no flow."""
    prefixes, with_66 = _one(_OTHER_PREFIXES) + b"*+", _one((_OPERAND_SIZE, *_OTHER_PREFIXES)) + b"++"
    return _any(
        _prefixed(*others, _opcodes(4)),
        prefixes + _vector(),
        with_66 + rb"[\x40-\x47]?+" + _opcodes(2),
        # MOV with an immediate operand of any size, or an address.
        prefixes + rb"[\x40-\x47]?+[\xb8-\xbf].{4}",
        with_66 + rb"[\x40-\x47]?+[\xb8-\xbf].{2}",
        _any(prefixes, with_66) + rb"[\x48-\x4f][\xb8-\xbf].{8}",
        rb"\x66?[\x40-\x4f]?[\xa0-\xa3].{8}",
    )


@functools.cache
def instruction() -> "re.Pattern[bytes]":
    """Return the pattern of one instruction; its groups are BRANCH8 to CALL."""
    return re.compile(_instruction(_flow()), re.DOTALL)


@functools.cache
def block() -> "re.Pattern[bytes]":
    """Return the pattern of instructions that change no flow, or are calls, and of one that does, if it follows.

    There may be none, and at most RUN of the former; the groups are BRANCH8 to END.
    """
    return re.compile(_instruction(_CALL) + b"{0,%d}+" % RUN + _any(_prefixed(_flow())) + b"?", re.DOTALL)


#: The bytes of ModRM of an operand that is relative to the next instruction (SDM, volume 2, 2.2.1.6).
RELATIVE = bytes(range(5, 0x40, 8))
_IMMEDIATE = (0, 1, 2, 4)  # bytes of an immediate operand; with eight, or an address, MOV has no ModRM
_PREFIXES = {_OPERAND_SIZE, *_OTHER_PREFIXES}


def branches(code: bytes) -> bool:
    """Return whether one instruction is a branch or a call to a distance."""
    found = instruction().match(code)
    return bool(found and found.lastindex and found.lastindex not in (INDIRECT, END))


def is_prefixes(code: bytes) -> bool:
    """Return whether *code* is what can be in front of an opcode, or nothing."""
    return all(byte in _PREFIXES or 0x40 <= byte <= 0x4F for byte in code)


def distance_at(code: bytes) -> int:
    """Return the offset in one instruction of the four bytes that are a distance from its end; 0 if it has none.

    It goes by position alone: prefixes, then the opcode, then ModRM, and behind the distance an immediate operand.
    """
    at = 0
    while code[at] in _PREFIXES:
        at += 1
    at += 0x40 <= code[at] <= 0x4F
    first, second = code[at], code[at + 1] if at + 1 < len(code) else 0
    if first in (0xE8, 0xE9):
        return at + 1
    if (first == 0x0F and 0x80 <= second <= 0x8F) or (first, second) == (0xC7, 0xF8):
        return at + 2
    if first == 0x0F:
        modrm = at + (3 if second in (0x38, 0x3A) else 2)
    elif first == 0x8F and second & 0x1F < 8:  # POP, not XOP
        modrm = at + 1
    else:
        modrm = at + {0xC5: 3, 0xC4: 4, 0x8F: 4, 0x62: 5}.get(first, 1)
    behind = len(code) - modrm - 5
    return modrm + 1 if behind in _IMMEDIATE and code[modrm] in RELATIVE else 0


#: The byte in front of a distance: ModRM, or an opcode of CALL, JMP, Jcc or XBEGIN.
LAST_BEFORE_DISTANCE = _one({*RELATIVE, 0xE8, 0xE9, *range(0x80, 0x90), 0xF8})


@functools.cache
def before_distance() -> "re.Pattern[bytes]":
    """Return the pattern of what can be in front of a distance, to be matched where the distance begins.

    In front of ModRM is an opcode that has an operand, alone or behind 0F; or any opcode behind the other escapes, and
    behind prefixes that hold a map (REX2 also).
    """
    opcodes = {*_WITH_OPERAND, *_WITH_OPERAND_AND_BYTE, 0x69, 0x81, 0x8F, 0xC6, 0xC7, 0xF6, 0xF7, 0xFF}
    fronts = (_one(opcodes), rb"\x0f.", rb"\x0f[\x38\x3a].", rb"[\xc5\xd5]..", rb"[\xc4\x8f]...", rb"\x62....")
    behind = [front + _one(RELATIVE) for front in fronts] + [rb"[\xe8\xe9]", rb"\x0f[\x80-\x8f]", rb"\xc7\xf8"]
    return re.compile(_any(*(b"(?<=" + front + b")" for front in behind)), re.DOTALL)
