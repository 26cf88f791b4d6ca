"""Search for four bytes that lead into a range of addresses, if they are a distance."""

import functools
import re
import struct
from collections.abc import Iterator

from hugealign.elf.fixrecord import exactly, reader
from hugealign.elf.image import Section

_PIECE = 1 << 19  # bytes that are searched together
_AROUND = 16  # bytes that are read beyond a piece on both sides: no instruction is longer
_THIRDS = 8  # values of the last byte but one that share a pattern: one takes a while to compile
_DISTANCE = struct.Struct("<i")


def leading(
    fd: int,
    section: Section,
    low: int,
    high: int,
    origin: int,
    before: bytes = b"",
    exactly_before: "re.Pattern[bytes] | None" = None,
) -> Iterator[tuple[int, int]]:
    """Yield the addresses of four bytes of *section* that lead from *low* up to *high*, and where they lead.

    They are a little-endian distance from *origin* bytes behind their own address.  *before* is a pattern of the byte
    before them, and *exactly_before* one of more bytes, which also has to match.  Raises MalformedElfError, OSError.
    """
    get = _DISTANCE.unpack_from
    for begin, end, address, data in pieces(fd, section):
        base = address + origin
        first, behind = low - base, high - base
        for pattern in _patterns(first - end, behind - 1 - begin, before):
            # Most hits are calls of what lies just behind the range: the procedure linkage table.
            found = pattern.finditer(data, 3)
            for at in [at for hit in found if first <= (at := hit.start() - 3) + get(data, at)[0] < behind]:
                if begin <= at < end and (not exactly_before or exactly_before.match(data, at)):
                    yield address + at, base + at + get(data, at)[0]


def pieces(fd: int, section: Section) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield the contents in pieces: offsets of the piece's beginning and end in the data, its address, the data."""
    for at in range(0, section.sh_size, _PIECE):
        low, high = max(0, at - _AROUND), min(section.sh_size, at + _PIECE + _AROUND)
        data = exactly(reader(fd), high - low, section.sh_offset + low)
        yield at - low, min(section.sh_size, at + _PIECE) - low, section.sh_addr + low, data


def _patterns(least: int, most: int, before: bytes) -> Iterator["re.Pattern[bytes]"]:
    """Yield patterns that find the last byte of each distance from *least* to *most* behind *before*, and some more."""
    least = max(least, -1 << 31)
    most = min(most, (1 << 31) - 1)
    for top in range(least >> 24, (most >> 24) + 1):
        low = (max(least, top << 24) >> 16) & 0xFF
        high = (min(most, (top << 24) + 0xFFFFFF) >> 16) & 0xFF
        yield _pattern(top & 0xFF, low & -_THIRDS, high | _THIRDS - 1, before)


@functools.cache
def _pattern(last: int, low: int, high: int, before: bytes) -> "re.Pattern[bytes]":
    """Return the pattern of the *last* byte behind one from *low* to *high* and two others, all behind *before*."""
    byte = re.escape(bytes([last]))
    return re.compile(byte + b"(?<=%b..[\\x%02x-\\x%02x]%b)" % (before, low, high, byte), re.DOTALL)
