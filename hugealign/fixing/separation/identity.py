"""The build ID of a separated file, which is another than that of the original."""

import hashlib
import struct
from typing import NamedTuple

from hugealign.elf.fixrecord import Step, exactly, reader
from hugealign.elf.image import SHF_ALLOC, SHT_NOTE, Image, notes_in

_NT_GNU_BUILD_ID = 3
_NOTE_LIMIT = 1 << 16


class Identity(NamedTuple):
    """Where the build ID of a file is, what it is, and what it becomes; all of no length if there is none.

    A build ID names code at its very addresses: debuggers' caches and servers keep symbols by it, and would take those
    of the original for the new file.
    """

    at: int
    old: bytes
    new: bytes

    @classmethod
    def of(cls, fd: int, image: Image, step: Step) -> "Identity":
        """Return that of the file behind *fd*, if its addresses move by *step*.  Raises MalformedElfError, OSError."""
        at, old = _build_id(fd, image)
        content = b"hugealign separate\0" + struct.pack("<QQQQ", step.start, step.delta, step.behind, step.room) + old
        # The same for the same original and addresses.
        return cls(at, old, hashlib.shake_256(content).digest(len(old)))


def _build_id(fd: int, image: Image) -> tuple[int, bytes]:
    """Return where the build ID of a file is, and its bytes; none if it has none."""
    for section in image.sections:
        if section.sh_type != SHT_NOTE or not section.sh_flags & SHF_ALLOC:
            continue
        data = exactly(reader(fd), min(section.sh_size, _NOTE_LIMIT), section.sh_offset)
        for name, kind, start, end in notes_in(data, image.order, section.sh_addralign):
            if (name, kind) == (b"GNU", _NT_GNU_BUILD_ID) and end <= len(data):
                return section.sh_offset + start, data[start:end]
    return 0, b""
