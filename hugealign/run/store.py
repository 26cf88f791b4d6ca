"""A store of huge copies that services share: one tmpfs, with one copy for each state of a file.

``STORE/IDENTITY`` is a copy.  ``STORE/path/usr/sbin/mariadbd`` is a link to the copy of that path; a service can refer
to it before it exists.  ``STORE/for/UNIT/usr/sbin/mariadbd`` is a link of UNIT alone, which may remove it: a copy stays
as long as any link leads to it.  A copy gets its name when it is complete, so no process executes half a copy.  The
link is removed as soon as the file changes, so no process starts an old one.  The store and its copies belong to its
creator, usually root, and others cannot write to them: not even a file's owner, since others run what is in the store.
No copy confers privileges, and none would on this mount.
Small files would take 2 MiB each on such a tmpfs, so it holds nothing but copies.
"""

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from hugealign.diagnosis.refusal import DiagnosedError, RefusalError, error_name
from hugealign.diagnosis.values import Diagnosis
from hugealign.errors import HugealignError, UsageError, cause
from hugealign.io.descriptors import using
from hugealign.io.regular import FileError, opened_at, real_path
from hugealign.io.units import printable
from hugealign.pagecache import measure
from hugealign.records import Record
from hugealign.run import copies, store_mount
from hugealign.run.store_mount import FRESH, LINKS, OWN, OWNED, unlink
from hugealign.system import namespace, rooted
from hugealign.version import __version__

DEFAULT = "/run/hugealign"
_LONGEST_NAME = 255  # NAME_MAX
#: An extended attribute of fixed copies, which only root sees: the version of hugealign that fixed the file, and the
#: bytes of its data that this makes executable.
_MARK = "trusted.hugealign"

#: The states of a file after staging.
MADE, THERE, NO_WINDOW = "made", "there", "no-window"


class Staged(Record):
    """The file at the real *path*, with *windows* of text; *huge* of them are huge in its copy of *size* bytes.

    *state* is MADE, THERE, or NO_WINDOW, which means that there is no copy.  *fixed*: it is a copy of the fixed file.
    *link* is what to bind over the file.  *diagnosis* says why not all are huge.  So many bytes of read-only data are
    *executable* in a fixed copy.
    """

    path: str
    state: str
    windows: int = 0
    huge: int = 0
    size: int = 0
    link: str = ""
    fixed: bool = False
    diagnosis: Diagnosis | None = None
    executable: int = 0

    JSON = "path state windows windows_huge=huge size link fixed diagnosis"

    @property
    def whole(self) -> bool:
        """Whether all windows are huge."""
        return self.windows > 0 and self.huge == self.windows


class StoredCopy(Record):
    """A copy in the store; *current* unless the file at *path* was replaced or removed."""

    path: str
    identity: str
    size: int
    current: bool
    fixed: bool

    JSON = "path size current fixed identity"


def stage(
    path: str,
    place: str = DEFAULT,
    fix: bool = False,
    owner: str = "",
    kept: AbstractSet[str] = frozenset(),
    fixes: copies.Fixes | None = None,
) -> Staged:
    """Put a huge copy of the file *path* into the store at *place*; with *fix*, a fixed copy if the file has no window.

    With an *owner*, the link belongs to that owner.  Copies that no link leads to are removed, except *kept*
    (`identities`).  *fixes* are those that are known already.  Raises HugealignError.
    """
    real, links = real_path(path), _tree(place, owner)
    fixes = (fixes or copies.Fixes()) if fix else None
    if not os.path.ismount(place):  # a store is mounted only for a file that it will hold
        with _public(real) as fd:
            if _origin(real, fd, fixes) is None:
                return _nothing(real)
    with store_mount.opened(place, link=links + real) as store, _public(real) as fd:
        _remove_stale(store, kept | _identities(os.fstat(fd)))
        staged, copy = _staged(store, place, links, real, _origin(real, fd, fixes, store))
    if copy >= 0:
        os.close(copy)
    return staged


def identities(paths: Iterable[str]) -> set[str]:
    """Return the names that copies of the files at *paths* have, as they are now: of those that are staged together."""
    result = set()
    for path in paths:
        with contextlib.suppress(OSError):
            result |= _identities(os.stat(path))
    return result


