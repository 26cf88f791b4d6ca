"""Replace files atomically, whole or not at all.  All of hugealign's atomic writes go through here.

The new file has no name until it is complete (``O_TMPFILE``, open(2)); then it gets a name of our own pattern, and
rename(2) puts it in place.  A kill between these two steps leaves that name behind; on a file system without
``O_TMPFILE``, so does an earlier kill.  Our next write to the directory removes it.
"""

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import closing

from hugealign.errors import cause
from hugealign.io import mounts, places
from hugealign.io.copying import (
    APPEND,
    CHANGED,
    IMMUTABLE,
    NOT_SYNCED,
    ReplaceError,
    copy_attributes,
    copy_data,
    copy_privileges,
    flags,
    privileges,
    sealed,
)
from hugealign.io.descriptors import reopened, using, write_all
from hugealign.io.places import Place
from hugealign.io.regular import NO_LOCKS, locked, named

_TEMPORARY = r"\.hugealign-[0-9a-f]{16}"
_READ_ONLY = "its file system is read-only"
_MOUNTED = "a file is mounted there; replace the one below it"
_KEPT_AS_IT_IS = "it is immutable or append-only; see: chattr(1)"
_SEEN = "its file system has no files without a name, so its privileges cannot be kept"
_TAKEN = "another file took its name while it was copied"
#: From arch/*/kernel/syscalls and include/uapi/asm-generic/unistd.h, by `uname -m`.
_SYS_RENAMEAT2 = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "loongarch64": 276, "ppc64le": 357, "s390x": 347}
_RENAME_EXCHANGE = 2  # linux/fs.h
_NO_EXCHANGE = (errno.EINVAL, errno.ENOSYS)  # the file system cannot, as NFS
_ATTEMPTS = 1000  # at an exchange, while others give the name to file after file


#: A function that writes the new file: (source, target, size of the source).
Fill = Callable[[int, int, int], None]


def same(path: str, other: str) -> bool:
    """Return whether the two paths lead to one file, or would but for a slash at the end."""
    with contextlib.suppress(OSError):
        if os.path.samefile(path, other):
            return True
    return os.path.realpath(path) == os.path.realpath(other)


def write(path: str, data: bytes, mode: int | None = None) -> None:
    """Put *data* under *path*, whole or not at all; directly if that is not a regular file (``/dev/stdout``, a pipe).

    The file replaces one that has this name.  It gets *mode*, less the umask; by default it keeps the mode of the file
    before, and its owner if we may give it away.  Symbolic links are followed where the kernel does
    (``protected_symlinks``, proc(5)).  Raises OSError, ValueError.
    """
    before = _status(path)
    if before and not stat.S_ISREG(before.st_mode):  # not the real path: a pipe in /proc/self/fd has none
        with open(path, "wb") as stream:
            stream.write(data)
        return
    with (
        _directory(_real(path)) as (place, name),
        closing(_New(place, 0o666 if mode is None else mode)) as new,
    ):
        write_all(new.fd, data)
        new.seal()  # before it has a mode with which we may not read it
        if mode is None:
            _take_place(new.fd, place, name)
        new.publish(name)


@contextlib.contextmanager
def beside(path: str) -> Iterator[str]:
    """Yield the path of a new file that other processes can open; put it under *path* at the end if all went well.

    It keeps mode and owner of a file that has this name, as with `write`.  Raises OSError.
    """
    real = _real(path)
    with _directory(real) as (place, name):
        temporary = _temporary_name()
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
        with using(os.open(temporary, flags, 0o666, dir_fd=place)) as fd:
            try:
                _mark(fd)
                yield os.path.join(os.path.dirname(real.path), temporary)
                _take_place(fd, place, name)
                os.rename(temporary, name, src_dir_fd=place, dst_dir_fd=place)
            except BaseException:
                _forget(temporary, place)
                raise


