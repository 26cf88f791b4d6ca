"""What an ELF file asks of the dynamic linker: the libraries that it needs, and where to look for them.

See System V ABI, chapter 5, "Dynamic Section".  Every number is untrusted: each read is bounded.
"""

import os
import struct

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

_DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 1, 5, 10, 14, 15, 29
_DT_RELA, _DT_RELASZ, _DT_REL, _DT_RELR = 7, 8, 17, 36
_DT_VERNEED, _DT_VERNEEDNUM, _DF_1_NODEFLIB = 0x6FFFFFFE, 0x6FFFFFFF, 0x800
_TABLE_LIMIT = 1 << 16  # bytes of the version needs that are read: as many as `_VERSIONS_LIMIT` of them take
_STRING_LIMIT = 1 << 16  # bytes of one string: a search path can be long
_NEEDED_LIMIT = 1 << 12  # libraries needed, and bytes of the name of one
_VERSIONS_LIMIT = 1 << 12  # versions needed, of all libraries together
_RELOCATIONS_PIECE = 24 << 15  # bytes of relocations that are read together
_STRINGS_LIMIT = 1 << 24  # bytes of the string table, which holds the names of all dynamic symbols too


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
    path = read_or_nothing(fd, segment.p_offset, min(segment.p_filesz, _STRING_LIMIT)) if segment else b""
    interpreter = _string(path, 0)
    entries = dynamic_entries(fd, image)
    values = dict(reversed(entries))
    strings = _mapped(fd, image, values.get(_DT_STRTAB, 0), min(values.get(_DT_STRSZ, 0), _STRINGS_LIMIT))

    needed = [value for tag, value in entries if tag == _DT_NEEDED]

    def string(tag: int) -> str | None:
        return _string(strings, values[tag]) if tag in values else None

    return Dynamic(
        needed=tuple(dict.fromkeys(_string(strings, value, _NEEDED_LIMIT) for value in needed[:_NEEDED_LIMIT])),
        soname=string(_DT_SONAME) or "",
        rpath=string(_DT_RPATH),
        runpath=string(_DT_RUNPATH),
        nodeflib=bool(values.get(DT_FLAGS_1, 0) & _DF_1_NODEFLIB),
        interpreter=interpreter,
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
    entry, size = struct.Struct(image.order + "QQq"), values.get(_DT_RELASZ, 0)
    if not image.is64 or not size or size % entry.size or _DT_REL in values or _DT_RELR in values:
        return True
    constant = [(s.p_vaddr - 7, s.p_vaddr + s.p_memsz) for s in image.load_segments if not s.p_flags & PF_W]
    for done in range(0, size, _RELOCATIONS_PIECE):
        part = min(_RELOCATIONS_PIECE, size - done)
        table = _mapped(fd, image, values.get(_DT_RELA, 0) + done, part)
        if len(table) != part:
            return True
        places = [place for place, info, _ in entry.iter_unpack(table) if info & 0xFFFFFFFF]
        if any(start <= place < end for start, end in constant for place in places):
            return True
    return False


def _versions(fd: int, image: Image, values: dict[int, int], strings: bytes) -> tuple[str, ...]:
    """Return the names in the version needs (LSB core specification, "Symbol Versioning"): a list of lists."""
    if _DT_VERNEED not in values:
        return ()
    table = _mapped(fd, image, values[_DT_VERNEED], _TABLE_LIMIT)
    library, version = struct.Struct(image.order + "HHIII"), struct.Struct(image.order + "IHHII")
    names: list[str] = []
    at = steps = 0
    for _ in range(min(values.get(_DT_VERNEEDNUM, 0), _VERSIONS_LIMIT)):
        if at + library.size > len(table):
            break
        _, count, _, first, following = library.unpack_from(table, at)
        entry = at + first
        for _ in range(count):
            steps += 1
            if entry + version.size > len(table) or steps > _VERSIONS_LIMIT:
                break
            _, _, _, name, step = version.unpack_from(table, entry)
            names.append(_string(strings, name, _NEEDED_LIMIT))
            entry += step
        at += following
    return tuple(dict.fromkeys(names))


def _mapped(fd: int, image: Image, vaddr: int, size: int) -> bytes:
    for segment in image.load_segments:
        if segment.p_vaddr <= vaddr < segment.p_vaddr + segment.p_filesz:
            return read_or_nothing(fd, file_offset(segment, vaddr), size)
    return b""


def _string(table: bytes, start: int, limit: int = _STRING_LIMIT) -> str:
    """Return the string at *start*; empty if there is none, or none that ends within *limit* bytes."""
    end = table.find(b"\0", start, start + limit)
    return os.fsdecode(table[start:end]) if 0 <= start <= end else ""
