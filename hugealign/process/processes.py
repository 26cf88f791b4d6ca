"""Look at running processes through /proc: their identity, and how their text is mapped."""

import contextlib
import ctypes
import errno
import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

from hugealign.diagnosis.refusal import DiagnosedError, error_name
from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.io import mounts
from hugealign.io.descriptors import using
from hugealign.io.numbers import decimal
from hugealign.io.units import nearest
from hugealign.process import codefiles, groups, pagemap, smaps

_PROC = "/proc"
_FLAGS, _STARTED = 9 - 4, 22 - 4  # proc(5) counts from 1; the first three fields are left out
_PF_KTHREAD = 0x00200000  # include/linux/sched.h
_LEAST_HUGE = 64 << 10  # bytes: the smallest huge page of any kernel (hugetlb on arm64, which smaps counts)
_COMM_LENGTH = 15  # TASK_COMM_LEN - 1 in include/linux/sched.h: the kernel cuts names there
_PID_LIMIT = (1 << 64) - 1  # the kernel stops at 2**22; larger numbers are looked up, in vain
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CAPABILITIES = {"CAP_SYS_PTRACE": 19, "CAP_SYS_NICE": 23, "CAP_PERFMON": 38}  # include/uapi/linux/capability.h
_ATTEMPTS = 5  # at a look during which the process changes neither its program nor its pages

_AT_STATX_DONT_SYNC, _STATX_INO, _STATX_BTIME = 0x4000, 0x100, 0x800
#: The offsets of stx_ino, stx_dev_major and stx_dev_minor in struct statx (include/uapi/linux/stat.h), and its size.
_INO, _BTIME, _MAJOR, _MINOR, _SIZE = 0x20, 0x50, 0x88, 0x8C, 0x100


class ProcessError(DiagnosedError):
    """The process cannot be examined: it is gone, not ours, or has no memory of its own."""


class GoneError(ProcessError):
    """The process does not exist, or no longer."""

    @classmethod
    def of_pid(cls, pid: int) -> Self:
        """Return the error for the process *pid*."""
        return cls.of(about("process.gone", pid))


@dataclass(frozen=True, slots=True)
class Process:
    """One process at one moment.  *comm* and *exe* are as the kernel gives them: untrusted text.

    *exe* is the program's own file, *exe_id* its ``(st_dev, st_ino)``.  *mappings* are the executable ones that were
    asked for, and the read-only ones.  *elsewhere*: here the name *exe* does not lead to this file, since the process
    lives in a container or another mount namespace.  *served*: the file or its name is on a server, which may not
    answer.  *started* is in clock ticks since boot, and tells a process from an older one with its PID.  *inner_pids*
    are its PIDs in the PID namespaces inside ours, the innermost last.
    """

    pid: int
    comm: str
    exe: str
    exe_id: tuple[int, int]
    thp_disabled: bool
    mappings: tuple[smaps.Mapping, ...]
    elsewhere: bool = False
    served: bool = False
    started: int = 0
    inner_pids: tuple[int, ...] = ()

    def is_program(self, mapping: smaps.Mapping) -> bool:
        """Whether *mapping* is of the program's own file, or is memory in the place of its text; not of a library."""
        # btrfs and overlayfs show another device in /proc/PID/maps than in stat, so the name counts as well.
        same_file = (os.makedev(*mapping.device), mapping.inode) == self.exe_id
        return mapping.own or (mapping.is_file and (same_file or mapping.path == self.exe))

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


def look(pid: int, libraries: bool = False, anonymous: bool = False) -> Process:
    """Return the kernel's view of process *pid* now; `Process.text` tells which mappings it has.

    Raises ProcessError; GoneError if the process does not exist or ends meanwhile.
    """
    try:
        # One descriptor for all reads: should the process end and its number be reused, they fail with ESRCH.
        with using(os.open(living(pid), _DIRECTORY)) as directory:
            for _ in range(_ATTEMPTS):
                process = _identify(pid, directory)
                seen, steady = _read(process, directory, libraries, anonymous)
                if steady and program(pid, directory) == (seen.exe, seen.exe_id):
                    break
    except (FileNotFoundError, ProcessLookupError):
        raise GoneError.of_pid(pid) from None
    except PermissionError:
        raise forbidden(pid) from None
    except (OSError, OverflowError) as error:
        raise ProcessError.of(about("process.refused", pid, error=error_name(error))) from error
    return seen


