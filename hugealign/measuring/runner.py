"""A process in which copies of files take the place of these files; it runs a command there on request, and times it.

The copies lie on a tmpfs of its own mount namespace, so they are gone with it, however it ends.
"""

import errno
import functools
import marshal
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from hugealign.diagnosis.refusal import RefusalError, diagnosis_of
from hugealign.diagnosis.values import unpacked
from hugealign.environment import signals_to_reset
from hugealign.errors import HugealignError
from hugealign.io import copying
from hugealign.io.descriptors import using
from hugealign.io.execution import which
from hugealign.io.libc import prctl
from hugealign.pagecache import measure
from hugealign.run import copies
from hugealign.run.copies import StagedFile
from hugealign.system import namespace

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_ANSWER = 1 << 16  # bytes; an answer has a few hundred
_GRACE = 10.0  # seconds for a server to end by itself
_TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Overlay:
    """What lies over the file at *path*: a copy of the open *file*, which may be another one's."""

    path: str
    file: StagedFile


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one run: seconds on the clock and of processor time, and page faults that read nothing.

    Of the command and of all processes that it waited for.
    """

    wall: float
    cpu: float
    faults: float = 0.0


@dataclass(frozen=True, slots=True)
class Work:
    """What a runner does: run *words* in *environ*, or, with a *load*, serve that load."""

    words: Sequence[str]
    environ: Mapping[bytes, bytes]
    load: Sequence[str] = ()


class RunError(HugealignError):
    """The command, or its load, cannot be measured."""


class Runner:
    """A context manager for the process; *windows* of the copies hold text, and *huge* of these are huge."""

    def __init__(self, work: Work, overlays: Sequence[Overlay], *, huge: bool) -> None:
        """Make the copies.  Raises HugealignError."""
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._pid = os.fork()
        if not self._pid:
            self._channel.close()
            _serve(theirs, lambda: _lay(overlays, huge), work)
        theirs.close()
        try:
            self.windows, self.huge = self._answer()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, times: int = 1, seen: Callable[[int], object] = lambda _: None) -> Cost:
        """Run the command *times* times, and return the mean cost; *seen* is called with the PID of the first run.

        Raises RunError if one of them fails, or leaves processes behind.
        """
        self._channel.send(marshal.dumps(times))
        (pid,) = self._answer()
        seen(pid)
        return Cost(*self._answer())

    @property
    def running(self) -> bool:
        """Whether `run`, whose callback calls this, has no result yet."""
        try:
            self._channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        return False

    def close(self) -> None:
        """End the process, and what it runs."""
        self._channel.close()
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGTERM)
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def _answer(self) -> tuple[Any, ...]:
        data = self._channel.recv(_ANSWER)
        if not data:
            raise RunError("the process that runs the command was killed")
        kind, values = marshal.loads(data)  # noqa: S302  # our own
        if kind == "refused":
            raise RefusalError.of(unpacked(values))
        if kind == "failed":
            raise RunError(values)
        return tuple(values)


def _serve(channel: socket.socket, lay: Callable[[], tuple[int, int]], work: Work) -> None:
    """Do what the parent asks until it goes away; never return."""
    parent = os.getppid()
    try:
        os.setsid()  # no terminal to wait for
        signal.signal(signal.SIGTERM, _end_all)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
        if os.getppid() != parent:
            return
        _reply(channel, lay)
        run = _serve_load if work.load else _run
        while request := channel.recv(_ANSWER):
            _reply(channel, functools.partial(run, channel, work, marshal.loads(request)))  # noqa: S302  # our own
    except OSError:  # the parent is gone
        pass
    finally:
        _end_all()


def _end_all(*_: object) -> None:
    """End all that descends from us: as their parents end, we become the parent; then end ourselves."""
    _reap(0)
    os._exit(0)


def _reply(channel: socket.socket, work: Callable[[], Any]) -> None:
    try:
        answer = ("done", work())
    except RunError as error:
        answer = ("failed", str(error))
    except (HugealignError, OSError) as error:
        diagnosis = diagnosis_of("", error)
        answer = ("refused", diagnosis.packed()) if diagnosis else ("failed", str(error))
    channel.send(marshal.dumps(answer))


def _lay(overlays: Sequence[Overlay], huge: bool) -> tuple[int, int]:
    """Put a copy of each of *overlays* in its place; return the windows of their text, and how many are huge."""
    if not overlays:
        return 0, 0
    entered = namespace.enter()
    mounted = entered.mount_tmpfs([overlay.path for overlay in overlays], huge=huge)
    windows = done = 0
    for number, overlay in enumerate(overlays):
        with using(_copy(overlay.file, os.path.join(mounted, str(number)), owner=not entered.user)) as copy:
            offsets = measure.text_windows(copy)
            windows += len(offsets)
            if huge:
                made_huge = copies.huge_windows(copy)
                if made_huge < len(offsets):  # then the sides would not differ as they say
                    raise RefusalError.of(copies.diagnosis(copy).about(overlay.path))
                done += made_huge
            else:
                done += sum(measure.measure(copy, offsets, present=True))
            flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
            with using(os.open(overlay.path, flags)) as target, using(namespace.tree(copy)) as made:
                namespace.attach(made, target)
    namespace.detach(mounted)
    return windows, done


def _copy(file: StagedFile, path: str, *, owner: bool) -> int:
    """Return a copy of *file* at *path*, open for reading."""
    # A file that is open for writing cannot be executed (ETXTBSY).
    with using(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)) as target:
        copies.write(file, target)
        copies.carry(file, target, owner=owner)
        if owner:  # no other process has the copy; it confers what the file does
            copying.copy_privileges(file.fd, target, file.info)
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _run(channel: socket.socket, work: Work, times: int) -> tuple[float, float, float]:
    """Run the command *times* times; return the means of clock, processor time and faults."""
    cpu = faults = 0.0
    began = time.perf_counter()
    for number in range(times):
        pid = _spawn(work.words, work.environ)
        if not number:
            channel.send(marshal.dumps(("done", (pid,))))
        _, status, used = os.wait4(pid, 0)
        _check_status(work.words, os.waitstatus_to_exitcode(status))
        cpu, faults = cpu + used.ru_utime + used.ru_stime, faults + used.ru_minflt
    wall = time.perf_counter() - began
    _check_alone(work.words)
    return wall / times, cpu / times, faults / times


def _serve_load(channel: socket.socket, work: Work, times: int) -> tuple[float, float, float]:
    """Start the server, run its load *times* times, and return the means of what the server took meanwhile."""
    server = _spawn(work.words, work.environ)
    channel.send(marshal.dumps(("done", (server,))))
    _wait_until_ready(server, work)
    before, began = _used(), time.perf_counter()
    for _ in range(times):
        pid = _spawn(work.load, work.environ)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        _check_status(work.load, status)
    wall = time.perf_counter() - began
    after = _used()
    if os.waitpid(server, os.WNOHANG)[0]:
        raise RunError(f"{work.words[0]} ended during its load")
    os.kill(server, signal.SIGTERM)
    _reap(_GRACE)
    return wall / times, (after[0] - before[0]) / times, (after[1] - before[1]) / times


def _spawn(words: Sequence[str], environ: Mapping[bytes, bytes]) -> int:
    """Start *words* as execvp does, without input or output, and return the PID.

    By vfork, as posix_spawn does it: a child by fork would have our page tables to copy and to free.
    """
    path = which(words[0]) or words[0]
    actions = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
    defaults = [*signals_to_reset(), signal.SIGTERM]
    for command in ([path, *words[1:]], ["/bin/sh", path, *words[1:]]):  # a script without #!, see exec(3)
        try:
            argv = [words[0], *words[1:]] if command[0] == path else command
            return os.posix_spawn(command[0], argv, environ, file_actions=actions, setsigdef=defaults)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise RunError(f"{words[0]}: {error.strerror}") from error
    raise RunError(f"{words[0]}: not executable")


def _check_status(words: Sequence[str], status: int) -> None:
    if status:
        how = f"exited with {status}" if status > 0 else f"was ended by signal {-status}"
        raise RunError(f"{words[0]} {how}; only a command that succeeds is measured")


def _check_alone(words: Sequence[str]) -> None:
    """Raise RunError if the command left processes behind, and end these."""
    if _children():
        _reap(0)
        raise RunError(f"{words[0]} leaves processes running; measure a server with --load")


def _children() -> list[int]:
    """Return the PIDs of our children, also of those whose parents have ended."""
    pids = []
    for thread in os.listdir("/proc/self/task"):
        with suppress(OSError), open(f"/proc/self/task/{thread}/children", encoding="ascii") as file:
            pids += [int(pid) for pid in file.read().split()]
    return pids


def _used() -> tuple[float, float]:
    """Return the processor time and the faults of all that descends from us, with the children that it waited for."""
    cpu = faults = 0.0
    todo = _children()
    while todo:
        pid = todo.pop()
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                    todo += [int(word) for word in file.read().split()]
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()  # proc_pid_stat(5), from field 3 on
            cpu += sum(int(fields[number]) for number in (11, 12, 13, 14)) * _TICK
            faults += sum(int(fields[number]) for number in (7, 8))
    return cpu, faults


def _wait_until_ready(server: int, work: Work) -> None:
    """Wait until the load succeeds once: a server that has started serves it.  Raises RunError."""
    end = time.monotonic() + _GRACE
    while True:
        pid = _spawn(work.load, work.environ)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if not status:
            return
        if os.waitpid(server, os.WNOHANG)[0]:
            raise RunError(f"{work.words[0]} ended before its load; give a server that stays in the foreground")
        if time.monotonic() > end:
            _check_status(work.load, status)
        time.sleep(0.1)


def _reap(seconds: float) -> None:
    """Wait until all that descends from us has ended, and end it after *seconds* seconds."""
    end = time.monotonic() + seconds
    while True:
        try:
            done = os.waitpid(-1, os.WNOHANG)[0]
        except ChildProcessError:
            return
        if not done:
            if time.monotonic() > end:
                for pid in _children():
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.001)
