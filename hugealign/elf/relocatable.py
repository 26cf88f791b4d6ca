"""Object files before the link (``ET_REL``), alone or in an archive: read in place, no more than is requested.

A link looks at thousands of these, so there are no records for headers that are not requested: a section header is 64
bytes, and `section` cuts one out of a table.  Files are 64-bit, as all targets of a link are.  Every
number is untrusted: one that leads outside the file raises one of UNREADABLE.

Source: System V ABI, chapter 4.
"""

import os
import struct

from hugealign.elf.image import SHT_SYMTAB, STT_FUNC, STT_GNU_IFUNC, ElfHeader, read_header
from hugealign.errors import MalformedElfError, NotElfError
from hugealign.io.descriptors import file_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Literal

    ByteOrder = Literal["little", "big"]

SHDR = 64  # bytes of a section header
_LARGEST_TABLE = 64 << 20  # bytes of names or symbols that are read
_SYM, _SYM_SIZE = "IBBHQQ", 24
#: What reading an object or archive raises if the file is damaged, or is neither.
UNREADABLE = (OSError, OverflowError, ValueError, MalformedElfError)


def opened(paths: "Iterable[str]") -> "Iterator[tuple[str, int]]":
    """Yield those of *paths* that can be opened, each with a descriptor that is valid until the next one."""
    for path in paths:
        try:
            file = file_at(path)
        except (OSError, ValueError):
            continue
        with file as fd:
            yield path, fd


def read_object(fd: int, base: int) -> ElfHeader | None:
    """Return the header of the object at *base*, None if that is not an object for a link.  Raises OSError."""
    try:
        header = read_header(fd, base)
    except (NotElfError, MalformedElfError):
        return None
    return header if header.for_link else None


def section(headers: bytes, number: int) -> bytes:
    """Return the section header *number* of *headers*.  Raises ValueError."""
    header = headers[number * SHDR : (number + 1) * SHDR]
    if len(header) < SHDR:
        raise ValueError("a section header lies beyond the end of the table")
    return header


def section_at(fd: int, header: ElfHeader, number: int) -> bytes:
    """Return the section header *number* of an object, without those before it.  Raises OSError, OverflowError."""
    return os.pread(fd, SHDR, header.base + header.e_shoff + number * SHDR)


def contents(fd: int, base: int, size: int, header: bytes, order: "ByteOrder") -> bytes:
    """Return the contents of the section with *header* in the object of *size* bytes at *base*.

    Raises OSError, ValueError.
    """
    offset, length = int.from_bytes(header[24:32], order), int.from_bytes(header[32:40], order)
    if offset + length > size or length > _LARGEST_TABLE:
        raise ValueError("a section lies beyond the end of the object")
    return os.pread(fd, length, base + offset)


def section_names(fd: int, base: int, size: int) -> bytes | None:
    """Return the table of section names of the object at *base*, each name with a 0 byte behind it.

    None if it is not an object for a link.  A table can contain names that no section has, and the name of a section
    can be the end of the name of its relocations.  Raises OSError, OverflowError, ValueError.
    """
    header = read_object(fd, base)
    if header is None:
        return None
    return contents(fd, base, size, section_at(fd, header, header.e_shstrndx), header.byte_order)


def functions_in(fd: int, base: int, size: int, headers: bytes, number: int) -> set[bytes]:
    """Return the names of the functions in section *number* of the object at *base*.  Raises OSError, ValueError."""
    header = read_object(fd, base)
    if header is None:
        return set()
    order = header.byte_order
    for at in range(0, len(headers), SHDR):
        if headers[at + 4 : at + 8] == SHT_SYMTAB.to_bytes(4, order):
            symtab = headers[at : at + SHDR]
            strings = contents(fd, base, size, section(headers, int.from_bytes(symtab[40:44], order)), order)
            symbols = contents(fd, base, size, symtab, order)
            symbols = symbols[: len(symbols) - len(symbols) % _SYM_SIZE]
            return {
                strings[name : strings.find(b"\0", name)]
                for name, info, _, index, _, _ in struct.iter_unpack(header.order + _SYM, symbols)
                if index == number and info & 15 in (STT_FUNC, STT_GNU_IFUNC)
            }
    return set()