def about(code: str, pid: int, **facts: int | str) -> Diagnosis:
    """Return the diagnosis of the process *pid* that *code* and *facts* say."""
    return Diagnosis(code, str(pid), {"process": pid, **facts})


def forbidden(pid: int) -> ProcessError:
    """Return the error for a process that the kernel does not let us look at (ptrace(2), access mode checking)."""
    return ProcessError.of(denied("process.forbidden", pid, errno.EACCES, "CAP_SYS_PTRACE"))


def denied(code: str, pid: int, number: int, *needed: str) -> Diagnosis:
    """Return that we lack *needed* capabilities, which *code* says, for what the kernel refused about *pid*.

    If we have all of them, only the error *number* is known.
    """
    with open(f"{_PROC}/self/status", encoding="utf-8", errors="surrogateescape") as file:
        effective = next((int(line.split()[1], 16) for line in file if line.startswith("CapEff")), 0)
    lacking = [name for name in needed if not effective >> _CAPABILITIES[name] & 1]
    if not lacking:
        return about("process.refused", pid, error=errno.errorcode.get(number, str(number)))
    diagnosis = about(code, pid, capability=", ".join(lacking))
    return diagnosis.changed(remedy=Remedy("as-root")) if os.geteuid() else diagnosis


def find(target: str) -> list[int]:
    """Return the PIDs that *target* means: a PID itself, or all processes of a service or of a name except our own.

    A service ends in ``.service``; a name is the ``comm`` of a process or the base name of its program.  Raises
    GoneError for a name that no process has, HugealignError for a number that is no PID, and without /proc.
    """
    every = pids()
    if target.endswith(".service"):
        members = [pid for pid in every if groups.service(groups.of_process(pid)) == target]
        if not members:
            raise GoneError.of(Diagnosis("service.no-process", target, {}))
        return members
    if target.isascii() and target.isdecimal():
        return [decimal(target, _PID_LIMIT, "PID")]
    matching = [pid for pid in every if pid != os.getpid() and _has_name(pid, target)]
    if not matching:
        raise GoneError.of(Diagnosis("process.unknown-name", target, {"near": nearest(target, _names())}))
    return matching


def _names() -> set[str]:
    """Return the names of all running programs except our own."""
    names = set()
    for pid in pids():
        with contextlib.suppress(OSError):
            if pid != os.getpid():
                names.add(os.path.basename(os.readlink(f"{_PROC}/{pid}/exe").removesuffix(" (deleted)")))
    return names


def pids() -> list[int]:
    """Return the PIDs of all processes that /proc shows us, among them our own.  Raises ProcessError without /proc."""
    numbers = sorted(int(name) for name in os.listdir(_PROC) if name.isascii() and name.isdecimal())
    if not numbers:
        raise ProcessError("machine.no-proc")
    return numbers


def comm(pid: int) -> str:
    """Return the name of a process, untrusted.  Raises OSError."""
    return "".join(_lines(f"{_PROC}/{pid}/comm")).removesuffix("\n")


def users(info: os.stat_result, path: str) -> list[int]:
    """Return the PIDs of the processes that map the file *path* (*info*), as far as we may look at them."""
    users_of_file = []
    device = (os.major(info.st_dev), os.minor(info.st_dev))
    real = os.path.realpath(path)
    inode = f" {info.st_ino} "  # other lines need not be parsed
    for pid in pids():
        try:
            mappings = smaps.parse(line for line in maps(pid) if inode in line)
            if any(m.inode == info.st_ino and (m.device == device or m.path == real) for m in mappings):
                users_of_file.append(pid)
        except OSError:
            continue  # ended, or not ours
    return users_of_file


def living(pid: int) -> str:
    """Return the directory in /proc of process *pid*, or of another thread of it if the first one has ended.

    A thread that has ended has no memory and no files, whatever the others do.  Raises OSError.
    """
    directory = f"{_PROC}/{pid}"
    with using(os.open(directory, _DIRECTORY)) as fd:
        status = _status(fd)
    if "VmSize" in status or int(status.get("Threads", "1")) < 2:
        return directory
    other = next((tid for tid in os.listdir(f"{directory}/task") if tid != str(pid)), str(pid))
    return f"{directory}/task/{other}"


