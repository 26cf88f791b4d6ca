"""Events of perf_event_open(2), in user space: rings that the kernel writes samples to, and counters of the hardware.

The kernel's clock triggers the samples (PERF_COUNT_SW_CPU_CLOCK), so they need no hardware counter.
"""

import fcntl
import mmap
import os
import select
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress

from hugealign.io.libc import syscall

#: By machine: perf_event_open (arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h).
_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
#: struct perf_event_attr of include/uapi/linux/perf_event.h, PERF_ATTR_SIZE_VER0: type, size, config, frequency,
#: sample_type, read_format, flags; then wakeup and breakpoint.
_ATTRIBUTES = struct.Struct("=IIQQQQQ16x")
_SOFTWARE, _CPU_CLOCK, _PAGE_FAULTS = 1, 0, 2
_SET_OUTPUT = 0x2405  # PERF_EVENT_IOC_SET_OUTPUT
SAMPLE_IP, SAMPLE_TID, SAMPLE_TIME, SAMPLE_ADDR = 1, 2, 4, 8
SAMPLE_CODE_PAGE_SIZE = 1 << 23  # Linux 5.11 (commit 995f088efebe)
_CLOSE_ON_EXEC = 8  # PERF_FLAG_FD_CLOEXEC
_HEADER = struct.Struct("=IHH")  # type, misc, size: struct perf_event_header
LOST, SAMPLE = 2, 9  # types: PERF_RECORD_LOST, PERF_RECORD_SAMPLE
_HEAD, _TAIL = 1024, 1032  # of data_head and data_tail in struct perf_event_mmap_page
_HARDWARE, _RAW = 0, 4  # PERF_TYPE_HARDWARE, PERF_TYPE_RAW
_TIMES = 1 | 2  # PERF_FORMAT_TOTAL_TIME_ENABLED | …_RUNNING
_COUNTER_FLAGS = 1 << 1 | 1 << 5 | 1 << 6  # inherit, exclude_kernel, exclude_hv
_VALUES = struct.Struct("=QQQ")  # value, nanoseconds enabled, nanoseconds counted

#: The events that every processor has: type and config of perf_event_open(2).
CYCLES, INSTRUCTIONS = (_HARDWARE, 0), (_HARDWARE, 1)


def open_event(attributes: bytes, thread: int, cpu: int = -1) -> int:
    """Return the descriptor of an event of *thread* (0: our own).  Raises OSError."""
    return syscall(_PERF_EVENT_OPEN.get(os.uname().machine), attributes, thread, cpu, -1, _CLOSE_ON_EXEC)


class Ring:
    """The records of one *thread* on one *cpu* or all: *frequency* samples per second of this *kind*, in *pages* pages.

    A *thread* of -1 means all of the machine; *flags* are the bits of struct perf_event_attr.  Raises OSError.
    """

    def __init__(self, thread: int, frequency: int, kind: int, flags: int, pages: int, cpu: int = -1) -> None:
        attributes = _ATTRIBUTES.pack(_SOFTWARE, _ATTRIBUTES.size, _CPU_CLOCK, frequency, kind, 0, flags)
        self._size = pages * mmap.PAGESIZE
        self._more: list[int] = []
        self._fd = open_event(attributes, thread, cpu)
        try:
            self._map = mmap.mmap(self._fd, mmap.PAGESIZE + self._size)
        except OSError:
            os.close(self._fd)
            raise

    def add_faults(self, thread: int, kind: int, flags: int, cpu: int, period: int = 1) -> None:
        """Let a record of the same *kind* tell of each page fault, too, or of one in *period*.

        Only these have an address.  Raises OSError.
        """
        event = _ATTRIBUTES.pack(_SOFTWARE, _ATTRIBUTES.size, _PAGE_FAULTS, period, kind, 0, flags)
        fd = open_event(event, thread, cpu)
        self._more.append(fd)
        fcntl.ioctl(fd, _SET_OUTPUT, self._fd)

    @property
    def seconds(self) -> float:
        """The processor time of all that the event was about so far: what the kernel's clock counts."""
        return int.from_bytes(os.read(self._fd, 8), "little") / 1e9

    def close(self) -> None:
        """Close the ring and its events."""
        self._map.close()
        for fd in (*self._more, self._fd):
            os.close(fd)

    @property
    def ended(self) -> bool:
        """Whether the thread has ended (perf_poll in kernel/events/core.c)."""
        poll = select.poll()
        poll.register(self._fd, 0)
        return bool(poll.poll(0))

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


def raw(config: int) -> tuple[int, int]:
    """Return the event with the number *config*, for `Counters`."""
    return _RAW, config


class Counters:
    """Count *events* of the threads of a process, and of all that they start.  Close it after use."""

    def __init__(self, pid: int, events: Sequence[tuple[int, int]]) -> None:
        """Begin counting.  Raises OSError if the processor, or its hypervisor, does not count."""
        self._descriptors: list[list[int]] = [[] for _ in events]
        try:
            for name in os.listdir(f"/proc/{pid}/task"):
                for at, (kind, config) in enumerate(events):
                    attributes = _ATTRIBUTES.pack(kind, _ATTRIBUTES.size, config, 0, 0, _TIMES, _COUNTER_FLAGS)
                    with suppress(ProcessLookupError):  # a thread that has ended
                        self._descriptors[at].append(open_event(attributes, int(name)))
        except OSError:
            self.close()
            raise

    def read(self) -> tuple[float, ...]:
        """Return the counts, scaled to the whole time if the events had to share the processor's counters."""
        counts = []
        for descriptors in self._descriptors:
            count = 0.0
            for fd in descriptors:
                value, enabled, counted = _VALUES.unpack(os.read(fd, _VALUES.size))
                count += value * enabled / counted if counted else 0.0
            counts.append(count)
        return tuple(counts)

    def close(self) -> None:
        """Stop counting."""
        for descriptors in self._descriptors:
            for fd in descriptors:
                os.close(fd)
            descriptors.clear()
