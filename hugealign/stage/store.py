"""A store of huge copies that services share: one tmpfs, one copy for each state of a file.

``STORE/IDENTITY`` is a copy; ``STORE/path/usr/sbin/mariadbd`` is a link to the one of that path, which a service can
name before it is there.  A copy gets its name when it is complete, so nobody executes half of one; the store belongs to
root, and its files cannot be written to by others.  Small files take 2 MiB each on such a tmpfs: there are none but
copies.
"""

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hugealign.regular import opened
from hugealign.stage import copies, namespace
from hugealign.stage.copies import StageError
from hugealign.units import format_size

DEFAULT = "/run/hugealign"
_LINKS = "path"
_PATIENCE = 60.0  # seconds that a starter waits for others that copy
_PAUSE = 0.01
_NO_MOUNT = "nothing is mounted there"

#: What became of a file.
MADE, THERE, NO_WINDOW = "made", "there", "no-window"


@dataclass(frozen=True, slots=True)
class Staged:
    """The file at the real *path*, with *windows* of text of which *huge* are huge in its copy of *size* bytes.

    *state* is MADE, THERE, or NO_WINDOW: then there is no copy.  *link* is what to bind over the file.
    """

    path: str
    state: str
    windows: int = 0
    huge: int = 0
    size: int = 0
    link: str = ""
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """A copy in the store: *current* unless the file at *path* is another by now, or gone."""

    path: str
    identity: str
    size: int
    current: bool
    fixed: bool


def stage(paths: Sequence[str], place: str = DEFAULT, fix: bool = False, limit: int = 0) -> Iterator[Staged]:
    """Put a huge copy of each of the files *paths* into the store at *place*, and yield what became of it.

    *limit* bounds the bytes of all copies; 0 is half of the memory, the default of tmpfs.  Raises HugealignError for
    the file that it stops at; what was staged before stays.
    """
    store = _opened_store(place)
    try:
        for path in paths:
            real = os.path.realpath(path)
            with opened(real) as fd:
                yield _staged(store, place, real, fd, fix, limit)
    finally:
        os.close(store)


def entries(place: str = DEFAULT) -> list[Entry]:
    """Return the copies in the store, by path; none if there is no store."""
    found = []
    for link in _links(place):
        identity = os.path.basename(os.readlink(link))
        path = link[len(os.path.join(place, _LINKS)) :]
        with contextlib.suppress(OSError):
            size = os.stat(os.path.join(place, identity)).st_blocks * 512
            found.append(Entry(path, identity, size, _is_current(path, identity), identity.endswith("-fixed")))
    return sorted(found, key=lambda entry: entry.path)


def drop(paths: Sequence[str] = (), place: str = DEFAULT) -> list[Entry]:
    """Remove the copies of *paths*, or all, and return them; processes that run from a copy keep it.

    Raises StageError for a path that has none.
    """
    wanted = {os.path.realpath(path) for path in paths}
    there = entries(place)
    if missing := wanted - {entry.path for entry in there}:
        raise StageError(f"{min(missing)}: not in the store")
    if not there:
        return []
    dropped = [entry for entry in there if not wanted or entry.path in wanted]
    store = _opened_store(place)
    try:
        with _locked(store):
            for entry in dropped:
                os.unlink(_link(place, entry.path))
            _remove_unnamed(store, place)
    finally:
        os.close(store)
    return dropped


def find(path: str, fd: int, place: str = DEFAULT) -> str:
    """Return the copy in the store of the open file at the real *path*, as it is or fixed; empty if there is none."""
    link = _link(place, path)
    try:
        identity = os.path.basename(os.readlink(link))
        trusted = os.lstat(place)
    except OSError:
        return ""
    if trusted.st_uid != 0 or _writable_by_others(trusted) or not stat.S_ISDIR(trusted.st_mode):
        return ""
    info = os.fstat(fd)
    mine = f"{info.st_dev:x}-{info.st_ino:x}-{info.st_ctime_ns:x}-{info.st_size:x}"
    copy = os.path.join(place, identity)
    return copy if identity in (mine, f"{mine}-fixed") and os.path.exists(copy) else ""


def _staged(store: int, place: str, real: str, fd: int, fix: bool, limit: int) -> Staged:
    origin = copies.source(real, fd, fix)
    if origin is None:
        return Staged(real, NO_WINDOW)
    if namespace.privileged(fd) and namespace.nosuid(fd):
        raise StageError("it lies on a file system with nosuid, which its copy would not")
    identity = origin.identity
    with _locked(store):
        made = not _exists(store, identity)
        if made:
            _remove_stale(store, place)
            _make_room(store, origin, limit)
            _copy(store, origin, identity)
        _point(place, real, identity)
    with opened(os.path.join(place, identity)) as copy:
        huge, size = copies.huge_windows(copy), os.fstat(copy).st_blocks * 512
    state = MADE if made else THERE
    return Staged(real, state, origin.windows, huge, size, _link(place, real), origin.output is not None)


