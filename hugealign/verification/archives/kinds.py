"""The kind of a file, by its first bytes; the members of archives."""

import os

from hugealign.elf.image import ELFMAG
from hugealign.errors import NumberFormatError
from hugealign.io import ar
from hugealign.io.numbers import octal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.io.unpacking import ByteSource

HEAD = 512  # bytes from which the kind of a file is known

ELF, AR, THIN, CPIO, RPM, TAR, ZIP, ZSTD = "elf", "ar", "thin", "cpio", "rpm", "tar", "zip", "zstd"
DEBIAN = b"debian-binary"  # the first member of a package
NEWC, NEWC_CRC, STRIPPED, RPM_LEAD = b"070701", b"070702", b"07070X", b"\xed\xab\xee\xdb"
TAR_BLOCK = 512
_TAR_NUMBER_LIMIT = (1 << 63) - 1  # off_t
_MAGICS = (
    (ELFMAG, ELF),
    (b"\x1f\x8b\x08", "gzip"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", ZSTD),
    (ar.MAGIC, AR),
    (ar.THIN, THIN),
    (b"PK\3\4", ZIP),
    (b"PK\5\6", ZIP),
    (RPM_LEAD, RPM),
    (NEWC, CPIO),
    (NEWC_CRC, CPIO),
    (STRIPPED, CPIO),
)
_ANY = tuple(magic for magic, _ in _MAGICS)


def kind(head: bytes) -> str:
    """Return the kind of a file that begins with *head*; empty if it is neither ELF nor an archive."""
    if head.startswith(_ANY):
        return next(name for magic, name in _MAGICS if head.startswith(magic))
    if head[:3] == b"BZh" and head[4:10] == b"1AY&SY":
        return "bzip2"
    return TAR if is_tar_header(head) else ""


def is_tar_header(block: bytes) -> bool:
    """Whether *block* is a tar header: its checksum decides, for old ones have no magic."""
    # Of most files the first byte of that field tells, without a copy: `verify -r` asks of each member of a jar.
    if len(block) < TAR_BLOCK or block[148] not in b"\x80\0 01234567":
        return False
    if block[148] != 0x80 and block[148:156].split(b"\0")[0].strip(b"01234567 "):
        return False
    try:
        wanted = tar_number(block[148:156])
    except NumberFormatError:
        return False
    return wanted == sum(block[:148]) + sum(block[156:512]) + 8 * 32


def tar_number(field: bytes) -> int:
    """Return a numeric field: octal digits, or GNU's big-endian binary behind a byte of 0x80."""
    if field[:1] == b"\x80":
        number = int.from_bytes(field[1:], "big")
        if number > _TAR_NUMBER_LIMIT:
            raise NumberFormatError("a number in a tar header is larger than any file")
        return number
    digits = field.split(b"\0")[0].strip(b" ")
    return octal(digits, _TAR_NUMBER_LIMIT, "a tar header") if digits else 0


class Member:
    """One regular file in an archive."""

    __slots__ = ("name", "source")

    def __init__(self, name: bytes, source: "ByteSource") -> None:
        self.name = os.fsdecode(name)
        self.source = source
