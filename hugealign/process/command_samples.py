"""Sample where a command and all its children run, and record each page fault of their code.

This is like `hugealign.process.perf_samples`, except that the processes may be gone before their mappings could be
read.  So the kernel reports each mapping, too (PERF_RECORD_MMAP2, perf_event_open(2)).
"""

import errno
import os
import signal
import struct
import time
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field

from hugealign.environment import as_given
from hugealign.errors import NotRunnableError
from hugealign.io.units import printable
from hugealign.process.perf_events import (
    LOST,
    SAMPLE,
    SAMPLE_ADDR,
    SAMPLE_CODE_PAGE_SIZE,
    SAMPLE_IP,
    SAMPLE_TID,
    SAMPLE_TIME,
    Ring,
)
from hugealign.process.perf_samples import FREQUENCY, refusal
from hugealign.process.running import Command, Prepare, handling

#: The bits of struct perf_event_attr: disabled, inherit, exclude_kernel, exclude_hv, mmap, comm, freq, enable_on_exec,
#: task, sample_id_all, mmap2, comm_exec.
_FLAGS = sum(1 << bit for bit in (0, 1, 5, 6, 8, 9, 10, 12, 13, 18, 23, 24))
_COMM, _FORK, _MMAP2 = 3, 7, 10
_COMM_EXEC = 1 << 13
_FAULT_FLAGS = _FLAGS & ~sum(1 << bit for bit in (8, 9, 10, 13, 18, 23, 24))  # neither records nor a frequency
_KIND = SAMPLE_IP | SAMPLE_TID | SAMPLE_TIME | SAMPLE_ADDR
_ADDRESS, _PAGE_SIZE = 24, 32  # in a sample: behind address, PID and TID, time
_SMALL = 4096
_WINDOW = 9  # log2 of the pages in a window of 2 MiB
_PAGES = (128, 32)  # per ring: what perf_event_mlock_kb allows an ordinary user, and less if others use it
_PAUSE = 0.05
_MOST_MAPPINGS = 20_000  # per process; a runtime makes new ones all the time
_SHELL = (126, 127)

#: The path of a file and the number of a page in it; for code without a file, "" and the number of its page.
Page = tuple[str, int]


@dataclass(frozen=True, slots=True)
class CommandSamples:
    """How often each page of 4 KiB was sampled, in all processes together, and the command's exit *status*.

    *larger* are those of the samples that the kernel mapped by larger pages, with the size of these in bytes; Linux
    before 5.11 does not tell.
    *status* is None if the command ran out of time, and minus the signal number if a signal ended it.  *lost* is the
    number of records lost because the buffer was full.  *faults* are the page faults of code in user space by page, and
    *windows* the processes that had some by window, the first page of which stands for it; *most* is the number of
    faults of the process with the most.  *used* is the processor time in seconds, of all
    processes together, since the command began.
    """

    pages: "Counter[Page]"
    status: int | None
    lost: int = 0
    larger: "Counter[tuple[Page, int]]" = field(default_factory=Counter)
    faults: "Counter[Page]" = field(default_factory=Counter)
    windows: "Counter[Page]" = field(default_factory=Counter)
    most: int = 0
    used: float = 0.0

    def small(self, window: int) -> "Counter[Page]":
        """Return the samples outside of pages of *window* bytes or more."""
        pages = Counter(self.pages)
        for (page, size), count in self.larger.items():
            if size >= window:
                pages[page] -= count
        return +pages


@dataclass(slots=True)
class Space:
    """The mappings of one process, by address."""

    starts: list[int] = field(default_factory=list)
    ends: dict[int, tuple[int, int, str]] = field(default_factory=dict)
    touched: set[Page] = field(default_factory=set)
    faults: int = 0

    def map(self, start: int, length: int, offset: int, name: str) -> None:
        """Add a mapping; it replaces one with the same start."""
        if start not in self.ends:
            if len(self.starts) >= _MOST_MAPPINGS:
                return
            insort(self.starts, start)
        self.ends[start] = (start + length, offset, name)

    def code(self, address: int) -> Page | None:
        """Return the page at *address* if it is code of a file."""
        page = self.page(address)
        return page if page[0] else None

    def page(self, address: int) -> Page:
        """Return the page at *address*."""
        at = bisect_right(self.starts, address) - 1
        if at >= 0:
            start = self.starts[at]
            end, offset, name = self.ends[start]
            if address < end:
                has_file = name.startswith("/") and not name.startswith(("//anon", "/dev/zero", "/memfd:", "/SYSV"))
                return (name, (address - start + offset) >> 12) if has_file else ("", address >> 12)
        return "", address >> 12

    def copy(self) -> "Space":
        """Return the mappings that a child has at first."""
        return Space(list(self.starts), dict(self.ends))