def stage_privately(file: int, place: str, fix: bool) -> tuple[Staged, int]:
    """Put a huge copy of the open *file* into the store at *place*, which no other user may enter.

    So it also takes files that only some users can reach.  Return the result, and the open copy, -1 without one; the
    caller closes it.  Raises HugealignError.
    """
    real = os.readlink(f"/proc/self/fd/{file}")
    if not real.startswith("/"):
        raise RefusalError("file.special")
    with opened_at(file) as fd:
        fixes = copies.Fixes() if fix else None
        if not os.path.ismount(place) and _origin(real, fd, fixes) is None:
            return _nothing(real), -1
        with store_mount.opened(place, private=True) as store:
            _remove_stale(store, _identities(os.fstat(fd)))
            origin = _origin(real, fd, fixes, store, private=True)
            return _staged(store, place, _tree(place, ""), real, origin, private=True)


def entries(place: str = DEFAULT) -> list[StoredCopy]:
    """Return the copies in the store, by path; none if there is no store."""
    result = {}
    for path, link in _links(place):
        with contextlib.suppress(OSError):
            identity = os.path.basename(os.readlink(link))
            size = os.stat(os.path.join(place, identity)).st_blocks * 512
            fixed = identity.endswith(copies.FIXED)
            result[path, identity] = StoredCopy(path, identity, size, _is_current(path, identity), fixed)
    return [result[key] for key in sorted(result)]


def drop(paths: Sequence[str], place: str) -> None:
    """Remove the copies of the files at the real *paths*, or all; processes that run from a copy keep it.

    With the last copy the store itself goes.  Raises HugealignError.
    """
    if not os.path.ismount(place):
        return
    with store_mount.opened(place) as store:
        for path, link in list(_links(_top(store))):
            if not paths or path in paths:
                unlink(link)
        _remove_unnamed(store)


def refresh(place: str = DEFAULT) -> None:
    """Remove the copies of files that have changed; processes that run from one keep it, and it shows as deleted.

    Raises HugealignError.
    """
    if os.path.ismount(place):
        with store_mount.opened(place) as store:
            _remove_stale(store, frozenset())


def release(owner: str, place: str = DEFAULT) -> None:
    """Remove the links of *owner*, and the copies that no other link leads to.  Raises HugealignError."""
    import shutil  # 20 ms, which `run` does not wait for

    top = _tree(place, owner)
    if not os.path.isdir(top):
        return
    with store_mount.opened(place) as store:
        shutil.rmtree(top)
        _remove_unnamed(store)


def shared(place: str = DEFAULT) -> list[str]:
    """Return the paths of the files that have a copy for all users in the store, not for one owner alone."""
    return [path for path, _ in _links_below(os.path.join(place, LINKS))]


def others(place: str) -> int:
    """Return how many files and directories in the store at *place* are not ours."""
    return sum(name not in OWN and not copies.is_identity(name) for name in os.listdir(place))


@contextlib.contextmanager
def copy_of(fd: int, place: str, kinds: Sequence[bool] = (True, False)) -> Iterator[int | None]:
    """Yield the open copy in the store at *place* of the open file *fd*; None without a copy, or a trusted store.

    *kinds* are the copies that will do, the best first: True is one of the fixed file.
    """
    copy, info = None, os.fstat(fd)
    with contextlib.suppress(OSError, HugealignError), using(os.open(place, store_mount.DIRECTORY)) as store:
        store_mount.check(store, place)
        for name in (copies.identity(info, fixed) for fixed in kinds):
            if _exists(store, name) and _is_ours(store, name):
                copy = _open(store, name)
                break
    with contextlib.nullcontext() if copy is None else using(copy):
        yield copy


def fixed_before(path: str, fd: int, place: str = DEFAULT) -> copies.StagedFile | None:
    """Return what to stage of the open file at *path* if the store has the fixed copy; None if that is to be found."""
    with contextlib.suppress(OSError, HugealignError), using(os.open(place, store_mount.DIRECTORY)) as store:
        store_mount.check(store, place)
        return _fixed_before(store, path, fd)
    return None


