"""Hold text in memory in huge pages: a process that maps it, since the kernel takes back what no process maps."""

import contextlib
import ctypes
import mmap
import os
import signal
import socket
from collections.abc import Callable

from hugealign.diagnosis.refusal import diagnosed
from hugealign.diagnosis.values import Diagnosis
from hugealign.errors import HugealignError
from hugealign.io.libc import libc
from hugealign.io.regular import opened
from hugealign.machine import state
from hugealign.machine.state import Held
from hugealign.pagecache.warm import WarmOptions, warm
from hugealign.run import copies

_FIRST, _LAST = 0.25, 3600.0  # seconds between attempts
_FAILED = (1 << 64) - 1  # MAP_FAILED


def hold(tell: Callable[[Diagnosis], None]) -> None:
    """Make the files that are in force huge in place, and hold them until SIGTERM.  Raises HugealignError.

    What a process maps in small pages just then is tried again, ever more rarely.  *tell* is called with what went
    wrong with a file.
    """
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    known = state.read()
    held: set[tuple[str, int]] = set()
    missing = [(path, one) for one in (known.in_place() if known else ()) for path in one.part.files]
    pause = _FIRST
    while True:
        missing = [(path, one) for path, one in missing if not locked(path, one, held, tell)]
        _notify_ready()
        if not missing:
            signal.sigwait(signals)
            return
        if signal.sigtimedwait(signals, pause):
            return
        pause = min(2 * pause, _LAST)


def locked(path: str, one: Held, held: set[tuple[str, int]], tell: Callable[[Diagnosis], None]) -> bool:
    """Make the text of the file at *path* huge, and lock what is huge in memory as long as this process lives.

    That is for a file that is still as it was for *one*, which says how much it may take: `renew` looks at another
    first.  *held* are the files and offsets of the windows that are locked already.  Return whether nothing is left to
    do: all is huge, or it cannot be, which *tell* is called with.
    """
    try:
        with opened(path) as fd:
            if copies.identity(os.fstat(fd), fixed=False) not in one.identities:
                return True
            done = warm(f"/proc/self/fd/{fd}", WarmOptions(windows=one.part.windows, explain=False))
            for offset in done.offsets:
                if offset not in done.small and (path, offset) not in held:
                    _lock(fd, offset, done.page_size)
                    held.add((path, offset))
    except (HugealignError, OSError) as error:
        tell(diagnosed(path, error))
        return True
    return not done.small


def _lock(fd: int, offset: int, size: int) -> None:
    """Map and lock a window.  Raises OSError."""
    address = libc().mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, offset)
    if not address or address == _FAILED or libc().mlock(address, size):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _notify_ready() -> None:
    """Tell the manager, if it waits for that (sd_notify(3))."""
    place = os.environ.get("NOTIFY_SOCKET", "")
    if place.startswith(("/", "@")):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.connect(f"\0{place[1:]}" if place.startswith("@") else place)
            to.send(b"READY=1")
