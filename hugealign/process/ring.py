"""Events of perf_event_open(2), and the rings that the kernel writes their samples to.

The kernel's clock triggers the samples (PERF_COUNT_SW_CPU_CLOCK), so no hardware counter is needed.
"""

import ctypes
import errno
import mmap
import os
import struct
from collections.abc import Iterator

#: By machine: perf_event_open (arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h).
_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
#: struct perf_event_attr of include/uapi/linux/perf_event.h, PERF_ATTR_SIZE_VER0: type, size, config, frequency,
#: sample_type, read_format, flags; then wakeup and breakpoint.
ATTRIBUTES = struct.Struct("=IIQQQQQ16x")
_SOFTWARE, _CPU_CLOCK = 1, 0
SAMPLE_IP, SAMPLE_TID, SAMPLE_TIME = 1, 2, 4
SAMPLE_CODE_PAGE_SIZE = 1 << 23  # Linux 5.11 (commit 995f088efebe)
_CLOSE_ON_EXEC = 8  # PERF_FLAG_FD_CLOEXEC
_HEADER = struct.Struct("=IHH")  # type, misc, size: struct perf_event_header
LOST, SAMPLE = 2, 9  # types: PERF_RECORD_LOST, PERF_RECORD_SAMPLE
_HEAD, _TAIL = 1024, 1032  # of data_head and data_tail in struct perf_event_mmap_page


def open_event(attributes: bytes, thread: int, cpu: int = -1) -> int:
    """Return the descriptor of an event of *thread* (0: our own).  Raises OSError."""
    number = _PERF_EVENT_OPEN.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(ctypes.c_long(number), attributes, thread, cpu, -1, ctypes.c_ulong(_CLOSE_ON_EXEC))
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(fd)


class Ring:
    """The records of one *thread* on one *cpu* or all: *frequency* samples per second of this *kind*, in *pages* pages.

    *flags* are the bits of struct perf_event_attr.  Raises OSError.
    """

    def __init__(self, thread: int, frequency: int, kind: int, flags: int, pages: int, cpu: int = -1) -> None:
        attributes = ATTRIBUTES.pack(_SOFTWARE, ATTRIBUTES.size, _CPU_CLOCK, frequency, kind, 0, flags)
        self._size = pages * mmap.PAGESIZE
        self._fd = open_event(attributes, thread, cpu)
        try:
            self._map = mmap.mmap(self._fd, mmap.PAGESIZE + self._size)
        except OSError:
            os.close(self._fd)
            raise

    def close(self) -> None:
        """Close the ring and its event."""
        self._map.close()
        os.close(self._fd)

    def drain(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield type, misc and content of the new records, then free their room; iterate to the end."""
        head, tail = struct.unpack_from("=QQ", self._map, _HEAD)
        while tail + _HEADER.size <= head:
            kind, misc, length = _HEADER.unpack(self._bytes(tail, _HEADER.size))
            if length < _HEADER.size:
                break
            yield kind, misc, self._bytes(tail + _HEADER.size, length - _HEADER.size)
            tail += length
        struct.pack_into("=Q", self._map, _TAIL, head)

    def _bytes(self, at: int, count: int) -> bytes:
        base, at = mmap.PAGESIZE, at % self._size
        first = self._map[base + at : base + min(at + count, self._size)]
        return first + self._map[base : base + count - len(first)]
