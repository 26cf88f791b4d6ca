"""Archives of ar(1), as the linkers and Debian's packages use them: GNU's and 4.4BSD's forms, thin ones too.

Format: ar(5), and binutils' bfd/archive.c.  Every number is untrusted.
"""

import os

from hugealign.errors import NumberFormatError
from hugealign.io.numbers import decimal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC, THIN = b"!<arch>\n", b"!<thin>\n"
HEADER = 60  # bytes: name, date, uid, gid, mode, size, magic
LONG_NAMES = b"//"
TABLES = (b"/", b"/SYM64/", b"__.SYMDEF", b"__.SYMDEF SORTED", b"__.SYMDEF_64")  # of symbols
_LARGEST_TABLE = 64 << 20  # bytes of names or symbols that are read
_NAME_LIMIT = 1 << 12
_SIZE_LIMIT = 10**10  # the field has ten digits


def entry(header: bytes) -> tuple[bytes, int]:
    """Return the name in the *header* of a member, as it is written, and the size in bytes.

    Raises NumberFormatError.
    """
    if header[58:] != b"`\n":
        raise NumberFormatError("a damaged header of an archive member")
    return header[:16].rstrip(b" "), decimal(header[48:58].rstrip(b" "), _SIZE_LIMIT, "the size of an archive member")


def full_name(name: bytes, long_names: bytes) -> bytes:
    """Return a name without GNU's slash at its end; ``/123`` is an offset into the table of *long_names*.

    Raises NumberFormatError.
    """
    if name[:1] == b"/" and name[1:].isdigit():
        at = decimal(name[1:], _SIZE_LIMIT)
        end = long_names.find(b"\n", at, at + _NAME_LIMIT)
        name = long_names[at : end if end >= 0 else at + _NAME_LIMIT]
    return name.removesuffix(b"/")


def members(fd: int, with_names: bool = False) -> "Iterator[tuple[bytes, int, int]]":
    """Yield name, offset and size of each member of the archive *fd*; for any other file, no name and all of the file.

    With *with_names*, the member with the long names comes too.  Raises OSError, NumberFormatError.
    """
    size = os.fstat(fd).st_size
    if os.pread(fd, 8, 0) != MAGIC:
        yield b"", 0, size
        return
    long_names, offset = b"", len(MAGIC)
    while offset + HEADER <= size:
        name, length = entry(os.pread(fd, HEADER, offset))
        offset += HEADER
        if name == LONG_NAMES:
            long_names = os.pread(fd, min(length, _LARGEST_TABLE), offset)
            if with_names:
                yield name, offset, length
        elif name not in TABLES:
            yield full_name(name, long_names), offset, length
        offset += length + length % 2


def members_that_define(fd: int, names: set[bytes]) -> set[int] | None:
    """Return where the headers of members begin that define some of *names* by the index; None if it has no index.

    Raises OSError, NumberFormatError.
    """
    head = os.pread(fd, len(MAGIC) + HEADER, 0)
    if not head.startswith(MAGIC + b"/ "):
        return None
    data = os.pread(fd, min(entry(head[len(MAGIC) :])[1], _LARGEST_TABLE), len(head))
    end = 4 + 4 * int.from_bytes(data[:4], "big")
    listed = data[end:].split(b"\0")
    places = [int.from_bytes(data[at : at + 4], "big") for at in range(4, min(end, len(data)), 4)]
    return {place for place, name in zip(places, listed, strict=False) if name in names}
