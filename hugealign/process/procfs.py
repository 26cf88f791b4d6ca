"""Read the files of /proc/PID (proc(5)): who a process is, what it executes, and the identity of its files."""

import ctypes
import errno
import fcntl
import functools
import os
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hugealign.io import mounts
from hugealign.io.descriptors import using
from hugealign.io.libc import libc
from hugealign.process import smaps
from hugealign.records import Record

PROC = "/proc"
GONE = " (deleted)"  # d_path appends it to the name of a file that is gone; a name may also end like this by itself
_LIMIT = 64 << 20  # bytes of a list of mappings; vm.max_map_count is 65530 by default, which is 6 MiB
_PIECE = 1 << 16
_TICKS = os.sysconf("SC_CLK_TCK")
_FLAGS, _PARENT, _USED, _STARTED = 5, 0, 10, 18  # fields of /proc/PID/stat, from the fourth of proc(5) on
_PF_KTHREAD = 0x00200000  # include/linux/sched.h
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_AT_FDCWD = -100

#: The executable mappings of /proc/PID/maps (Documentation/filesystems/proc.rst); "\n" in a name is escaped there.
_EXECUTABLE = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) ..x. [0-9a-f]+ [0-9a-f]+:[0-9a-f]+ \d+ *(.*)$", re.MULTILINE)
#: ioctl PROCMAP_QUERY and struct procmap_query of include/uapi/linux/fs.h.
_PROCMAP_QUERY = 0xC0686611  # _IOWR('f', 17, struct procmap_query)
_QUERY = struct.Struct("3Q80x")  # size, flags, address; then room for the answer
_ANSWER = struct.Struct("24x2Q24x2Q24x")  # start, end; inode, device
_ADDRESS, _END = slice(16, 24), slice(32, 40)
_NEXT_EXECUTABLE = 0x10 | 0x04  # PROCMAP_QUERY_COVERING_OR_NEXT_VMA | PROCMAP_QUERY_VMA_EXECUTABLE

_AT_STATX_DONT_SYNC, _STATX_INO, _STATX_BTIME = 0x4000, 0x100, 0x800
#: The offsets of stx_ino, stx_dev_major and stx_dev_minor in struct statx (include/uapi/linux/stat.h), and its size.
_INO, _BTIME, _MAJOR, _MINOR, _SIZE = 0x20, 0x50, 0x88, 0x8C, 0x100

FileId = tuple[int, int]  # st_dev, st_ino


class Stat(Record):
    """What /proc/PID/stat says of a process or thread: its untrusted name *comm*, and its *parent*'s PID.

    *used* is the processor time in seconds since it *started*, seconds after boot, which also tells a process from an
    older one with its PID.
    """

    comm: str
    kernel_thread: bool
    parent: int
    used: float
    started: float


def read(name: str, directory: int | None = None) -> bytes:
    """Return the contents of the file *name* in the open *directory*, 64 MiB at most.  Raises OSError."""
    with using(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)) as fd:
        return _all(fd)


def _all(fd: int) -> bytes:
    pieces, size = [], 0
    while size < _LIMIT and (piece := os.read(fd, _PIECE)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def opened(pid: int) -> using:
    """Open the directory of process *pid* as `living` finds it; it is closed after a block.  Raises OSError.

    Should the process end and its number be reused, reads through it fail with ESRCH.
    """
    return using(os.open(living(pid), _DIRECTORY))


def living(pid: int) -> str:
    """Return the directory in /proc of process *pid*, or of another thread of it if the first one has ended.

    A thread that has ended has no memory and no files, whatever the others do.  Raises OSError.
    """
    directory = f"{PROC}/{pid}"
    fields = status(f"{directory}/status")
    if "VmSize" in fields or int(fields.get("Threads", "1")) < 2:
        return directory
    other = next((tid for tid in os.listdir(f"{directory}/task") if tid != str(pid)), str(pid))
    return f"{directory}/task/{other}"


def status(name: str, directory: int | None = None) -> dict[str, str]:
    """Return the fields of the file *name* in the open *directory*, a ``status``.  Raises OSError."""
    lines = os.fsdecode(read(name, directory)).split("\n")
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def without_thp(fields: dict[str, str]) -> bool:
    """Return whether *fields* of ``status`` say that huge pages are disabled: prctl(PR_SET_THP_DISABLE)."""
    return fields.get("THP_enabled") == "0"


def stat(path: str) -> Stat:
    """Return what the file at *path* says, a ``stat``.  Raises OSError."""
    # The name before the numbers may contain anything.
    comm, _, rest = os.fsdecode(read(path)).partition("(")[2].rpartition(")")
    numbers = [int(word) for word in rest.split()[1:]]
    if len(numbers) <= _STARTED:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    used, started = sum(numbers[_USED : _USED + 2]) / _TICKS, numbers[_STARTED] / _TICKS
    return Stat(comm, bool(numbers[_FLAGS] & _PF_KTHREAD), numbers[_PARENT], used, started)


def used(task: str) -> float:
    """Return the processor time in seconds of a process or thread, by its path below /proc; 0 if it is gone."""
    with suppress(OSError):
        return stat(f"{PROC}/{task}/stat").used
    return 0.0


def maps(pid: int) -> list[str]:
    """Return the lines of /proc/PID/maps; none for a kernel thread.  Raises OSError."""
    text = read(f"{PROC}/{pid}/maps") or read(f"{living(pid)}/maps")
    return os.fsdecode(text).split("\n")[:-1]  # only "\n" ends a line: a carriage return may be part of a name


def executable(name: str, directory: int | None = None, least: int = 0) -> "list[re.Match[bytes]] | None":
    """Return the lines of the executable mappings in the file *name* in the open *directory*, a ``maps``.

    The groups are start, end and path.  Return none of them if that is less than *least* bytes in each file, and
    without a file, and None for a thread without memory: one of the kernel's, or one that has ended.  Raises OSError.
    """
    with using(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)) as fd:
        enough = not least or _has(fd, least)
        if not enough:
            return None if enough is None else []
        text = _all(fd)
    return list(_EXECUTABLE.finditer(text)) if text else None


