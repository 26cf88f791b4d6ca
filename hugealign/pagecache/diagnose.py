"""Why windows are not huge, or not small, after the attempt: each diagnosis rests on an observation."""

import contextlib
import errno
import fcntl
import os
import signal
import stat

from hugealign.diagnosis.values import COMMAND, ROOT, Diagnosis, Remedy
from hugealign.errors import HugealignError
from hugealign.io import copying, replacing
from hugealign.io.descriptors import using
from hugealign.pagecache import warming
from hugealign.pagecache.warming import Warmth
from hugealign.system import children, kernel, memory

_IN_MEMORY = ("tmpfs", "ramfs")
_PATIENCE = 5.0  # seconds to look for the process that has a file open for writing
_RETRY = Remedy("retry")
#: Lifts PR_SET_THP_DISABLE, which is 41, and becomes a command.
_ALLOWED = (
    "python3",
    "-c",
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(41, 0, 0, 0, 0); os.execvp(sys.argv[1], sys.argv[1:])",
)

#: A process and how many others there are: the facts of a diagnosis.
Users = dict[str, int | str]


def disabled(path: str) -> Diagnosis:
    """Return why no process here has huge pages of the file at *path*: PR_SET_THP_DISABLE, which is inherited."""
    return Diagnosis("process.thp-disabled", path, {}, Remedy("run", (*_ALLOWED, "hugealign", "run", "--"), COMMAND))


def no_window(path: str) -> Diagnosis:
    """Return why a file without whole windows is not huge."""
    return Diagnosis("text.no-window", path, {"page_size": kernel.huge_page_size()}, _command("look", "verify", path))


def not_warmed(path: str) -> Diagnosis:
    """Return why a file that was only measured is not huge."""
    return Diagnosis("cache.not-warmed", path, {}, _command("run", "warm", path))


def after_warming(fd: int, path: str, warmth: Warmth, hits: int) -> Diagnosis:
    """Return why `warm` left windows of the file at *path* small; *hits* is `memory.limit_hits` before the attempt."""
    if kernel.has_thp() is False:
        return Diagnosis("machine.no-thp", path, {})
    info, system = os.fstat(fd), kernel.file_system_of(fd)
    if (writer := _writer(fd, info)) is not None:
        return Diagnosis("cache.open-for-writing", path, writer, Remedy("wait"))
    users = users_of(info, path)
    kept = None if system in _IN_MEMORY else warmth.kept
    if not users and kept and kept.dirty + kept.writeback:
        return Diagnosis("cache.dirty", path, {"dirty": kept.dirty + kept.writeback}, Remedy("prepare", ("sync",)))
    lack = (_denial(path) if system == "tmpfs" else None) or _lack(path, hits)
    if users or (kept and kept.cached):
        gains = _new_file_is_huge(os.path.dirname(os.path.realpath(path)))
        if lack or gains is not False:
            argv = ("hugealign", "warm", "--replace", path) if gains and _replaceable(fd, info, path) else ()
            if users:
                return Diagnosis("cache.in-use", path, users, Remedy("stop", argv))
            return Diagnosis("cache.held", path, {}, Remedy("find-holder", argv))
    if lack:
        return lack
    if warmth.collapse not in (0, errno.EINVAL):
        return _refused(path, warmth)
    if any(warmth.huge):
        return _partial(path, warmth)
    remedy = _command("run", "run", "--file", path, "--").changed(needs=COMMAND)
    return Diagnosis("file-system.no-huge-pages", path, {"file_system": system or ""}, remedy)


def _new_file_is_huge(directory: str) -> bool | None:
    """Return whether a new file in the *directory* comes in huge folios; None if that cannot be tried."""
    with contextlib.suppress(OSError, HugealignError):
        return warming.trial(directory) > 0
    return None


def _replaceable(fd: int, info: os.stat_result, path: str) -> bool:
    """Return whether `warm --replace` could put a copy in place of the open file at *path*."""
    try:
        replacing.refuse(fd, info, os.path.realpath(path))
    except copying.ReplaceError:
        return False
    return os.geteuid() in (0, info.st_uid)


def after_copying(warmth: Warmth, hits: int) -> Diagnosis:
    """Return why windows of a copy in memory are small; *hits* is `memory.limit_hits` before the attempt."""
    if kernel.has_thp() is False:
        return Diagnosis("machine.no-thp", "", {})
    if diagnosis := _denial("") or _lack("", hits):
        return diagnosis
    if not warming.collapses():
        return Diagnosis("thp.no-collapse", "", {}, Remedy("newer-kernel"))
    return _refused("", warmth) if warmth.collapse and not any(warmth.huge) else _partial("", warmth)


