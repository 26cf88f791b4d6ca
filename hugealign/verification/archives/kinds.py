"""The kind of a file, by its first bytes."""

from hugealign.verification.archives import ar, cpio, tar

HEAD = 512  # bytes from which the kind of a file is known

ELF, AR, THIN, CPIO, RPM, TAR, ZIP, ZSTD = "elf", "ar", "thin", "cpio", "rpm", "tar", "zip", "zstd"
DEBIAN = b"debian-binary"  # the first member of a package
_MAGICS = (
    (b"\x7fELF", ELF),
    (b"\x1f\x8b\x08", "gzip"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", ZSTD),
    (ar.AR, AR),
    (ar.THIN, THIN),
    (b"PK\3\4", ZIP),
    (b"PK\5\6", ZIP),
    (cpio.RPM, RPM),
    (cpio.NEWC, CPIO),
    (cpio.NEWC_CRC, CPIO),
    (cpio.STRIPPED, CPIO),
)


def kind(head: bytes) -> str:
    """Return the kind of a file that begins with *head*; empty if it is neither ELF nor an archive."""
    for magic, name in _MAGICS:
        if head.startswith(magic):
            return name
    if head[:3] == b"BZh" and head[4:10] == b"1AY&SY":
        return "bzip2"
    return TAR if tar.is_header(head) else ""


def elf_type(head: bytes) -> int:
    """Return e_type of the ELF file that begins with *head*; 0 if it is cut off before that."""
    return int.from_bytes(head[16:18], "big" if head[5:6] == b"\2" else "little")
