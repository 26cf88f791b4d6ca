"""Write an output to disk: beside the file, or into it.

A file is changed in place only if nothing in it moves, no process runs or maps it, and writing does not remove its
set-user-ID bits or capabilities.  Then all new bytes are appended first, where nothing looks for them; the headers
follow in one write within a page, which a kill does not cut in two.  A kill between the two leaves the old file
with something appended; the next fix, or --undo, removes that.

A file that is open for writing cannot be executed (ETXTBSY), so it is open only during the writes, not while we look
for users or wait for the disk: fsync(2) takes a descriptor that is open for reading.
"""

import contextlib
import errno
import fcntl
import os
import signal
import stat
from collections.abc import Iterator

from hugealign.elf.fixrecord import MAGIC
from hugealign.elf.windows import BASE_PAGE
from hugealign.errors import HugealignError
from hugealign.fixing.output import Output
from hugealign.io.descriptors import using, write_all
from hugealign.io.replacing import ReplaceError, attributes, copy_range, created, replace
from hugealign.process import processes

_CAPABILITIES = "security.capability"
#: Contents that move are first copied up to a multiple of this in the new file: the page cache takes larger folios for
#: writes that begin on a boundary (fgf_set_order in include/linux/pagemap.h), and `copy_range` keeps to it afterwards.
_BOUNDARY = 8 << 20  # bytes
_DEFERRED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)

#: Why a copy has to take the place of a file, for people.
COPIED = {
    "mapped": "it is mapped",
    "moves": "contents move",
    "no-locks": "its file system has no locks",
    "privileges": "writing would take its privileges away",
    "runs": "it runs",
    "times": "its times could not be kept",
    "zeros": "a kill would take the zeros behind its contents away",
}
#: In which state a failure leaves a file.
UNCHANGED = "the file is unchanged"
_APPENDED = "the file runs as before, with something appended to it; the next fix, or --undo, removes that"
_CHANGED = "the file is changed, and complete"


def write_new(source: int, output: Output, path: str, planned: tuple[int, ...]) -> None:
    """Write what *output* makes of the open file *source* to *path*, with its mode.

    *planned* is the file's `state` from before it was read for *output*.  Raises ReplaceError.
    """
    with created(path, source) as new:
        compose(source, new, output)
        _look_again(source, planned)


def write_in_place(path: str, source: int, output: Output, planned: tuple[int, ...]) -> str:
    """Turn the file at *path* into *output*; return why that took a copy, a name in `COPIED`, empty if it did not.

    *source* is the file, open and locked (`hugealign.io.regular.locked`), and *planned* its `state` from before it was
    read for *output*.  Raises HugealignError.
    """
    size = os.fstat(source).st_size

    def fill(old: int, new: int, _size: int) -> None:
        _look_again(old, planned)
        compose(old, new, output)

    try:
        reason = _hindrance(path, source, output, planned)
        if not reason:
            reason, planned = _edit(path, source, output, planned)
        if reason:
            replace(path, lambda _: True, fill, held=source)
    except ReplaceError as error:
        appended = os.fstat(source).st_size > size
        raise HugealignError(
            f"{error}; {_CHANGED if error.changed else _APPENDED if appended else UNCHANGED}"
        ) from error
    return reason


def compose(source: int, target: int, output: Output) -> None:
    """Write what *output* makes of the file behind *source* to the empty one behind *target*.  Raises OSError."""
    for piece in output.pieces:
        first = min(piece.size, -piece.target % _BOUNDARY)
        for start, size in ((0, first), (first, piece.size - first)):
            copy_range(source, target, piece.source + start, piece.target + start, size)
    os.ftruncate(target, output.size)
    for offset, data in output.writes:
        write_all(target, data, offset)


