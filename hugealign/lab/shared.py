"""The memory that the recorder and the plugin in each traced process share; ``plugin.c`` has the same layout.

It is a file without a name (memfd_create): sparse, so that it takes what is written to, and gone with its last user.
"""

import mmap
import os
import struct
from collections.abc import Iterator

EVENTS, SLOTS, BLOCKS, FILES, NAME = 1 << 14, 1 << 11, 1 << 23, 1 << 10, 1 << 12
CUTS = {
    1: "its size reached the limit (--limit)",
    2: f"more than {BLOCKS} blocks of code were seen",
    3: f"code of more than {FILES} files was seen",
}
_CLOSED, _WRITERS, _CUT, _ERROR, _BLOCKS, _FILES, _STREAMS, _EXECS, _LOST = range(0, 36, 4)
_EVENTS, _BYTES, _LIMIT = 40, 48, 56
_CHUNKS = 64
_OWNERS = _CHUNKS + NAME
_NAMES = _OWNERS + 4 * SLOTS
_TABLE = _NAMES + NAME * FILES
_SLOTS = _TABLE + 16 * BLOCKS
_SIZE = _SLOTS + 4 * EVENTS * SLOTS


class Shared:
    """The memory; *limit* is bytes of chunks, *chunks* the path of the file that they are appended to."""

    def __init__(self, chunks: str, limit: int) -> None:
        name = os.fsencode(chunks)
        if len(name) >= NAME:
            raise OSError(36, os.strerror(36), chunks)
        self.fd = os.memfd_create("hugealign-trace", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, _SIZE)
        self._memory = mmap.mmap(self.fd, _SIZE)
        self._memory[_CHUNKS : _CHUNKS + len(name)] = name
        struct.pack_into("<II", self._memory, _BLOCKS, 1, 1)  # block and file 0 mean none
        struct.pack_into("<Q", self._memory, _LIMIT, limit)

    @property
    def path(self) -> str:
        """What other processes open it by, while we live."""
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    def _u32(self, at: int) -> int:
        (value,) = struct.unpack_from("<I", self._memory, at)
        return int(value)

    def _u64(self, at: int) -> int:
        (value,) = struct.unpack_from("<Q", self._memory, at)
        return int(value)

    def close(self) -> None:
        """Have the plugin write nothing more."""
        struct.pack_into("<I", self._memory, _CLOSED, 1)

    @property
    def writers(self) -> int:
        """Threads that are writing a chunk now, or were killed while they did."""
        return self._u32(_WRITERS)

    @property
    def cut(self) -> str | None:
        """Why the recording ended before the program did; None if it did not."""
        reason = self._u32(_CUT)
        return CUTS.get(reason, "") if reason else None

    @property
    def error(self) -> int:
        """Errno of a chunk that could not be written, or 0."""
        return self._u32(_ERROR)

    @property
    def streams(self) -> int:
        """Streams that were begun: threads, of all processes."""
        return self._u32(_STREAMS)

    @property
    def execs(self) -> int:
        """How often a process became another program."""
        return self._u32(_EXECS)

    @property
    def lost(self) -> int:
        """Threads that were not recorded."""
        return self._u32(_LOST)

    @property
    def events(self) -> int:
        """Blocks in the chunks that were written."""
        return self._u64(_EVENTS)

    @property
    def written(self) -> int:
        """Bytes of the chunks that were written."""
        return self._u64(_BYTES)

    def files(self) -> list[str]:
        """Return the names of the files that code lies in; number 0 is memory without a file."""
        names = [""]
        for number in range(1, min(self._u32(_FILES), FILES)):
            at = _NAMES + NAME * number + 4
            names.append(os.fsdecode(self._memory[at : at + NAME - 4].split(b"\0", 1)[0]))
        return names

    def blocks(self) -> bytes:
        """Return the table of blocks, 16 bytes each: address u64, file u32, size u16, instructions u16."""
        return self._memory[_TABLE : _TABLE + 16 * min(self._u32(_BLOCKS), BLOCKS)]

    def rest(self) -> Iterator[tuple[int, bytes]]:
        """Yield each stream that did not end in order, and the numbers of its last blocks, u32 each."""
        for slot in range(SLOTS):
            if stream := self._u32(_OWNERS + 4 * slot):
                at = _SLOTS + 4 * EVENTS * slot
                numbers = self._memory[at : at + 4 * EVENTS]
                words = memoryview(numbers).cast("I")
                count = next((i for i, number in enumerate(words) if not number), EVENTS)
                yield stream, numbers[: 4 * count]

    def free(self) -> None:
        """Give the memory back."""
        self._memory.close()
        os.close(self.fd)
