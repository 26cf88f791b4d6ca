"""Run a command: hold it before its first instruction, look at it while it runs, and end it."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType, TracebackType
from typing import Self

from hugealign.diagnosis.refusal import error_name
from hugealign.diagnosis.values import Diagnosis
from hugealign.environment import as_given, reset_signals, signals_to_reset
from hugealign.io.execution import become
from hugealign.process.processes import Process, ProcessError, read

_INTERVAL = 0.02  # seconds between looks, less at first
_SHARE = 4  # wait this many times as long as a look took: smaps takes the mmap lock of the process
_PATIENCE = 2.0  # seconds between SIGTERM and SIGKILL

Handler = Callable[[int, FrameType | None], object] | int | None
Look = Callable[[int], Process]
#: Returns the path to execute instead of the first word, empty for that word, and the environment.
Prepare = Callable[[], tuple[str, Mapping[bytes, bytes]]]


class Command:
    """A child that becomes the command *words* once it is started; a context manager that ends it.

    *prepare* is called in the child.  SIGTERM and SIGHUP are passed on to it meanwhile.  *status* is the exit status,
    minus the number of a signal that ended it, and None while it runs.
    """

    def __init__(self, words: Sequence[str], prepare: Prepare = lambda: ("", as_given())) -> None:
        """Fork.  Raises OSError."""
        self.status: int | None = None
        started, self._start = os.pipe()
        self._failed, fail = os.pipe()
        to_reset = signals_to_reset()  # in the child, we would be the parent that it asks
        self.pid = os.fork()
        if not self.pid:
            os.close(self._start)
            _become(words, prepare, to_reset, started, fail)
        os.close(started)
        os.close(fail)
        self._passing_on = passing_on(self._send)

    def __enter__(self) -> Self:
        self._passing_on.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._start)
        os.close(self._failed)
        self.end()
        self._passing_on.__exit__(kind, value, at)

    def start(self) -> None:
        """Let the child become the command.  Raises OSError if it cannot."""
        os.write(self._start, b"!")
        if failure := os.read(self._failed, 16):
            raise OSError(int(failure), os.strerror(int(failure)))

    def poll(self) -> int | None:
        """Return the status, None while the child runs."""
        if self.status is None:
            try:
                done, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # our parent made us ignore SIGCHLD: the kernel keeps no status (wait(2))
                self.status = 0
            else:
                self.status = os.waitstatus_to_exitcode(status) if done else None
        return self.status

    def wait(self, seconds: float) -> int | None:
        """Return the status as soon as the child has ended, None after *seconds*."""
        end = time.monotonic() + seconds
        while self.poll() is None and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _INTERVAL))
        return self.status

    def end(self) -> None:
        """End the child, and wait for that."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.poll() is None:
                self._send(number)
                self.wait(_PATIENCE)

    def _send(self, number: int) -> None:
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def _become(words: Sequence[str], prepare: Prepare, to_reset: Sequence[int], started: int, fail: int) -> None:
    """Wait for the start, then become the command, which gets the default for *to_reset*; never return."""
    try:
        if os.read(started, 1) == b"!":
            program, environ = prepare()
            reset_signals(to_reset)
            become(words, environ, program)
    except OSError as error:
        os.write(fail, str(error.errno).encode())
    except ValueError:
        os.write(fail, b"2")
    finally:
        os._exit(127)


def look_until(
    command: Sequence[str],
    after: float | None = None,
    enough: Callable[[Process], bool] | None = None,
    look_at: Look = read,
) -> Process:
    """Run *command* and return the last look at it before it ended; raises ProcessError if there was none.

    With *after*, look at it after that many seconds, and end it; if it has ended before, the last look counts.  With
    *enough*, also end it at the first look for which *enough* is true.  An interrupt from the terminal reaches the
    command as well and is left to it.
    """
    with _running(command) as child, handling({signal.SIGINT: signal.SIG_IGN}):
        try:
            seen = _watch(child, after, enough, look_at)
        finally:
            child.end()
    if seen is None:
        raise ProcessError.of(Diagnosis("process.short-lived", command[0], {}))
    return seen


def look_every(command: Sequence[str], interval: float, look_at: Look = read) -> Iterator[Process]:
    """Run *command* and yield a look at it every *interval* seconds until it ends; end it if the caller stops early.

    Raises ProcessError if there was no look.
    """
    looks = 0
    with _running(command) as child:
        while child.poll() is None:
            with contextlib.suppress(ProcessError):
                seen = look_at(child.pid)
                looks += 1
                yield seen
            child.wait(interval)
    if not looks:
        raise ProcessError.of(Diagnosis("process.short-lived", command[0], {}))


@contextlib.contextmanager
def _running(command: Sequence[str]) -> Iterator[Command]:
    with contextlib.ExitStack() as stack:
        try:
            child = stack.enter_context(Command(command))
            child.start()
        except OSError as error:
            diagnosis = Diagnosis("program.not-started", command[0], {"error": error_name(error)})
            raise ProcessError.of(diagnosis) from error
        yield child


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
    child: Command, after: float | None, enough: Callable[[Process], bool] | None, look_at: Look
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
        if child.wait(pause) is not None:
            return seen
