"""Run a command and look at it while it runs."""

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType

from hugealign.environment import as_given, reset_signals, signals_to_reset
from hugealign.errors import cause
from hugealign.io.execution import become
from hugealign.io.units import printable
from hugealign.process.processes import Process, ProcessError, look

_INTERVAL = 0.02  # seconds between looks, less at first
_SHARE = 4  # wait this many times as long as a look took: smaps takes the mmap lock of the process
_PATIENCE = 2.0  # seconds between SIGTERM and SIGKILL

Handler = Callable[[int, FrameType | None], object] | int | None
Look = Callable[[int], Process]


def look_until(
    command: Sequence[str],
    after: float | None = None,
    enough: Callable[[Process], bool] | None = None,
    look_at: Look = look,
) -> Process:
    """Run *command* and return the last look at it before it ended; raises ProcessError if there was none.

    With *after*, look at it after that many seconds, and end it; if it has ended before, the last look counts.  With
    *enough*, also end it at the first look for which *enough* is true.  An interrupt from the terminal reaches the
    command as well and is left to it; SIGTERM and SIGHUP are passed on.
    """
    with _running(command) as child, handling({signal.SIGINT: signal.SIG_IGN}):
        try:
            seen = _watch(child, after, enough, look_at)
        finally:
            _end(child)
    if seen is None:
        raise ProcessError(f"{printable(command[0])} ended before it could be looked at")
    return seen


def look_every(command: Sequence[str], interval: float, look_at: Look = look) -> Iterator[Process]:
    """Run *command* and yield a look at it every *interval* seconds until it ends; end it if the caller stops early.

    Raises ProcessError if there was no look.  SIGTERM and SIGHUP are passed on to the command.
    """
    looks = 0
    with _running(command) as child:
        while child.poll() is None:
            with contextlib.suppress(ProcessError):
                seen = look_at(child.pid)
                looks += 1
                yield seen
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(interval)
    if not looks:
        raise ProcessError(f"{printable(command[0])} ended before it could be looked at")


@contextlib.contextmanager
def _running(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    to_reset, environ = signals_to_reset(), as_given()

    def start() -> None:
        reset_signals(to_reset)
        with contextlib.suppress(OSError, ValueError):  # Popen fails in the same way, and reports it
            become(command, environ)

    try:
        child = subprocess.Popen(
            command,
            env=environ,
            preexec_fn=start,  # noqa: PLW1509  # no thread runs here
            restore_signals=False,
        )
    except (OSError, ValueError) as error:
        raise ProcessError(f"cannot run {printable(command[0])}: {cause(error)}") from error
    with passing_on(child.send_signal):
        try:
            yield child
        finally:
            _end(child)


def passing_on(send: Callable[[int], None]) -> contextlib.AbstractContextManager[object]:
    """Pass SIGTERM and SIGHUP on by *send* meanwhile: who sends them to us wants the command to end."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    not_ignored = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]  # as under nohup
    return handling(dict.fromkeys(not_ignored, lambda number, _: send(number)))


@contextlib.contextmanager
def handling(handlers: Mapping[int, Handler]) -> Iterator[Mapping[int, Handler]]:
    """Handle signals by *handlers* meanwhile; yield what handled them before."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield before
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _watch(
    child: subprocess.Popen[bytes], after: float | None, enough: Callable[[Process], bool] | None, look_at: Look
) -> Process | None:
    seen = None
    start = time.monotonic()
    while True:
        before = time.monotonic()
        try:
            seen = look_at(child.pid)
        except ProcessError:
            if child.poll() is None and seen is None:
                raise
        if seen and enough and enough(seen):
            return seen
        if after is not None and before - start >= after:
            return seen
        now = time.monotonic()
        pause = max(min(_INTERVAL, now - start), _SHARE * (now - before))
        if after is not None:
            pause = min(pause, max(0.0, start + after - now))
        try:
            child.wait(pause)
        except subprocess.TimeoutExpired:
            continue
        return seen


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
