"""Huge folios in the page cache: which windows of a file are mapped with one page each, and making them so.

Nothing here writes to the file or needs privileges.  How it works (measured on Linux 6.18):

- A fault in a ``VM_HUGEPAGE`` mapping reads the file ahead in folios of the huge page size: two for a fault,
  or exactly one where the mapping is also ``MADV_RANDOM`` (``do_sync_mmap_readahead`` in mm/filemap.c, 5.18).
- From then on every mapping that is congruent to the file gets such a folio with one PMD
  (``filemap_map_pmd``), in any process, without any advice, and with THP ``never`` as well.
- What is in the page cache in small folios stays small until it is evicted, and ``POSIX_FADV_DONTNEED``
  leaves what is dirty, under writeback or mapped (``mapping_evict_folio`` in mm/truncate.c).
"""

import contextlib
import ctypes
import errno
import functools
import itertools
import mmap
import os
import stat
from collections.abc import Iterator, Sequence

from hugealign.elf.image import read_image
from hugealign.elf.windows import file_offset, whole_windows
from hugealign.errors import HugealignError
from hugealign.host import kernel, smaps

_MAP_FIXED = 0x10
_MADV_POPULATE_READ = 22  # Linux 5.14
_MADV_COLLAPSE = 25  # Linux 6.1
_PR_SET_THP_DISABLE = 41
_BATCH = 64  # windows that are mapped at a time: far below vm.max_map_count and any limit on address space


class FileError(HugealignError):
    """The file cannot be looked at: not there, not readable, not a regular file, or larger than memory."""


class MappingError(HugealignError):
    """The kernel refuses to map the file."""


