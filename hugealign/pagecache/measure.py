"""Find huge folios in the page cache: the windows of a file that one page each maps.

This module only looks; `hugealign.pagecache.warming` changes the state.  Nothing here writes to the file or needs
privileges.  One PMD maps a folio of the huge page size in every mapping that is congruent to the file
(``filemap_map_pmd`` in mm/filemap.c), in any process, without any advice, and with THP ``never`` as well.  So we map
the file as a program would and read the counters of the mapping.
"""

import contextlib
import ctypes
import errno
import itertools
import mmap
import os
from collections.abc import Iterator, Sequence

from hugealign.diagnosis.refusal import RefusalError
from hugealign.diagnosis.values import Remedy
from hugealign.elf.image import Image, read_image
from hugealign.elf.notes import read_notes
from hugealign.elf.windows import BASE_PAGE, align_down, align_up, file_offset, unasked_load_bias, windows_holding
from hugealign.elf.windows import text_windows as text_runs
from hugealign.io.libc import MAP_FAILED, libc, prctl, syscall
from hugealign.process import pagemap
from hugealign.records import Record
from hugealign.system import kernel, memory

_MAP_FIXED = 0x10
_MADV_POPULATE_READ = 22  # Linux 5.14
_PR_SET_THP_DISABLE, _PR_GET_THP_DISABLE = 41, 42
_EXCEPT_ADVISED = 2  # PR_THP_DISABLE_EXCEPT_ADVISED of include/uapi/linux/prctl.h (Linux 6.18)
_CACHESTAT = 451  # Linux 6.5; the same number on every processor but alpha
_BATCH = 64  # windows to map at a time: far below vm.max_map_count and any limit on address space


class CacheState(Record):
    """How many 4 KiB pages of a range are in the page cache, and how many of these are dirty or being written."""

    cached: int
    dirty: int
    writeback: int


@contextlib.contextmanager
def huge_pages_allowed() -> Iterator[None]:
    """Lift ``PR_SET_THP_DISABLE`` meanwhile: if inherited, it would hide every huge page from us (mm/memory.c)."""
    before = prctl(_PR_GET_THP_DISABLE)
    if before > 0:
        prctl(_PR_SET_THP_DISABLE)
    try:
        yield
    finally:
        if before > 0:
            prctl(_PR_SET_THP_DISABLE, 1, before & _EXCEPT_ADVISED)


def huge_pages_disabled() -> bool:
    """Return whether ``PR_SET_THP_DISABLE`` takes all huge pages from this process and from what it executes."""
    return prctl(_PR_GET_THP_DISABLE) == 1  # else, with a flag, only those that were not requested


def text_windows(fd: int, limit: int | None = None, all_text: bool = False) -> list[int]:
    """Return the file offsets of the whole windows of text that hold code, at most the first *limit*.

    With *all_text*, return every window of the file that holds any code, wherever a process would map it.  Windows that
    extend past the end of the file are left out: no folio reaches beyond its end (``page_cache_ra_order`` in
    mm/readahead.c).  Raises NotElfError, MalformedElfError, RefusalError if the windows would not fit into memory.
    """
    page_size = kernel.huge_page_size()
    image = read_image(fd)
    in_file = align_up(image.file_size, mmap.PAGESIZE)
    runs = list(_any_text(image)) if all_text else _whole_text(fd, image)
    windows = [range(first, min(end, in_file) - page_size + 1, page_size) for first, end in runs]
    count = min(sum(map(len, windows)), limit if limit is not None else 1 << 62)
    allowed = memory.limit()
    room = min((size for size in (kernel.available_memory(), allowed) if size is not None), default=None)
    if room is not None and count * page_size > room:
        remedy = Remedy("raise-limit") if room == allowed else Remedy("fewer-windows")
        raise RefusalError("memory.few", remedy, windows=count, room=room)
    # Segments can share a window.
    return list(dict.fromkeys(itertools.islice(itertools.chain.from_iterable(windows), count)))


def windows_meant(fd: int) -> int | None:
    """Return how many leading windows the link of the file meant to be huge, or None if it meant all.

    Raises HugealignError if the file is not an ELF file.
    """
    note = read_notes(fd, read_image(fd)).build
    return note.windows or None if note and note.page_size == kernel.huge_page_size() else None


def _whole_text(fd: int, image: Image) -> list[tuple[int, int]]:
    """Return the ranges of *fd* that are whole windows of text in a process on this machine."""
    page_size = kernel.huge_page_size()
    runs = text_runs(image, page_size)
    unasked = None if runs else unasked_load_bias(image, page_size)
    if unasked is not None and _placed_so(fd, image, unasked):
        runs = text_runs(image, page_size, page_size, unasked)
    return [(file_offset(segment, first), file_offset(segment, end)) for segment, first, end in runs]


def _placed_so(fd: int, image: Image, load_bias: int) -> bool:
    """Return whether mmap puts the file behind *fd* where *load_bias* says, modulo the window.

    Twice, with sizes that are not alike, since one time in many it is by chance.  Where the dynamic linker requests an
    address, or maps room of a certain size first, a mapping in our process tells nothing.
    """
    loads = image.load_segments
    base, offset = align_down(loads[0].p_vaddr, BASE_PAGE), align_down(loads[0].p_offset, BASE_PAGE)
    if not image.by_kernel and (base or image.load_alignment > BASE_PAGE):
        return True
    size = max(s.p_vaddr + s.p_memsz for s in loads) - base
    for more in (0, BASE_PAGE):
        address = libc().mmap(None, size + more, 0, mmap.MAP_PRIVATE, fd, offset)
        if not address or address == MAP_FAILED:
            return False
        libc().munmap(address, size + more)
        bias = address - base
        if image.load_alignment > BASE_PAGE:  # of a static PIE, see `unasked_load_bias`
            bias = align_down(address, image.load_alignment) - align_up(loads[0].p_vaddr, BASE_PAGE)
        if (bias - load_bias) % kernel.huge_page_size():
            return False
    return True


