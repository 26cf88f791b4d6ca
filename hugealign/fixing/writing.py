"""Putting an output on the disk: beside the file, or into it.

A file is changed in its place only if nothing in it moves, nobody runs or maps it, and writing does not take its
set-user-ID bits or capabilities away.  Then all that is new is appended first, where nothing looks for it; the headers
follow in one write of less than a page, which a kill does not cut in two.  A file cut off between the two is the old
one with something behind it; the next fix, or --undo, removes that.
"""

import contextlib
import errno
import os
import stat

from hugealign.elf.fixrecord import MAGIC
from hugealign.elf.windows import BASE_PAGE
from hugealign.fixing.output import Output
from hugealign.pagecache.replace import ReplaceError, copy_range, create, replace
from hugealign.process import processes

_CAPABILITIES = "security.capability"
#: Contents that move are copied up to a multiple of this in the new file first: the page cache takes writes that begin
#: on a boundary in larger folios (fgf_set_order in include/linux/pagemap.h), and `copy_range` keeps to it afterwards.
_BOUNDARY = 8 << 20  # bytes


def write_new(source: int, output: Output, path: str) -> None:
    """Write what *output* makes of the open file *source* to *path*, with its mode.  Raises ReplaceError."""
    create(path, source, lambda old, new, _size: compose(old, new, output))


def write_in_place(path: str, source: int, output: Output) -> str:
    """Make the file at *path*, open as *source*, what *output* says; return why by a copy, empty if without one.

    Raises ReplaceError, after which the file is as it was.
    """
    planned = _state(source)

    def fill(old: int, new: int, _size: int) -> None:
        if _state(old) != planned:
            raise ReplaceError("it was changed meanwhile")
        compose(old, new, output)

    reason = _edit(path, source, output)
    if reason:
        replace(path, lambda _: True, fill)
    return reason


def _state(fd: int) -> tuple[int, ...]:
    info = os.fstat(fd)
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns


def compose(source: int, target: int, output: Output) -> None:
    """Write what *output* makes of the file behind *source* to the empty one behind *target*.  Raises OSError."""
    for piece in output.pieces:
        first = min(piece.size, -piece.target % _BOUNDARY)
        for start, size in ((0, first), (first, piece.size - first)):
            copy_range(source, target, piece.source + start, piece.target + start, size)
    os.ftruncate(target, output.size)
    for offset, data in output.writes:
        _write(target, data, offset)


def _edit(path: str, source: int, output: Output) -> str:
    """Do it in place, or return why that must not be done."""
    *appended, (start, headers) = output.writes or ((0, b""),)
    old = output.pieces[0].size
    if output.moves or start + len(headers) > BASE_PAGE or any(offset < old for offset, _ in appended):
        return "contents move"
    if not appended and output.size != old:
        return "contents move"
    try:
        fd = os.open(f"/proc/self/fd/{source}", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ETXTBSY:
            return "it runs"
        raise ReplaceError(f"cannot be written: {error.strerror}") from error
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, fd)
        info = os.fstat(fd)
        if info.st_mode & (stat.S_ISUID | stat.S_ISGID) or _CAPABILITIES in _attributes(fd):
            return "writing would take its privileges away"
        if processes.users(info, path):
            return "it is mapped"
        if appended and info.st_size > old and MAGIC not in os.pread(fd, 2 * len(MAGIC), old):
            return "a kill would take the zeros behind its contents away"
        try:
            _write_in_order(fd, appended, headers, output)
        except OSError as error:
            raise ReplaceError(f"cannot be written: {error.strerror}") from error
        os.utime(fd, ns=(info.st_atime_ns, info.st_mtime_ns))
    return ""


def _write_in_order(fd: int, appended: list[tuple[int, bytes]], headers: bytes, output: Output) -> None:
    old = output.pieces[0].size
    if output.size > old:
        try:
            os.ftruncate(fd, old)
            for offset, data in appended:
                _write(fd, data, offset)
            os.fsync(fd)
        except OSError:
            os.ftruncate(fd, old)
            raise
    _write(fd, headers, 0)
    os.fsync(fd)
    if output.size <= old:
        os.ftruncate(fd, output.size)
        os.fsync(fd)


def _write(fd: int, data: bytes, offset: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], offset + done)


def _attributes(fd: int) -> list[str]:
    try:
        return os.listxattr(fd)
    except OSError:
        return []