@functools.cache
def _libc() -> ctypes.CDLL:
    """Return the C library, for the system calls that take an address, which Python does not offer."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
    # Inherited from our parent it would hide every huge page from us (do_set_pmd in mm/memory.c).
    libc.prctl(_PR_SET_THP_DISABLE, *[ctypes.c_ulong(0)] * 4)
    return libc


@contextlib.contextmanager
def opened(path: str) -> Iterator[int]:
    """Open the regular file at *path* for reading only.  Raises FileError."""
    place = fd = -1
    try:
        # O_PATH first: opening a FIFO can hang, and opening a device can do something.
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        info = os.fstat(place)
        if not stat.S_ISREG(info.st_mode):
            raise FileError("not a regular file")
        if not info.st_size:
            raise FileError("the file is empty")
        fd = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC)
        yield fd
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise FileError(getattr(error, "strerror", None) or str(error)) from error
    finally:
        for descriptor in (place, fd):
            if descriptor >= 0:
                os.close(descriptor)


def text_windows(fd: int, page_size: int, limit: int | None = None) -> list[int]:
    """Return the file offsets of the whole windows of text, the first *limit* ones.

    Windows that the file is too short for are left out.  Raises NotElfError, MalformedElfError, FileError
    when they would not fit into memory.
    """
    image = read_image(fd)
    found: list[range] = []
    for segment in image.text_segments:
        first, end = (file_offset(segment, vaddr) for vaddr in whole_windows(segment, page_size, image.fixed))
        # No folio reaches beyond the end of the file (page_cache_ra_order in mm/readahead.c).
        in_file = -(-image.file_size // mmap.PAGESIZE) * mmap.PAGESIZE
        found.append(range(first, min(end, in_file) - page_size + 1, page_size))
    count = min(sum(map(len, found)), limit if limit is not None else 1 << 62)
    memory = kernel.available_memory()
    if memory is not None and count * page_size > memory:
        raise FileError(
            f"{count} windows of text are more than the {memory >> 20} MiB of memory available; use --windows"
        )
    return list(itertools.islice(itertools.chain.from_iterable(found), count))


def measure(fd: int, offsets: Sequence[int], page_size: int) -> list[bool]:
    """Return for each window at *offsets* whether a process that maps it now gets huge pages without asking.

    Windows that are not wholly in the page cache are not huge, and are not read.  Raises MappingError.
    """
    huge: list[bool] = []
    libc = _libc()
    for batch in _batches(offsets):
        with _mapped(fd, batch, page_size) as addresses:
            for address in addresses:
                # To those who could not write to the file mincore says that all of it is there
                # (can_do_mincore in mm/mincore.c); then MADV_RANDOM keeps the reading to one page.
                libc.madvise(address, page_size, mmap.MADV_RANDOM)
                pages = ctypes.create_string_buffer(page_size // mmap.PAGESIZE)
                libc.mincore(address, page_size, pages)
                if all(page & 1 for page in pages.raw):
                    _touch(address, page_size)
            with open("/proc/self/smaps", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
                mapped = {m.start: m.huge for m in smaps.parse(file)}
        huge += [mapped.get(address, 0) == page_size for address in addresses]
    return huge


def warm(fd: int, offsets: Sequence[int], page_size: int) -> list[bool]:
    """Bring the windows at *offsets* into the page cache in huge folios and return what `measure` then says.

    Windows that are huge already are left alone, so this is safe for a file that runs; the others are evicted
    as the last means, where MADV_COLLAPSE gave nothing.  Raises MappingError.
    """
    huge = measure(fd, offsets, page_size)
    for attempt in (_clean, _collapse, _evict, _read):
        missing = [offset for offset, good in zip(offsets, huge, strict=True) if not good]
        if not missing:
            break
        for batch in _batches(missing):
            attempt(fd, batch, page_size)
        if attempt in (_read, _collapse):
            huge = measure(fd, offsets, page_size)
    return huge


def _clean(fd: int, _offsets: Sequence[int], _page_size: int) -> None:
    with contextlib.suppress(OSError):  # what stays dirty stays small, and the measurement says so
        os.fsync(fd)


def _read(fd: int, offsets: Sequence[int], page_size: int) -> None:
    with _mapped(fd, offsets, page_size) as addresses:
        for address in addresses:
            _libc().madvise(address, page_size, mmap.MADV_RANDOM)
            _libc().madvise(address, page_size, mmap.MADV_HUGEPAGE)
            _touch(address, page_size)


def _collapse(fd: int, offsets: Sequence[int], page_size: int) -> None:
    # Serves tmpfs and, where the kernel has CONFIG_READ_ONLY_THP_FOR_FS, clean text on any file system;
    # EINVAL elsewhere.  Unlike eviction it works while a process maps the pages.
    with _mapped(fd, offsets, page_size) as addresses:
        for address in addresses:
            _libc().madvise(address, page_size, _MADV_COLLAPSE)


def _evict(fd: int, offsets: Sequence[int], page_size: int) -> None:
    for offset in offsets:
        os.posix_fadvise(fd, offset, page_size, os.POSIX_FADV_DONTNEED)


def _batches(offsets: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(offsets), _BATCH):
        yield offsets[start : start + _BATCH]


@contextlib.contextmanager
def _mapped(fd: int, offsets: Sequence[int], page_size: int) -> Iterator[list[int]]:
    """Map each window at an aligned address with a gap after it, so that each has its own line in smaps."""
    libc = _libc()
    length = (2 * len(offsets) + 1) * page_size
    base = libc.mmap(None, length, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if base == ctypes.c_void_p(-1).value:
        raise MappingError(f"no address space: {os.strerror(ctypes.get_errno())}")
    try:
        addresses = [-(-base // page_size) * page_size + 2 * page_size * index for index in range(len(offsets))]
        for address, offset in zip(addresses, offsets, strict=True):
            flags = mmap.MAP_PRIVATE | _MAP_FIXED
            # The second protection is for noexec mounts.
            for protection in (mmap.PROT_READ | mmap.PROT_EXEC, mmap.PROT_READ):
                if libc.mmap(address, page_size, protection, flags, fd, offset) == address:
                    break
            else:
                raise MappingError(f"cannot map the file: {os.strerror(ctypes.get_errno())}")
        yield addresses
    finally:
        libc.munmap(base, length)


def _touch(address: int, page_size: int) -> None:
    """Fault in the huge pages of the window at *address*, without SIGBUS if the file has shrunk meanwhile."""
    for place in range(address, address + page_size, kernel.huge_page_size()):
        # Both ways report what would be a SIGBUS as an error (madvise_populate in mm/madvise.c, mem_rw in
        # fs/proc/base.c); a window that failed is not huge.
        if _libc().madvise(place, mmap.PAGESIZE, _MADV_POPULATE_READ) and ctypes.get_errno() == errno.EINVAL:
            with contextlib.suppress(OSError), open("/proc/self/mem", "rb", buffering=0) as memory:
                os.pread(memory.fileno(), 1, place)
