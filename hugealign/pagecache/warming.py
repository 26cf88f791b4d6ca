"""Make folios of a file's text huge in the page cache, and small again.

Nothing here writes to the file or needs privileges.  How it works (measured on Linux 6.18):

- A fault in a ``VM_HUGEPAGE`` mapping reads the file ahead in folios of the huge page size: two for a fault,
  or exactly one where the mapping is also ``MADV_RANDOM`` (``do_sync_mmap_readahead`` in mm/filemap.c, 5.18).
  The same advice makes a fault in a hole of a tmpfs file a huge one (``huge=advise``).
- Text in small folios in the page cache stays small until it is evicted, and ``POSIX_FADV_DONTNEED`` skips pages
  that are dirty, under writeback or mapped (``mapping_evict_folio`` in mm/truncate.c), and all of tmpfs.
- ``MADV_COLLAPSE`` works on tmpfs and, if the kernel has CONFIG_READ_ONLY_THP_FOR_FS, on clean text of any file
  system, even while a process maps it; elsewhere it is EINVAL.  Linux 7.2, without that option, takes files of ext4
  and XFS again.  Linux 6.1 to 6.3 says EINVAL as long as the process has no page table there, so we touch the window
  first; dirty pages are EINVAL, and EAGAIN since 5173ae0a068d ("mm/khugepaged: map dirty/writeback pages failures to
  EAGAIN"), so we write back and try again.
- khugepaged does the same by itself for executable mappings with ``MADV_HUGEPAGE``, if the kernel has that option.
  Some process has to keep the mapping until khugepaged gets there: any process since Linux 5.14 (eb6ecbed0aa2, "mm,
  thp: relax the VM_DENYWRITE constraint on file-backed THPs"); before, since 5.4, only one whose execve mapped it.
"""

import contextlib
import ctypes
import errno
import mmap
import os
import time
from collections.abc import Callable, Sequence

from hugealign.io.descriptors import reopened, using
from hugealign.io.libc import libc
from hugealign.pagecache.measure import CacheState, cache_state, mapped, measure, touch
from hugealign.records import Record
from hugealign.system import kernel

MADV_COLLAPSE = 25  # Linux 6.1
_READ = 1 << 20  # bytes to read at a time
_ATTEMPTS = 3  # at a collapse
_LOOK = 1.0  # seconds between looks at khugepaged's progress

#: Called after each window with the number of windows done and the total.
Progress = Callable[[int, int], None]


class Warmth(Record):
    """The state of the windows of a file."""

    huge: tuple[bool, ...]
    """Whether each is huge, in order."""
    methods: tuple[str, ...] = ()
    """Any of `readahead`, `collapse`, `khugepaged`: what made windows huge; empty if all were huge before."""
    kept: CacheState | None = None
    """What the page cache still held of them after the eviction; None without one, or if the kernel does not say."""
    collapse: int = 0
    """The error number with which the kernel refused to collapse a window, 0 if it refused none."""


def warm(fd: int, offsets: Sequence[int], progress: Progress | None = None, wait: float = 0) -> Warmth:
    """Bring the windows at *offsets* into the page cache in huge folios; give khugepaged *wait* seconds for the rest.

    Windows that are huge already are left alone, so this is safe for a running program's file.  Each method is judged
    by measuring, not by the result of the system call.  Raises RefusalError.
    """
    huge = dict(zip(offsets, measure(fd, offsets), strict=True))
    methods: list[str] = []
    kept: CacheState | None = None
    refused = 0
    for method in ("readahead", "collapse", "khugepaged"):
        missing = [offset for offset, good in huge.items() if not good]
        if not missing:
            break
        if method == "readahead":
            kept = _evict(fd, missing)
            read_in(fd, missing, progress)
        elif method == "collapse":
            refused = collapse(fd, missing)
        elif wait:
            _wait(fd, missing, time.monotonic() + wait)
        after = measure(fd, missing)
        huge.update(zip(missing, after, strict=True))
        if any(after):
            methods.append(method)
    return Warmth(tuple(huge.values()), tuple(methods), kept, refused)


def cool(fd: int, offsets: Sequence[int], progress: Progress | None = None) -> Warmth:
    """Bring the windows at *offsets* into the page cache in small folios.  Raises RefusalError."""
    kept = _evict(fd, offsets)
    # With this advice, reads make folios of the smallest size (page_cache_sync_ra in mm/readahead.c); it applies to
    # this descriptor alone.
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    for done, offset in enumerate(offsets, 1):
        _read_small(fd, offset)
        if progress:
            progress(done, len(offsets))
    return Warmth(tuple(measure(fd, offsets)), kept=kept)


