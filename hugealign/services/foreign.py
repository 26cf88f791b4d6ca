"""Mount files into the mount namespace of another process: a container that is being created."""

import ctypes
import os

from hugealign.errors import HugealignError, cause
from hugealign.io.descriptors import using
from hugealign.system import children, namespace, rooted
from hugealign.system.namespace import NamespaceError

_DONE = b"\0"
_CLONE_NEWNS = 0x00020000  # linux/sched.h


def place(pid: int, root: str, path: str, target: int, copy: int) -> None:
    """Mount the open file *copy* read-only over *path* below the directory *root*, as the process *pid* sees it.

    *target* is the file there as we see it, open: another one, which the process may have mounted over it, or which
    took its name meanwhile, is not covered.  The process may switch to another root later.  Raises NamespaceError.
    """

    def work() -> bytes:
        try:
            _attach(pid, root, path, target, made)
        except (HugealignError, OSError) as error:
            return cause(error).encode("utf-8", "surrogateescape")
        return _DONE

    # A bind mount would not do: its source has to be in the same namespace.
    with using(namespace.tree(copy)) as made:
        said = children.result(work)
    if said != _DONE:
        raise NamespaceError(said.decode("utf-8", "surrogateescape") or "the attempt was cut short")


def _attach(pid: int, root: str, path: str, target: int, made: int) -> None:
    with using(os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)) as theirs:
        if ctypes.CDLL(None, use_errno=True).setns(theirs, _CLONE_NEWNS):
            raise NamespaceError(f"cannot enter the container: {os.strerror(ctypes.get_errno())}")
    with (
        using(os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as top,
        using(rooted.found(top, path)) as there,
    ):
        if not os.path.samestat(os.fstat(there), os.fstat(target)):
            raise NamespaceError("the container has another file there")
        namespace.attach(made, there)