@contextlib.contextmanager
def created(path: str, source: int) -> Iterator[int]:
    """Yield a new file to write to; put it under *path* at the end, with the mode of the open file *source*.

    It gets no set-user-ID bit and the like.  It replaces a file that has this name.  Symbolic links are followed.
    Raises ReplaceError, also for OSError within.
    """
    with _explained():
        before = _status(path)  # not of the real path: a pipe in /proc/self/fd has none
        if before and not stat.S_ISREG(before.st_mode):
            raise ReplaceError("not a regular file", "file.special")
        with _directory(_real(path)) as (place, name), closing(_New(place, 0o600)) as new:
            yield new.fd
            os.fchmod(new.fd, os.fstat(source).st_mode & 0o777)
            os.fsync(new.fd)
            new.seal()
            new.publish(name)
            _sync_name(place)


def replace(
    path: str | Place,
    worthwhile: Callable[[int], bool],
    fill: Fill | None = None,
    held: int = -1,
    *,
    one_name: bool = False,
) -> bool:
    """Replace the file at *path* by a copy of itself, or by what *fill* makes of it; return whether that was done.

    The copy keeps owner, mode, times, extended attributes (ACLs, capabilities, labels) and holes; only the inode is
    new.  *worthwhile* gets the copy, open for reading, before anyone else can; if it returns False the copy is dropped.
    *held* is the file if the caller has it `locked` already.  *one_name*: other names (hard links) may keep the old
    file.  Symbolic links are followed, once, except to a Place.  Only root sees ``trusted.*`` attributes; without root
    they are lost.  Raises ReplaceError, FileError.
    """
    file = named(path) if isinstance(path, str) else path
    with _explained(), _directory(file) as (place, name), contextlib.ExitStack() as stack:
        source = held if held >= 0 else stack.enter_context(locked(file, empty=True))
        info = os.fstat(source)
        refuse(source, info, file.real(), one_name=one_name)
        new = stack.enter_context(closing(_New(place, 0o600)))
        (fill or copy_data)(source, new.fd, info.st_size)
        copy_attributes(source, new.fd, info)
        os.fsync(new.fd)
        new.seal()
        if not worthwhile(new.fd):
            return False
        _check_unchanged(place, name, source, info)
        if any(privileges(source)):
            new.refuse_seen(info.st_uid)
            copy_privileges(source, new.fd, info)  # last, so that nothing changes what has them
            os.fsync(new.fd)
        new.exchange(name, source)
        _sync_name(place)
    return True


def share(made: int, other: Place, before: os.stat_result) -> None:
    """Also give the open file *made* the name *other*, which the file has that *before* is of.  Raises ReplaceError."""
    with _explained(), _directory(other) as (place, name):
        temporary = _temporary_name()
        # Not by its name, which the owner of its directory may have given to a file of root's.
        os.link(f"/proc/self/fd/{made}", temporary, dst_dir_fd=place, follow_symlinks=True)
        try:
            _check_same(place, name, before)
            os.rename(temporary, name, src_dir_fd=place, dst_dir_fd=place)
        except BaseException:
            _forget(temporary, place)
            raise
        _sync_name(place)


