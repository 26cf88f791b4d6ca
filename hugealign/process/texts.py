"""Read what processes execute, cheaply: /proc/PID/maps, and the page map where a window could be huge.

`hugealign.process.processes` reads smaps, which walks all pages of a process and knows more.  This module is for many
processes: most have no text large enough to matter, and for those it reads only the list of mappings.
"""

import errno
import fcntl
import os
import re
import struct
import time
from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass, replace

from hugealign.diagnosis.refusal import RefusalError
from hugealign.io import mounts
from hugealign.io.descriptors import using
from hugealign.process import codefiles, pagemap, processes, smaps
from hugealign.system import rooted

#: The executable mappings of /proc/PID/maps (Documentation/filesystems/proc.rst); "\n" in a name is escaped there.
_EXECUTABLE = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) ..x. [0-9a-f]+ [0-9a-f]+:[0-9a-f]+ \d+ *(.*)$", re.MULTILINE)
_PARENT, _USED, _STARTED = 0, 10, 18  # fields of /proc/PID/stat, from the fourth of proc(5) on
#: ioctl PROCMAP_QUERY and struct procmap_query of include/uapi/linux/fs.h.
_PROCMAP_QUERY = 0xC0686611  # _IOWR('f', 17, struct procmap_query)
_QUERY = struct.Struct("3Q80x")  # size, flags, address; then room for the answer
_ANSWER = struct.Struct("24x2Q24x2Q24x")  # start, end; inode, device
_ADDRESS, _END = slice(16, 24), slice(32, 40)
_NEXT_EXECUTABLE = 0x10 | 0x04  # PROCMAP_QUERY_COVERING_OR_NEXT_VMA | PROCMAP_QUERY_VMA_EXECUTABLE
_LIMIT = 64 << 20  # bytes of a list of mappings; vm.max_map_count is 65530 by default, which is 6 MiB
_PIECE = 1 << 16
_TICKS = os.sysconf("SC_CLK_TCK")
_GONE = " (deleted)"
_AT_EXECFN = 31  # include/uapi/linux/auxvec.h
_PATH_MAX = 4096
_HERE = -100  # AT_FDCWD


@dataclass(frozen=True, slots=True)
class Executed:
    """The code of one process at one moment.  *comm*, *exe* and all paths are untrusted text.

    *mappings* are the executable mappings of each file whose mappings have at least the requested size in total, and
    those without a file if they reach that size.  *files* are all the files that it executes.  *cpu* is the processor
    time in seconds that it has used since it started, *started* seconds after boot.  *called* is the path by which it
    was started, a link to *exe* perhaps; empty if none is known that leads there.
    """

    pid: int
    comm: str
    exe: str
    cpu: float
    started: float
    mappings: tuple[smaps.Mapping, ...]
    files: tuple[str, ...]
    called: str = ""

    @property
    def program(self) -> str:
        """The path by which to start the program again."""
        return self.called or self.exe


def look(pid: int, least: int, page_size: int, known: Container[int] = ()) -> Executed | None:
    """Return what *pid* executes; None if it has less than *least* bytes of text in each file, and without a file.

    Windows have *page_size* bytes.  Mappings that start at *known* addresses are left out.  Raises OSError if the
    process is gone or not ours, HugealignError where only smaps is left.
    """
    place = f"/proc/{pid}"
    lines = _executable(place, least)
    if lines is None and (other := processes.living(pid)) != place:
        place = other
        lines = _executable(place, least)
    if not lines:
        return None
    sizes: dict[bytes, int] = {}
    for line in lines:
        start, end, path = line.groups()
        if not path.startswith(b"/"):
            path = b""
        sizes[path] = sizes.get(path, 0) + int(end, 16) - int(start, 16)
    if max(sizes.values(), default=0) < least:
        return None
    large = [
        line[0].decode("utf-8", "surrogateescape")
        for line in lines
        if sizes[line[3] if line[3].startswith(b"/") else b""] >= least
        and not line[3].startswith(b"[v")
        and int(line[1], 16) not in known
    ]
    comm, cpu, started = _times(str(pid))
    with using(os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as directory:
        exe, exe_id = processes.program(pid, directory)
        parsed = list(smaps.parse(large))
        served = mounts.served(exe_id[0], pid) if any(m.without_file for m in parsed) else True
        text = () if served else codefiles.own_text(directory)
    files = tuple(os.fsdecode(path).removesuffix(_GONE) for path in sizes if path)
    named = tuple(
        _with_code(pid, processes.named(codefiles.with_own(m, text), exe, exe_id), exe, page_size) for m in parsed
    )
    mappings = _with_pages(pid, place, named, page_size)
    return Executed(pid, comm, exe, cpu, started, mappings, files, called(pid, exe_id))


def called(pid: int, program: tuple[int, int]) -> str:
    """Return the path by which *pid* was started; empty if none is known that leads to its *program* (st_dev, st_ino).

    The python of a virtual environment is a link, and finds its packages by that name.  The kernel keeps the name that
    execve got (AT_EXECFN); for a script that is the script's, and the interpreter's name is the first argument.
    """
    for find in (_execve_name, _first_argument):
        with suppress(OSError, ValueError, LookupError, struct.error, RefusalError):
            name = os.fsdecode(find(pid))
            path = os.path.join(os.readlink(f"/proc/{pid}/cwd"), name)
            if "/" not in name or mounts.behind_server(path, pid):
                continue
            # Links on the way are the process's, in its mount namespace and below its root.
            with (
                using(os.open(f"/proc/{pid}/root", os.O_PATH | os.O_CLOEXEC)) as root,
                using(rooted.resolve(root, path)) as fd,
            ):
                reached = processes.identity(f"/proc/self/fd/{fd}", _HERE)
            if reached == program:
                return path if "/../" in path else os.path.normpath(path)
    return ""


def _execve_name(pid: int) -> bytes:
    name = dict(struct.iter_unpack("=QQ", _read(f"/proc/{pid}/auxv")))[_AT_EXECFN]
    with using(os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)) as memory:
        return os.pread(memory, _PATH_MAX, name).partition(b"\0")[0]