def _any_text(image: Image) -> Iterator[tuple[int, int]]:
    page_size = kernel.huge_page_size()
    for segment in image.text_segments:
        start, end = segment.p_offset, segment.p_offset + segment.p_filesz
        within = windows_holding(image.code, segment.p_vaddr, segment.p_vaddr + segment.p_filesz, 1)
        code = [(file_offset(segment, low), file_offset(segment, high)) for low, high in within]
        yield from windows_holding(code, align_down(start, page_size), align_up(end, page_size), page_size)


def measure(fd: int, offsets: Sequence[int], present: bool = False) -> list[bool]:
    """Return for each window at *offsets* whether a process that maps it now gets huge pages without asking.

    Windows that are not completely in the page cache are not huge, and are not read.  *present*: the caller knows that
    they are in the page cache; asking the kernel takes as long as everything else here.  Raises RefusalError.
    """
    page_size = kernel.huge_page_size()
    huge: list[bool] = []
    for windows in mapped(fd, offsets):
        for _, address in windows:
            # For a caller who could not write to the file, mincore reports all of it as present
            # (can_do_mincore in mm/mincore.c); then MADV_RANDOM limits reading to one page.
            libc().madvise(address, page_size, mmap.MADV_RANDOM)
            if present or _resident(address):
                touch(address)
        seen = _huge([address for _, address in windows])
        huge += [size == page_size for size in seen]
    return huge


def _resident(address: int) -> bool:
    page_size = kernel.huge_page_size()
    pages = ctypes.create_string_buffer(page_size // mmap.PAGESIZE)
    libc().mincore(address, page_size, pages)
    return 0 not in pages.raw  # one byte per page, 1 if it is present (mm/mincore.c)


def _huge(addresses: Sequence[int]) -> list[int]:
    """Return how many bytes of each of our windows at *addresses* huge pages map."""
    pages = -1
    try:
        pages = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        scans = [pagemap.scan(pages, address, address + kernel.huge_page_size()) for address in addresses]
        return [sum(region.end - region.start for region in regions if region.huge) for regions in scans]
    except OSError:  # Linux before 6.7
        from hugealign.process import smaps

        with open("/proc/self/smaps", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            seen = {m.start: m.huge for m in smaps.parse(file)}
        return [seen.get(address, 0) for address in addresses]
    finally:
        if pages >= 0:
            os.close(pages)


def cache_state(fd: int, offset: int, length: int) -> CacheState | None:
    """Return what the page cache holds of *length* bytes of *fd* at *offset*.

    None before Linux 6.5, and for a file that we neither own nor could write to (``can_do_cachestat`` in mm/filemap.c).
    """
    span = (ctypes.c_uint64 * 2)(offset, length)
    counts = (ctypes.c_uint64 * 5)()
    try:
        syscall(_CACHESTAT, fd, span, counts, 0)
    except OSError:
        return None
    return CacheState(cached=counts[0], dirty=counts[1], writeback=counts[2])


def mapped(fd: int, offsets: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
    """Map the windows at *offsets*, some at a time, and yield lists of ``(offset, address)``.

    Each window is at an aligned address with a gap after it, so it has its own line in smaps.  The mappings of a list
    go away when the caller requests the next list.  Raises RefusalError.
    """
    page_size = kernel.huge_page_size()
    done, size = 0, _BATCH
    while done < len(offsets):
        batch = offsets[done : done + size]
        length = (2 * len(batch) + 1) * page_size
        base = libc().mmap(None, length, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        if base == MAP_FAILED:
            if size == 1:
                raise RefusalError("memory.address-space", Remedy("raise-limit"), size=length)
            size //= 4
            continue
        try:
            start = align_up(base, page_size)
            windows = [(offset, start + 2 * page_size * index) for index, offset in enumerate(batch)]
            for offset, address in windows:
                _map_window(fd, offset, address)
            yield windows
        finally:
            libc().munmap(base, length)
        done += len(batch)


def _map_window(fd: int, offset: int, address: int) -> None:
    page_size = kernel.huge_page_size()
    # The second protection is for noexec mounts.
    for protection in (mmap.PROT_READ | mmap.PROT_EXEC, mmap.PROT_READ):
        if libc().mmap(address, page_size, protection, mmap.MAP_PRIVATE | _MAP_FIXED, fd, offset) == address:
            return
    raise RefusalError("file.unreadable", error=errno.errorcode.get(ctypes.get_errno(), ""))


def touch(address: int) -> None:
    """Fault in the window at *address*, without SIGBUS if the file has shrunk meanwhile."""
    # Both ways report an error instead of a SIGBUS (madvise_populate in mm/madvise.c, mem_rw in fs/proc/base.c); a
    # window that failed is not huge.
    if libc().madvise(address, mmap.PAGESIZE, _MADV_POPULATE_READ) and ctypes.get_errno() == errno.EINVAL:
        with contextlib.suppress(OSError), open("/proc/self/mem", "rb", buffering=0) as file:
            os.pread(file.fileno(), 1, address)