def after_cooling(fd: int, path: str) -> Diagnosis:
    """Return why `cool` left windows of the file at *path* huge."""
    system = kernel.file_system_of(fd)
    if users := users_of(os.fstat(fd), path):
        return Diagnosis("cache.in-use", path, users, Remedy("stop"))
    if system in _IN_MEMORY:
        return Diagnosis("file-system.keeps-pages", path, {"file_system": system}, Remedy("copy-elsewhere"))
    return Diagnosis("cache.held", path, {}, Remedy("find-holder"))


def _denial(path: str) -> Diagnosis | None:
    return denied(path) if kernel.thp_mode("shmem_enabled") == "deny" else None


def denied(path: str) -> Diagnosis:
    """Return why the file at *path*, which is in memory only, is not huge where shmem_enabled is deny."""
    return Diagnosis("thp.shmem-denied", path, {}, _setting("never", f"{kernel.THP}/shmem_enabled"))


def _lack(path: str, hits: int) -> Diagnosis | None:
    """Return what the kernel lacked for a huge page, as far as that can be seen."""
    if memory.limit_hits() > hits:
        return Diagnosis("memory.limit", path, {"limit": memory.limit() or 0}, Remedy("raise-limit"))
    return fragmented(path) if memory.free_huge_pages() == 0 else None


def small_tmpfs(path: str, mount_point: str) -> Diagnosis:
    """Return why the file at *path*, on a tmpfs at *mount_point*, is not huge."""
    argv = ("mount", "-o", "remount,huge=always", mount_point)
    return Diagnosis("file-system.small-tmpfs", path, {}, Remedy("run", argv, ROOT if os.geteuid() else ""))


def fragmented(path: str) -> Diagnosis:
    """Return why the file at *path* is not huge where no block of memory is free that is large enough."""
    facts = {"page_size": kernel.huge_page_size()}
    return Diagnosis("memory.fragmented", path, facts, _setting("1", "/proc/sys/vm/compact_memory"))


def _refused(path: str, warmth: Warmth) -> Diagnosis:
    error = errno.errorcode.get(warmth.collapse, str(warmth.collapse))
    return Diagnosis("thp.refused", path, {"error": error}, _command("look", "doctor"))


def _partial(path: str, warmth: Warmth) -> Diagnosis:
    return Diagnosis("thp.partial", path, {"huge": sum(warmth.huge), "windows": len(warmth.huge)}, _RETRY)


def _command(kind: str, *words: str) -> Remedy:
    return Remedy(kind, ("hugealign", *words))


def _setting(value: str, file: str) -> Remedy:
    """Return the remedy that writes *value* to a *file* of the kernel's."""
    return Remedy("prepare", ("sh", "-c", f"echo {value} >{file}"), ROOT if os.geteuid() else "")


def users_of(info: os.stat_result, path: str) -> Users:
    """Return a process that maps the file *path*, its name, and how many others do, as facts; empty if none does."""
    from hugealign.process import processes

    users = [pid for pid in processes.users(info, path) if pid != os.getpid()]
    return {**_process(users[0]), "others": len(users) - 1} if users else {}


def _writer(fd: int, info: os.stat_result) -> Users | None:
    """Return the process that has the file open for writing, as facts, which are empty if we cannot see it.

    None if no process has.
    """
    written = _written(fd)
    if written is False:
        return None
    # There can be a million descriptors, and the server behind one of them may never answer.
    search = children.function(lambda: _holder((info.st_dev, info.st_ino)))
    children.collect([search], _PATIENCE)
    pid = search.value
    return _process(pid) if pid else {} if written else None


def _written(fd: int) -> bool | None:
    """Return whether a process has the file open for writing, None if the kernel does not tell us."""
    # The kernel refuses a read lease exactly while a process has the file open for writing (check_conflicting_open in
    # fs/locks.c); only the owner and CAP_LEASE may request one.
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
    from hugealign.process import processes, procfs

    for pid in processes.pids():
        with (
            contextlib.suppress(OSError),
            using(os.open(f"{procfs.living(pid)}/fd", os.O_RDONLY | os.O_CLOEXEC)) as directory,
        ):
            for name in os.listdir(directory):
                with contextlib.suppress(OSError):  # closed meanwhile
                    # The mode of the link says whether the file is open for writing (tid_fd_update_inode in
                    # fs/proc/fd.c); unlike the mode of the file, it is known without a look at the file.
                    mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
                    if mode & stat.S_IWUSR and procfs.identity(name, directory) == file:
                        return pid
    return 0


def _process(pid: int) -> Users:
    from hugealign.process import processes

    with contextlib.suppress(OSError):
        return {"process": pid, "name": processes.comm(pid)}
    return {"process": pid}
