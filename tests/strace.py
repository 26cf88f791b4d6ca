"""System calls that fail, or kill: strace injects the faults."""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")

#: System call -> errors that it can have in our commands (its manual page, section 2).
ERRORS = {
    **dict.fromkeys(("openat", "open"), ("EMFILE", "ENFILE", "EACCES", "EIO", "ENOMEM")),
    "openat2": ("EMFILE", "EACCES", "ENOSYS"),
    "read": ("EIO", "EINTR"),
    "pread64": ("EIO",),
    "write": ("EIO", "ENOSPC", "EPIPE"),
    "pwrite64": ("EIO", "ENOSPC", "EDQUOT"),
    **dict.fromkeys(("newfstatat", "stat"), ("EIO", "EACCES", "ENOMEM")),
    "fstat": ("EIO", "ENOMEM"),
    "statx": ("EIO", "ENOSYS"),
    "lseek": ("EIO", "ESPIPE", "EINVAL"),
    "readlink": ("EACCES", "EIO"),
    "getdents64": ("EIO", "ENOMEM"),
    "memfd_create": ("EMFILE", "EPERM", "ENOMEM", "ENOSYS"),
    "mmap": ("ENOMEM",),
    "madvise": ("EINVAL", "ENOMEM", "EAGAIN", "EBUSY"),
    "ioctl": ("EIO", "ENOTTY", "EPERM"),
    "fcntl": ("EMFILE", "EINVAL"),
    "flock": ("EIO", "ENOLCK"),
    "pipe2": ("EMFILE", "ENFILE"),
    **dict.fromkeys(("dup", "dup2", "epoll_create1", "socketpair"), ("EMFILE",)),
    **dict.fromkeys(("fork", "vfork", "clone", "clone3", "execve"), ("EAGAIN", "ENOMEM")),
    "wait4": ("ECHILD", "EINTR"),
    "prctl": ("EINVAL", "EPERM"),
    "unshare": ("EPERM", "ENOSPC"),
    "setns": ("EPERM",),
    "mount": ("EPERM", "EACCES", "ENOMEM"),
    "open_tree": ("EPERM", "ENOSYS"),
    "move_mount": ("EPERM", "EINVAL"),
    "fallocate": ("EOPNOTSUPP", "ENOSPC"),
    **dict.fromkeys(("fsync", "ftruncate", "copy_file_range", "symlink", "rename", "renameat", "mkdir"),
                    ("EIO", "ENOSPC")),
    **dict.fromkeys(("fchmod", "fchown", "utimensat"), ("EPERM", "EIO")),
    "linkat": ("EIO", "EPERM", "EEXIST"),
    "renameat2": ("EIO", "EINVAL", "ENOSYS"),
    **dict.fromkeys(("unlink", "unlinkat"), ("EIO", "EACCES")),
    "perf_event_open": ("EACCES", "ENOSYS", "EMFILE"),
    "process_madvise": ("EPERM", "EINVAL"),
    "pidfd_open": ("EMFILE", "EPERM"),
    **dict.fromkeys(("sched_setaffinity", "sched_getaffinity", "fadvise64"), ("EINVAL",)),
    **dict.fromkeys(("uname", "sysinfo"), ("EFAULT",)),
    **dict.fromkeys(("getxattr", "flistxattr"), ("EIO", "EOPNOTSUPP")),
    **dict.fromkeys(("fgetxattr", "fstatfs"), ("EIO",)),
    "fsetxattr": ("ENOSPC", "EPERM"),
    "poll": ("ENOMEM", "EINTR"),
    "epoll_ctl": ("ENOMEM",),
    "epoll_wait": ("EINTR",),
}  # fmt: skip


def faulty(calls: str, fault: str, log: Path = Path("/dev/null")) -> tuple[str, ...]:
    """Return what starts a command whose system *calls* have a *fault*, ``error=EIO`` or ``signal=KILL``: all of them.

    Of a process, only the second with ``:when=2``.  strace writes *log*.
    """
    return "strace", "-f", "-o", str(log), "-e", f"trace={calls}", "-e", f"inject={calls}:{fault}"


def happened(log: Path) -> bool:
    """Say whether strace, which wrote *log*, came to the call that it was to fail or to kill at."""
    text = log.read_text(encoding="utf-8", errors="replace")
    return "(INJECTED)" in text or "killed by SIGKILL" in text


def each(
    calls: Iterable[str], numbers: Iterable[int], fault: str, log: Path, hit: set[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each of *calls* with what starts a command whose first, second, … of them has a *fault*.

    The caller runs it with strace's *log*.  *hit* receives the calls that failed; what a command does not do so often
    is not tried further.
    """
    for call in calls:
        for number in numbers:
            yield call, faulty(call, f"{fault}:when={number}", log)
            if not happened(log):
                break
            hit.add(call)
