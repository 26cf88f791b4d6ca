"""What an ELF file asks of the dynamic linker: the libraries that it needs, and where to look for them.

See System V ABI, chapter 5, "Dynamic Section".  Every number is untrusted: each read is bounded.
"""

import os
import struct

from hugealign.elf import constants as elf
from hugealign.elf.image import (
    DF_1_PIE,
    DF_TEXTREL,
    DT_FLAGS,
    DT_FLAGS_1,
    DT_TEXTREL,
    PF_W,
    PT_INTERP,
    Image,
    dynamic_entries,
    read_or_nothing,
)
from hugealign.elf.windows import file_offset
from hugealign.records import Record

_TABLE_LIMIT = 1 << 16  # bytes of the version needs that are read: as many as `_VERSIONS_LIMIT` of them take
_STRING_LIMIT = 1 << 16  # bytes of one string: a search path can be long
_NEEDED_LIMIT = 1 << 12  # libraries needed, and bytes of the name of one
_VERSIONS_LIMIT = 1 << 12  # versions needed, of all libraries together
_RELOCATIONS_PIECE = 24 << 15  # bytes of relocations that are read together
_HEAD = 1 << 20  # bytes of the string table that are read at once, as nearly every table is


class Dynamic(Record):
    """The requests of one file; names and search paths as in the file, untrusted.

    *rpath* and *runpath* are None if there is none.  *nodeflib*: the default directories are not searched.
    *textrel*: the loader has to relocate the text.  *pie*: the file says that it is a program (DF_1_PIE).
    *versions*: the symbol versions that it needs, such as ``GLIBC_2.34``.
    """

    needed: tuple[str, ...] = ()
    soname: str = ""
    rpath: str | None = None
    runpath: str | None = None
    nodeflib: bool = False
    interpreter: str = ""
    textrel: bool = False
    pie: bool = False
    versions: tuple[str, ...] = ()


def read_dynamic(fd: int, image: Image) -> Dynamic:
    """Return what the file behind *fd*, whose headers are *image*, requests, without parts that cannot be read."""
    segment = image.first_segment(PT_INTERP)
    interpreter = _Strings(fd, segment.p_offset, segment.p_filesz).at(0) if segment else None
    entries = dynamic_entries(fd, image)
    values = dict(reversed(entries))
    table = _place(image, values.get(elf.DT_STRTAB, 0))
    strings = _Strings(fd, table or 0, values.get(elf.DT_STRSZ, 0) if table is not None else 0)
    needed = [value for tag, value in entries if tag == elf.DT_NEEDED]

    def string(tag: int) -> str | None:
        return strings.at(values[tag]) if tag in values else None

    return Dynamic(
        needed=strings.all_at(needed[:_NEEDED_LIMIT]),
        soname=string(elf.DT_SONAME) or "",
        rpath=string(elf.DT_RPATH),
        runpath=string(elf.DT_RUNPATH),
        nodeflib=bool(values.get(DT_FLAGS_1, 0) & elf.DF_1_NODEFLIB),
        interpreter=interpreter or "",
        textrel=_relocates_text(fd, image, values),
        pie=bool(values.get(DT_FLAGS_1, 0) & DF_1_PIE),
        versions=_versions(fd, image, values, strings),
    )


def _relocates_text(fd: int, image: Image, values: dict[int, int]) -> bool:
    """Return whether the loader writes to the text.

    GNU ld 2.40 announces it for a PIE for RISC-V with thread-local variables, for whose relocations it has left room:
    there is nothing in it (R_RISCV_NONE), and nothing is written.
    """
    if not (DT_TEXTREL in values or values.get(DT_FLAGS, 0) & DF_TEXTREL):
        return False
    entry, size = struct.Struct(image.order + "QQq"), values.get(elf.DT_RELASZ, 0)
    if not image.is64 or not size or size % entry.size or elf.DT_REL in values or elf.DT_RELR in values:
        return True
    constant = [(s.p_vaddr - 7, s.p_vaddr + s.p_memsz) for s in image.load_segments if not s.p_flags & PF_W]
    for done in range(0, size, _RELOCATIONS_PIECE):
        part = min(_RELOCATIONS_PIECE, size - done)
        table = _mapped(fd, image, values.get(elf.DT_RELA, 0) + done, part)
        if len(table) != part:
            return True
        places = [place for place, info, _ in entry.iter_unpack(table) if info & 0xFFFFFFFF]
        if any(start <= place < end for start, end in constant for place in places):
            return True
    return False


def _versions(fd: int, image: Image, values: dict[int, int], strings: "_Strings") -> tuple[str, ...]:
    """Return the names in the version needs (LSB core specification, "Symbol Versioning"): a list of lists."""
    if elf.DT_VERNEED not in values:
        return ()
    table = _mapped(fd, image, values[elf.DT_VERNEED], _TABLE_LIMIT)
    library, version = struct.Struct(image.order + "HHIII"), struct.Struct(image.order + "IHHII")
    names: list[int] = []
    at = steps = 0
    for _ in range(min(values.get(elf.DT_VERNEEDNUM, 0), _VERSIONS_LIMIT)):
        if at + library.size > len(table):
            break
        _, count, _, first, following = library.unpack_from(table, at)
        entry = at + first
        for _ in range(count):
            steps += 1
            if entry + version.size > len(table) or steps > _VERSIONS_LIMIT:
                break
            _, _, _, name, step = version.unpack_from(table, entry)
            names.append(name)
            entry += step
        at += following
    return strings.all_at(names)


class _Strings:
    """A string table of *size* bytes at *offset* of the file; only its head is read at once.

    It also holds the names of all dynamic symbols: 22 MB in a library of Debian's (libopenvdb).
    """

    def __init__(self, fd: int, offset: int, size: int) -> None:
        self._fd, self._offset, self._size = fd, offset, size
        self._head = read_or_nothing(fd, offset, min(size, _HEAD))

    def at(self, start: int, limit: int = _STRING_LIMIT) -> str | None:
        """Return the string at *start*; None if no string there ends within *limit* bytes."""
        end = self._head.find(b"\0", start, start + limit)
        if end >= 0:
            return os.fsdecode(self._head[start:end])
        string, end_found, _ = read_or_nothing(
            self._fd, self._offset + start, max(0, min(limit, self._size - start))
        ).partition(b"\0")
        return os.fsdecode(string) if end_found else None

    def all_at(self, starts: list[int]) -> tuple[str, ...]:
        """Return the names at *starts*, each once, without those that cannot be read."""
        names = (self.at(start, _NEEDED_LIMIT) for start in dict.fromkeys(starts))
        return tuple(dict.fromkeys(name for name in names if name is not None))


def _mapped(fd: int, image: Image, vaddr: int, size: int) -> bytes:
    place = _place(image, vaddr)
    return b"" if place is None else read_or_nothing(fd, place, size)


def _place(image: Image, vaddr: int) -> int | None:
    """Return where in the file the byte at *vaddr* is."""
    for segment in image.load_segments:
        if segment.p_vaddr <= vaddr < segment.p_vaddr + segment.p_filesz:
            return file_offset(segment, vaddr)
    return None