def _first_argument(pid: int) -> bytes:
    with using(os.open(f"/proc/{pid}/cmdline", os.O_RDONLY | os.O_CLOEXEC)) as words:
        return os.read(words, _PATH_MAX).partition(b"\0")[0]


def _executable(place: str, least: int) -> list[re.Match[bytes]] | None:
    """Return the executable mappings of the process or thread at *place* in /proc, None if it has no memory at all.

    None of them if that is less than *least* bytes in each file, and without a file.  Raises OSError.
    """
    with using(os.open(f"{place}/maps", os.O_RDONLY | os.O_CLOEXEC)) as maps:
        enough = _has(maps, least)
        if not enough:
            return None if enough is None else []
        text = _all(maps)
    return list(_EXECUTABLE.finditer(text)) if text else None


def used(task: str) -> float:
    """Return the processor time in seconds of a process or thread, by its path below /proc; 0 if it is gone."""
    with suppress(OSError):
        return _times(task)[1]
    return 0.0


def unpacked(pid: int, path: str) -> bool:
    """Return whether *pid* made the file at *path* after it started, or its parent if that has the same command line.

    It makes another at its next start.  Raises OSError.
    """
    file, made = processes.identity(path, _HERE), processes.born(path, _HERE)
    made -= time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    # The kernel rounds the start and the file's time down.  A launcher unpacks its program at once.
    later = -1 if file == _program(pid) else 1
    while True:
        _, numbers = _stat(str(pid))
        # A process has not made the program that it executes; an upgrade may have.
        if made > (numbers[_STARTED] + later) / _TICKS and file != _program(pid):
            return True
        parent = numbers[_PARENT]
        # The child may have another program, as of Nuitka, but is called by the name of its parent's.
        if not parent or _arguments(parent) != _arguments(pid) or not called(pid, _program(parent)):
            return False
        pid = parent


def _program(pid: int) -> tuple[int, int]:
    return processes.identity(f"/proc/{pid}/exe", _HERE)


def _arguments(pid: int) -> list[bytes]:
    return _read(f"/proc/{pid}/cmdline").split(b"\0")[1:]


def _times(task: str) -> tuple[str, float, float]:
    """Return the name of a process or thread, its processor time and its start, both in seconds."""
    comm, numbers = _stat(task)
    return comm, sum(numbers[_USED : _USED + 2]) / _TICKS, numbers[_STARTED] / _TICKS


def _stat(task: str) -> tuple[str, list[int]]:
    """Return the name of a process or thread, and the fields of its ``stat`` from PPID on.  Raises OSError."""
    comm, _, rest = _read(f"/proc/{task}/stat").decode("utf-8", "surrogateescape").partition("(")[2].rpartition(")")
    numbers = [int(word) for word in rest.split()[1:]]
    if len(numbers) <= _STARTED:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    return comm, numbers


def thp_disabled(pid: int) -> bool:
    """Return whether huge pages are disabled for *pid*: prctl(PR_SET_THP_DISABLE).  Raises OSError."""
    return b"\nTHP_enabled:\t0" in _read(f"{processes.living(pid)}/status")


def forbidden(pid: int, address: int) -> bool:
    """Return whether the mapping of *pid* at *address* was given MADV_NOHUGEPAGE.  Raises OSError."""
    # The kernel walks all pages of what it shows, but no further than this reads.
    with open(f"{processes.living(pid)}/smaps", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        for mapping in smaps.parse(file):
            if address < mapping.end:
                return mapping.start <= address and mapping.no_huge
    return False


def _with_code(pid: int, mapping: smaps.Mapping, exe: str, page_size: int) -> smaps.Mapping:
    if not mapping.is_file or not mapping.windows_possible(page_size):
        return mapping
    return codefiles.with_code(pid, mapping, program=mapping.path == exe)


def _with_pages(pid: int, place: str, mappings: tuple[smaps.Mapping, ...], page_size: int) -> tuple[smaps.Mapping, ...]:
    """Return *mappings* of *pid*, at *place* in /proc, with the page map for those that could have a huge window."""
    if not any(mapping.windows_possible(page_size) for mapping in mappings):
        return tuple(replace(mapping, pages=()) for mapping in mappings)
    pages = os.open(f"{place}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return tuple(
            replace(m, pages=pagemap.scan(pages, m.start, m.end) if m.windows_possible(page_size) else ())
            for m in mappings
        )
    except ProcessLookupError:
        raise
    except OSError:  # Linux before 6.7
        counted = {m.start: m for m in processes.look(pid, libraries=True, anonymous=True).mappings}
        return tuple(replace(counted.get(m.start, m), code=m.code, own=m.own) for m in mappings)
    finally:
        os.close(pages)


def _has(maps: int, least: int) -> bool | None:
    """Return whether *maps* has *least* executable bytes of one file, or of memory; True if unknown.

    None for a thread without memory: one of the kernel's, or one that has ended.

    It uses an ioctl of Linux 6.11, which takes a third of the time of reading the text.
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


def _read(path: str) -> bytes:
    with using(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as fd:
        return _all(fd)


def _all(fd: int) -> bytes:
    pieces, size = [], 0
    while size < _LIMIT and (piece := os.read(fd, _PIECE)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)
