"""Run work that may hang or die in child processes, all at once, with one time limit."""

import marshal
import os
import signal
import time
from contextlib import suppress

from hugealign.io.descriptors import SecondProcess, forked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_MOST = 1 << 16  # bytes to keep of a child's output; the rest is not read
_GRACE = 0.5  # seconds for a killed child to end


class Child:
    """A child process and the pipe that it writes to: a function that returns what `marshal` takes.

    *output* is its output so far.  *status* is its exit status (minus the signal that ended it), None while it runs or
    if it ran too long.
    """

    __slots__ = ("_fd", "output", "pid", "status")

    def __init__(self, pid: int, fd: int) -> None:
        self.pid = pid
        self._fd = fd
        self.output = b""
        self.status: int | None = None

    @property
    def value(self) -> "Any":
        """What the function returned; None if it failed or ran too long."""
        with suppress(EOFError, ValueError, TypeError):  # it was cut short
            return marshal.loads(self.output)  # noqa: S302  # our own
        return None

    def fileno(self) -> int:
        """Return the reading end of the pipe, for selectors."""
        return self._fd

    def read(self) -> bool:
        """Read the available output; return False at the end, or if it is enough."""
        piece = os.read(self._fd, _MOST)
        self.output += piece
        return bool(piece) and len(self.output) < _MOST

    def end(self, deadline: float) -> None:
        """Close the pipe and reap the child, killing it and its own children if it is not done by *deadline*."""
        os.close(self._fd)
        if self._reap(deadline):
            return
        for kill in (os.killpg, os.kill):
            with suppress(ProcessLookupError, PermissionError):
                kill(self.pid, signal.SIGKILL)
        # Not even SIGKILL ends uninterruptible sleep, on a dead network file system: then the child is left to init.
        self._reap(time.monotonic() + _GRACE)
        self.status = None

    def _reap(self, deadline: float) -> bool:
        while True:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # our parent made us ignore SIGCHLD: the kernel keeps no status (wait(2))
                return True
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.002)


def function(work: "Callable[[], Any]") -> Child:
    """Start *work* in a child process; what it returns, which `marshal` has to take, becomes the value."""
    return Child(*forked(lambda: marshal.dumps(work()), alone=True))


def result(work: "Callable[[], Any]") -> "Any":
    """Run *work* in a child process, which ^C ends together with us; return what it returns, None if it fails.

    That has to be something that `marshal` takes.
    """
    return SecondProcess(work).result(lambda: None)


def collect(children: "Sequence[Child]", seconds: float) -> None:
    """Wait at most *seconds* until all *children* have ended; then kill the rest."""
    import selectors

    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as waiting:
        for child in children:
            waiting.register(child, selectors.EVENT_READ)
        while waiting.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in waiting.select(left):
                if isinstance(key.fileobj, Child) and not key.fileobj.read():
                    waiting.unregister(key.fileobj)
    for child in children:
        child.end(deadline)
