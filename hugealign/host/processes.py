"""Looking at running processes through /proc: who they are, what their text is mapped with."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from hugealign.errors import HugealignError
from hugealign.host import smaps
from hugealign.units import printable

_PROC = "/proc"
_COMM_LENGTH = 15  # TASK_COMM_LEN - 1 in include/linux/sched.h: the kernel cuts names there


class ProcessError(HugealignError):
    """The process cannot be looked at: it is gone, it is not ours, or it has no memory of its own."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process at one moment.  *comm* and *exe* are as the kernel gives them: untrusted text.

    *exe* is the file of the program itself, *exe_id* its ``(st_dev, st_ino)``.
    """

    pid: int
    comm: str
    exe: str
    exe_id: tuple[int, int]
    thp_disabled: bool
    mappings: tuple[smaps.Mapping, ...]

    def is_program(self, mapping: smaps.Mapping) -> bool:
        """Whether *mapping* is of the program's own file, not of a library."""
        # btrfs and overlayfs show another device in /proc/PID/maps than in stat, so the name counts as well.
        same_file = (os.makedev(*mapping.device), mapping.inode) == self.exe_id
        return mapping.is_file and (same_file or mapping.path == self.exe)

    def text(self, libraries: bool = False, anonymous: bool = False) -> tuple[smaps.Mapping, ...]:
        """Return the executable mappings of the program, on demand those of other files and of no file."""
        return tuple(
            m
            for m in self.mappings
            if m.executable
            and (self.is_program(m) or (libraries and m.is_file) or (anonymous and not m.path.startswith(("/", "[v"))))
        )


def look(pid: int) -> Process:
    """Return what the kernel says of process *pid* now.  Raises ProcessError."""
    directory = -1
    try:
        # One descriptor for all reads: should the process end and its number be reused, they fail with ESRCH.
        directory = os.open(f"{_PROC}/{pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        status = dict(line.partition(":")[::2] for line in _lines("status", directory))
        if "VmSize" not in status:  # no address space: task_mem in fs/proc/task_mmu.c is not called
            ended = status.get("State", "").strip().startswith(("Z", "X"))
            raise ProcessError(f"process {pid} {'has ended' if ended else 'is a kernel thread: it has no text'}")
        exe = os.readlink("exe", dir_fd=directory)
        info = os.stat("exe", dir_fd=directory)
        mappings = tuple(smaps.parse(_lines("smaps", directory)))
        comm = "".join(_lines("comm", directory)).removesuffix("\n")
    except (FileNotFoundError, ProcessLookupError):
        raise ProcessError(f"no process {pid}") from None
    except PermissionError:
        raise ProcessError(f"process {pid}: no permission; look as its user or as root") from None
    except (OSError, OverflowError) as error:
        raise ProcessError(f"process {pid}: {error}") from error
    finally:
        if directory >= 0:
            os.close(directory)
    if not mappings:
        raise ProcessError(f"process {pid} has ended")
    disabled = status.get("THP_enabled", "1").strip() == "0"
    return Process(pid, comm, exe.removesuffix(" (deleted)"), (info.st_dev, info.st_ino), disabled, mappings)


def find(target: str) -> list[int]:
    """Return the PIDs that *target* means: a PID itself, or all processes of that name but our own.

    A name is the ``comm`` of a process or the base name of its program.  Raises ProcessError for a name that
    no process has.
    """
    if target.isascii() and target.isdecimal():
        return [int(target)]
    found = [pid for pid in pids() if pid != os.getpid() and _has_name(pid, target)]
    if not found:
        raise ProcessError(f"no process is named {printable(target)}")
    return found


def pids() -> list[int]:
    """Return the PIDs of all processes that /proc shows us."""
    return sorted(int(name) for name in os.listdir(_PROC) if name.isdecimal())


def users(info: os.stat_result, path: str) -> list[int]:
    """Return the PIDs of the processes, of those that we may look at, that map the file *path* (*info*)."""
    found = []
    device = (os.major(info.st_dev), os.minor(info.st_dev))
    real = os.path.realpath(path)
    for pid in pids():
        try:
            mappings = smaps.parse(_lines(f"{_PROC}/{pid}/maps"))
            if any(m.inode == info.st_ino and (m.device == device or m.path == real) for m in mappings):
                found.append(pid)
        except OSError:
            continue  # ended, or not ours
    return found


def _has_name(pid: int, name: str) -> bool:
    try:
        comm = "".join(_lines(f"{_PROC}/{pid}/comm")).removesuffix("\n")
    except OSError:
        return False
    try:
        program = os.readlink(f"{_PROC}/{pid}/exe").removesuffix(" (deleted)")
    except OSError:  # a kernel thread, or not ours: the cut name is all there is
        return comm == name[:_COMM_LENGTH]
    return name in (comm, os.path.basename(program))


def _lines(path: str, directory: int | None = None) -> Iterator[str]:
    def opener(name: str, flags: int) -> int:
        return os.open(name, flags, dir_fd=directory)

    # Names of files are bytes, and only "\n" ends a line: a carriage return may be part of a name.
    with open(path, encoding="utf-8", errors="surrogateescape", newline="\n", opener=opener) as file:
        yield from file