def maps(pid: int) -> Iterator[str]:
    """Yield the lines of /proc/PID/maps; none for a kernel thread.  Raises OSError."""
    empty = True
    for line in _lines(f"{_PROC}/{pid}/maps"):
        empty = False
        yield line
    if empty and (other := living(pid)) != f"{_PROC}/{pid}":
        yield from _lines(f"{other}/maps")


def _status(directory: int) -> dict[str, str]:
    return dict(line.partition(":")[::2] for line in _lines("status", directory))


def _stat(directory: int) -> list[int]:
    """Return the numbers after the state in /proc/PID/stat (proc(5)); the name before it may contain anything."""
    return [int(word) for word in "".join(_lines("stat", directory)).rpartition(")")[2].split()[1:]]


def _identify(pid: int, directory: int) -> Process:
    """Return the process of the open /proc/PID *directory*, without mappings."""
    status = _status(directory)
    if "VmSize" not in status:  # no address space: task_mem in fs/proc/task_mmu.c is not called
        # A process that is about to end has none either, before it is a zombie (exit_mm in kernel/exit.c).
        if _stat(directory)[_FLAGS] & _PF_KTHREAD:
            raise ProcessError.of(about("process.kernel-thread", pid))
        raise GoneError.of_pid(pid)
    exe, exe_id = program(pid, directory)
    comm = "".join(_lines("comm", directory)).removesuffix("\n")
    served = mounts.served(exe_id[0], pid) or mounts.behind_server(exe, pid) or mounts.behind_server(exe)
    return Process(
        pid,
        comm,
        exe,
        exe_id,
        thp_disabled=status.get("THP_enabled", "1").strip() == "0",
        mappings=(),
        elsewhere=not served and _identity(exe) != exe_id and _identity(f"root{exe}", directory) == exe_id,
        served=served,
        started=_stat(directory)[_STARTED],
        inner_pids=tuple(map(int, status.get("NSpid", "").split()[1:])),
    )


def program(pid: int, directory: int) -> tuple[str, tuple[int, int]]:
    """Return the path of the program of *pid*, whose open /proc/PID is *directory*, and its ``(st_dev, st_ino)``.

    Raises OSError.
    """
    file_id = identity("exe", directory)
    shown = os.readlink("exe", dir_fd=directory)
    # d_path appends this to the name of a file that is gone; a name may also end like this by itself.
    gone = shown.endswith(" (deleted)")
    if gone and not mounts.served(file_id[0], pid) and not mounts.behind_server(shown, pid):
        gone = _identity(f"root{shown}", directory) != file_id
    return shown.removesuffix(" (deleted)") if gone else shown, file_id


def _identity(path: str, directory: int | None = None) -> tuple[int, int] | None:
    with contextlib.suppress(OSError, ValueError):
        info = os.stat(path, dir_fd=directory)
        return info.st_dev, info.st_ino
    return None


def _read(process: Process, directory: int, libraries: bool, anonymous: bool) -> tuple[Process, bool]:
    """Return *process* with its mappings, and whether all data read is consistent."""

    def wanted(mapping: smaps.Mapping) -> bool:
        return process.is_text(mapping, libraries, anonymous)

    code_maps = list(smaps.parse(_lines("maps", directory), executable=True))
    text = codefiles.own_text(directory) if not process.served and any(m.without_file for m in code_maps) else ()
    listed = [m for m in (codefiles.with_own(m, text) for m in code_maps) if wanted(m)]
    present: list[tuple[pagemap.Region, ...] | None] = [None] * len(listed)  # Linux before 6.7 has only counts
    with using(os.open("pagemap", os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)) as fd, contextlib.suppress(OSError):
        present = [pagemap.scan(fd, m.start, m.end) for m in listed]
    # smaps walks all pages that it shows, seconds for a large heap, so it is read only as far as its counts are needed.
    last = max((m.end for m, p in zip(listed, present, strict=True) if _needs_counts(m, p)), default=0)
    counted: dict[tuple[int, int], smaps.Mapping] = {}
    for parsed in smaps.parse(_lines("smaps", directory), executable=True) if last else ():
        counted[parsed.start, parsed.end] = codefiles.with_own(parsed, text)
        if parsed.end >= last:
            break
    mappings: list[smaps.Mapping] = []
    steady = bool(listed)  # nothing is listed while exec replaces the program
    for listing, pages in zip(listed, present, strict=True):
        rss = sum(region.end - region.start for region in pages or ())
        mapping: smaps.Mapping | None = listing
        if _needs_counts(listing, pages):
            mapping = counted.get((listing.start, listing.end))
            rss = mapping.rss if mapping else 0
        if mapping:
            mappings.append(replace(named(mapping, process.exe, process.exe_id), pages=pages, rss=rss))
            huge = sum(region.end - region.start for region in pages or () if region.huge)
            steady &= pages is None or mapping.huge == huge
        else:
            steady = False
    return replace(process, mappings=tuple(mappings)), steady


