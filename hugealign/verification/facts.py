"""Read what the deeper rules need from one open file, beyond its headers."""

import os

from hugealign.elf.coverage import is_debug_file, pad_sections
from hugealign.elf.dynamic import Dynamic, read_dynamic
from hugealign.elf.image import SHT_NOBITS, Image
from hugealign.elf.notes import Notes, read_notes
from hugealign.records import Record, once

#: What loads a file, which decides who places it: fixed addresses; the kernel; the kernel without a dynamic linker;
#: the dynamic linker.
FIXED, PIE, STATIC_PIE, LIBRARY = "fixed", "pie", "static-pie", "library"

_PAD_LIMIT = 64 << 20  # bytes of padding that are looked at
_CHUNK = 1 << 20


class Facts(Record):
    """What a file says.

    *bad_pad* is the address of the first byte of padding that is not a trap, None if there is none; *disk_size* is the
    bytes that the file takes on disk.
    """

    image: Image
    dynamic: Dynamic
    notes: Notes
    bad_pad: int | None = None
    disk_size: int = 0

    @property
    def kind(self) -> str:
        """FIXED, PIE, STATIC_PIE or LIBRARY."""
        if self.image.fixed:
            return FIXED
        if self.image.interpreted and not self.dynamic.soname:  # libc.so.6 has one, so that it can be executed
            return PIE
        return STATIC_PIE if self.dynamic.pie and not self.image.interpreted else LIBRARY

    @once
    def debug(self) -> bool:
        """Whether this is a separate debug file, which describes code that it does not hold."""
        return is_debug_file(self.image)


def read_facts(fd: int, image: Image) -> Facts:
    """Return the facts of the file behind *fd*, whose headers are *image*.  Raises OSError."""
    disk_size = os.fstat(fd).st_blocks * 512  # stat(2): whatever the block size
    return Facts(image, read_dynamic(fd, image), read_notes(fd, image), _bad_pad(fd, image), disk_size)


def _bad_pad(fd: int, image: Image) -> int | None:
    if image.machine is None:
        return None
    left = _PAD_LIMIT
    for section in pad_sections(image):
        if section.sh_type == SHT_NOBITS:
            continue
        end = min(section.sh_size, left)
        left -= end
        for start in range(0, end, _CHUNK):
            try:
                data = os.pread(fd, min(_CHUNK, end - start), section.sh_offset + start)
            except OverflowError:
                break
            if not data:
                break
            other = data.lstrip(image.machine.trap[:1])  # every byte of a trap instruction is the same
            if other:
                return section.sh_addr + start + len(data) - len(other)
    return None