def _fixed_before(store: int, real: str, fd: int, private: bool = False) -> copies.StagedFile | None:
    """Return the same for an open *store*.  A copy by another version does not count: it may be fixed wrongly."""
    info = os.fstat(fd)
    name = copies.identity(info, fixed=True)
    with contextlib.suppress(OSError, ValueError):
        if _exists(store, name) and _is_ours(store, name, private):
            with using(_open(store, name)) as copy:
                version, executable = os.getxattr(copy, _MARK).decode().split()
                if version == __version__:
                    windows, size = len(measure.text_windows(copy)), os.fstat(copy).st_size
                    return copies.StagedFile(real, fd, info, windows, executable=int(executable), there=size)
    return None


@contextlib.contextmanager
def _public(real: str) -> Iterator[int]:
    """Open the file at the *real* path for reading, if all users may reach it, as its copy.  Raises HugealignError."""
    try:
        file = rooted.public(real)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise FileError(cause(error)) from error
    with using(file), opened_at(file) as fd:
        yield fd


def _origin(
    real: str, fd: int, fixes: copies.Fixes | None, store: int = -1, private: bool = False
) -> copies.StagedFile | None:
    """Return what to stage of the open file at *real*; None if a copy of it would have no window.

    To fix a file takes seconds, so that is not done anew for a copy that the open *store* has.  Raises HugealignError
    for a file that may not be staged.
    """
    known = _fixed_before(store, real, fd, private) if fixes and store >= 0 else None
    origin = known or copies.source(real, fd, fixes)
    if origin is not None:
        copies.check(origin)
        if namespace.privileged(fd):
            # A copy would still give privileges after an upgrade that closes a hole took them from the file.
            raise RefusalError("copy.privileges")
    return origin


def _staged(
    store: int,
    place: str,
    links: str,
    real: str,
    origin: copies.StagedFile | None,
    private: bool = False,
) -> tuple[Staged, int]:
    """Give *origin*, the file at *real*, a copy and a link to it; return the result and the open copy.

    Without *origin* there is neither, and the descriptor is -1.
    """
    link = links + real
    if origin is None:
        unlink(link)
        return _nothing(real), -1
    identity = origin.identity
    there = _exists(store, identity)
    made = not there or not _is_ours(store, identity, private)
    if made:
        if there:
            os.unlink(identity, dir_fd=store)
        _copy(store, origin, identity, private)
    try:
        _point(_top(store), link.removeprefix(place), identity)
    except OSError as error:
        if made:
            os.unlink(identity, dir_fd=store)
        raise DiagnosedError("store.failed", store=place, error=error_name(error)) from error
    copy = _open(store, identity)
    state = MADE if made else THERE
    try:
        huge, size = copies.huge_windows(copy), os.fstat(copy).st_blocks * 512
        staged = Staged(real, state, origin.windows, huge, size, link, origin.fixed, executable=origin.executable)
        return staged if staged.whole else staged.changed(diagnosis=copies.diagnosis(copy).about(real)), copy
    except BaseException:
        os.close(copy)
        raise


def _nothing(real: str) -> Staged:
    return Staged(real, NO_WINDOW, diagnosis=copies.without_windows(real, "hugealign", "stage", "--fix", real))


def _copy(store: int, origin: copies.StagedFile, identity: str, private: bool) -> None:
    """Make the copy, and give it its name when it is complete.  Raises HugealignError."""
    with using(os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600, dir_fd=store)) as target:
        copies.write(origin, target)
        copies.carry(origin, target)
        if not private:
            _keep(target)
        if origin.fixed:
            with contextlib.suppress(OSError):  # ours may be a user namespace
                os.setxattr(target, _MARK, f"{__version__} {origin.executable}".encode())
        if namespace.privileged(target):
            raise RefusalError("copy.privileges")
        # Close it for writing before it has a name: a file open for writing cannot be executed (ETXTBSY).
        reading = os.open(f"/proc/self/fd/{target}", os.O_RDONLY)
    try:
        with using(reading):
            os.link(f"/proc/self/fd/{reading}", identity, dst_dir_fd=store, follow_symlinks=True)
    except OSError as error:
        raise RefusalError("copy.failed", error=error_name(error)) from error


