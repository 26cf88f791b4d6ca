"""Sample the whole machine: what starts, where programs run, and which page faults their text costs.

For root.  The kernel's records (perf_event_open(2)) tell of each program that starts, so nothing has to stay resident
to count starts; of page faults one in some is enough.
"""

import os
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field

from hugealign.process import containers, groups, processes, procfs, smaps
from hugealign.process.command_samples import Page, Records, Space
from hugealign.process.containers import Origin
from hugealign.process.perf_events import SAMPLE_ADDR, SAMPLE_IP, SAMPLE_TID, SAMPLE_TIME, Ring
from hugealign.process.perf_samples import refusal

FREQUENCY = 199  # Hz; no divisor of the usual clocks
_PERIOD = 7  # one page fault in 7 is recorded: a machine that compiles on each core has 100,000 of them per second
_PAGES = 1024  # of a ring: 4 MiB
_PAUSE = 0.05
_KIND = SAMPLE_IP | SAMPLE_TID | SAMPLE_TIME | SAMPLE_ADDR
#: The bits of struct perf_event_attr: exclude_hv, exclude_idle, mmap, comm, freq, task, sample_id_all, mmap2,
#: comm_exec.  The kernel's own time counts: it is what page faults cost.
_FLAGS = sum(1 << bit for bit in (6, 7, 8, 9, 10, 13, 18, 23, 24))
_FAULT_FLAGS = 1 << 5 | 1 << 6 | 1 << 18  # exclude_kernel, exclude_hv, sample_id_all
_KERNEL = 1 << 63  # addresses from here on are the kernel's (Documentation/arch/x86/x86_64/mm.rst; arm64 alike)
_MOST = 1 << 16  # programs, and files of each, that are counted apart

#: A container, by the beginning of its group.
CONTAINER = "container "


@dataclass(slots=True)
class Use:
    """How much a *program* uses that one *owner* has started: a service, a container, or "" for all others.

    It has taken *seconds* of processor time and started *starts* times; *pages* are the samples of its code by page,
    and *faults* the page faults of it.  *files* are those that it can execute, with their inodes.
    *root*: root runs it.
    """

    program: str
    owner: str
    root: bool = False
    starts: int = 0
    seconds: float = 0.0
    pages: "Counter[Page]" = field(default_factory=Counter)
    faults: "Counter[Page]" = field(default_factory=Counter)
    files: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MachineSamples:
    """The *uses* of text on the machine over *seconds*; *lost* records found no room.

    *origins* say of owners that are containers where their files come from, as far as that was seen.
    """

    uses: tuple[Use, ...]
    seconds: float
    lost: int
    origins: Mapping[str, Origin] = field(default_factory=dict)


@dataclass(slots=True)
class _Running(Space):
    """The mappings of one process, who has started it, and the *use* that it counts to once its program is known.

    One whose *owner* is None counts to nothing: it ended before that was known, and may be a container's.
    """

    owner: str | None = None
    root: bool = False
    use: Use | None = None

    def copy(self) -> "_Running":
        """Return what a child has at first."""
        return _Running(list(self.starts), dict(self.ends), owner=self.owner, root=self.root, use=self.use)


class _Everything(Records):
    """Collect the records of all processes, by program and owner."""

    def __init__(self) -> None:
        super().__init__()
        self.uses: dict[tuple[str, str, bool], Use] = {}
        self.origins: dict[str, Origin] = {}

    def space(self, pid: int) -> _Running:
        """Return what is known of *pid*; of one that runs already, /proc tells."""
        known = self.spaces.get(pid)
        if not isinstance(known, _Running):
            known = self.spaces[pid] = self._running(pid)
        return known

    def _running(self, pid: int) -> _Running:
        running = _Running()
        if pid == os.getpid():  # the look itself
            return running
        with suppress(OSError, ValueError):
            running.owner, running.root = self._owner(pid)
            program = os.readlink(f"{procfs.PROC}/{pid}/exe").removesuffix(procfs.GONE)
            running.use = self.use(program, running)
            for mapping in smaps.parse(procfs.maps(pid), executable=True):
                if mapping.is_file and not mapping.deleted:
                    running.map(mapping.start, mapping.size, mapping.offset, mapping.path)
                    running.use.files[mapping.path] = mapping.inode
        return running

    def use(self, program: str, running: _Running) -> Use:
        """Return the use of *program* by who has started *running*."""
        key = program, running.owner or "", running.root
        if key not in self.uses and len(self.uses) >= _MOST:
            key = "", "", False
        return self.uses.setdefault(key, Use(*key))

    def executed(self, pid: int) -> None:
        """Note a start; a process may have moved into another control group since it was forked."""
        before = self.space(pid)
        running = self.spaces[pid] = _Running(owner=before.owner, root=before.root)
        with suppress(OSError, ValueError):  # it has ended
            running.owner, running.root = self._owner(pid)

    def _owner(self, pid: int) -> tuple[str, bool]:
        """Return what has started *pid*, and whether root runs it.  Raises OSError."""
        owner, root = _owner(pid)
        if owner.startswith(CONTAINER) and owner not in self.origins and len(self.origins) < _MOST:
            with suppress(OSError):  # the next process of it may live longer
                if origin := containers.origin(pid):
                    self.origins[owner] = origin
        return owner, root

    def mapped(self, pid: int, start: int, length: int, offset: int, name: str, inode: int) -> None:
        """Add a mapping; the first one of a program is that of its own text (load_elf_binary in fs/binfmt_elf.c)."""
        running = self.space(pid)
        running.map(start, length, offset, name)
        if running.use is None and running.owner is not None:
            running.use = self.use(name, running)
            running.use.starts += 1
        if running.use and name.startswith("/") and len(running.use.files) < _MOST:
            running.use.files[name] = inode

    def sample(self, space: Space, address: int, size: int) -> None:  # noqa: ARG002
        """Count a sample."""
        if isinstance(space, _Running) and (use := space.use):
            use.seconds += 1.0 / FREQUENCY
            if address < _KERNEL and (page := space.code(address)):
                use.pages[page] += 1

    def fault(self, space: Space, address: int) -> None:
        """Count a page fault of text, and those that were not recorded."""
        if isinstance(space, _Running) and space.use and (page := space.code(address)):
            space.use.faults[page] += _PERIOD


def _owner(pid: int) -> tuple[str, bool]:
    """Return what has started *pid*, and whether root runs it.  Raises OSError."""
    text = groups.of_process(pid)
    if not text:
        raise ProcessLookupError  # it is about to be gone, and its directory is still there
    root = os.stat(f"{procfs.PROC}/{pid}").st_uid == 0
    if container := groups.container(text):
        return CONTAINER + container, root
    return groups.service(text), root


def sample_machine(seconds: float) -> MachineSamples:
    """Return how the whole machine uses text for *seconds*.  Raises SamplingError."""
    records = _Everything()
    with ExitStack() as stack:
        rings = []
        for cpu in sorted(os.sched_getaffinity(0)):
            try:
                ring = stack.enter_context(closing(Ring(-1, FREQUENCY, _KIND, _FLAGS, _PAGES, cpu)))
                ring.add_faults(-1, _KIND, _FAULT_FLAGS, cpu, _PERIOD)
            except OSError as error:
                raise refusal(error, os.getpid(), FREQUENCY) from error
            rings.append(ring)
        for pid in processes.pids():
            records.space(pid)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(_PAUSE, left))
            records.drain(rings)
        records.drain(rings, last=True)
    uses = tuple(use for use in records.uses.values() if use.program)
    return MachineSamples(uses, seconds, records.lost, records.origins)
