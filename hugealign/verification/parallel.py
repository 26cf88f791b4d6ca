"""Check files in several processes, with the results in the order of the inputs.

A batch of files is one unit of work.  If a process dies, the batches that wait are checked once more, file by file, so
that the file it died on gets a report.
"""

import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing.connection import Connection, wait

from hugealign.diagnosis.values import Diagnosis
from hugealign.errors import HugealignError, cause
from hugealign.verification.inputs import Step, Task
from hugealign.verification.opening import Requirements, check_path
from hugealign.verification.result import FileReport

_AHEAD = 4  # batches per process that may wait for an earlier one
_Checked = tuple[list[FileReport], "Counter[str]"]
_CONTEXT = multiprocessing.get_context("fork")  # a worker starts in 1 ms, with everything imported


def results(
    steps: Iterable[Step], requirements: Requirements, jobs: int
) -> Iterator[tuple[Step, list[FileReport], "Counter[str]"]]:
    """Yield *steps* in their order, each with the reports and counts that *jobs* processes make of it."""
    waiting: deque[tuple[Step, Future[_Checked]]] = deque()
    left = iter(steps)
    pool = _Pool(requirements, jobs)
    try:
        while True:
            while len(waiting) < _AHEAD * jobs and (step := next(left, None)):
                waiting.append((step, pool.submit(step.tasks)))
            if not waiting:
                return
            step, future = waiting.popleft()
            if _died(future):
                pool.stop()
                reports, passed = _one_by_one(step.tasks, requirements)
                pool = _Pool(requirements, jobs)
                waiting = deque((s, pool.submit(s.tasks) if not f.done() or _died(f) else f) for s, f in waiting)
            else:
                reports, passed = future.result()
            yield step, reports, passed
    finally:
        pool.stop()


class _Pool:
    """Processes that end when the pipe to them is closed: with us, or when we stop them."""

    def __init__(self, requirements: Requirements, jobs: int) -> None:
        theirs, self._ours = _CONTEXT.Pipe(duplex=False)
        self._requirements = requirements
        self._executor = ProcessPoolExecutor(jobs, _CONTEXT, _begin, (theirs, self._ours))

    def submit(self, tasks: list[Task]) -> "Future[_Checked]":
        """Have *tasks* checked; if a process has died, the future holds that at once."""
        try:
            return self._executor.submit(_check, tasks, self._requirements)
        except BrokenProcessPool as error:
            future: Future[_Checked] = Future()
            future.set_exception(error)
            return future
        except (OSError, RuntimeError) as error:  # fork(2), pthread_create(3): EAGAIN
            raise HugealignError(f"no process can be started: {cause(error)}; give a smaller -j") from error

    def stop(self) -> None:
        self._ours.close()
        with suppress(RuntimeError):  # its own thread could not be started, and so it cannot be joined
            self._executor.shutdown(cancel_futures=True)


def _died(future: "Future[_Checked]") -> bool:
    """Wait for *future*, and return whether a process died before it was done."""
    return isinstance(future.exception(), BrokenProcessPool)


def _one_by_one(tasks: list[Task], requirements: Requirements) -> _Checked:
    """Check *tasks*; a file on which a process dies gets a report that says so."""
    reports: list[FileReport] = []
    passed: Counter[str] = Counter()
    pool = _Pool(requirements, 1)
    try:
        for task in tasks:
            future = pool.submit([task])
            if _died(future):
                reports.append(FileReport(task.path, problem=Diagnosis("file.worker", task.path, {})))
                pool.stop()
                pool = _Pool(requirements, 1)
            else:
                more, counts = future.result()
                reports += more
                passed += counts
    finally:
        pool.stop()
    return reports, passed


def _begin(pipe: Connection, parents: Connection) -> None:
    """Begin a worker: an interrupt ends it at once, silently, and so does the end of *pipe*."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parents.close()
    try:
        threading.Thread(target=_end_with, args=(pipe,), daemon=True).start()
    except RuntimeError:  # no room for a thread: nothing would end this process with its parent
        os._exit(1)


def _end_with(pipe: Connection) -> None:
    wait([pipe])
    os._exit(1)


def _check(tasks: list[Task], requirements: Requirements) -> _Checked:
    passed: Counter[str] = Counter()
    return [report for task in tasks for report in check_path(task, requirements, passed)], passed
