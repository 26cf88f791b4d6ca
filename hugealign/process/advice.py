"""Advise the kernel about another process's memory: process_madvise(2), by pidfd, so it cannot hit the wrong process.

MADV_COLLAPSE puts the pages of a window together (Linux 6.1).  MADV_COLD on one page of the window splits it again,
because the page table then has to tell the pages apart (madvise_cold_or_pageout_pte_range in mm/madvise.c).  The kernel
requires CAP_SYS_NICE, and the permission to read the memory of the process.
"""

import ctypes
import errno
import mmap
import os
from contextlib import suppress
from types import TracebackType
from typing import Self

from hugealign.diagnosis.refusal import DiagnosedError, error_name
from hugealign.io.libc import syscall
from hugealign.process import processes, procfs

_PROCESS_MADVISE = 440  # the same number on every processor but alpha
_MADV_COLD, _MADV_COLLAPSE = 20, 25
_ATTEMPTS = 3  # tries while the kernel answers EAGAIN


class AdviceError(DiagnosedError):
    """The kernel accepts no advice about the process."""


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class Adviser:
    """Give advice about one process, even if its PID is reused later.  A context manager."""

    def __init__(self, pid: int) -> None:
        """Open the process.  Raises ProcessLookupError if there is none, AdviceError."""
        self.pid = pid
        try:
            self._fd = os.pidfd_open(pid)
        except ProcessLookupError:
            raise
        except OSError as error:
            raise AdviceError.of(processes.about("process.refused", pid, error=error_name(error))) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        os.close(self._fd)

    def collapse(self, address: int, size: int) -> int:
        """Put the pages of a window together; return 0, or the error number of the refusal.

        Raises AdviceError if the kernel accepts no such advice from us, ProcessLookupError if the process is gone.
        """
        for _ in range(_ATTEMPTS):
            refused = self._advise(address, size, _MADV_COLLAPSE)
            if refused != errno.EAGAIN:
                break
        return refused

    def split(self, address: int) -> int:
        """Split the window at *address*; otherwise like `collapse`."""
        return self._advise(address, mmap.PAGESIZE, _MADV_COLD)

    def _advise(self, address: int, size: int, advice: int) -> int:
        try:
            syscall(_PROCESS_MADVISE, self._fd, ctypes.byref(_Iovec(address, size)), 1, advice, 0)
        except OSError as error:
            refused = error.errno or 0
        else:
            return 0
        if refused == errno.ESRCH:
            self._check_first_thread()
            raise ProcessLookupError(refused, os.strerror(refused))
        if refused == errno.EPERM:
            needed = "CAP_SYS_NICE", "CAP_SYS_PTRACE"
            raise AdviceError.of(processes.denied("process.no-advice", self.pid, refused, *needed))
        if refused == errno.ENOSYS:
            raise AdviceError("machine.no-advice")
        return refused

    def _check_first_thread(self) -> None:
        """Raise AdviceError if the process lives, but its first thread has ended."""
        # pidfd_get_task in kernel/pid.c takes the first thread, and that one's memory is gone.
        with suppress(OSError):
            if procfs.living(self.pid) != f"/proc/{self.pid}":
                raise AdviceError.of(processes.about("process.first-thread-ended", self.pid))
