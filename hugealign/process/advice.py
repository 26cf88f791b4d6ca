"""Advice about the memory of another process: process_madvise(2), by a pidfd, so that no other process can get it.

MADV_COLLAPSE puts the pages of a window together (Linux 6.1); MADV_COLD of one page of it splits it again, because the
page table has to tell pages apart then (madvise_cold_or_pageout_pte_range in mm/madvise.c).  The kernel asks for
CAP_SYS_NICE, and for what reading the memory of the process asks for.
"""

import ctypes
import errno
import mmap
import os
from types import TracebackType
from typing import Self

from hugealign.errors import HugealignError

_PROCESS_MADVISE = 440  # the same number on every processor but alpha
_MADV_COLD, _MADV_COLLAPSE = 20, 25
_ATTEMPTS = 3  # at what the kernel says to try again


class AdviceError(HugealignError):
    """The kernel takes no advice about the process."""


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class Adviser:
    """Gives advice about one process, whoever gets its number later.  A context manager."""

    def __init__(self, pid: int) -> None:
        """Take hold of the process.  Raises ProcessLookupError if there is none, AdviceError."""
        self.pid = pid
        try:
            self._fd = os.pidfd_open(pid)
        except ProcessLookupError:
            raise
        except OSError as error:
            raise AdviceError(f"process {pid}: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        os.close(self._fd)

    def collapse(self, address: int, size: int) -> int:
        """Put the pages of a window together; return 0, or the error number of the refusal.

        Raises AdviceError where the kernel takes no such advice from us, ProcessLookupError if the process is gone.
        """
        for _ in range(_ATTEMPTS):
            refused = self._advise(address, size, _MADV_COLLAPSE)
            if refused != errno.EAGAIN:
                break
        return refused

    def split(self, address: int) -> int:
        """Take the window at *address* apart; otherwise as `collapse`."""
        return self._advise(address, mmap.PAGESIZE, _MADV_COLD)

    def _advise(self, address: int, size: int, advice: int) -> int:
        libc = ctypes.CDLL(None, use_errno=True)
        span = _Iovec(address, size)
        number = ctypes.c_long(_PROCESS_MADVISE)
        done = libc.syscall(number, self._fd, ctypes.byref(span), ctypes.c_size_t(1), advice, ctypes.c_uint(0))
        if done >= 0:
            return 0
        refused = ctypes.get_errno()
        if refused == errno.ESRCH:
            raise ProcessLookupError(refused, os.strerror(refused))
        if refused == errno.EPERM:
            raise AdviceError(f"process {self.pid}: advice about it needs CAP_SYS_NICE and CAP_SYS_PTRACE: try as root")
        if refused == errno.ENOSYS:
            raise AdviceError("this kernel takes no advice about other processes (Linux 5.10)")
        return refused