def _copy(store: int, origin: copies.Source, identity: str) -> None:
    """Make the copy and give it its name when it is complete.  Raises StageError."""
    target = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=store)
    try:
        copies.write(origin, target)
        copies.carry(origin, target)
        # Closed for writing before it has a name: what is open for writing cannot be executed (ETXTBSY).
        reading = os.open(f"/proc/self/fd/{target}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(target)
    try:
        os.link(f"/proc/self/fd/{reading}", identity, dst_dir_fd=store, follow_symlinks=True)
    except OSError as error:
        raise StageError(f"cannot be put into the store: {error.strerror}") from error
    finally:
        os.close(reading)


def _make_room(store: int, origin: copies.Source, limit: int) -> None:
    used = sum(os.stat(name, dir_fd=store).st_blocks * 512 for name in os.listdir(store) if name != _LINKS)
    if limit and used + origin.size > limit:
        raise StageError(f"the store would hold more than {format_size(limit)}; see: hugealign stage --list")


def _point(place: str, real: str, identity: str) -> None:
    """Let the link of the path *real* lead to the copy *identity*."""
    link = _link(place, real)
    os.makedirs(os.path.dirname(link), mode=0o755, exist_ok=True)
    target = os.path.relpath(os.path.join(place, identity), os.path.dirname(link))
    with contextlib.suppress(OSError):
        if os.readlink(link) == target:
            return
    fresh = f"{link}.{os.getpid()}.new"
    os.symlink(target, fresh)
    os.rename(fresh, link)


def _remove_stale(store: int, place: str) -> None:
    """Remove the copies of files that are others by now, and links that a killed one left behind."""
    for entry in entries(place):
        if not entry.current:
            os.unlink(_link(place, entry.path))
    _remove_unnamed(store, place)


def _remove_unnamed(store: int, place: str) -> None:
    """Remove the copies that no link leads to."""
    named = {os.path.basename(os.readlink(link)) for link in _links(place)}
    for name in os.listdir(store):
        if name != _LINKS and name not in named:
            os.unlink(name, dir_fd=store)


def _links(place: str) -> Iterator[str]:
    for directory, _, names in os.walk(os.path.join(place, _LINKS)):
        for name in names:
            path = os.path.join(directory, name)
            if os.path.islink(path):
                yield path


def _link(place: str, real: str) -> str:
    return os.path.join(place, _LINKS) + real


def _is_current(path: str, identity: str) -> bool:
    try:
        info = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    now = f"{info.st_dev:x}-{info.st_ino:x}-{info.st_ctime_ns:x}-{info.st_size:x}"
    return identity in (now, f"{now}-fixed")


def _exists(store: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=store, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _opened_store(place: str) -> int:
    """Open the store, mounted if it is not.  Raises StageError."""
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(place, 0o755)
        fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise StageError(f"{place}: {error.strerror}; make one as root: hugealign stage FILE") from error
    try:
        problem = _problem(fd, place)
    except OSError as error:
        problem = error.strerror or str(error)
    if not problem:
        return fd
    os.close(fd)
    if problem != _NO_MOUNT:
        raise StageError(f"{place}: {problem}")
    namespace.mount_huge_tmpfs(place, "mode=0755")
    return os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _problem(fd: int, place: str) -> str:
    """Return why the open directory *place* is no store, empty if it is one: the root of a tmpfs with huge=always."""
    if os.fstat(fd).st_dev == os.stat(os.path.dirname(os.path.abspath(place))).st_dev:
        return _NO_MOUNT
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        rows = [line.split() for line in file]
    mounts = [row for row in rows if row[4] == os.path.realpath(place)]
    if not mounts or mounts[-1][mounts[-1].index("-") + 1] != "tmpfs" or "huge=always" not in mounts[-1][-1].split(","):
        return "something else is mounted there"
    return "others may write to it" if _writable_by_others(os.fstat(fd)) else ""


def _writable_by_others(info: os.stat_result) -> bool:
    return info.st_uid not in (0, os.geteuid()) or bool(info.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


@contextlib.contextmanager
def _locked(store: int) -> Iterator[None]:
    """Let one at a time change the store.  Raises StageError."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(store, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > end:
                raise StageError("another process keeps the store locked") from None
            time.sleep(_PAUSE)
    try:
        yield
    finally:
        fcntl.flock(store, fcntl.LOCK_UN)
