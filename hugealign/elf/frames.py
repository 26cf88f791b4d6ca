"""Unwinding tables, ``.eh_frame``: where functions begin and end, and where exceptions land in them.

See Linux Standard Base, Core, chapter 10.6; for the tables in ``.gcc_except_table``, the Itanium C++ ABI, "Exception
Handling", and GCC's libgcc/unwind-c.c.  Every number is untrusted: an entry that cannot be read ends a list.
"""

import functools
import mmap
import os
import struct
from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from hugealign.elf.contents import Contents
from hugealign.elf.image import SHF_ALLOC, SHT_NOBITS, Image, Section
from hugealign.elf.leb128 import read_unsigned
from hugealign.errors import MalformedElfError

_MOST = 1 << 22  # functions of one file; the largest programs have about a million
_PADS_LIMIT = 1 << 20  # bytes of one function's landing pads
_ENTRY_LIMIT = 1 << 12  # bytes of one function's entry that are read
_PCREL_SDATA4 = 0x1B  # how FDEs encode addresses, nearly always (LSB, "DWARF Exception Header Encoding")
_OMIT, _LEB = 0xFF, (1, 9)  # DW_EH_PE_omit; DW_EH_PE_uleb128, DW_EH_PE_sleb128
#: What ``.eh_frame_hdr`` begins with if it has a table of functions in its usual form (the same, "Eh Frame Header").
_SORTED_FRAMES = b"\x01\x1b\x03\x3b"


class _Cursor:
    """Reads numbers of *data* from *at* on, never beyond *end*.  Raises struct.error there."""

    __slots__ = ("at", "data", "end", "order", "wide")

    def __init__(self, data: mmap.mmap | bytes, at: int, end: int, order: str, wide: bool) -> None:
        self.data, self.at, self.end, self.order, self.wide = data, at, end, order, wide

    def take(self, form: str) -> int:
        size = struct.calcsize("<" + form)
        if self.at + size > self.end:
            raise struct.error
        (value,) = struct.unpack_from(self.order + form, self.data, self.at)
        self.at += size
        return int(value)

    def leb(self) -> int:
        """Return an unsigned LEB128; a signed one has the same bytes."""
        try:
            (value,), self.at = read_unsigned(self.data, self.at, self.end)
        except ValueError:
            raise struct.error from None
        return value

    def pointer(self, encoding: int, base: int) -> int:
        """Return an encoded pointer (LSB, "DWARF Exception Header Encoding"); *base* is the address of this byte."""
        if encoding & 0x7F in _LEB:  # only tables of landing pads have these, and no negative ones
            return self.leb()
        form = {0: "Q" if self.wide else "I", 2: "H", 3: "I", 4: "Q", 10: "h", 11: "i", 12: "q"}.get(encoding & 15)
        if form is None or encoding & 0x70 not in (0, 0x10):
            raise struct.error
        value = self.take(form)
        return value + base if encoding & 0x10 else value


class _Encodings(NamedTuple):
    """How the entries of a CIE encode addresses of functions, and those of their tables of landing pads, if any."""

    address: int
    table: int = _OMIT


class Frame(NamedTuple):
    """A function: its first address, the one behind it, and where its entry begins in ``.eh_frame``."""

    start: int
    end: int
    at: int


def _section(image: Image, name: str) -> Section | None:
    section = next((s for s in image.sections if s.name == name and s.sh_type != SHT_NOBITS), None)
    if section and section.sh_offset + section.sh_size > image.file_size:
        raise MalformedElfError(name)
    return section


