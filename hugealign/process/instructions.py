"""Where threads run: samples of instruction pointers by perf_event_open(2), without the program perf.

The clock of the kernel takes them (PERF_COUNT_SW_CPU_CLOCK), so that no hardware counter is needed; only user space is
looked at, which /proc/sys/kernel/perf_event_paranoid allows up to 2 for one's own processes.
"""

import ctypes
import errno
import mmap
import os
import platform
import struct
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from hugealign.errors import HugealignError

#: By machine: perf_event_open (arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h).
_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
#: struct perf_event_attr of include/uapi/linux/perf_event.h, PERF_ATTR_SIZE_VER0: type, size, config, frequency,
#: sample_type, read_format, flags; then wakeup and breakpoint.
_ATTRIBUTES = struct.Struct("=IIQQQQQ16x")
_SOFTWARE, _CPU_CLOCK = 1, 0
_SAMPLE_IP, _SAMPLE_TID = 1, 2
_EXCLUDE_KERNEL, _EXCLUDE_HV, _FREQUENCY = 1 << 5, 1 << 6, 1 << 10
_CLOSE_ON_EXEC = 8  # PERF_FLAG_FD_CLOEXEC
_RECORD = struct.Struct("=IHH")  # type, misc, size: struct perf_event_header
_RECORD_SAMPLE, _RECORD_LOST = 9, 2
_HEAD, _TAIL = 1024, 1032  # of data_head and data_tail in struct perf_event_mmap_page
_DATA_PAGES = 2
_MOST_THREADS = 512
_PAUSE = 0.1  # seconds between looks at the buffers
_RESCAN = 5  # of these pauses between looks for new threads

FREQUENCY = 499  # Hz; no divisor of the usual clocks


class SamplingError(HugealignError):
    """The kernel does not let us sample the process."""


@dataclass(frozen=True, slots=True)
class Samples:
    """How often each *address* was sampled; *lost* samples found no room, *left_out* threads were too many."""

    addresses: "Counter[int]"
    lost: int = 0
    left_out: int = 0

    @property
    def total(self) -> int:
        """The number of samples."""
        return self.addresses.total()


class Sampler:
    """Samples the threads of a process, also those that it starts meanwhile.  A context manager."""

    def __init__(self, pid: int, frequency: int = FREQUENCY) -> None:
        """Begin.  Raises SamplingError, and ProcessLookupError if there is no such process."""
        self._pid = pid
        self._frequency = frequency
        self._buffers: dict[int, _Buffer] = {}
        self._found: Counter[int] = Counter()
        self._lost = 0
        self._left_out: set[int] = set()
        self._looks = 0
        try:
            self._open_threads()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End."""
        for buffer in self._buffers.values():
            buffer.close()
        self._buffers.clear()

    def collect(self) -> None:
        """Take what there is; to be called every tenth of a second or so, since the buffers are small."""
        self._looks += 1
        if self._looks % _RESCAN == 0:
            with suppress(OSError, SamplingError):
                self._open_threads()
        for buffer in self._buffers.values():
            self._lost += buffer.drain(self._found)

    def samples(self) -> Samples:
        """Return what was collected until now."""
        return Samples(self._found, self._lost, len(self._left_out))

    def _open_threads(self) -> None:
        try:
            threads = {int(name) for name in os.listdir(f"/proc/{self._pid}/task")}
        except FileNotFoundError:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH)) from None
        for thread in self._buffers.keys() - threads:
            self._lost += self._buffers[thread].drain(self._found)
            self._buffers.pop(thread).close()
        for thread in sorted(threads - self._buffers.keys() - self._left_out):
            if len(self._buffers) >= _MOST_THREADS:
                self._left_out.add(thread)
                continue
            try:
                self._buffers[thread] = _Buffer(thread, self._frequency)
            except ProcessLookupError:
                continue  # it has ended
            except OSError as error:
                if not self._buffers:
                    raise SamplingError(_refusal(self._pid, error)) from error
                self._left_out.add(thread)
        if not self._looks and not self._buffers:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))


def sample(pid: int, seconds: float, frequency: int = FREQUENCY) -> Samples:
    """Return where the threads of *pid* run for *seconds*, or until it ends.

    Raises SamplingError, and ProcessLookupError if there is no such process.
    """
    return sample_all([pid], seconds, frequency)[pid]


def sample_all(pids: list[int], seconds: float, frequency: int = FREQUENCY) -> dict[int, Samples]:
    """Return where the threads of *pids* run for *seconds*, all at the same time; those that are gone are left out.

    Raises SamplingError, and ProcessLookupError if all are gone.
    """
    samplers: dict[int, Sampler] = {}
    try:
        for pid in pids:
            with suppress(ProcessLookupError):
                samplers[pid] = Sampler(pid, frequency)
        if not samplers:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and any(os.path.exists(f"/proc/{pid}") for pid in samplers):
            time.sleep(min(_PAUSE, left))
            for sampler in samplers.values():
                sampler.collect()
        return {pid: sampler.samples() for pid, sampler in samplers.items()}
    finally:
        for sampler in samplers.values():
            sampler.close()


def open_event(attributes: bytes, thread: int, cpu: int = -1) -> int:
    """Return the descriptor of an event of *thread* (0: of ours).  Raises OSError."""
    number = _PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(ctypes.c_long(number), attributes, thread, cpu, -1, ctypes.c_ulong(_CLOSE_ON_EXEC))
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(fd)


class _Buffer:
    """The ring of samples of one thread."""

    def __init__(self, thread: int, frequency: int) -> None:
        flags = _EXCLUDE_KERNEL | _EXCLUDE_HV | _FREQUENCY
        kind = _SAMPLE_IP | _SAMPLE_TID
        attributes = _ATTRIBUTES.pack(_SOFTWARE, _ATTRIBUTES.size, _CPU_CLOCK, frequency, kind, 0, flags)
        self._fd = open_event(attributes, thread)
        try:
            self._map = mmap.mmap(self._fd, (1 + _DATA_PAGES) * mmap.PAGESIZE)
        except OSError:
            os.close(self._fd)
            raise

    def close(self) -> None:
        self._map.close()
        os.close(self._fd)

    def drain(self, into: "Counter[int]") -> int:
        """Count the addresses of the samples; return how many samples were lost."""
        lost = 0
        head, tail = struct.unpack_from("=QQ", self._map, _HEAD)
        size = _DATA_PAGES * mmap.PAGESIZE
        data = self._map[mmap.PAGESIZE :]
        while tail + _RECORD.size <= head:
            at = tail % size
            kind, _, length = _RECORD.unpack_from(data, at)  # records are aligned to 8 bytes, as large as this header
            if length < _RECORD.size:
                tail = head
                break
            body = (data + data)[at + _RECORD.size : at + length] if at + length > size else data[at + 8 : at + length]
            if kind == _RECORD_SAMPLE and len(body) >= 8:
                into[int.from_bytes(body[:8], "little")] += 1
            elif kind == _RECORD_LOST and len(body) >= 16:
                lost += int.from_bytes(body[8:16], "little")
            tail += length
        struct.pack_into("=Q", self._map, _TAIL, tail)
        return lost


def _refusal(pid: int, error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"process {pid}: cannot be sampled: not ours, or kernel.perf_event_paranoid is above 2; try as root"
    return f"process {pid}: cannot be sampled: {error.strerror}"
