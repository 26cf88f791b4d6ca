"""Copy files: their data except holes, their owner, mode, times and attributes."""

import errno
import fcntl
import mmap
import os
import stat
import struct

from hugealign.errors import HugealignError

_FS_IOC_GETFLAGS, _FS_IOC_SETFLAGS = 0x80086601, 0x40086602  # ioctl_iflags(2)
IMMUTABLE, APPEND, _VERITY = 0x10, 0x20, 0x100000
_KEPT = 0x8 | 0x40 | 0x80  # sync, nodump, noatime: the flags of chattr(1) that any file system lets us set again
_CHUNK = 2 << 20  # a whole huge page, which the kernel need not clear before it is written
CHANGED, NOT_SYNCED = "file.changed", "file.not-synced"
CAPABILITIES = "security.capability"
_SET_ID = stat.S_ISUID | stat.S_ISGID


class ReplaceError(HugealignError):
    """The file was not replaced and is as before; with the code NOT_SYNCED, the new one is there, perhaps not on disk.

    With CHANGED, another process changed the file, or gave its name to another one.
    """

    def __init__(self, message: str, code: str = "file.not-replaced", **facts: int | str) -> None:
        super().__init__(message, code, **facts)


def copy_data(source: int, target: int, size: int) -> None:
    """Copy *size* bytes from one descriptor to the other; holes stay holes.  Raises OSError, ReplaceError."""
    copy_range(source, target, 0, 0, size)
    os.ftruncate(target, size)


def copy_range(source: int, target: int, start: int, place: int, size: int) -> None:
    """Copy *size* bytes at *start* of *source* to *place* in *target*, except holes.  Raises OSError, ReplaceError."""
    at, end = start, start + size
    while at < end:
        try:
            data = os.lseek(source, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # ENXIO: only a hole is left
                raise
            break
        at = min(end, os.lseek(source, data, os.SEEK_HOLE))
        if data < at:
            _copy_bytes(source, target, data, data - start + place, at - data)


def attributes(fd: int) -> list[str]:
    """Return the names of the extended attributes that we may see; none if the file system has none."""
    try:
        return os.listxattr(fd)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        return []


def _copy_bytes(source: int, target: int, start: int, place: int, size: int) -> None:
    in_kernel = True
    buffer = memoryview(b"")
    while size:
        count = min(size, _CHUNK)
        if in_kernel:
            try:
                done = os.copy_file_range(source, target, count, start, place)
            except OSError as error:
                if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                    raise
                in_kernel = False  # use one buffer: fresh memory for each piece takes as long as the copy
                buffer = memoryview(mmap.mmap(-1, count))
                continue
        else:
            done = os.pwrite(target, buffer[: os.preadv(source, [buffer[:count]], start)], place)
        if not done:
            raise ReplaceError("it became shorter while it was copied", CHANGED)
        start, place, size = start + done, place + done, size - done


def copy_attributes(source: int, target: int, info: os.stat_result) -> None:
    """Give *target* owner, mode, times, flags and extended attributes of *source*, which *info* is of.

    It gets nothing that confers privileges (`copy_privileges`).  Raises OSError, ReplaceError.
    """
    try:
        os.fchown(target, info.st_uid, info.st_gid)
    except OSError as error:
        raise _not_kept("owner", error) from error
    wanted = {name: os.getxattr(source, name) for name in attributes(source) if name != CAPABILITIES}
    for name in set(attributes(target)) - set(wanted):  # from the directory's default ACL
        os.removexattr(target, name)
    os.fchmod(target, stat.S_IMODE(info.st_mode) & ~_SET_ID)
    for name, value in wanted.items():
        _set(target, name, value)
    if kept := flags(source) & _KEPT:
        fcntl.ioctl(target, _FS_IOC_SETFLAGS, struct.pack("l", flags(target) | kept))
    os.utime(target, ns=(info.st_atime_ns, info.st_mtime_ns))


def privileges(fd: int) -> tuple[int, bytes]:
    """Return what executing the open file confers: its set-user-ID and set-group-ID bits, and its capabilities."""
    capabilities = os.getxattr(fd, CAPABILITIES) if CAPABILITIES in attributes(fd) else b""
    return os.fstat(fd).st_mode & _SET_ID, capabilities


def copy_privileges(source: int, target: int, info: os.stat_result) -> None:
    """Give *target* what executing *source* confers, if that still is the file that *info* is of.

    *target* is complete, and of the same owner.  A write by another user takes these privileges from *source*
    (file_remove_privs in fs/inode.c), so what still has them has the contents that were copied.  Raises OSError,
    ReplaceError.
    """
    bits, capabilities = privileges(source)
    keys = ("st_mode", "st_uid", "st_gid")
    now, made = os.fstat(source), os.fstat(target)
    if any(getattr(now, key) != getattr(info, key) for key in keys):
        raise ReplaceError("it was changed while it was copied", CHANGED)
    if any(getattr(made, key) != getattr(info, key) for key in keys[1:]):
        raise ReplaceError("the copy has another owner", CHANGED)
    if bits:
        os.fchmod(target, stat.S_IMODE(info.st_mode))
    if capabilities:
        _set(target, CAPABILITIES, capabilities)


def _set(target: int, name: str, value: bytes) -> None:
    try:
        if name not in attributes(target) or os.getxattr(target, name) != value:
            os.setxattr(target, name, value)
    except OSError as error:
        raise _not_kept(name, error) from error


def sealed(fd: int) -> bool:
    """Return whether fs-verity guards the open file, which it would not do for our copy."""
    return bool(flags(fd) & _VERITY)


def flags(fd: int) -> int:
    """Return the flags of the open file, as chattr(1) sets them; 0 if its file system has none."""
    try:
        return int(struct.unpack_from("=I", fcntl.ioctl(fd, _FS_IOC_GETFLAGS, bytes(8)))[0])
    except OSError:  # a file system without them
        return 0


def _not_kept(attribute: str, error: OSError) -> ReplaceError:
    message = f"its {attribute} cannot be kept: {error.strerror}; do it as root"
    name = errno.errorcode.get(error.errno or 0, "")
    return ReplaceError(message, "copy.attributes", attribute=attribute, error=name)