def trial(place: str, windows: int = 1) -> int:
    """Return how many *windows* of a new, nameless file in the directory *place* become huge.

    That tells what its file system does from what a file of it meets.  Raises OSError, RefusalError.
    """
    page_size = kernel.huge_page_size()
    try:
        fd = os.open(place, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except PermissionError:
        raise
    except OSError:  # EISDIR and others: file systems without O_TMPFILE, such as older overlayfs
        import tempfile

        fd, name = tempfile.mkstemp(prefix=".hugealign-", dir=place)
        os.unlink(name)
    with using(fd):
        for _ in range(windows * page_size // _READ):
            os.write(fd, b"\xcc" * _READ)
        os.fsync(fd)
        reading = reopened(fd)  # the kernel treats a file that is open for writing differently
    with using(reading):
        return sum(warm(reading, range(0, windows * page_size, page_size)).huge)


def collapses() -> bool:
    """Return whether this kernel knows MADV_COLLAPSE at all."""
    # Of an empty range it looks at the advice alone (do_madvise in mm/madvise.c); a filter may refuse others.
    return libc().madvise(None, 0, MADV_COLLAPSE) == 0 or ctypes.get_errno() != errno.EINVAL


def _evict(fd: int, offsets: Sequence[int]) -> CacheState | None:
    page_size = kernel.huge_page_size()
    with contextlib.suppress(OSError):  # dirty pages stay small, and the measurement shows it
        os.fsync(fd)
    for offset in offsets:
        os.posix_fadvise(fd, offset, page_size, os.POSIX_FADV_DONTNEED)
    states = [cache_state(fd, offset, page_size) for offset in offsets]
    if None in states:
        return None
    return CacheState(*(sum(getattr(s, name) for s in states) for name in ("cached", "dirty", "writeback")))


def read_in(fd: int, offsets: Sequence[int], progress: Progress | None = None) -> None:
    """Fault the windows at *offsets* in as huge folios, as far as they are not cached."""
    # One window after another: the kernel keeps position and readahead size once per open file (struct
    # file_ra_state), and two threads that fault through it spoil each other's folios.
    page_size = kernel.huge_page_size()
    done = 0
    for windows in mapped(fd, offsets):
        for _, address in windows:
            libc().madvise(address, page_size, mmap.MADV_RANDOM)
            libc().madvise(address, page_size, mmap.MADV_HUGEPAGE)
            touch(address)
            done += 1
            if progress:
                progress(done, len(offsets))


def collapse(fd: int, offsets: Sequence[int]) -> int:
    """Collapse the windows; return the last error number, 0 if there was none."""
    refused = 0
    for windows in mapped(fd, offsets):
        for offset, address in windows:
            _read_small(fd, offset)
            refused = _collapse_window(fd, offset, address) or refused
    return refused


def _collapse_window(fd: int, offset: int, address: int) -> int:
    page_size = kernel.huge_page_size()
    for _ in range(_ATTEMPTS):
        touch(address)
        if not libc().madvise(address, page_size, MADV_COLLAPSE):
            return 0
        refused = ctypes.get_errno()
        state = cache_state(fd, offset, page_size)
        dirty = state is None or state.dirty + state.writeback > 0
        if refused != errno.EAGAIN and not (refused == errno.EINVAL and dirty):
            break
        with contextlib.suppress(OSError):
            os.fsync(fd)
    return refused


def _wait(fd: int, offsets: Sequence[int], end: float) -> None:
    """Map the windows until khugepaged has made them huge, at most until *end*."""
    for windows in mapped(fd, offsets):
        for offset, address in windows:
            _read_small(fd, offset)
            libc().madvise(address, kernel.huge_page_size(), mmap.MADV_HUGEPAGE)
            touch(address)
        places = [offset for offset, _ in windows]
        while (left := end - time.monotonic()) > 0 and not all(measure(fd, places)):
            time.sleep(min(_LOOK, left))


def _read_small(fd: int, offset: int) -> None:
    page_size = kernel.huge_page_size()
    for place in range(offset, offset + page_size, _READ):
        with contextlib.suppress(OSError):  # unreadable parts stay small
            os.pread(fd, min(_READ, page_size), place)
