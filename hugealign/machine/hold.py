"""Hold text in memory in huge pages: a process that maps it, since the kernel takes back what no process maps."""

import contextlib
import mmap
import os
import signal
import socket
from collections.abc import Iterable

from hugealign.errors import HugealignError
from hugealign.io.regular import opened
from hugealign.machine import state
from hugealign.pagecache import measure
from hugealign.pagecache.warm import WarmOptions, warm

_FAILED = (1 << 64) - 1  # MAP_FAILED


def hold() -> None:
    """Make the files that are in force huge in place, and hold them until SIGTERM; look again at SIGHUP.

    Raises HugealignError.
    """
    signals = {signal.SIGHUP, signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    while True:
        known = state.read()
        held = list(locked(known.in_place() if known else ()))
        notify(b"READY=1")
        if signal.sigwait(signals) != signal.SIGHUP:
            return
        for address, size in held:
            measure.libc().munmap(address, size)


def locked(paths: Iterable[str]) -> Iterable[tuple[int, int]]:
    """Make the text of the files at *paths* huge, lock it, and yield the address and size of each window.

    A file that has gone or cannot be huge any more is passed over: `renew` notices.
    """
    for path in paths:
        with contextlib.suppress(HugealignError, OSError):
            done = warm(path, WarmOptions(explain=False))
            with opened(path) as fd:
                for offset in done.offsets:
                    address = measure.libc().mmap(None, done.page_size, mmap.PROT_READ, mmap.MAP_SHARED, fd, offset)
                    if address and address != _FAILED:
                        measure.libc().mlock(address, done.page_size)
                        yield address, done.page_size


def notify(message: bytes) -> None:
    """Tell the manager, if it waits for that (sd_notify(3))."""
    place = os.environ.get("NOTIFY_SOCKET", "")
    if place.startswith(("/", "@")):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.connect(f"\0{place[1:]}" if place.startswith("@") else place)
            to.send(message)