def _hindrance(path: str, source: int, output: Output, planned: tuple[int, ...]) -> str:
    """Return why the file must not be changed in place, a name in `COPIED`; empty if it may be."""
    *appended, (start, headers) = output.writes or ((0, b""),)
    old = output.pieces[0].size
    if output.moves or start + len(headers) > BASE_PAGE or any(offset < old for offset, _ in appended):
        return "moves"
    if not appended and output.size != old:
        return "moves"
    try:
        with _writable(source) as fd:
            copied_up = state(fd)[:2] != planned[:2]
    except OSError as error:
        if error.errno == errno.ETXTBSY:
            return "runs"
        raise ReplaceError(f"cannot be written: {error.strerror}") from error
    if copied_up:
        raise ReplaceError("overlayfs has just made the copy that can be written to; run fix once more")
    info = os.fstat(source)
    if info.st_mode & (stat.S_ISUID | stat.S_ISGID) or _CAPABILITIES in attributes(source):
        return "privileges"
    if appended and info.st_size > old and MAGIC not in os.pread(source, 2 * len(MAGIC), old):
        return "zeros"
    try:
        fcntl.flock(source, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return "no-locks"
    try:
        _keep_times(source, info)
    except OSError:
        return "times"
    return "mapped" if processes.users(info, path) else ""


def _edit(path: str, source: int, output: Output, planned: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """Change the file in place, or return why that cannot be done; with the state in which we leave the file.

    Raises HugealignError.
    """
    touched = False
    *appended, (_, headers) = output.writes or ((0, b""),)
    old = output.pieces[0].size
    info = os.fstat(source)
    before = os.pread(source, len(headers), 0)
    try:
        with _signals_deferred():
            if appended:
                with _writable(source) as fd:
                    _look_again(fd, planned)
                    touched = True
                    os.ftruncate(fd, old)
                    for offset, data in appended:
                        write_all(fd, data, offset)
                os.fsync(source)
                planned = state(source)
                if processes.users(info, path):  # since we looked
                    _settle(source, info, before, output)
                    return "mapped", state(source)
            with _writable(source) as fd:
                _look_again(fd, planned)
                touched = True
                write_all(fd, headers, 0)
            if headers:
                os.fsync(source)
            if not appended:
                with _writable(source) as fd:
                    os.ftruncate(fd, output.size)
                os.fsync(source)
            _keep_times(source, info)
    except OSError as error:
        left = _settle(source, info, before, output) if touched else UNCHANGED
        if error.errno == errno.ETXTBSY and left != _CHANGED:
            return "runs", state(source) if touched else planned
        raise HugealignError(f"cannot be written: {error.strerror}; {left}") from error
    return "", planned


def _settle(source: int, info: os.stat_result, before: bytes, output: Output) -> str:
    """Remove the appended bytes again if possible, and return the state in which a failed edit has left the file."""
    *appended, (_, headers) = output.writes or ((0, b""),)
    with contextlib.suppress(OSError):
        now = os.pread(source, len(headers), 0)
        if now not in (before, headers):  # a write that was cut short
            with _writable(source) as fd:
                write_all(fd, before, 0)
            now = before
        if now == before and appended and os.fstat(source).st_size != info.st_size:
            with _writable(source) as fd:
                os.ftruncate(fd, output.pieces[0].size)
        with contextlib.suppress(OSError):
            _keep_times(source, info)
    size = os.fstat(source).st_size
    if headers and os.pread(source, len(headers), 0) == before:
        return _APPENDED if appended and size > output.pieces[0].size else UNCHANGED
    return _CHANGED if size == output.size else _APPENDED


def _look_again(fd: int, planned: tuple[int, ...]) -> None:
    if state(fd) != planned:
        raise ReplaceError("it was changed meanwhile")


def state(fd: int) -> tuple[int, ...]:
    """Return what changes when somebody else writes to the open file."""
    info = os.fstat(fd)
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns


def _keep_times(fd: int, info: os.stat_result) -> None:
    os.utime(fd, ns=(info.st_atime_ns, info.st_mtime_ns))


@contextlib.contextmanager
def _writable(source: int) -> Iterator[int]:
    with using(os.open(f"/proc/self/fd/{source}", os.O_RDWR | os.O_CLOEXEC)) as fd:
        yield fd


@contextlib.contextmanager
def _signals_deferred() -> Iterator[None]:
    """Defer the signals that would end us between two writes, where we could not report the state of the file."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _DEFERRED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
