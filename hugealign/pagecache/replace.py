"""Putting a copy in the place of a file, whole or not at all.

The copy has no name until it is complete, on disk and warm (``O_TMPFILE``, open(2)); then it gets one that only we
give, and rename(2) puts it in the place of the file.  A kill between these two leaves that name behind, and on a file
system without ``O_TMPFILE`` a kill before them does too; the next time we are here we remove it.
"""

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
import struct
from collections.abc import Callable

from hugealign.errors import HugealignError
from hugealign.machine import kernel

_FS_IOC_GETFLAGS, _FS_IOC_SETFLAGS = 0x80086601, 0x40086602  # ioctl_iflags(2)
_IMMUTABLE, _APPEND, _VERITY = 0x10, 0x20, 0x100000
_KEPT = 0x8 | 0x40 | 0x80  # sync, nodump, noatime: those of chattr(1) that any file system lets us set again
_TEMPORARY = re.compile(r"\.hugealign-[0-9a-f]{16}")
_CHUNK = 8 << 20


#: Writes the new file: (source, target, size of the source).
Fill = Callable[[int, int, int], None]


class ReplaceError(HugealignError):
    """The file cannot be replaced by a copy that is the same but for its pages; it is as it was."""


def copy_data(source: int, target: int, size: int) -> None:
    """Copy *size* bytes from one descriptor to the other; holes stay holes.  Raises OSError, ReplaceError."""
    copy_range(source, target, 0, 0, size)
    os.ftruncate(target, size)


def copy_range(source: int, target: int, start: int, place: int, size: int) -> None:
    """Copy *size* bytes at *start* of *source* to *place* in *target*, but for holes.  Raises OSError, ReplaceError."""
    at, end = start, start + size
    while at < end:
        try:
            data = os.lseek(source, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # only a hole is left
                raise
            break
        at = min(end, os.lseek(source, data, os.SEEK_HOLE))
        if data < at:
            _copy_bytes(source, target, data, data - start + place, at - data)


def create(path: str, source: int, fill: Fill) -> None:
    """Put what *fill* makes of the open file *source* under *path*, with its mode; whole or not at all.

    Whatever file had that name loses it.  Symbolic links are followed.  Raises ReplaceError.
    """
    directory, name = os.path.split(os.path.realpath(path))
    with contextlib.ExitStack() as stack:
        try:
            place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, place)
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISREG(os.stat(name, dir_fd=place).st_mode):
                    raise ReplaceError("not a regular file")
            _remove_leftovers(place)
            info = os.fstat(source)
            copy, temporary = _copy(place, source, info, stack, fill, _copy_mode)
            _publish(copy, temporary, name, place, stack)
        except OSError as error:
            raise ReplaceError(_explain(error)) from error


def replace(path: str, worthwhile: Callable[[int], bool], fill: Fill = copy_data) -> bool:
    """Replace the file at *path* by a copy of itself, or by what *fill* makes of it; return whether that was done.

    The copy keeps owner, mode, times, extended attributes (ACLs, capabilities, labels) and holes, and has only a new
    inode.  *worthwhile* gets it, open for reading, before anybody else can; if it returns False the copy is dropped.
    Symbolic links are followed.  ``trusted.*`` attributes are seen by root only, and lost otherwise.  Raises
    ReplaceError.
    """
    real = os.path.realpath(path)
    directory, name = os.path.split(real)
    with contextlib.ExitStack() as stack:
        try:
            place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, place)
            source = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
            stack.callback(os.close, source)
            info = os.fstat(source)
            _refuse(source, info, real)
            _remove_leftovers(place)
            copy, temporary = _copy(place, source, info, stack, fill, _copy_attributes)
            if not worthwhile(copy):
                return False
            _check_unchanged(place, name, source, info)
            _publish(copy, temporary, name, place, stack)
        except OSError as error:
            raise ReplaceError(_explain(error)) from error
    return True


def _refuse(source: int, info: os.stat_result, real: str) -> None:
    """Raise ReplaceError for what a copy with another inode could not stand in for."""
    if not stat.S_ISREG(info.st_mode):
        raise ReplaceError("not a regular file")
    if info.st_nlink > 1:
        raise ReplaceError(f"it has {info.st_nlink} names (hard links); the others would keep the old file")
    if kernel.is_mount_point(real):
        raise ReplaceError("a file is mounted there; replace the one below it")
    flags = _flags(source)
    if flags & (_IMMUTABLE | _APPEND):
        raise ReplaceError("it is immutable or append-only; see: chattr(1)")
    if flags & _VERITY:
        raise ReplaceError("it is sealed by fs-verity; a copy would not be")


def _publish(copy: int, temporary: str, name: str, place: int, stack: contextlib.ExitStack) -> None:
    """Give the complete *copy* its *name* in the directory *place*."""
    if not temporary:
        temporary = _temporary_name()
        stack.callback(_forget, temporary, place)
        # With dst_dir_fd Python calls linkat, which can follow the link in /proc (open(2), O_TMPFILE).
        os.link(f"/proc/self/fd/{copy}", temporary, dst_dir_fd=place, follow_symlinks=True)
    os.rename(temporary, name, src_dir_fd=place, dst_dir_fd=place)
    os.fsync(place)


