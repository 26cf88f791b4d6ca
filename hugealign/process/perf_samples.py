"""Sample where threads run: instruction pointers by perf_event_open(2), without the program perf.

Only user space is sampled, which /proc/sys/kernel/perf_event_paranoid up to 2 allows for one's own processes.
"""

import errno
import os
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

from hugealign.diagnosis.refusal import DiagnosedError, error_name
from hugealign.diagnosis.values import Remedy
from hugealign.process import processes
from hugealign.process.perf_events import LOST, SAMPLE, SAMPLE_IP, SAMPLE_TID, Ring

_FLAGS = 1 << 5 | 1 << 6 | 1 << 10  # exclude_kernel, exclude_hv, freq
_PAGES = 2  # per ring
_MOST_THREADS = 512
_PAUSE = 0.1  # seconds between looks at the rings
_RESCAN = 5  # pauses between looks for new threads

FREQUENCY = 499  # Hz; no divisor of the usual clocks


class SamplingError(DiagnosedError):
    """The kernel does not let us sample the process."""


@dataclass(frozen=True, slots=True)
class Samples:
    """How often each *address* was sampled; *lost* samples found no room."""

    addresses: "Counter[int]"
    lost: int = 0

    @property
    def total(self) -> int:
        """The number of samples."""
        return self.addresses.total()


class _Sampler:
    """Sample the threads of a process, including those that it starts meanwhile.  Close it after use."""

    def __init__(self, pid: int, frequency: int) -> None:
        """Begin sampling.  Raises SamplingError, and ProcessLookupError if there is no such process."""
        self._pid = pid
        self._frequency = frequency
        self._rings: dict[int, Ring] = {}
        self._found: Counter[int] = Counter()
        self._lost = 0
        self._left_out: set[int] = set()
        self._looks = 0
        try:
            self._open_threads()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop sampling."""
        for ring in self._rings.values():
            ring.close()
        self._rings.clear()

    def collect(self) -> None:
        """Collect the new samples; call this about every tenth of a second, since the rings are small."""
        self._looks += 1
        if self._looks % _RESCAN == 0:
            with suppress(OSError, SamplingError):
                self._open_threads()
        for ring in self._rings.values():
            self._take(ring)

    def _take(self, ring: Ring) -> None:
        for kind, _, content in ring.drain():
            if kind == SAMPLE and len(content) >= 8:
                self._found[int.from_bytes(content[:8], "little")] += 1
            elif kind == LOST and len(content) >= 16:
                self._lost += int.from_bytes(content[8:16], "little")

    def ended(self) -> bool:
        """Return whether all threads have ended; a zombie keeps its PID."""
        if all(ring.ended for ring in self._rings.values()):
            with suppress(OSError, SamplingError):
                self._open_threads()  # others may have been started meanwhile
        return all(ring.ended for ring in self._rings.values())

    def samples(self) -> Samples:
        """Return the samples collected so far."""
        return Samples(self._found, self._lost)

    def _open_threads(self) -> None:
        try:
            threads = {int(name) for name in os.listdir(f"/proc/{self._pid}/task")}
        except FileNotFoundError:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH)) from None
        for thread in self._rings.keys() - threads:
            ring = self._rings.pop(thread)
            self._take(ring)
            ring.close()
        for thread in sorted(threads - self._rings.keys() - self._left_out):
            if len(self._rings) >= _MOST_THREADS:
                self._left_out.add(thread)
                continue
            try:
                self._rings[thread] = Ring(thread, self._frequency, SAMPLE_IP | SAMPLE_TID, _FLAGS, _PAGES)
            except ProcessLookupError:
                continue  # it has ended
            except OSError as error:
                if not self._rings:
                    raise refusal(error, self._pid, self._frequency) from error
                self._left_out.add(thread)
        if not self._looks and not self._rings:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))


def sample(pid: int, seconds: float, frequency: int = FREQUENCY) -> Samples:
    """Return where the threads of *pid* run for *seconds*, or until it ends.

    Raises SamplingError, and ProcessLookupError if there is no such process.
    """
    return sample_all([pid], seconds, frequency)[pid]


def sample_all(pids: list[int], seconds: float, frequency: int = FREQUENCY) -> dict[int, Samples]:
    """Return where the threads of *pids* run during the same *seconds*; processes that are gone are left out.

    Raises SamplingError, and ProcessLookupError if all are gone.
    """
    samplers: dict[int, _Sampler] = {}
    try:
        for pid in pids:
            with suppress(ProcessLookupError):
                samplers[pid] = _Sampler(pid, frequency)
        if not samplers:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not all(sampler.ended() for sampler in samplers.values()):
            time.sleep(min(_PAUSE, left))
            for sampler in samplers.values():
                sampler.collect()
        return {pid: sampler.samples() for pid, sampler in samplers.items()}
    finally:
        for sampler in samplers.values():
            sampler.close()


def refusal(error: OSError, pid: int, frequency: int) -> SamplingError:
    """Return why the kernel takes no samples of the process *pid*, *frequency* of them per second."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return SamplingError.of(processes.denied("process.no-samples", pid, error.errno, "CAP_PERFMON"))
    if error.errno == errno.EINVAL and frequency > (most := most_per_second()):
        return SamplingError("machine.sample-rate", Remedy("frequency"), frequency=frequency, most=most)
    return SamplingError.of(processes.about("process.refused", pid, error=error_name(error)))


def most_per_second() -> int:
    """Return how many samples per second the kernel takes at most; a number beyond any if it does not say."""
    with suppress(OSError, ValueError), open("/proc/sys/kernel/perf_event_max_sample_rate", "rb") as file:
        return int(file.read(32))
    return 1 << 64
