"""Count hardware events of a process or a command: perf_event_open(2), user space only."""

import os
import struct
from collections.abc import Sequence
from contextlib import suppress

from hugealign.process.ring import ATTRIBUTES, open_event

_HARDWARE, _RAW = 0, 4  # PERF_TYPE_HARDWARE, PERF_TYPE_RAW
_TIMES = 1 | 2  # PERF_FORMAT_TOTAL_TIME_ENABLED | …_RUNNING
_FLAGS = 1 << 1 | 1 << 5 | 1 << 6  # inherit, exclude_kernel, exclude_hv
_VALUES = struct.Struct("=QQQ")  # value, nanoseconds enabled, nanoseconds counted

#: The events that every processor has: type and config of perf_event_open(2).
CYCLES, INSTRUCTIONS = (_HARDWARE, 0), (_HARDWARE, 1)


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
                    attributes = ATTRIBUTES.pack(kind, ATTRIBUTES.size, config, 0, 0, _TIMES, _FLAGS)
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