def read_frames(image: Image, fd: int) -> list[tuple[int, int, int]]:
    """Return each function that ``.eh_frame`` describes, as a `Frame` has it; an unreadable entry ends the list.

    Plain tuples, since a large program has hundred thousands.  Raises MalformedElfError, OSError.
    """
    section = _section(image, ".eh_frame")
    if not section:
        return []
    contents = Contents(fd, section.sh_offset, section.sh_size)
    data, size = contents.data, section.sh_size
    mask = (1 << (64 if image.is64 else 32)) - 1
    encodings: dict[int, int] = {}
    frames: list[tuple[int, int, int]] = []
    at = 0
    usual = struct.Struct(image.order + "IIii")  # length, distance to the CIE, address from here, size
    unpack = usual.unpack_from
    last = size - usual.size
    try:
        while at + 8 <= size and len(frames) < _MOST:
            if at <= last:
                length, identity, start, bytes_of = unpack(data, at)
                if 0xFFFFFFFF > length >= 12 and identity and encodings.get(at + 4 - identity) == _PCREL_SDATA4:
                    start = (section.sh_addr + at + 8 + start) & mask
                    if start and bytes_of > 0:
                        frames.append((start, start + bytes_of, at))
                    at += 4 + length
                    continue
            cursor = _Cursor(data, at, size, image.order, image.is64)
            length = cursor.take("I")
            if length == 0:
                at = contents.next(at + 4) & ~3  # each object file may end its part with a terminator, of four bytes
                continue
            if length == 0xFFFFFFFF:
                length = cursor.take("Q")
            body, cursor.end = cursor.at, min(cursor.at + length, size)
            identity = cursor.take("I")
            if identity == 0:
                encodings[at] = _encodings(cursor).address
            else:
                encoding = encodings.get(body - identity)
                if encoding is None:
                    break  # its CIE was not described: by the specification, that comes before
                start = cursor.pointer(encoding, section.sh_addr + cursor.at) & mask
                bytes_of = cursor.pointer(encoding & 0x0F, 0) & mask
                if start and 0 < bytes_of < 1 << 32:
                    frames.append((start, start + bytes_of, at))
            at = body + length
    except struct.error:
        pass
    return frames


