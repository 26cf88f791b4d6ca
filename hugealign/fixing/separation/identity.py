"""The build ID of a separated file, which differs from the original's."""

import hashlib
import struct
from typing import NamedTuple

from hugealign.elf.fixrecord import Step
from hugealign.elf.image import Image
from hugealign.elf.notes import build_id_place


class Identity(NamedTuple):
    """Where the build ID of a file is, what it is, and what it becomes; all empty without a build ID.

    A build ID stands for code at its very addresses: debuggers' caches and servers keep symbols by it, and would use
    the original's symbols for the new file.
    """

    at: int
    old: bytes
    new: bytes

    @classmethod
    def of(cls, fd: int, image: Image, step: Step) -> "Identity":
        """Return the identity of the file behind *fd* if its addresses move by *step*."""
        at, old = build_id_place(fd, image)
        content = b"hugealign separate\0" + struct.pack("<QQQQ", step.start, step.delta, step.behind, step.room) + old
        # The same for the same original and addresses.
        return cls(at, old, hashlib.shake_256(content).digest(len(old)))