class _New:
    """A file in the directory *place* that is invisible until published; dropped if it never is."""

    def __init__(self, place: int, mode: int) -> None:
        self._place = place
        self._name = ""
        try:
            self.fd = os.open(".", os.O_TMPFILE | os.O_RDWR, mode, dir_fd=place)
        except OSError as error:
            # No O_TMPFILE: EISDIR from the kernel, EOPNOTSUPP from the file system, ENOENT from some network ones.
            if error.errno not in (errno.EISDIR, errno.EOPNOTSUPP, errno.ENOENT):
                raise
            self._name = _temporary_name()
            self.fd = os.open(self._name, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode, dir_fd=place)
        try:
            _mark(self.fd)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Close the file, and drop it unless it was published."""
        if self._name:
            _forget(self._name, self._place)
        os.close(self.fd)

    def seal(self) -> None:
        """Reopen the file for reading only, since no process can execute a file that is open for writing (ETXTBSY)."""
        reading = reopened(self.fd)
        with using(self.fd):
            self.fd = reading
            _mark(reading)  # before the other descriptor's lock goes

    def refuse_seen(self, owner: int) -> None:
        """Raise ReplaceError if *owner*, another user, can have opened the file for writing: it has had a name."""
        if self._name and owner != os.geteuid():
            raise ReplaceError(_SEEN, "copy.attributes", attribute="mode", error="EOPNOTSUPP")

    def publish(self, name: str) -> None:
        """Give the sealed file its *name*, which another file may have had."""
        os.rename(self._named(), name, src_dir_fd=self._place, dst_dir_fd=self._place)
        self._name = ""

    def exchange(self, name: str, source: int) -> None:
        """Give the sealed file its *name*, which the open file *source* has.

        If an upgrade gives that name to another file at this moment, that file gets it back.  Raises ReplaceError.
        """
        before, put = os.fstat(source), os.fstat(self.fd)
        if before.st_nlink > 1 and _is_overlay(self._place):
            # The exchange would copy a file of a lower layer up, and with several names it is then another inode
            # (Documentation/filesystems/overlayfs.rst, "Non-standard behavior").
            _check_same(self._place, name, before)
            self.publish(name)
            return
        try:
            out = self._exchanged(name)
        except OSError as error:
            if error.errno not in _NO_EXCHANGE:
                raise
            self.publish(name)
            return
        if os.path.samestat(out, before) and _same_state(os.fstat(source), before):
            return
        # Put back what was there.  If the exchange returns another file than the one we put there, that one is newer.
        for _ in range(_ATTEMPTS):
            back = self._exchanged(name)
            if os.path.samestat(back, put):
                break
            put, out = out, back
        raise ReplaceError(_TAKEN, CHANGED)

    def _exchanged(self, name: str) -> os.stat_result:
        """Exchange the file at our name for the one at *name*, and return what we have now."""
        _exchange(self._place, self._named(), name)
        return os.stat(self._named(), dir_fd=self._place, follow_symlinks=False)

    def _named(self) -> str:
        """Return the name of the file for now, which it gets if it has none yet."""
        if not self._name:
            self._name = _temporary_name()
            # With dst_dir_fd Python calls linkat, which can follow the link in /proc (open(2), O_TMPFILE).
            os.link(f"/proc/self/fd/{self.fd}", self._name, dst_dir_fd=self._place, follow_symlinks=True)
        return self._name


@contextlib.contextmanager
def _directory(file: Place) -> Iterator[tuple[int, str]]:
    """Open the directory of *file*, remove leftovers of killed runs there, yield it and the name in it."""
    with using(file.directory()) as place:
        _remove_leftovers(place)
        yield place, os.path.basename(file.name)


def remove_leftovers(file: Place) -> None:
    """Remove what killed runs of hugealign left beside *file*, as far as that is possible."""
    with contextlib.suppress(OSError), _directory(file):
        pass


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    reasons = {
        errno.ENOSPC: "no space for a copy beside it",
        errno.EDQUOT: "no space for a copy beside it",
        errno.EACCES: "no permission to write to its directory, or to read it",
        errno.EPERM: "no permission to write to its directory",
        errno.EROFS: _READ_ONLY,
        errno.EBUSY: _MOUNTED,
    }
    try:
        yield
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "")
        raise ReplaceError(reasons.get(error.errno or 0, cause(error)), error=name) from error


def refuse(source: int, info: os.stat_result, real: str, *, one_name: bool = False) -> None:
    """Raise ReplaceError if a copy with another inode cannot replace the open file *source* at *real*.

    *one_name*: other names (hard links) may keep the old file.
    """
    if info.st_nlink > 1 and not one_name:
        message = f"it has {info.st_nlink} names (hard links); the others would keep the old file"
        raise ReplaceError(message, names=info.st_nlink)
    if _is_mount_point(real):
        raise ReplaceError(_MOUNTED, error="EBUSY")
    _refuse_flags(source)
    if sealed(source):
        raise ReplaceError("it is sealed by fs-verity; a copy would not be", "copy.sealed")


def refuse_write(fd: int) -> None:
    """Raise ReplaceError if not even root can write to the open file."""
    if os.fstatvfs(fd).f_flag & os.ST_RDONLY:
        raise ReplaceError(_READ_ONLY, error="EROFS")
    _refuse_flags(fd)


def _refuse_flags(fd: int) -> None:
    for flag, letter in ((IMMUTABLE, "i"), (APPEND, "a")):
        if flags(fd) & flag:
            raise ReplaceError(_KEPT_AS_IT_IS, attribute=letter)


def _is_mount_point(path: str) -> bool:
    """Return whether something is mounted at the real *path*, which may be a file (a bind mount)."""
    return any(mounts.text(mount.place) == path for mount in mounts.seen())


def _check_unchanged(place: int, name: str, source: int, before: os.stat_result) -> None:
    now = os.fstat(source)
    _check_same(place, name, before)
    if (now.st_size, now.st_mtime_ns, now.st_ctime_ns) != (before.st_size, before.st_mtime_ns, before.st_ctime_ns):
        raise ReplaceError("it was changed while it was copied", CHANGED)


def _is_overlay(place: int) -> bool:
    """Return whether the open directory *place* is on overlayfs."""
    mount = mounts.of_device(os.fstat(place).st_dev)
    return mount is not None and mount.kind == b"overlay"


def _check_same(place: int, name: str, before: os.stat_result) -> None:
    if not os.path.samestat(os.stat(name, dir_fd=place, follow_symlinks=False), before):
        raise ReplaceError(_TAKEN, CHANGED)


def _same_state(now: os.stat_result, before: os.stat_result) -> bool:
    """Return whether the file is unchanged; a new name alone changes its ``st_ctime``."""
    keys = ("st_size", "st_mtime_ns", "st_mode", "st_uid", "st_gid")
    return all(getattr(now, key) == getattr(before, key) for key in keys)


def _exchange(place: int, name: str, other: str) -> None:
    """Exchange two files in the open directory *place* (renameat2(2), Linux 3.15).  Raises OSError."""
    from hugealign.io.libc import syscall  # `run`, which must start fast, does not need it

    number = _SYS_RENAMEAT2.get(os.uname().machine)
    syscall(number, place, os.fsencode(name), place, os.fsencode(other), _RENAME_EXCHANGE)


def _sync_name(place: int) -> None:
    try:
        os.fsync(place)
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "")
        raise ReplaceError(f"its directory cannot be synced: {error.strerror}", NOT_SYNCED, error=name) from error


def _real(path: str) -> Place:
    """Return the place of a file to write.  Raises IsADirectoryError for a path that only a directory can have."""
    if os.path.basename(path) in ("", ".", ".."):  # realpath(3) would refuse it; Python's drops the slash
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return places.real(os.path.realpath(path))


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _take_place(new: int, place: int, name: str) -> None:
    """Give the *new* file mode and owner of the one at *name*, as if that were written to; its owner if we may."""
    with contextlib.suppress(FileNotFoundError):
        before = os.stat(name, dir_fd=place, follow_symlinks=False)
        if stat.S_ISREG(before.st_mode):
            with contextlib.suppress(OSError):
                os.fchown(new, before.st_uid, before.st_gid)
            os.fchmod(new, before.st_mode & 0o777)


def _mark(fd: int) -> None:
    """Lock *fd* until we exit, which tells a name in use from a leftover."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise


def _temporary_name() -> str:
    return f".hugealign-{os.urandom(8).hex()}"


def _remove_leftovers(place: int) -> None:
    """Remove the copies that killed runs of hugealign left in the directory."""
    import re  # `run`, the other user of this module, does not need it

    for name in os.listdir(place):
        if not re.fullmatch(_TEMPORARY, name):
            continue
        flags = os.O_PATH | os.O_NOFOLLOW
        with contextlib.suppress(OSError), using(os.open(name, flags, dir_fd=place)) as file:
            if stat.S_ISREG(os.fstat(file).st_mode):
                with using(reopened(file)) as fd:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(name, dir_fd=place)


def _forget(name: str, place: int) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=place)
