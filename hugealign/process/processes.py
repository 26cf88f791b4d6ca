"""Look at running processes through /proc: their identity, and how their text is mapped."""

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Self

from hugealign.diagnosis.refusal import DiagnosedError, error_name
from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.io import mounts
from hugealign.io.descriptors import using
from hugealign.process import codefiles, pagemap, procfs, smaps, starts
from hugealign.process.codefiles import Code
from hugealign.process.procfs import GONE, PROC, FileId
from hugealign.records import Record
from hugealign.system import kernel

_LEAST_HUGE = 64 << 10  # bytes: the smallest huge page of any kernel (hugetlb on arm64, which smaps counts)
_CAPABILITIES = {"CAP_SYS_PTRACE": 19, "CAP_SYS_NICE": 23, "CAP_PERFMON": 38}  # include/uapi/linux/capability.h
_ATTEMPTS = 5  # at a look during which the process changes neither its program nor its pages


class ProcessError(DiagnosedError):
    """The process cannot be examined: it is gone, not ours, or has no memory of its own."""


class GoneError(ProcessError):
    """The process does not exist, or no longer."""

    @classmethod
    def of_pid(cls, pid: int) -> Self:
        """Return the error for the process *pid*."""
        return cls.of(about("process.gone", pid))


class Process(Record):
    """One process at one moment.  All names and paths are as the kernel gives them: untrusted text."""

    pid: int
    """Its PID in our PID namespace."""
    comm: str
    exe: str
    """The path of its executable."""
    exe_id: FileId
    """The ``(st_dev, st_ino)`` of that file."""
    mappings: tuple[smaps.Mapping, ...]
    """The executable ones, with their pages as far as these were requested."""
    files: tuple[str, ...] = ()
    """All files that it executes."""
    used: float = 0.0
    """Its processor time in seconds."""
    started: float = 0.0
    """Seconds from boot to its start, which also tells it from an older one with its PID."""
    # Only `read` finds these four.
    thp_disabled: bool | None = None
    """Whether prctl(PR_SET_THP_DISABLE) is in force for it."""
    elsewhere: bool = False
    """Whether its path does not lead to this file here: it lives in a container or another mount namespace."""
    served: bool = False
    """Whether the file or its name is on a server, which may not answer."""
    inner_pids: tuple[int, ...] = ()
    """Its PIDs in the PID namespaces inside ours, the innermost last."""
    called: str = ""
    """The path by which it was started, perhaps a link; empty if none is known that leads there (only `read_large`)."""

    @property
    def program(self) -> str:
        """The path by which to start the program again."""
        return self.called or self.exe

    def is_program(self, mapping: smaps.Mapping) -> bool:
        """Whether *mapping* is of the program's own file, or is memory in the place of its text; not of a library."""
        # btrfs and overlayfs show another device in /proc/PID/maps than in stat, so the name counts as well.
        if mapping.own or mapping.path == self.exe:
            return True
        return mapping.inode == self.exe_id[1] and mapping.is_file and os.makedev(*mapping.device) == self.exe_id[0]

    def text(self, libraries: bool = False, anonymous: bool = False) -> tuple[smaps.Mapping, ...]:
        """Return the executable mappings of the program, on request also those of other files and without a file."""
        return tuple(m for m in self.mappings if self.is_text(m, libraries, anonymous))

    def is_text(self, mapping: smaps.Mapping, libraries: bool = False, anonymous: bool = False) -> bool:
        """Whether `text` returns *mapping*."""
        return mapping.executable and (
            self.is_program(mapping)
            or (libraries and mapping.is_file and not mapping.without_file)
            or (anonymous and mapping.without_file)
        )


def read(pid: int, libraries: bool = False, anonymous: bool = False) -> Process:
    """Return the kernel's view of process *pid* now, with the pages of the mappings that `Process.text` returns.

    Raises ProcessError; GoneError if the process does not exist or ends meanwhile.
    """
    with failures(pid), procfs.opened(pid) as directory:
        for _ in range(_ATTEMPTS):
            process = _identify(pid, directory)
            seen, steady = _read(process, directory, libraries, anonymous)
            if steady and procfs.program(pid, directory) == (seen.exe, seen.exe_id):
                break
    return seen


