"""Mount files into the mount namespace of another process: a container that is being created."""

import ctypes
import os
from collections.abc import Sequence

from hugealign.descriptors import using
from hugealign.errors import HugealignError
from hugealign.machine import children, rooted
from hugealign.machine.namespace import NamespaceError

# Same numbers on all architectures (include/uapi/asm-generic/unistd.h); linux/mount.h, linux/fcntl.h, linux/sched.h.
_SYS_OPEN_TREE, _SYS_MOVE_MOUNT, _SYS_MOUNT_SETATTR = 428, 429, 442
_OPEN_TREE_CLONE, _AT_EMPTY_PATH = 1, 0x1000
_MOVE_MOUNT_F_EMPTY_PATH, _MOVE_MOUNT_T_EMPTY_PATH = 4, 0x40
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NODEV = 1, 4
_CLONE_NEWNS = 0x00020000


class _Attributes(ctypes.Structure):
    """``struct mount_attr``, linux/mount.h."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns_fd"))


def tree(fd: int) -> int:
    """Return a read-only mount of the open file that is not attached anywhere yet.  Raises NamespaceError.

    Needs Linux 5.12.  A plain bind mount would not do: its source has to be in the same namespace.
    """
    made = _call("make a mount of the copy", _SYS_OPEN_TREE, fd, b"", _OPEN_TREE_CLONE | _AT_EMPTY_PATH | os.O_CLOEXEC)
    attributes = _Attributes(_MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NODEV)
    size = ctypes.sizeof(attributes)
    try:
        purpose = "make the copy read-only"
        _call(purpose, _SYS_MOUNT_SETATTR, made, b"", _AT_EMPTY_PATH, ctypes.byref(attributes), size)
    except NamespaceError:
        os.close(made)
        raise
    return made


def place(pid: int, root: str, trees: Sequence[tuple[str, int]]) -> list[str]:
    """Mount each of *trees* over the file at its path below the directory *root*, as the process *pid* sees them.

    Return for each the reason why it failed; empty if it did not.  The process may switch to another root later.
    """

    def work() -> bytes:
        with using(os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)) as theirs:
            _call("enter the container", None, theirs, _CLONE_NEWNS)
        with using(os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as top:
            return "\0".join(_placed(top, path, made) for path, made in trees).encode("utf-8", "surrogateescape")

    said = children.result(work).decode("utf-8", "surrogateescape").split("\0")
    return said if len(said) == len(trees) else ["the attempt was ended"] * len(trees)


def _placed(root: int, path: str, made: int) -> str:
    try:
        with using(rooted.opened(root, path, os.O_PATH)) as target:
            flags = _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_T_EMPTY_PATH
            _call("mount the copy", _SYS_MOVE_MOUNT, made, b"", target, b"", flags)
    except HugealignError as error:
        return str(error)
    return ""


def _call(purpose: str, number: int | None, *words: object) -> int:
    """Make a system call, setns(2) without a *number*.  Raises NamespaceError."""
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.setns(*words) if number is None else libc.syscall(number, *words)
    if done < 0:
        raise NamespaceError(f"cannot {purpose}: {os.strerror(ctypes.get_errno())}")
    return int(done)