def _has(maps: int, least: int) -> bool | None:
    """Return whether *maps* has *least* executable bytes of one file, or of memory; True if unknown.

    None for a thread without memory.  It uses an ioctl of Linux 6.11, which takes a third of the time of reading the
    text.
    """
    sizes: dict[tuple[int, int], int] = {}
    question = bytearray(_QUERY.pack(_QUERY.size, _NEXT_EXECUTABLE, 0))
    while True:
        try:
            fcntl.ioctl(maps, _PROCMAP_QUERY, question)
        except FileNotFoundError:
            return False
        except ProcessLookupError:
            return None
        except OSError:
            return True
        start, end, inode, device = _ANSWER.unpack(question)
        file = inode, device
        sizes[file] = size = sizes.get(file, 0) + end - start
        if size >= least:
            return True
        question[_ADDRESS] = question[_END]


def counted(name: str, directory: int | None = None) -> Iterator[smaps.Mapping]:
    """Yield the executable mappings in the file *name* in the open *directory*, a ``smaps``.  Raises OSError.

    The kernel walks all pages of what it shows, seconds for a large heap, but no further than the caller iterates.
    """

    def opener(path: str, flags: int) -> int:
        return os.open(path, flags, dir_fd=directory)

    with open(name, encoding="utf-8", errors="surrogateescape", newline="\n", opener=opener) as file:
        yield from smaps.parse(file, executable=True)


def program(pid: int, directory: int) -> tuple[str, FileId]:
    """Return the path of the program of *pid*, whose open /proc/PID is *directory*, and the identity of its file.

    Raises OSError.
    """
    file_id = identity("exe", directory)
    shown = os.readlink("exe", dir_fd=directory)
    gone = shown.endswith(GONE)
    if gone and not mounts.served(file_id[0], pid) and not mounts.behind_server(shown, pid):
        gone = seen_identity(f"root{shown}", directory) != file_id
    return shown.removesuffix(GONE) if gone else shown, file_id


def seen_identity(path: str, directory: int | None = None) -> FileId | None:
    """Return ``(st_dev, st_ino)`` of the file at *path*, None without one; a server may have to answer."""
    with suppress(OSError, ValueError):
        info = os.stat(path, dir_fd=directory)
        return info.st_dev, info.st_ino
    return None


def identity(name: str, directory: int = _AT_FDCWD) -> FileId:
    """Return ``(st_dev, st_ino)`` of *name* in the open *directory*, as the kernel knows them.  Raises OSError.

    ``stat`` would ask a FUSE server for the attributes, and wait forever if that hangs.
    """
    attributes = _attributes(name, directory, _STATX_INO)
    if attributes is None:
        info = os.stat(name, dir_fd=None if directory == _AT_FDCWD else directory)
        return info.st_dev, info.st_ino
    major, minor = (int.from_bytes(attributes[at : at + 4], "little") for at in (_MAJOR, _MINOR))
    return os.makedev(major, minor), int.from_bytes(attributes[_INO : _INO + 8], "little")


def born(path: str) -> float:
    """Return when the file at *path* was made, in seconds since 1970; 0 if that is not known.  Raises OSError."""
    attributes = _attributes(path, _AT_FDCWD, _STATX_BTIME)
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
    function = getattr(libc(), "statx", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_char_p)
    return function
