"""Check files in several processes, with the results in the order of the inputs.

A batch of files is one unit of work.  Each worker has a pipe of its own: if a worker is killed, its pipe ends, and the
rest of its batch goes to a new worker, file by file, so the file that it died on gets a report.
"""

import collections
import contextlib
import multiprocessing
import multiprocessing.connection
import multiprocessing.process
import signal
from collections.abc import Iterable, Iterator

from hugealign.verification.archives.kinds import Counts
from hugealign.verification.inputs import Begin, End, Step, Task
from hugealign.verification.model import FileReport
from hugealign.verification.opening import Terms, check_path

_PART = 64  # reports that a worker sends at once
_AHEAD = 4  # batches per worker that may wait for an earlier one
_HELD = 16  # parts of one batch that may wait; then its worker does
_Result = Begin | End | FileReport | Counts
_Connection = multiprocessing.connection.Connection
_CONTEXT = multiprocessing.get_context("fork")  # starts in 1 ms, with everything imported; we have no threads


class _Unit:
    """A batch, or a step that needs no work, and the results so far."""

    def __init__(self, step: Step) -> None:
        self.tasks = step if isinstance(step, list) else []
        self.results: collections.deque[list[_Result]] = collections.deque()
        self.finished = 0  # tasks
        self.within = False  # part of the next task's reports are here
        self.done = not self.tasks
        if not isinstance(step, list):
            self.results.append([step])


class _Worker:
    """A process, the pipe to it, and the unit that it works on."""

    def __init__(self, terms: Terms) -> None:
        self.connection, theirs = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_work, args=(theirs, self.connection, terms), daemon=True)
        self.process.start()
        theirs.close()
        self.unit: _Unit | None = None
        self.alone = False

    def give(self, unit: _Unit, *, alone: bool) -> None:
        """Let it check the rest of *unit*; *alone*: only the first file of that."""
        self.unit, self.alone = unit, alone
        with contextlib.suppress(OSError):  # it was killed while it waited: its pipe has ended, which is seen next
            self.connection.send(unit.tasks[unit.finished :][: 1 if alone else None])

    def stop(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()


def results(steps: Iterable[Step], terms: Terms, jobs: int) -> Iterator[_Result]:
    """Yield the results of *steps* in their order, checked by *jobs* processes."""
    workers = [_Worker(terms) for _ in range(jobs)]
    try:
        yield from _Pool(iter(steps), terms, workers).results()
    finally:
        for worker in workers:
            worker.stop()


class _Pool:
    """The workers, the units in their order, and those to give out again."""

    def __init__(self, steps: Iterator[Step], terms: Terms, workers: list[_Worker]) -> None:
        self._steps = steps
        self._settings = terms
        self._workers = workers
        self._units: collections.deque[_Unit] = collections.deque()
        self._again: collections.deque[_Unit] = collections.deque()
        self._exhausted = False

    def results(self) -> Iterator[_Result]:
        while True:
            self._give_out()
            while self._units and (self._units[0].results or self._units[0].done):
                first = self._units[0]
                while first.results:
                    yield from first.results.popleft()
                if first.done:
                    self._units.popleft()
            if not self._units and self._exhausted:
                return
            self._receive()

    def _give_out(self) -> None:
        for worker in self._workers:
            if worker.unit is None:
                if self._again:
                    worker.give(self._again.popleft(), alone=True)
                elif unit := self._next():
                    worker.give(unit, alone=False)

    def _next(self) -> _Unit | None:
        while not self._exhausted and len(self._units) < _AHEAD * len(self._workers):
            step = next(self._steps, None)
            if step is None:
                self._exhausted = True
                return None
            unit = _Unit(step)
            self._units.append(unit)
            if unit.tasks:
                return unit
        return None

    def _receive(self) -> None:
        busy = {
            worker.connection: worker
            for worker in self._workers
            if worker.unit and (worker.unit is self._units[0] or len(worker.unit.results) < _HELD)
        }
        if not busy:
            return
        for connection in multiprocessing.connection.wait(list(busy)):
            worker = busy[connection]  # type: ignore[index]
            try:
                finished, part, within = worker.connection.recv()
            except (EOFError, OSError):
                self._replace(worker)
            else:
                self._take(worker, finished, part, within=within)

    def _take(self, worker: _Worker, finished: int, part: list[_Result], *, within: bool) -> None:
        unit = worker.unit
        assert unit is not None  # noqa: S101  # only busy workers are listened to
        unit.results.append(part)
        unit.finished += finished
        unit.within = within
        if unit.finished == len(unit.tasks):
            unit.done = True
            worker.unit = None
        elif worker.alone and finished:
            worker.unit = None
            self._again.append(unit)

    def _replace(self, worker: _Worker) -> None:
        """*worker* died: give out the rest of its unit again, one file at a time; a file that it had alone is lost."""
        unit = worker.unit
        assert unit is not None  # noqa: S101  # only busy workers are listened to
        worker.process.join()
        lost = worker.alone or unit.within or len(unit.tasks) - unit.finished == 1
        if lost:
            why = _death(worker.process.exitcode)
            unit.results.append([FileReport(unit.tasks[unit.finished].path, reason=why)])
            unit.finished += 1
            unit.within = False
            unit.done = unit.finished == len(unit.tasks)
        if not unit.done:
            self._again.append(unit)
        worker.stop()
        self._workers[self._workers.index(worker)] = _Worker(self._settings)


def _death(status: int | None) -> str:
    if status is not None and status < 0:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else str(-status)
        return f"the process that checked it was killed by {name}" + (": out of memory?" if name == "SIGKILL" else "")
    return f"the process that checked it ended with status {status}"


def _work(connection: _Connection, parents: _Connection, terms: Terms) -> None:
    """Check batch after batch until the parent closes the pipe; interrupts end it at once, silently."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parents.close()
    try:
        while True:
            _check(connection, connection.recv(), terms)
    except (EOFError, OSError):
        return


def _check(connection: _Connection, tasks: list[Task], terms: Terms) -> None:
    """Send (files finished since the last message, results, whether a file is half done) until all are finished."""
    part: list[_Result] = []
    finished = 0
    for task in tasks:
        counts = Counts()
        sent = False
        for report in check_path(task, terms, counts):
            part.append(report)
            if len(part) >= _PART:
                connection.send((finished, part, True))
                finished, part, sent = 0, [], True
        part.append(counts)
        finished += 1
        if sent or len(part) >= _PART:  # a file sent in parts ends with a message: no other is mixed in
            connection.send((finished, part, False))
            finished, part = 0, []
    if finished:
        connection.send((finished, part, False))
