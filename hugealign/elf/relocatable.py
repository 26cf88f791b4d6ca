"""Object files before the link (``ET_REL``), and the archives that hold them: read in place, no more than is asked for.

A link looks at thousands of these, so there are no records for headers that nobody asks for: a section header is 64
bytes, and `section` cuts one out of a table.  Files are 64-bit and little-endian, as all targets of a link are.  Every
number is untrusted: one that leads outside the file raises one of UNREADABLE.

Sources: System V ABI, chapter 4; ar(5).
"""

import os
import struct

from hugealign.errors import NumberFormatError
from hugealign.io.descriptors import file_at
from hugealign.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ARCHIVE, THIN_ARCHIVE = b"!<arch>\n", b"!<thin>\n"
MEMBER_HEADER = 60  # bytes: name, date, uid, gid, mode, size, magic
SHDR = 64  # bytes of a section header
LARGEST_TABLE = 64 << 20  # bytes of section headers, names or symbols that are read
SHT_PROGBITS, SHT_SYMTAB = 1, 2
STT_FUNC, STT_GNU_IFUNC = 2, 10
_ET_REL = 1
_SHN_XINDEX = 0xFFFF
_SYM = struct.Struct("<IBBHQQ")
_EHDR = struct.Struct("<6s10xHH20xQ12xHH")  # magic, e_type, e_machine, e_shoff, e_shnum, e_shstrndx
#: What reading an object or archive raises if the file is damaged, or is neither.
UNREADABLE = (OSError, OverflowError, ValueError, NumberFormatError)


class Header(Record):
    """What the ELF header of an object says about its sections."""

    e_machine: int
    e_shoff: int
    e_shnum: int
    e_shstrndx: int


def opened(paths: "Iterable[str]") -> "Iterator[tuple[str, int]]":
    """Yield those of *paths* that can be opened, each with a descriptor that is valid until the next one."""
    for path in paths:
        try:
            file = file_at(path)
        except (OSError, ValueError):
            continue
        with file as fd:
            yield path, fd


def members(fd: int, with_names: bool = False) -> "Iterator[tuple[bytes, int, int]]":
    """Yield name, offset and size of each member of the archive *fd*; for any other file, no name and the whole file.

    With *with_names*, the member with the long names comes too.  Raises OSError, ValueError.
    """
    size = os.fstat(fd).st_size
    if os.pread(fd, 8, 0) != ARCHIVE:
        yield b"", 0, size
        return
    long_names, offset = b"", len(ARCHIVE)
    while offset + MEMBER_HEADER <= size:
        header = os.pread(fd, MEMBER_HEADER, offset)
        offset += MEMBER_HEADER
        member_size = member_length(header)
        name = header[:16].rstrip()
        if name == b"//":
            long_names = os.pread(fd, min(member_size, LARGEST_TABLE), offset)
            if with_names:
                yield name, offset, member_size
        elif name not in (b"/", b"/SYM64/"):
            if name[:1] == b"/" and name[1:].isdigit():
                name = long_names[int(name[1:]) :].partition(b"\n")[0]
            yield name.rstrip(b"/"), offset, member_size
        offset += member_size + member_size % 2


def member_length(header: bytes) -> int:
    """Return the size that the *header* of a member gives, in bytes.  Raises NumberFormatError."""
    from hugealign.io.numbers import decimal  # most links of objects alone have no archive to look into

    return decimal(header[48:58].rstrip(b" "), 10**10, "the size of an archive's member")


def members_that_define(fd: int, names: set[bytes]) -> set[int] | None:
    """Return where the archive members begin that define some of *names* by its index; None if it has no index."""
    head = os.pread(fd, len(ARCHIVE) + MEMBER_HEADER, 0)
    if not head.startswith(ARCHIVE + b"/ "):
        return None
    data = os.pread(fd, min(member_length(head[len(ARCHIVE) :]), LARGEST_TABLE), len(head))
    end = 4 + 4 * int.from_bytes(data[:4], "big")
    listed = data[end:].split(b"\0")
    places = [int.from_bytes(data[at : at + 4], "big") for at in range(4, min(end, len(data)), 4)]
    return {place for place, name in zip(places, listed, strict=False) if name in names}


def read_header(fd: int, base: int) -> Header | None:
    """Return the header of the object at *base*, None if that is not an object for a link.  Raises OSError."""
    head = os.pread(fd, _EHDR.size, base)
    if len(head) < _EHDR.size:
        return None
    magic, e_type, e_machine, e_shoff, e_shnum, e_shstrndx = _EHDR.unpack(head)
    if magic != b"\x7fELF\x02\x01" or e_type != _ET_REL:
        return None
    return Header(e_machine, e_shoff, e_shnum, e_shstrndx)


def read_sections(fd: int, base: int, header: Header, count: int | None = None) -> bytes:
    """Return the first *count* section headers, by default all of ``e_shnum``.  Raises OSError, OverflowError."""
    return os.pread(fd, (header.e_shnum if count is None else count) * SHDR, base + header.e_shoff)


def section(headers: bytes, number: int) -> bytes:
    """Return the section header *number* of *headers*.  Raises ValueError."""
    found = headers[number * SHDR : (number + 1) * SHDR]
    if len(found) < SHDR:
        raise ValueError("a section header lies beyond the end of the table")
    return found


def names_header(fd: int, base: int, header: Header) -> bytes:
    """Return the header of the section that holds the names of sections.  Raises OSError, OverflowError."""
    number = header.e_shstrndx
    if number == _SHN_XINDEX:  # the number is in the first section header
        number = int.from_bytes(os.pread(fd, SHDR, base + header.e_shoff)[40:44], "little")
    return os.pread(fd, SHDR, base + header.e_shoff + number * SHDR)


def contents(fd: int, base: int, size: int, header: bytes) -> bytes:
    """Return the contents of the section with *header* in the object of *size* bytes at *base*.

    Raises OSError, ValueError.
    """
    offset, length = int.from_bytes(header[24:32], "little"), int.from_bytes(header[32:40], "little")
    if offset + length > size or length > LARGEST_TABLE:
        raise ValueError("a section lies beyond the end of the object")
    return os.pread(fd, length, base + offset)


def section_names(fd: int, base: int, size: int) -> bytes | None:
    """Return the table of section names of the object at *base*, each name with a 0 byte behind it.

    None if it is not an object for a link.  A table can contain names that no section has, and the name of a section
    can be the end of the name of its relocations.  Raises OSError, OverflowError, ValueError.
    """
    header = read_header(fd, base)
    return None if header is None else contents(fd, base, size, names_header(fd, base, header))


def functions_in(fd: int, base: int, size: int, headers: bytes, number: int) -> set[bytes]:
    """Return the names of the functions in section *number* of the object at *base*.  Raises OSError, ValueError."""
    for at in range(0, len(headers), SHDR):
        if headers[at + 4 : at + 8] == SHT_SYMTAB.to_bytes(4, "little"):
            symtab = headers[at : at + SHDR]
            strings = contents(fd, base, size, section(headers, int.from_bytes(symtab[40:44], "little")))
            symbols = contents(fd, base, size, symtab)
            symbols = symbols[: len(symbols) - len(symbols) % _SYM.size]
            return {
                strings[name : strings.find(b"\0", name)]
                for name, info, _, index, _, _ in _SYM.iter_unpack(symbols)
                if index == number and info & 15 in (STT_FUNC, STT_GNU_IFUNC)
            }
    return set()