def _copy(
    place: int,
    source: int,
    info: os.stat_result,
    stack: contextlib.ExitStack,
    fill: Fill,
    copy_attributes: Callable[[int, int, os.stat_result], None],
) -> tuple[int, str]:
    """Return a copy on disk, open for reading, and its name; empty as long as it has none."""
    temporary = ""
    try:
        target = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=place)
    except OSError as error:
        # EISDIR: the kernel, EOPNOTSUPP: the file system does not know it; ENOENT: some network file systems.
        if error.errno not in (errno.EISDIR, errno.EOPNOTSUPP, errno.ENOENT):
            raise
        temporary = _temporary_name()
        target = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=place)
        stack.callback(_forget, temporary, place)
    try:
        # A lock that ends with us tells a name in use from one left behind.  It belongs to the open file, so the
        # descriptor for reading takes it over below.
        fcntl.flock(target, fcntl.LOCK_SH)
        fill(source, target, info.st_size)
        copy_attributes(source, target, info)
        os.fsync(target)
        copy = os.open(f"/proc/self/fd/{target}", os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, copy)
        fcntl.flock(copy, fcntl.LOCK_SH)
    finally:
        # Nobody can execute what is open for writing (ETXTBSY).
        os.close(target)
    return copy, temporary


def _copy_bytes(source: int, target: int, start: int, place: int, size: int) -> None:
    while size:
        count = min(size, _CHUNK)
        try:
            done = os.copy_file_range(source, target, count, start, place)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
            done = os.pwrite(target, os.pread(source, count, start), place)
        if not done:
            raise ReplaceError("it became shorter while it was copied")
        start, place, size = start + done, place + done, size - done


def _copy_mode(_source: int, target: int, info: os.stat_result) -> None:
    """Give *target* the mode of the original; not its set-user-ID bits if the owner is another."""
    made = os.fstat(target)
    same = (made.st_uid, made.st_gid) == (info.st_uid, info.st_gid)
    os.fchmod(target, stat.S_IMODE(info.st_mode) & (0o7777 if same else 0o777))


def _copy_attributes(source: int, target: int, info: os.stat_result) -> None:
    try:
        os.fchown(target, info.st_uid, info.st_gid)
    except OSError as error:
        raise ReplaceError(f"its owner cannot be kept: {error.strerror}; do it as root") from error
    wanted = {name: os.getxattr(source, name) for name in _attributes(source)}
    for name in set(_attributes(target)) - set(wanted):  # from the directory's default ACL
        os.removexattr(target, name)
    os.fchmod(target, stat.S_IMODE(info.st_mode))
    for name, value in wanted.items():
        try:
            if name not in _attributes(target) or os.getxattr(target, name) != value:
                os.setxattr(target, name, value)
        except OSError as error:
            raise ReplaceError(f"its attribute {name} cannot be kept: {error.strerror}; do it as root") from error
    if kept := _flags(source) & _KEPT:
        fcntl.ioctl(target, _FS_IOC_SETFLAGS, struct.pack("l", _flags(target) | kept))
    os.utime(target, ns=(info.st_atime_ns, info.st_mtime_ns))


def _attributes(fd: int) -> list[str]:
    try:
        return os.listxattr(fd)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        return []


def _flags(fd: int) -> int:
    try:
        return int(struct.unpack_from("=I", fcntl.ioctl(fd, _FS_IOC_GETFLAGS, bytes(8)))[0])
    except OSError:  # a file system without them
        return 0


def _check_unchanged(place: int, name: str, source: int, before: os.stat_result) -> None:
    now, there = os.fstat(source), os.stat(name, dir_fd=place, follow_symlinks=False)
    if (there.st_dev, there.st_ino) != (before.st_dev, before.st_ino):
        raise ReplaceError("another file took its name while it was copied")
    if (now.st_size, now.st_mtime_ns, now.st_ctime_ns) != (before.st_size, before.st_mtime_ns, before.st_ctime_ns):
        raise ReplaceError("it was changed while it was copied")


def _temporary_name() -> str:
    return f".hugealign-{secrets.token_hex(8)}"


def _remove_leftovers(place: int) -> None:
    """Remove the copies that one of us, killed in the middle, has left in the directory."""
    for name in os.listdir(place):
        if not _TEMPORARY.fullmatch(name):
            continue
        with contextlib.suppress(OSError):
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
            try:
                info = os.fstat(fd)
                if stat.S_ISREG(info.st_mode):
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(name, dir_fd=place)
            finally:
                os.close(fd)


def _forget(name: str, place: int) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=place)


def _explain(error: OSError) -> str:
    reasons = {
        errno.ENOSPC: "no space for a copy beside it",
        errno.EDQUOT: "no space for a copy beside it",
        errno.EACCES: "no permission to write to its directory, or to read it",
        errno.EPERM: "no permission to write to its directory",
        errno.EROFS: "its file system is read-only",
        errno.EBUSY: "a file is mounted there; replace the one below it",
    }
    return reasons.get(error.errno or 0, error.strerror or str(error))
