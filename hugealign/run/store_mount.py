"""The directory of a store: a tmpfs that is mounted when it is needed, and is removed after its last copy.

The process that removes the last copy unmounts the store and removes its directory.  The lock lies in the store.  So a
process that waited for it checks whether the path still leads to what it has locked, and otherwise begins anew: no
process puts a copy into a store that is gone, or unmounts one in which another is at work.
"""

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator

from hugealign.diagnosis.refusal import DiagnosedError, RefusalError, error_name
from hugealign.errors import HugealignError
from hugealign.io import mounts, resources
from hugealign.io.descriptors import using
from hugealign.io.regular import lock
from hugealign.system import kernel, namespace

#: Names in a store that are not of copies: links of all, links of one owner, the lock, a link that has no name yet.
LINKS, OWNED, _LOCK, FRESH = OWN = "path", "for", "lock", "link"
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def unlink(path: str) -> None:
    """Remove the name *path*, unless it is a directory or not there."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
        os.unlink(path)


@contextlib.contextmanager
def opened(place: str, private: bool = False, link: str = "") -> Iterator[int]:
    """Yield the open store, which no other process changes meanwhile, after mounting it if need be.

    An empty store is removed afterwards.  Whatever goes wrong, *link* does not stay: it may lead to a copy of what the
    file was before.  Raises HugealignError.
    """
    try:
        while True:
            with using(_mounted(place, private)) as store, _alone(store, place):
                if leads_to(place, store):
                    try:
                        yield store
                    finally:
                        _remove_empty(store, place)
                    return
    except BaseException as error:
        if link:
            unlink(link)
        if isinstance(error, OSError):
            raise DiagnosedError("store.failed", store=place, error=error_name(error)) from error
        raise


@contextlib.contextmanager
def _alone(store: int, place: str) -> Iterator[None]:
    """Keep all other processes from changing the store meanwhile.  Raises OSError, HugealignError."""
    # A separate file, which others cannot open and therefore cannot lock.
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    with using(os.open(_LOCK, flags, 0o600, dir_fd=store)) as fd, _locked(fd, place):
        yield


def _mounted(place: str, private: bool) -> int:
    """Open the store at *place*, which is mounted if nothing is there.  Raises OSError, HugealignError."""
    while True:
        with contextlib.suppress(FileExistsError):
            os.mkdir(place, 0o700)  # no other process can lock it before it is mounted
        try:
            fd = os.open(place, DIRECTORY)
        except FileNotFoundError:  # another process has just removed it
            continue
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, fd)
            if is_mounted(fd):
                try:
                    check(fd, place, private)
                    _mend(fd)
                    stack.pop_all()
                except HugealignError:
                    if leads_to(place, fd):  # else it has just been unmounted, and has no options any more
                        raise
                else:
                    return fd
            else:
                with _locked(fd, place):
                    if leads_to(place, fd):  # so nothing has been mounted there
                        _mount(fd, place, private)


def _mount(fd: int, place: str, private: bool) -> None:
    """Mount a tmpfs on the open directory *fd*, unless it is no longer at *place*.  Raises OSError, HugealignError."""
    resources.check_directory(fd, place)
    if os.listdir(fd) and not _emptied(fd):
        raise DiagnosedError("store.not-empty", store=place)
    try:
        namespace.mount_tmpfs(f"/proc/self/fd/{fd}", f"mode=0{700 if private else 755}")
    except RefusalError:
        if leads_to(place, fd):
            with contextlib.suppress(OSError):
                os.rmdir(place)
            raise


def _emptied(directory: int) -> bool:
    """Remove what is below the open *directory* if it is nothing but directories; return whether nothing is left.

    A container engine makes them after a boot, for a volume whose source is a copy that is not there yet.
    """
    for _, directories, files, at in os.fwalk(".", dir_fd=directory):
        if files or any(not stat.S_ISDIR(os.lstat(name, dir_fd=at).st_mode) for name in directories):
            return False
    with contextlib.suppress(OSError):  # a mount point, or a new file
        for _, names, _, at in os.fwalk(".", topdown=False, dir_fd=directory):
            for name in names:
                os.rmdir(name, dir_fd=at)
    return not os.listdir(directory)


def _remove_empty(store: int, place: str) -> None:
    """Unmount the open store at *place* and remove its directory, if we mounted it and no copy is left.

    Processes that run from a copy keep it.
    """
    with contextlib.suppress(OSError, RefusalError):  # then it stays, empty
        if _is_mounted_by_us(store) and not {*os.listdir(store)}.difference(OWN):
            namespace.detach(f"/proc/self/fd/{store}")
            os.rmdir(place)


def _is_mounted_by_us(store: int) -> bool:
    mount = mounts.of_device(os.fstat(store).st_dev)
    return mount is not None and mount.source == namespace.SOURCE.encode()


def _mend(store: int) -> None:
    """Let nothing in the open store confer privileges, if we have mounted it, as version 1.0.0 did without that."""
    if not namespace.nosuid(store) and _is_mounted_by_us(store):
        with contextlib.suppress(RefusalError):  # without CAP_SYS_ADMIN: no copy does, in any case
            namespace.without_privileges(store)


def leads_to(place: str, fd: int) -> bool:
    """Return whether *place* is still the open directory *fd*, not one that was mounted or made there since."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(place, follow_symlinks=False))
    except FileNotFoundError:
        return False


def is_mounted(fd: int) -> bool:
    """Return whether the open directory is the root of a mount."""
    return os.fstat(fd).st_dev != os.stat("..", dir_fd=fd).st_dev


def check(fd: int, place: str, private: bool = False) -> None:
    """Check that the open directory *place* is a store that others cannot change, or enter if it is *private*.

    Raises HugealignError.
    """
    is_tmpfs = is_mounted(fd) and kernel.file_system_of(fd) == "tmpfs"
    if not is_tmpfs or "huge=always" not in kernel.mount_options_of(fd):
        raise DiagnosedError("store.other-mount", store=place, file_system=kernel.file_system_of(fd) or "")
    resources.check_directory(fd, place)
    if private and os.fstat(fd).st_mode & 0o077:
        raise DiagnosedError("store.readable", store=place)


@contextlib.contextmanager
def _locked(fd: int, place: str) -> Iterator[None]:
    """Hold the lock on *fd* of the store at *place*, one process at a time.  Raises DiagnosedError."""
    if not lock(fd):
        raise DiagnosedError("store.locked", store=place)
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)
