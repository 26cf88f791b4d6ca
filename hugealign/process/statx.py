"""Find the file that an open path leads to without asking a server: statx(2), which Python does not offer."""

import ctypes
import functools
import os
from typing import Any

_AT_STATX_DONT_SYNC, _STATX_INO = 0x4000, 0x100
#: The offsets of stx_ino, stx_dev_major and stx_dev_minor in struct statx (include/uapi/linux/stat.h), and its size.
_INO, _MAJOR, _MINOR, _SIZE = 0x20, 0x88, 0x8C, 0x100


def identity(name: str, directory: int) -> tuple[int, int]:
    """Return ``(st_dev, st_ino)`` of *name* in the open *directory*, as the kernel knows them.  Raises OSError.

    ``stat`` would ask a FUSE server for the attributes, and wait forever if that hangs.
    """
    function = _statx()
    if function is None:
        info = os.stat(name, dir_fd=directory)
        return info.st_dev, info.st_ino
    found = ctypes.create_string_buffer(_SIZE)
    if function(directory, os.fsencode(name), _AT_STATX_DONT_SYNC, _STATX_INO, found):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)
    major, minor = (int.from_bytes(found.raw[at : at + 4], "little") for at in (_MAJOR, _MINOR))
    return os.makedev(major, minor), int.from_bytes(found.raw[_INO : _INO + 8], "little")


@functools.cache
def _statx() -> Any:
    """Return the function of the C library, or None if the library has none (glibc before 2.28)."""
    function = getattr(ctypes.CDLL(None, use_errno=True), "statx", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_char_p)
    return function
