"""The memory that the recorder and the plugin in each traced process share; ``plugin.c`` has the same layout.

It is a file without a name (memfd_create): sparse, so only written pages take memory, and gone with its last user.
"""

import ctypes
import mmap
import os
from collections.abc import Iterator

EVENTS, SLOTS, BLOCKS, FILES, NAME = 1 << 14, 1 << 11, 1 << 23, 1 << 10, 1 << 12
CUTS = {
    1: "its size reached the limit (--limit)",
    2: f"more than {BLOCKS} blocks of code were seen",
    3: f"code of more than {FILES} files was seen",
}
_BLOCK = 16  # bytes: address u64, file u32, size u16, instructions u16


class _File(ctypes.Structure):
    _fields_ = (("ready", ctypes.c_uint32), ("name", ctypes.c_char * (NAME - 4)))


class _Layout(ctypes.Structure):
    """``struct shared``: plugin.c says what each field is."""

    _fields_ = (
        *((name, ctypes.c_uint32) for name in "closed writers cut error blocks files streams execs lost".split()),
        *((name, ctypes.c_uint64) for name in ("events", "bytes", "limit")),
        ("chunks", ctypes.c_char * NAME),
        ("owner", ctypes.c_uint32 * SLOTS),
        ("file", _File * FILES),
        ("block", ctypes.c_char * (_BLOCK * BLOCKS)),
        ("slot", ctypes.c_uint32 * EVENTS * SLOTS),
    )


class Shared:
    """The memory; *limit* is in bytes of chunks, *chunks* is the path of the file to append them to.

    *now* has the plugin's counts so far.
    """

    def __init__(self, chunks: str, limit: int) -> None:
        name = os.fsencode(chunks)
        if len(name) >= NAME:
            raise OSError(36, os.strerror(36), chunks)
        self.fd = os.memfd_create("hugealign-trace", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, ctypes.sizeof(_Layout))
        self._memory = mmap.mmap(self.fd, ctypes.sizeof(_Layout))
        self.now = _Layout.from_buffer(self._memory)
        self.now.chunks, self.now.limit = name, limit
        self.now.blocks = self.now.files = 1  # block and file 0 mean none

    @property
    def path(self) -> str:
        """The path by which other processes open it, while this one lives."""
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    def close(self) -> None:
        """Make the plugin stop writing."""
        self.now.closed = 1

    @property
    def cut(self) -> str | None:
        """Why the recording ended before the program did; None if it did not."""
        return CUTS.get(self.now.cut, "") if self.now.cut else None

    def files(self) -> list[str]:
        """Return the names of the files with code; number 0 is memory without a file."""
        return ["", *(os.fsdecode(self.now.file[number].name) for number in range(1, min(self.now.files, FILES)))]

    def blocks(self) -> bytes:
        """Return the table of blocks, 16 bytes each: address u64, file u32, size u16, instructions u16."""
        at = _Layout.block.offset
        return self._memory[at : at + _BLOCK * min(self.now.blocks, BLOCKS)]

    def rest(self) -> Iterator[tuple[int, bytes]]:
        """Yield each stream without a regular end, and the numbers of its last blocks, u32 each."""
        for stream, slot in zip(self.now.owner, self.now.slot, strict=True):
            if stream:
                numbers = bytes(slot)
                count = next((i for i, number in enumerate(memoryview(numbers).cast("I")) if not number), EVENTS)
                yield stream, numbers[: 4 * count]

    def free(self) -> None:
        """Free the memory."""
        del self.now, self._memory
        os.close(self.fd)
