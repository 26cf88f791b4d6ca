"""Why windows are not huge, or not small, after the attempt: each reason rests on an observation."""

import contextlib
import errno
import fcntl
import os
import shlex
import signal
import stat

from hugealign.descriptors import using
from hugealign.machine import children, kernel, memory
from hugealign.pagecache import warming
from hugealign.pagecache.warming import Warmth
from hugealign.records import Record
from hugealign.units import format_size, printable

_IN_MEMORY = ("tmpfs", "ramfs")
_PATIENCE = 5.0  # seconds to look for the process that has a file open for writing
_HELD = "its pages are held, by mlock or by a process that we cannot see"


class Obstacle(Record):
    """A reason: *code* for programs; *text*, and *mend* (what to do), for people, fit for a terminal."""

    code: str
    text: str
    mend: str


def no_window(path: str, page_size: int) -> Obstacle:
    """Return why a file without whole windows is not huge."""
    mend = f"see: hugealign verify {_quoted(path)}"
    return Obstacle("no-window", f"no whole {format_size(page_size)} window of text", mend)


def not_warmed(path: str) -> Obstacle:
    """Return why a file that was only measured is not huge."""
    return Obstacle("not-warmed", "not warmed", f"run: hugealign warm {_quoted(path)}")


def to_huge(fd: int, path: str, warmth: Warmth, hits: int) -> Obstacle:
    """Return why `warm` left windows of the file at *path* small; *hits* is `memory.limit_hits` before the attempt."""
    info = os.fstat(fd)
    name = _quoted(path)
    again = f"hugealign warm {name}"
    system = kernel.file_system_of(fd)
    if writer := _writer(fd, info):
        return Obstacle("dirty", f"open for writing by {writer}", f"let it finish, then: {again}")
    if user := user_of(info, path):
        mend = f"stop it, then: {again}; or: hugealign warm --replace {name}"
        return Obstacle("in-use", f"in use by process {user}", mend)
    kept = None if system in _IN_MEMORY else warmth.kept
    if kept and kept.dirty + kept.writeback:
        return Obstacle("dirty", "its pages are still being written to disk", f"run: sync; {again}")
    if kept and kept.cached:
        return Obstacle("held", _HELD, f"look for it as root; or: hugealign warm --replace {name}")
    if system == "tmpfs" and (denial := _denial(again)):
        return denial
    if lack := _lack(warmth.collapse, hits, again):
        return lack
    if any(warmth.huge):
        return Obstacle("partly", "the kernel made some windows huge, and not the others", f"try again: {again}")
    text = f"{system or 'this file system'} gives this file no huge folios"
    mend = f"run: hugealign run --file {name} -- COMMAND"
    return Obstacle("file-system", text, mend)


def of_copy(warmth: Warmth, hits: int) -> Obstacle:
    """Return why windows of a copy in memory are small; *hits* is `memory.limit_hits` before the attempt."""
    if denial := _denial("try again"):
        return denial
    if lack := _lack(warmth.collapse, hits, "try again"):
        return lack
    if not warming.collapses():
        return Obstacle("no-collapse", "this kernel does not collapse files in memory", "Linux 6.1 does")
    if any(warmth.huge) or not warmth.collapse:
        return Obstacle("partly", "the kernel made some windows huge, and not the others", "try again")
    text = f"the kernel refuses to make huge pages of it: {os.strerror(warmth.collapse)}"
    return Obstacle("refused", text, "see: hugealign doctor")


def _denial(again: str) -> Obstacle | None:
    if kernel.thp_mode("shmem_enabled") != "deny":
        return None
    text = "this system denies huge pages to all files in memory (shmem_enabled is deny)"
    return Obstacle("shmem-denied", text, f"run: echo never | sudo tee {kernel.THP}/shmem_enabled; {again}")


def _lack(collapse: int, hits: int, again: str) -> Obstacle | None:
    """Return what the kernel lacked for a huge page, as far as that can be seen; *collapse* as in `Warmth`."""
    if memory.limit_hits() > hits:
        text = f"the memory limit of this control group, {format_size(memory.limit() or 0)}, is too small"
        return Obstacle("memory-limit", text, f"raise it, then: {again}")
    # The kernel answers so if it finds no huge page even after compaction (SCAN_ALLOC_HUGE_PAGE_FAIL in
    # mm/khugepaged.c), which may be over when we look.
    if memory.free_huge_pages() == 0 or collapse == errno.ENOMEM:
        mend = f"run: echo 1 | sudo tee /proc/sys/vm/compact_memory; {again}"
        return Obstacle("fragmented", "no free memory in one piece", mend)
    return None


def to_small(fd: int, path: str) -> Obstacle:
    """Return why `cool` left windows of the file at *path* huge."""
    info = os.fstat(fd)
    system = kernel.file_system_of(fd)
    if user := user_of(info, path):
        return Obstacle("in-use", f"in use by process {user}", f"stop it, then: hugealign warm --undo {_quoted(path)}")
    if system in _IN_MEMORY:
        return Obstacle("file-system", f"{system} keeps its pages as they are", "copy it to another file system")
    return Obstacle("held", _HELD, "look for it as root")


def user_of(info: os.stat_result, path: str) -> str:
    """Return ``PID (name)`` of a process that maps the file *path*, and how many others do; empty if none does."""
    from hugealign.process import processes

    users = [pid for pid in processes.users(info, path) if pid != os.getpid()]
    others = f" and {len(users) - 1} more" if len(users) > 1 else ""
    return f"{users[0]}{_name(users[0])}{others}" if users else ""


def _writer(fd: int, info: os.stat_result) -> str:
    """Return ``process PID (name)`` of a process that has the file open for writing; empty if none has."""
    written = _written(fd)
    if written is False:
        return ""
    # There can be a million descriptors, and a server that is asked about one of them may never answer.
    search = children.function(lambda: b"%d" % _holder((info.st_dev, info.st_ino)))
    children.collect([search], _PATIENCE)
    pid = int(search.text or -1)
    if pid > 0:
        return f"process {pid}{_name(pid)}"
    if not written:
        return ""
    return "a process that we cannot see" if pid == 0 else f"a process that was not found in {_PATIENCE:g} s"


def _written(fd: int) -> bool | None:
    """Return whether a process has the file open for writing, None if the kernel does not tell us."""
    # The kernel refuses a read lease exactly while a process has the file open for writing (check_conflicting_open in
    # fs/locks.c); only the owner and CAP_LEASE may ask for one.
    try:
        # If a process opens it meanwhile, the kernel signals us: choose a signal that is ignored, unlike SIGIO.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    with contextlib.suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def _holder(file: tuple[int, int]) -> int:
    """Return the PID of a process that has *file*, a device and an inode, open for writing; 0 if we see none."""
    from hugealign.process import processes, statx

    for pid in processes.pids():
        with (
            contextlib.suppress(OSError),
            using(os.open(f"{processes.living(pid)}/fd", os.O_RDONLY | os.O_CLOEXEC)) as directory,
        ):
            for name in os.listdir(directory):
                with contextlib.suppress(OSError):  # closed meanwhile
                    # The mode of the link says whether the file is open for writing (tid_fd_update_inode in
                    # fs/proc/fd.c); unlike the mode of the file, it is known without a look at the file.
                    mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
                    if mode & stat.S_IWUSR and statx.identity(name, directory) == file:
                        return pid
    return 0


def _name(pid: int) -> str:
    from hugealign.process import processes

    with contextlib.suppress(OSError):
        return f" ({printable(processes.comm(pid))})"
    return ""


def _quoted(path: str) -> str:
    return printable(shlex.quote(path))