@dataclass(slots=True)
class Records:
    """Collect the kernel's records in the order of their times."""

    spaces: dict[int, Space] = field(default_factory=dict)
    pages: "Counter[Page]" = field(default_factory=Counter)
    larger: "Counter[tuple[Page, int]]" = field(default_factory=Counter)
    faults: "Counter[Page]" = field(default_factory=Counter)
    windows: "Counter[Page]" = field(default_factory=Counter)
    most: int = 0
    lost: int = 0
    _waiting: list[tuple[int, int, bytes]] = field(default_factory=list)
    _seen: int = 0

    def drain(self, rings: Sequence[Ring], *, last: bool = False) -> None:
        """Collect what the *rings* of all processors hold, now or, unless it is the *last* time, with the next call.

        One ring is read after another, so it can have a start whose fork is in one that was read before.  What is older
        than the newest record of the last call is complete.
        """
        self._waiting += [record for ring in rings for record in ring.drain()]
        times = [_time(kind, body) for kind, _, body in self._waiting]
        ready = [last or at <= self._seen for at in times]
        self._seen = max((self._seen, *times))
        self.take([record for record, is_ready in zip(self._waiting, ready, strict=True) if is_ready])
        self._waiting = [record for record, is_ready in zip(self._waiting, ready, strict=True) if not is_ready]

    def take(self, records: Sequence[tuple[int, int, bytes]]) -> None:
        """Collect *records*: each has type, misc and body."""
        timed = sorted(records, key=lambda record: _time(record[0], record[2]))
        for kind, misc, body in timed:
            with suppress(struct.error):
                self._record(kind, misc, body)

    def _record(self, kind: int, misc: int, body: bytes) -> None:
        if kind == SAMPLE:
            address, pid = struct.unpack_from("=QI", body)
            (fault,) = struct.unpack_from("=Q", body, _ADDRESS)
            if fault:
                self.fault(self.space(pid), fault)
                return
            size = struct.unpack_from("=Q", body, _PAGE_SIZE)[0] if len(body) > _PAGE_SIZE else 0
            self.sample(self.space(pid), address, size)
        elif kind == _MMAP2:
            pid, _, start, length, offset, inode = struct.unpack_from("=IIQQQ8xQ", body)
            name = body[64:-16].partition(b"\0")[0]
            self.mapped(pid, start, length, offset, os.fsdecode(name), inode)
        elif kind == _FORK:
            pid, parent = struct.unpack_from("=II", body)
            if pid != parent:
                self.spaces[pid] = self.space(parent).copy()
        elif kind == _COMM and misc & _COMM_EXEC:
            (pid,) = struct.unpack_from("=I", body)
            self.executed(pid)
        elif kind == LOST:
            self.lost += struct.unpack_from("=QQ", body)[1]

    def space(self, pid: int) -> Space:
        """Return the mappings of *pid*, none at first."""
        return self.spaces.setdefault(pid, Space())

    def mapped(self, pid: int, start: int, length: int, offset: int, name: str, inode: int) -> None:  # noqa: ARG002
        """Note that *pid* maps the file *name*, which has this *inode*."""
        self.space(pid).map(start, length, offset, name)

    def executed(self, pid: int) -> None:
        """Note that *pid* executes another program."""
        self.spaces[pid] = Space()

    def sample(self, space: Space, address: int, size: int) -> None:
        """Count a sample at *address*, in a page of *size* bytes; 0 if that is not known."""
        page = space.page(address)
        self.pages[page] += 1
        if size > _SMALL:
            self.larger[page, size] += 1

    def fault(self, space: Space, address: int) -> None:
        """Count a page fault at *address*."""
        page = space.code(address)
        if page is None:
            return
        self.faults[page] += 1
        space.faults += 1
        self.most = max(self.most, space.faults)
        window = page[0], page[1] >> _WINDOW << _WINDOW
        if window not in space.touched:
            space.touched.add(window)
            self.windows[window] += 1


def _time(kind: int, body: bytes) -> int:
    """Return the time of a record: samples have it in their body, all others at their end (sample_id_all)."""
    return int.from_bytes(body[16:24] if kind == SAMPLE else body[-8:], "little")


def sample_command(
    words: Sequence[str],
    seconds: float | None = None,
    frequency: int = FREQUENCY,
    waiting: Callable[[int], object] = lambda _: None,
    prepare: Prepare = lambda: ("", as_given()),
) -> CommandSamples:
    """Run the command *words* and return where it and its children run, until it ends or *seconds* are over.

    *waiting* is called with the PID while that process waits to become the command; *prepare* is called there.  An
    interrupt from the terminal reaches the command as well and is left to it.  Raises SamplingError, NotRunnableError.
    """
    records = Records()
    with ExitStack() as stack:
        try:
            child = stack.enter_context(Command(words, prepare))
            cpus = sorted(os.sched_getaffinity(0))
            rings = [stack.enter_context(closing(_ring(child.pid, frequency, cpu))) for cpu in cpus]
        except OSError as error:
            raise refusal(error, child.pid, frequency) from error
        # The command decides what an interrupt from the terminal means; we go on until it ends.
        stack.enter_context(handling({signal.SIGINT: signal.SIG_IGN}))
        waiting(child.pid)
        try:
            child.start()
        except OSError as error:
            shells = _SHELL[error.errno == errno.ENOENT]
            raise NotRunnableError(f"{printable(words[0])}: {error.strerror}", shells) from error
        end = None if seconds is None else time.monotonic() + seconds
        try:
            while child.poll() is None and (end is None or time.monotonic() < end):
                time.sleep(_PAUSE)
                records.drain(rings)
            status = child.status
        finally:
            child.end()
            records.drain(rings, last=True)
            used = sum(ring.seconds for ring in rings)
    return CommandSamples(
        records.pages,
        status,
        records.lost,
        records.larger,
        records.faults,
        records.windows,
        records.most,
        used,
    )


def _ring(pid: int, frequency: int, cpu: int) -> Ring:
    """Return the ring of *cpu*.  Raises OSError."""
    for pages in _PAGES:
        try:
            ring, kind = _opened(pid, frequency, cpu, pages)
        except PermissionError:
            if pages == _PAGES[-1]:
                raise
            continue
        ring.add_faults(pid, kind, _FAULT_FLAGS, cpu)
        return ring
    raise AssertionError  # the last one has raised


def _opened(pid: int, frequency: int, cpu: int, pages: int) -> tuple[Ring, int]:
    kind = _KIND | SAMPLE_CODE_PAGE_SIZE
    try:
        return Ring(pid, frequency, kind, _FLAGS, pages, cpu), kind
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return Ring(pid, frequency, _KIND, _FLAGS, pages, cpu), _KIND
