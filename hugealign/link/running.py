"""Run the linker, with its descriptors, files in memory, signals and status; or let it take our place."""

import os

from hugealign.environment import SIGPIPE, as_given, reset_signals, signals_to_reset
from hugealign.io.descriptors import write_all
from hugealign.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn


class LinkerRun(Record):
    """A finished run of the linker: its exit *status* (negative: killed by that signal) and what it printed.

    *meanwhile* is what the work returned that was done while it ran.
    """

    status: int
    stdout: bytes = b""
    stderr: bytes = b""
    meanwhile: str | None = None

    def forward(self) -> None:
        """Print what the linker printed."""
        write(1, self.stdout)
        write(2, self.stderr)


class MemoryFiles:
    """Files in memory for one run of the linker; they vanish with this process, however it ends.

    *names* maps the path of each to what it was made from, for messages.
    """

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def file(self, name: str, data: bytes, source: str) -> str:
        """Return the path, valid in our children too, of a new file *name* with *data*, made from *source*."""
        fd = os.memfd_create(name, 0)
        write_all(fd, data)
        path = f"/proc/self/fd/{fd}"
        self.names[path] = source
        return path


def spawn(argv: list[str], capture: bool, meanwhile: "Callable[[], str | None] | None" = None) -> LinkerRun:
    """Run the linker, call *meanwhile*, and wait for the linker; with *capture* its output goes to memory."""
    streams = [os.memfd_create(name) for name in ("stdout", "stderr")] if capture else []
    actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(streams, 1)]
    pid = os.posix_spawn(argv[0], argv, as_given(), file_actions=actions, setsigdef=signals_to_reset())
    try:
        done = meanwhile() if meanwhile else None
    finally:
        _, status = os.waitpid(pid, 0)
    stdout, stderr = [_contents(fd) for fd in streams] or (b"", b"")
    return LinkerRun(os.waitstatus_to_exitcode(status), stdout, stderr, done)


def complaint(runs: "Sequence[LinkerRun]", beside: bytes) -> str:
    """Return the line that says why *runs* of the same link failed; without one, their status.

    All of them printed that line, and it is not in *beside*, the messages of a link that succeeded.  A line that ends
    with a colon only names a place.
    """
    lines = [line for line in runs[-1].stderr.splitlines() if line.strip() and not line.rstrip().endswith(b":")]
    for choice in (set(runs[0].stderr.splitlines()) - set(beside.splitlines()), lines):
        for line in lines:
            if line in choice:
                return line.decode("utf-8", "replace").strip()
    return f"status {runs[-1].status}"


def started() -> LinkerRun:
    """Return the outcome of the link that sh/shim.sh started, read from stdin: the messages, and the status last.

    Does not return if the shell that waits for the linker has been killed: then so have the driver and we, but Python
    ignores SIGPIPE while it starts.
    """
    stderr, _, status = drain().rpartition(b"\n")
    if not status:
        leave(-SIGPIPE)
    number = int(status)
    return LinkerRun(number if number <= 128 else 128 - number, b"", stderr)


def drain() -> bytes:
    """Return the rest of stdin; once that ends, the linker that sh/shim.sh started is done."""
    data = bytearray()
    while chunk := os.read(0, 1 << 16):
        data += chunk
    return bytes(data)


def become(argv: list[str]) -> "NoReturn":
    """Replace this process by *argv*."""
    reset_signals(signals_to_reset())
    try:
        os.execve(argv[0], argv, as_given())  # noqa: S606
    except OSError:  # such as ENOMEM, which passes
        leave(spawn(argv, capture=False).status)


def leave(status: int) -> "NoReturn":
    """End as the linker ended, with its status or by its signal."""
    if status < 0:
        import signal

        if -status not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def say(kind: str, message: str) -> None:
    """Print one line of our own on stderr."""
    write(2, f"hugealign: {kind}: {message}\n".encode("utf-8", "backslashreplace"))


def write(fd: int, data: bytes) -> None:
    """Write *data* as a linker does: errors can be ignored (`environment.die_of_pipes`)."""
    written = 0
    try:
        while written < len(data):
            written += os.write(fd, data[written:])
    except OSError:
        return


def _contents(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    data = os.pread(fd, size, 0)
    os.close(fd)
    return data
