"""Files below another root, as a container will see them: no link leads outside (openat2(2), Linux 5.6)."""

import ctypes
import os

from hugealign.errors import HugealignError
from hugealign.units import printable

_SYS_OPENAT2 = 437  # on all architectures (include/uapi/asm-generic/unistd.h)
_RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH, _RESOLVE_IN_ROOT = 4, 8, 16  # linux/openat2.h


class RootedError(HugealignError):
    """The file does not exist, or cannot be reached."""


class _How(ctypes.Structure):
    """``struct open_how``, linux/openat2.h."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def opened(root: int, path: str, flags: int = os.O_RDONLY) -> int:
    """Open *path* as a process with the open *root* as its root directory would.  Raises RootedError."""
    return _opened(root, path, flags, _RESOLVE_IN_ROOT)


def beneath(directory: int, path: str) -> int:
    """Open the file at the relative *path* below the open *directory* for reading, without following symbolic links.

    Raises RootedError.
    """
    return _opened(directory, path, os.O_RDONLY, _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS)


def _opened(directory: int, path: str, flags: int, resolve: int) -> int:
    # O_NONBLOCK: do not wait for a FIFO.
    how = _How(flags | os.O_CLOEXEC | (0 if flags & os.O_PATH else os.O_NONBLOCK), 0, resolve)
    libc = ctypes.CDLL(None, use_errno=True)
    if "\0" in path:
        raise RootedError("a name with a NUL byte")
    try:
        name = os.fsencode(path)
    except UnicodeEncodeError:  # JSON can have half of a surrogate pair
        raise RootedError(f"{path!a}: not the name of a file") from None
    fd = libc.syscall(_SYS_OPENAT2, directory, name, ctypes.byref(how), ctypes.sizeof(how))
    if fd < 0:
        raise RootedError(f"{printable(path)}: {os.strerror(ctypes.get_errno())}")
    return int(fd)
