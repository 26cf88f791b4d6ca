"""Look at all processes that the user may look at, and collect the large text that they execute."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hugealign.errors import HugealignError
from hugealign.io.execution import start_thread
from hugealign.process import processes, procfs
from hugealign.process.codefiles import Code
from hugealign.process.processes import Process
from hugealign.process.procfs import FileId

_PATIENCE = 1.0  # seconds for one process: a hanging file system may hold the lock of its mappings (mmap_lock)
_MOST_SILENT = 16  # unresponsive processes; with more, the machine has worse problems than small pages

Look = Callable[[int], Process | None]


@dataclass(frozen=True, slots=True)
class Survey:
    """The result: *executed* have large text, *others* have none, *hidden* are not readable, *silent* did not answer.

    *at* is the time of the survey in seconds since boot (CLOCK_BOOTTIME), and *seconds* its duration.
    """

    executed: tuple[Process, ...]
    others: int
    hidden: int
    silent: tuple[int, ...]
    at: float
    seconds: float


def survey(
    pids: Sequence[int] | None = None,
    look: Look | None = None,
    patience: float = _PATIENCE,
) -> Survey:
    """Look at all processes, or at *pids*; text is large from a huge page in one file, or without a file.

    The survey abandons a process that does not answer for *patience* seconds: it neither hangs with that process nor
    makes the others wait.
    """
    at, began = time.clock_gettime(time.CLOCK_BOOTTIME), time.perf_counter()
    todo = iter(processes.pids() if pids is None else pids)
    codes: dict[FileId, Code] = {}
    work = _Work(todo, look or (lambda pid: processes.read_large(pid, codes)))
    silent: list[int] = []
    while len(silent) < _MOST_SILENT:
        worker = _Worker(work)
        start_thread(worker)
        seen = None
        while not worker.ended.wait(patience):
            if seen == (state := (worker.count, worker.pid, worker.used())):
                break
            seen = state
        if worker.ended.is_set():
            break
        worker.abandoned = True
        silent.append(worker.pid)
    return Survey(tuple(work.executed), work.others, work.hidden, tuple(silent), at, time.perf_counter() - began)


class _Work:
    """The state that all workers share; all but one of them are abandoned."""

    def __init__(self, todo: Iterator[int], look: Look) -> None:
        self.todo = todo
        self.look = look
        self.executed: list[Process] = []
        self.others = 0
        self.hidden = 0


class _Worker(threading.Thread):
    """A thread that looks at one process after another.  A read that never returns ends with hugealign's process."""

    def __init__(self, work: _Work) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.ended = threading.Event()
        self.abandoned = False
        self.count = 0
        self.pid = 0

    def used(self) -> float:
        """Return the thread's processor time: waiting for a lock uses none, reading a long list does."""
        return procfs.used(f"self/task/{self.native_id}")

    def run(self) -> None:
        """Look until no process is left, or the worker is abandoned."""
        work, own = self._work, os.getpid()
        for pid in work.todo:
            self.pid = pid
            self.count += 1
            try:
                executed = work.look(pid) if pid != own else None
            except PermissionError:
                work.hidden += 1
                continue
            except (OSError, HugealignError, ValueError, IndexError):
                continue  # it has ended
            if self.abandoned:
                return
            if executed is None:
                work.others += 1
            else:
                work.executed.append(executed)
        self.ended.set()