class FrameTable:
    """The functions that ``.eh_frame`` of the file behind *fd* describes, by address, read one by one if possible.

    *image* is one of 64 bits, little-endian.  Raises MalformedElfError, OSError.
    """

    def __init__(self, image: Image, fd: int) -> None:
        self._image, self._fd = image, fd
        self._section = _section(image, ".eh_frame")
        self._frames: dict[int, Frame] = {}
        table = self._sorted() if self._section else array("i")
        if table:
            (header,) = (s for s in image.sections if s.name == ".eh_frame_hdr")
            self._base = header.sh_addr
            self._starts, self._places = table[::2], table[1::2]
        else:  # a linker's output has the table
            self._base = 0
            self._frames = {frame[0]: Frame(*frame) for frame in read_frames(image, fd)}
            self._starts = array("q", sorted(self._frames))

    def _sorted(self) -> "array[int]":
        """Return the table of ``.eh_frame_hdr``: start of a function and place of its entry, from the header on."""
        header = _section(self._image, ".eh_frame_hdr")
        data = os.pread(self._fd, min(header.sh_size, 8 * _MOST), header.sh_offset) if header else b""
        table = data[12 : 12 + 8 * int.from_bytes(data[8:12], "little")] if data[:4] == _SORTED_FRAMES else b""
        return array("i", table[: len(table) & -8])

    def around(self, address: int) -> Frame | None:
        """Return the function with the last beginning up to *address* if it extends to there."""
        i = bisect_right(self._starts, address - self._base) - 1
        frame = self._frame(i) if i >= 0 else None
        return frame if frame and frame.start <= address < frame.end else None

    def starts(self, low: int, high: int) -> list[int]:
        """Return where functions begin from *low* up to *high*."""
        first, last = (bisect_left(self._starts, bound - self._base) for bound in (low, high))
        return [self._base + start for start in self._starts[first:last]]

    def neighbours(self, address: int) -> tuple[int, int]:
        """Return where the function before *address* ends and where the next one begins; 0 and 2**64 without one."""
        i = bisect_right(self._starts, address - self._base)
        before = self._frame(i - 1) if i else None
        return before.end if before else 0, self._base + self._starts[i] if i < len(self._starts) else 1 << 64

    def _frame(self, i: int) -> Frame | None:
        start = self._base + self._starts[i]
        if start not in self._frames and self._section:
            at = self._base + self._places[i] - self._section.sh_addr
            try:
                cursor, encodings = self._entry(at)
                begin = cursor.pointer(encodings.address, self._section.sh_addr + at + 8)
                size = cursor.pointer(encodings.address & 0x0F, 0)
            except struct.error:
                return None
            self._frames[start] = Frame(begin, begin + size, at)
        return self._frames.get(start)

    def _entry(self, at: int) -> tuple[_Cursor, _Encodings]:
        """Return a cursor behind the head of the entry at *at*, and its encodings.  Raises struct.error."""
        cursor = self._cursor(at)
        distance = cursor.take("I")
        if not distance:
            raise struct.error
        return cursor, self._described(at + 4 - distance)

    def _cursor(self, at: int) -> _Cursor:
        """Return a cursor behind the length of the entry at *at*, over no more than the entry.  Raises struct.error."""
        if not self._section or not 0 <= at < self._section.sh_size:
            raise struct.error
        data = os.pread(self._fd, min(_ENTRY_LIMIT, self._section.sh_size - at), self._section.sh_offset + at)
        cursor = _Cursor(data, 0, len(data), "<", wide=True)
        length = cursor.take("I")
        if length == 0xFFFFFFFF:
            raise struct.error
        cursor.end = min(cursor.at + length, len(data))
        return cursor

    @functools.cache  # noqa: B019 - as long as the table
    def _described(self, at: int) -> _Encodings:
        """Return what the CIE at *at* says.  Raises struct.error."""
        cursor = self._cursor(at)
        if cursor.take("I"):
            raise struct.error
        return _encodings(cursor)

    def landing_pads(self, frame: Frame) -> list[int]:
        """Return where exceptions land in the function *frame*."""
        try:
            cursor, encodings = self._entry(frame.at)
            if encodings.table == _OMIT or not self._section:
                return []
            cursor.pointer(encodings.address, 0)
            cursor.pointer(encodings.address & 0x0F, 0)
            cursor.leb()
            address = cursor.pointer(encodings.table, self._section.sh_addr + frame.at + cursor.at)
            return self._pads(frame.start, address) if address else []
        except struct.error:
            return []

    def _pads(self, start: int, address: int) -> list[int]:
        """Return the landing pads in the table at *address* of the function at *start*.  Raises struct.error."""
        held = (s for s in self._image.sections if s.sh_type != SHT_NOBITS and s.sh_flags & SHF_ALLOC)
        section = next((s for s in held if s.sh_addr <= address < s.sh_addr + s.sh_size), None)
        if not section:
            return []
        offset = address - section.sh_addr
        data = os.pread(self._fd, min(section.sh_size - offset, _PADS_LIMIT), section.sh_offset + offset)
        table = _Cursor(data, 0, len(data), "<", wide=True)
        base, encoding = start, table.take("B")
        if encoding != _OMIT:
            base = table.pointer(encoding, address + table.at)
        if table.take("B") != _OMIT:  # of types
            table.leb()
        encoding = table.take("B")
        end = table.leb() + table.at
        pads = []
        while table.at < end:
            table.pointer(encoding, 0)
            table.pointer(encoding, 0)
            pad = table.pointer(encoding, 0)
            table.leb()
            if pad:
                pads.append(base + pad)
        return pads


def _encodings(cursor: _Cursor) -> _Encodings:
    """Return what the CIE says in which *cursor* is behind the field that tells it from other entries."""
    version = cursor.take("B")
    augmentation = bytearray()
    while byte := cursor.take("B"):
        augmentation.append(byte)
    cursor.leb()
    cursor.leb()
    cursor.take("B") if version == 1 else cursor.leb()
    if augmentation[:1] != b"z":
        return _Encodings(0)
    cursor.leb()
    address, table = 0, _OMIT
    for letter in augmentation[1:]:
        if letter == ord("R"):
            address = cursor.take("B")
        elif letter == ord("L"):
            table = cursor.take("B")
        elif letter == ord("P"):
            encoding = cursor.take("B")
            cursor.pointer(encoding & 0x0F, 0)
        elif letter not in b"SB":
            break
    return _Encodings(address, table)
