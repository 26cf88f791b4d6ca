"""The C library, for the system calls that Python does not offer.

A link and the start of `run` import this where they call it, since ctypes takes longer than the rest of their work.
"""

import ctypes
import errno
import functools
import os

#: What mmap(2) returns if it fails.
MAP_FAILED = ctypes.c_void_p(-1).value


@functools.cache
def libc() -> ctypes.CDLL:
    """Return the C library; after a failed call, `ctypes.get_errno` has the error number."""
    library = ctypes.CDLL(None, use_errno=True)
    pointer, size, text, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_int
    library.mmap.restype = pointer
    library.mmap.argtypes = (pointer, size, number, number, number, ctypes.c_int64)
    library.munmap.argtypes = library.mlock.argtypes = (pointer, size)
    library.madvise.argtypes = (pointer, size, number)
    library.mincore.argtypes = (pointer, size, text)
    library.fallocate.argtypes = (number, number, ctypes.c_long, ctypes.c_long)  # off_t
    library.mount.argtypes = (text, text, text, ctypes.c_ulong, text)
    return library


def prctl(option: int, *values: int) -> int:
    """Control an attribute of this process, see its manual page; -1 if that failed."""
    return int(libc().prctl(option, *map(ctypes.c_ulong, (*values, 0, 0, 0, 0)[:4])))


def syscall(number: int | None, *words: object) -> int:
    """Make the system call *number*, None where this machine has none, and return its result.  Raises OSError."""
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    # The function is variadic: without a type, the upper half of a number is undefined.
    typed = [ctypes.c_long(word) if isinstance(word, int) else word for word in (number, *words)]
    result = int(libc().syscall(*typed))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