def _needs_counts(mapping: smaps.Mapping, pages: tuple[pagemap.Region, ...] | None) -> bool:
    """Return whether *mapping*, whose present *pages* are known or not, can have a huge page of some kind."""
    return pages is None or mapping.size >= _LEAST_HUGE


def named(mapping: smaps.Mapping, exe: str, exe_id: tuple[int, int]) -> smaps.Mapping:
    """Return *mapping* of the program *exe*, not marked as deleted if the name of its file merely ends like that."""
    full = f"{mapping.path} (deleted)"
    # The inode alone: btrfs and overlayfs show another device in /proc/PID/maps than in stat.
    if mapping.deleted and exe == full and mapping.inode == exe_id[1]:
        return replace(mapping, path=full, deleted=False)
    return mapping


def _has_name(pid: int, name: str) -> bool:
    try:
        known = comm(pid)
    except OSError:
        return False
    try:
        program = os.readlink(f"{_PROC}/{pid}/exe").removesuffix(" (deleted)")
    except OSError:  # a kernel thread, or not ours: only the cut name is known
        return known == name[:_COMM_LENGTH]
    return name in (known, os.path.basename(program))


def _lines(path: str, directory: int | None = None) -> Iterator[str]:
    def opener(name: str, flags: int) -> int:
        return os.open(name, flags, dir_fd=directory)

    # Names of files are bytes, and only "\n" ends a line: a carriage return may be part of a name.
    with open(path, encoding="utf-8", errors="surrogateescape", newline="\n", opener=opener) as file:
        yield from file


def identity(name: str, directory: int) -> tuple[int, int]:
    """Return ``(st_dev, st_ino)`` of *name* in the open *directory*, as the kernel knows them.  Raises OSError.

    ``stat`` would ask a FUSE server for the attributes, and wait forever if that hangs.
    """
    attributes = _attributes(name, directory, _STATX_INO)
    if attributes is None:
        info = os.stat(name, dir_fd=directory)
        return info.st_dev, info.st_ino
    major, minor = (int.from_bytes(attributes[at : at + 4], "little") for at in (_MAJOR, _MINOR))
    return os.makedev(major, minor), int.from_bytes(attributes[_INO : _INO + 8], "little")


def born(name: str, directory: int) -> float:
    """Return when the file *name* of the open *directory* was made, in seconds since 1970; 0 if that is not known.

    Raises OSError.
    """
    attributes = _attributes(name, directory, _STATX_BTIME)
    if attributes is None or not int.from_bytes(attributes[:4], "little") & _STATX_BTIME:
        return 0.0
    seconds = int.from_bytes(attributes[_BTIME : _BTIME + 8], "little")
    return seconds + 1e-9 * int.from_bytes(attributes[_BTIME + 8 : _BTIME + 12], "little")


def _attributes(name: str, directory: int, wanted: int) -> bytes | None:
    function = _statx()
    if function is None:
        return None
    buffer = ctypes.create_string_buffer(_SIZE)
    if function(directory, os.fsencode(name), _AT_STATX_DONT_SYNC, wanted, buffer):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)
    return buffer.raw


@functools.cache
def _statx() -> Any:
    """Return the function of the C library, or None if the library has none (glibc before 2.28)."""
    function = getattr(ctypes.CDLL(None, use_errno=True), "statx", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_char_p)
    return function
