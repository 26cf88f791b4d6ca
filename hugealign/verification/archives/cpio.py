"""Archives of cpio(1), "new" ASCII form, and rpm packages, whose payload is one.

Format: cpio(5); rpm's docs/manual/format_v4.md.  Packages with a file over 4 GiB, and those of rpm 6, have a payload
without names: each file is an index into the package's header.
"""

import struct
from collections.abc import Iterator

from hugealign.errors import UNKNOWN_FORM
from hugealign.io.numbers import hexadecimal
from hugealign.io.unpacking import Budget, ByteSource, UnpackError
from hugealign.verification.archives.kinds import NEWC, NEWC_CRC, STRIPPED, Member

_NAME_LIMIT = 1 << 16
_BLOCK = 1 << 12
_HEADER_LIMIT = 1 << 25  # bytes of the header of a package; 100,000 files take 10 MiB
_FIELD_LIMIT = (1 << 32) - 1
_FORMAT, _REGULAR, _SYMLINK = 0o170000, 0o100000, 0o120000
_FILESIZES, _FILEMODES, _DIRINDEXES, _BASENAMES, _DIRNAMES, _LONGFILESIZES = 1028, 1030, 1116, 1117, 1118, 5008
_FILEDEVICES, _FILEINODES = 1095, 1096
_File = tuple[bytes, int, int]  # name, mode, size


def payload(source: ByteSource, budget: Budget) -> bytes:
    """Pass over everything before a package's payload, and return the package's header."""
    source.skip(96)  # the lead
    signature = _header(source, budget)
    source.skip(-len(signature) % 8)
    return _header(source, budget)


def _header(source: ByteSource, budget: Budget) -> bytes:
    front = source.exactly(16)
    entries, size = struct.unpack(">8xII", front)
    if front[:4] != b"\x8e\xad\xe8\x01" or entries * 16 + size > _HEADER_LIMIT:
        raise UnpackError("rpm header")
    budget.members(entries)
    budget.spend(entries * 16 + size)
    return front + source.exactly(entries * 16 + size)


def members(source: ByteSource, budget: Budget, header: bytes = b"") -> Iterator[Member]:
    """Yield the regular files; if *source* is a package's payload, *header* is the package's header."""
    files: list[_File] = []
    while True:
        magic = source.exactly(6)
        budget.members()
        if magic == STRIPPED:
            files = files or _files(header, budget)
            index = _hex(source.exactly(8))
            source.skip(2)
            if index >= len(files):
                raise UnpackError("rpm file list")
            name, mode, size = files[index]
        elif magic in (NEWC, NEWC_CRC):
            fields = source.exactly(104)
            mode, size, length = (_hex(fields[at : at + 8]) for at in (8, 48, 88))
            if not 0 < length <= _NAME_LIMIT:
                raise UnpackError("cpio name")
            name = source.exactly(length).rstrip(b"\0")
            source.skip(-(110 + length) % 4)
            if name == b"TRAILER!!!":
                return
        else:
            raise UnpackError("cpio header")
        data = source.part(size)
        if mode & _FORMAT == _REGULAR:
            yield Member(name, data)
        data.finish()
        source.skip(-size % 4)


def pass_zeros(source: ByteSource) -> None:
    """Pass over zeros: what fills the last block, and what may lie between two archives."""
    while (block := source.peek(_BLOCK)) and not block.strip(b"\0"):
        source.skip(len(block))
    source.skip(len(block) - len(block.lstrip(b"\0")))


def _hex(digits: bytes) -> int:
    return hexadecimal(digits, _FIELD_LIMIT, "a field of the cpio archive")


def _files(header: bytes, budget: Budget) -> list[_File]:
    """Return the files that the *header* of a package lists, with their sizes in the payload.  Raises UnpackError.

    Among hard links to one file, the last has the contents (rpmfiArchiveHasContent, rpm's lib/rpmfi.cc).
    """
    if not header:
        raise UnpackError("rpm payload", UNKNOWN_FORM)
    count = struct.unpack_from(">I", header, 8)[0]
    data = 16 + 16 * count
    tags = {tag: (data + offset, n) for tag, _, offset, n in struct.iter_unpack(">IIII", header[16:data])}

    def numbers(tag: int, form: str) -> tuple[int, ...]:
        offset, n = tags.get(tag, (0, 0))
        budget.members(n // 8)  # many tables may lie in the same bytes
        return struct.unpack_from(f">{n}{form}", header, offset)

    def strings(tag: int) -> list[bytes]:
        offset, n = tags.get(tag, (0, 0))
        budget.members(n)
        budget.spend(len(header))
        return header[offset:].split(b"\0", n)[:n]

    try:
        sizes = numbers(_LONGFILESIZES, "Q") or numbers(_FILESIZES, "I")
        directories, bases = strings(_DIRNAMES), strings(_BASENAMES)
        places = zip(numbers(_DIRINDEXES, "I"), bases, strict=True)
        names = [(directories[i] + base).lstrip(b"/") for i, base in places]  # as in other payloads
        modes = numbers(_FILEMODES, "H")
        nodes = list(zip(numbers(_FILEDEVICES, "I"), numbers(_FILEINODES, "I"), strict=True))
        nodes = nodes or [(0, at) for at in range(len(names))]
        last = {
            node: at for at, (node, mode) in enumerate(zip(nodes, modes, strict=True)) if mode & _FORMAT == _REGULAR
        }
        held = [
            size if mode & _FORMAT == _SYMLINK or last.get(node) == at else 0
            for at, (node, mode, size) in enumerate(zip(nodes, modes, sizes, strict=True))
        ]
        return list(zip(names, modes, held, strict=True))
    except (struct.error, IndexError, ValueError):
        raise UnpackError("rpm file list") from None