def read_large(pid: int, codes: dict[FileId, Code] | None = None) -> Process | None:
    """Return what *pid* executes, cheaply; None if it has less than a huge page in each file, and without a file.

    The mappings are those of files that have so much in total, and those without a file if they have.  `read` also
    reads smaps, which walks all pages of a process, and knows more.  Most processes have no text large enough to
    matter, and of those this reads only the list of mappings.  *codes* is for many calls at once: it keeps the code of
    files that several processes map.  Raises OSError if the process is gone or not ours, HugealignError where only
    smaps is left.
    """
    page_size = kernel.huge_page_size()
    place = f"{PROC}/{pid}"
    lines = procfs.executable(f"{place}/maps", least=page_size)
    if lines is None and (other := procfs.living(pid)) != place:
        place = other
        lines = procfs.executable(f"{place}/maps", least=page_size)
    sizes: dict[bytes, int] = {}
    for line in lines or ():
        start, end, path = line.groups()
        file = path if path.startswith(b"/") else b""
        sizes[file] = sizes.get(file, 0) + int(end, 16) - int(start, 16)
    if max(sizes.values(), default=0) < page_size:
        return None
    large = [
        os.fsdecode(line[0])
        for line in lines or ()
        if sizes[line[3] if line[3].startswith(b"/") else b""] >= page_size and not line[3].startswith(b"[v")
    ]
    stat = procfs.stat(f"{PROC}/{pid}/stat")
    with using(os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as directory:
        exe, exe_id = procfs.program(pid, directory)
        parsed = list(smaps.parse(large))
        served = any(m.without_file for m in parsed) and mounts.served(exe_id[0], pid)
        mappings = tuple(_placed(parsed, directory, exe, exe_id, served))
        files = tuple(os.fsdecode(path).removesuffix(GONE) for path in sizes if path)
        process = Process(pid, stat.comm, exe, exe_id, mappings, files, stat.used, stat.started)
        mappings = _with_windows(process, mappings, directory, codes)
    return process.changed(mappings=mappings, called=starts.called(pid, exe_id, exe))


def with_windows(process: Process, mappings: Sequence[smaps.Mapping]) -> tuple[smaps.Mapping, ...]:
    """Return *mappings* of *process* with their code, and with their pages if they have windows, as `read_large` does.

    Raises OSError, HugealignError.
    """
    with procfs.opened(process.pid) as directory:
        return _with_windows(process, mappings, directory)


def with_code(
    process: Process, mappings: Iterable[smaps.Mapping], codes: dict[FileId, Code] | None = None
) -> tuple[smaps.Mapping, ...]:
    """Return *mappings* of *process*, those with windows with the addresses of their code.

    *codes* are as in `read_large`.
    """
    return tuple(
        codefiles.with_code(process.pid, m, process.is_program(m), process.elsewhere, codes)
        if m.windows_possible
        else m
        for m in mappings
    )


@contextlib.contextmanager
def failures(pid: int) -> Iterator[None]:
    """Raise ProcessError for an OSError in the block, which looks at *pid*; GoneError if that does not exist."""
    try:
        yield
    except (FileNotFoundError, ProcessLookupError):
        raise GoneError.of_pid(pid) from None
    except PermissionError:
        # ptrace(2), access mode checking
        raise ProcessError.of(denied("process.forbidden", pid, errno.EACCES, "CAP_SYS_PTRACE")) from None
    except (OSError, OverflowError) as error:
        raise ProcessError.of(about("process.refused", pid, error=error_name(error))) from error


def about(code: str, pid: int, **facts: int | str) -> Diagnosis:
    """Return the diagnosis of the process *pid* that *code* and *facts* say."""
    return Diagnosis(code, str(pid), {"process": pid, **facts})


def denied(code: str, pid: int, number: int, *needed: str) -> Diagnosis:
    """Return that we lack *needed* capabilities, which *code* says, for what the kernel refused about *pid*.

    If we have all of them, only the error *number* is known.
    """
    effective = int(procfs.status(f"{PROC}/self/status").get("CapEff", "0"), 16)
    lacking = [name for name in needed if not effective >> _CAPABILITIES[name] & 1]
    if not lacking:
        return about("process.refused", pid, error=errno.errorcode.get(number, str(number)))
    diagnosis = about(code, pid, capability=", ".join(lacking))
    return diagnosis.changed(remedy=Remedy("as-root")) if os.geteuid() else diagnosis


def pids() -> list[int]:
    """Return the PIDs of all processes that /proc shows us, among them our own.  Raises ProcessError without /proc."""
    numbers = sorted(int(name) for name in os.listdir(PROC) if name.isascii() and name.isdecimal())
    if not numbers:
        raise ProcessError("machine.no-proc")
    return numbers


def comm(pid: int) -> str:
    """Return the name of a process, untrusted.  Raises OSError."""
    return os.fsdecode(procfs.read(f"{PROC}/{pid}/comm")).removesuffix("\n")


def users(info: os.stat_result, path: str) -> list[int]:
    """Return the PIDs of the processes that map the file *path* (*info*), as far as we may look at them."""
    users_of_file = []
    device = (os.major(info.st_dev), os.minor(info.st_dev))
    real = os.path.realpath(path)
    inode = f" {info.st_ino} "  # other lines need not be parsed
    for pid in pids():
        try:
            mappings = smaps.parse(line for line in procfs.maps(pid) if inode in line)
            if any(m.inode == info.st_ino and (m.device == device or m.path == real) for m in mappings):
                users_of_file.append(pid)
        except OSError:
            continue  # ended, or not ours
    return users_of_file


def thp_disabled(process: Process) -> bool:
    """Return whether huge pages are disabled for *process*, which `read_large` does not find out.  Raises OSError."""
    if process.thp_disabled is not None:
        return process.thp_disabled
    return procfs.without_thp(procfs.status(f"{procfs.living(process.pid)}/status"))


def no_huge(pid: int, address: int) -> bool:
    """Return whether the mapping of *pid* at *address* was given MADV_NOHUGEPAGE.  Raises OSError."""
    mapping = next((m for m in procfs.counted(f"{procfs.living(pid)}/smaps") if address < m.end), None)
    return mapping is not None and mapping.start <= address and mapping.no_huge


def _identify(pid: int, directory: int) -> Process:
    """Return the process of the open /proc/PID *directory*, without mappings."""
    status, stat = procfs.status("status", directory), procfs.stat(f"{PROC}/{pid}/stat")
    if "VmSize" not in status:  # no address space: task_mem in fs/proc/task_mmu.c is not called
        # A process that is about to end has none either, before it is a zombie (exit_mm in kernel/exit.c).
        if stat.kernel_thread:
            raise ProcessError.of(about("process.kernel-thread", pid))
        raise GoneError.of_pid(pid)
    exe, exe_id = procfs.program(pid, directory)
    served = mounts.served(exe_id[0], pid) or mounts.behind_server(exe, pid) or mounts.behind_server(exe)
    there = procfs.seen_identity
    return Process(
        pid,
        stat.comm,
        exe,
        exe_id,
        mappings=(),
        used=stat.used,
        started=stat.started,
        thp_disabled=procfs.without_thp(status),
        elsewhere=not served and there(exe) != exe_id and there(f"root{exe}", directory) == exe_id,
        served=served,
        inner_pids=tuple(map(int, status.get("NSpid", "").split()[1:])),
    )


def _read(process: Process, directory: int, libraries: bool, anonymous: bool) -> tuple[Process, bool]:
    """Return *process* with its mappings, and whether all data read is consistent."""
    lines = procfs.executable("maps", directory) or ()
    parsed = list(smaps.parse(os.fsdecode(line[0]) for line in lines))
    mappings = list(_placed(parsed, directory, process.exe, process.exe_id, process.served))
    wanted = [at for at, m in enumerate(mappings) if process.is_text(m, libraries, anonymous)]
    present: Sequence[tuple[pagemap.Region, ...] | None] = [None] * len(wanted)  # Linux before 6.7 has only counts
    with contextlib.suppress(OSError):
        present = _pages(directory, [mappings[at] for at in wanted])
    # smaps walks all pages that it shows, seconds for a large heap, so it is read only as far as its counts are needed.
    counts = [mappings[at] for at, pages in zip(wanted, present, strict=True) if _needs_counts(mappings[at], pages)]
    counted: dict[tuple[int, int], smaps.Mapping] = {}
    for mapping in procfs.counted("smaps", directory) if counts else ():
        counted[mapping.start, mapping.end] = mapping
        if mapping.end >= counts[-1].end:
            break
    gone = set()
    steady = bool(wanted)  # nothing is listed while exec replaces the program
    for at, pages in zip(wanted, present, strict=True):
        listed, rss = mappings[at], sum(region.end - region.start for region in pages or ())
        if not _needs_counts(listed, pages):
            mappings[at] = listed.changed(pages=pages, rss=rss)
        elif count := counted.get((listed.start, listed.end)):
            mappings[at] = count.changed(pages=pages, path=listed.path, deleted=listed.deleted, own=listed.own)
            steady &= pages is None or count.huge == sum(r.end - r.start for r in pages if r.huge)
        else:
            gone.add(at)
    kept = tuple(m for at, m in enumerate(mappings) if at not in gone)
    files = tuple(dict.fromkeys(m.path for m in kept if m.is_file))
    return process.changed(mappings=kept, files=files), steady and not gone


def _needs_counts(mapping: smaps.Mapping, pages: tuple[pagemap.Region, ...] | None) -> bool:
    """Return whether *mapping*, whose present *pages* are known or not, can have a huge page of some kind."""
    return pages is None or mapping.size >= _LEAST_HUGE


def _placed(
    mappings: Sequence[smaps.Mapping], directory: int, exe: str, exe_id: FileId, served: bool
) -> Iterator[smaps.Mapping]:
    """Yield *mappings* of the program *exe*, marked if they have taken the place of its text.

    None is marked as deleted if the name of its file merely ends like that.
    """
    text = codefiles.own_text(directory) if not served and any(m.without_file for m in mappings) else ()
    for mapping in mappings:
        # The inode alone: btrfs and overlayfs show another device in /proc/PID/maps than in stat.
        if mapping.deleted and exe == f"{mapping.path}{GONE}" and mapping.inode == exe_id[1]:
            yield mapping.changed(path=exe, deleted=False)
        else:
            yield codefiles.with_own(mapping, text)


def _with_windows(
    process: Process,
    mappings: Sequence[smaps.Mapping],
    directory: int,
    codes: dict[FileId, Code] | None = None,
) -> tuple[smaps.Mapping, ...]:
    coded = with_code(process, mappings, codes)
    windowed = [mapping for mapping in coded if mapping.windows_possible]
    try:
        present = dict(zip((m.start for m in windowed), _pages(directory, windowed), strict=True)) if windowed else {}
    except (ProcessLookupError, PermissionError):
        raise
    except OSError:  # Linux before 6.7
        counted = {m.start: m for m in read(process.pid, libraries=True, anonymous=True).mappings}
        return tuple(counted.get(m.start, m).changed(code=m.code, own=m.own) for m in coded)
    return tuple(mapping.changed(pages=present.get(mapping.start, ())) for mapping in coded)


def _pages(directory: int, mappings: Sequence[smaps.Mapping]) -> list[tuple[pagemap.Region, ...]]:
    """Return the present pages of each of *mappings* of the process whose open /proc/PID is *directory*."""
    with using(os.open("pagemap", os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)) as fd:
        return pagemap.scan_each(fd, [(m.start, m.end) for m in mappings])