def _keep(copy: int) -> None:
    """Make the *copy* ours alone to change.  Raises HugealignError if some could then no longer execute it."""
    info = os.fstat(copy)
    if info.st_uid != os.geteuid():
        if not info.st_mode & stat.S_IXOTH or not info.st_mode & stat.S_IROTH:
            raise RefusalError("copy.owner-may-change")
        os.fchown(copy, os.geteuid(), -1)
    os.fchmod(copy, info.st_mode & 0o755)


def _is_ours(store: int, name: str, private: bool = False) -> bool:
    """Return whether the copy *name* confers no privileges, and only root or we can change it, unless it is *private*.

    Version 1.0.0 could make copies that do.
    """
    with using(_open(store, name)) as copy:
        info = os.fstat(copy)
        if namespace.privileged(copy):
            return False
        return private or (info.st_uid in (0, os.geteuid()) and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _open(store: int, name: str) -> int:
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=store)


def _top(store: int) -> str:
    """Return a path of the open store that leads there whatever happens to its name."""
    return f"/proc/self/fd/{store}"


def _point(top: str, name: str, identity: str) -> None:
    """Make the link *name* below the *top* of the store lead to the copy *identity*."""
    link = f"{top}/{name}"
    os.makedirs(os.path.dirname(link), mode=0o755, exist_ok=True)
    target = os.path.relpath(os.path.join(top, identity), os.path.dirname(link))
    with contextlib.suppress(OSError):
        if os.readlink(link) == target:
            return
    fresh = os.path.join(top, FRESH)
    unlink(fresh)
    os.symlink(target, fresh)
    try:
        with contextlib.suppress(OSError):  # a container engine makes an empty directory if the link is missing
            os.rmdir(link)
        os.rename(fresh, link)
    finally:
        unlink(fresh)


def _identities(info: os.stat_result) -> set[str]:
    return {copies.identity(info, fixed) for fixed in (False, True)}


def _remove_stale(store: int, kept: AbstractSet[str]) -> None:
    """Remove the copies of files that have changed, except *kept*, and links left by killed runs."""
    for name in _copies(store):
        if not _is_ours(store, name, private=True):
            os.unlink(name, dir_fd=store)
    for path, link in list(_links(_top(store))):
        identity = os.path.basename(os.readlink(link))
        if not _exists(store, identity) or not _is_current(path, identity):
            unlink(link)
    _remove_unnamed(store, kept)


def _remove_unnamed(store: int, kept: AbstractSet[str] = frozenset()) -> None:
    """Remove the copies that no link leads to, except *kept*."""
    named = kept | {os.path.basename(os.readlink(link)) for _, link in _links(_top(store))}
    for name in _copies(store):
        if name not in named:
            os.unlink(name, dir_fd=store)


def _copies(store: int) -> list[str]:
    # With --store, the tmpfs with huge=always may hold other programs' files: those are not ours to remove.
    return [name for name in os.listdir(store) if copies.is_identity(name)]


def _links(place: str) -> Iterator[tuple[str, str]]:
    """Yield each path that has a copy, with a link that leads there."""
    tops = [os.path.join(place, LINKS)]
    with contextlib.suppress(FileNotFoundError):
        tops += [os.path.join(place, OWNED, name) for name in os.listdir(os.path.join(place, OWNED))]
    for top in tops:
        yield from _links_below(top)


def _links_below(top: str) -> Iterator[tuple[str, str]]:
    for directory, _, names in os.walk(top):
        for name in names:
            link = os.path.join(directory, name)
            if os.path.islink(link):
                yield link[len(top) :], link


def _tree(place: str, owner: str) -> str:
    """Return the directory below which links mirror the paths of files: the shared one, or that of *owner*.

    Raises UsageError for an *owner* that cannot be the name of a directory.
    """
    if owner.startswith(".") or "/" in owner or "\0" in owner or len(os.fsencode(owner)) > _LONGEST_NAME:
        raise UsageError(f"--owner: {printable(owner)}: not the name of a directory")
    return os.path.join(place, OWNED, owner) if owner else os.path.join(place, LINKS)


def _is_current(path: str, identity: str) -> bool:
    try:
        info = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return identity in (copies.identity(info, fixed=False), copies.identity(info, fixed=True))


def _exists(store: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=store, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
