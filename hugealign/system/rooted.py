"""Files of other owners by descriptor: below another root, or through directories that all users may enter.

What these functions return was not opened yet (``O_PATH``), so nothing has happened to a device or a FIFO: look at the
descriptor, and use `hugealign.io.regular.opened_at` to read from it.
"""

import ctypes
import os
import stat

from hugealign.diagnosis.refusal import RefusalError, error_name
from hugealign.io.libc import syscall

_SYS_OPENAT2 = 437  # on all architectures (include/uapi/asm-generic/unistd.h)
_RESOLVE_NO_MAGICLINKS, _RESOLVE_IN_ROOT = 2, 16  # linux/openat2.h
_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class _How(ctypes.Structure):
    """``struct open_how``, linux/openat2.h."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def resolve(root: int, path: str) -> int:
    """Return what *path* names for a process with the open *root* as its root directory (openat2(2), Linux 5.6).

    Raises RefusalError.
    """
    how = _How(os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
    try:
        name = os.fsencode(path)
    except UnicodeEncodeError:  # JSON can have half of a surrogate pair
        raise RefusalError("file.unreadable", error="EILSEQ") from None
    if b"\0" in name:
        raise RefusalError("file.unreadable", error="EINVAL")
    try:
        return syscall(_SYS_OPENAT2, root, name, ctypes.byref(how), ctypes.sizeof(how))
    except OSError as error:
        raise RefusalError("file.unreadable", error=error_name(error)) from None


def public(path: str) -> int:
    """Return what the real *path* names, if all users may enter each directory on the way to it.

    Each directory is judged as it is passed, so no exchange of names leads past one that is closed.  Raises
    RefusalError; OSError, also if a link has taken the place of a component.
    """
    *directories, name = path.split("/")[1:]
    at = os.open("/", _STEP | os.O_DIRECTORY)
    try:
        for depth, directory in enumerate([*directories, ""], 1):
            if not os.fstat(at).st_mode & stat.S_IXOTH:
                raise RefusalError("copy.closed-directory", directory="/" + "/".join(directories[: depth - 1]))
            if depth <= len(directories):
                above, at = at, os.open(directory, _STEP | os.O_DIRECTORY, dir_fd=at)
                os.close(above)
        return os.open(name or ".", _STEP, dir_fd=at)
    finally:
        os.close(at)
