"""Parse the text of /proc/PID/smaps: pure functions, no I/O.

Format: Documentation/filesystems/proc.rst, ``/proc/PID/smaps``.  Only the counters of pages that one PMD maps, and
``nh`` and ``ac`` of ``VmFlags`` are kept.  ``THPeligible`` is not: it says 0 for text on ext4 that is huge from end to
end (Linux 6.18).
"""

import re
from collections.abc import Iterable, Iterator

from hugealign.elf.windows import windows_holding
from hugealign.process.pagemap import Region, State, touched
from hugealign.records import Record
from hugealign.system import kernel

_HEADER = re.compile(
    r"(?P<start>[0-9a-f]+)-(?P<end>[0-9a-f]+) (?P<permissions>[-rwxsp]{4}) (?P<offset>[0-9a-f]+) "
    r"(?P<major>[0-9a-f]+):(?P<minor>[0-9a-f]+) (?P<inode>\d+) *(?P<path>.*)"
)
_DELETED = " (deleted)"
#: Names of shareable memory without a file: mm/shmem.c, mm/memfd.c, ipc/shm.c, fs/hugetlbfs/inode.c.
_SHARED = ("/dev/zero", "/memfd:", "/SYSV", "/anon_hugepage")
#: The name of a counter -> the field of Mapping that holds it.
_COUNTERS = {
    "Rss": "rss",
    "FilePmdMapped": "file_pmd",
    "ShmemPmdMapped": "shmem_pmd",
    "AnonHugePages": "anon_huge",
    "Shared_Hugetlb": "shared_hugetlb",
    "Private_Hugetlb": "private_hugetlb",
}


class Mapping(Record):
    """One mapping of a process.  Addresses, *offset* and all counters are bytes.

    *path* is empty for anonymous memory and a name in brackets for the kernel's own (``[vdso]``).  *no_huge*: it was
    given MADV_NOHUGEPAGE.  *pages* are the present pages, or None where the kernel does not report them one by one.
    *code* are the ranges of addresses that hold code, None where nothing tells; *own*: memory without a file that has
    taken the place of the program's text.
    """

    start: int
    end: int
    offset: int
    path: str
    permissions: str = "r-xp"
    device: tuple[int, int] = (0, 0)
    inode: int = 0
    deleted: bool = False
    rss: int = 0
    file_pmd: int = 0
    shmem_pmd: int = 0
    anon_huge: int = 0
    shared_hugetlb: int = 0
    private_hugetlb: int = 0
    no_huge: bool = False
    pages: tuple[Region, ...] | None = None
    code: tuple[tuple[int, int], ...] | None = None
    own: bool = False

    @property
    def size(self) -> int:
        """Bytes of address space; for an executable mapping, its bytes of text."""
        return self.end - self.start

    @property
    def executable(self) -> bool:
        """Whether the process may execute it."""
        return "x" in self.permissions

    @property
    def is_file(self) -> bool:
        """Whether it maps a file with a name."""
        return self.path.startswith("/")

    @property
    def without_file(self) -> bool:
        """Whether it is the process's own memory, with no file behind it, and not the kernel's."""
        return not self.path.startswith(("/", "[v")) or (self.deleted and self.path.startswith(_SHARED))

    @property
    def huge(self) -> int:
        """Bytes that huge pages map."""
        # hugetlb pages are in no other counter, not even in Rss (smaps_hugetlb_range in fs/proc/task_mmu.c).
        return self.file_pmd + self.shmem_pmd + self.anon_huge + self.shared_hugetlb + self.private_hugetlb

    @property
    def small(self) -> int:
        """Bytes present in small pages; the rest of *size* is huge or was not touched yet."""
        return max(0, self.rss - self.file_pmd - self.shmem_pmd - self.anon_huge)

    @property
    def how(self) -> str:
        """The kinds of its huge pages; empty without any."""
        kinds = (
            ("file THP", self.file_pmd),
            ("shmem THP", self.shmem_pmd),
            ("anon THP", self.anon_huge),
            ("hugetlb", self.shared_hugetlb + self.private_hugetlb),
        )
        return " + ".join(name for name, count in kinds if count)

    @property
    def ends(self) -> tuple[int, int]:
        """The bytes before and after the windows; (0, 0) where no window is possible."""
        if not self.windows_possible:
            return 0, 0
        first = self.first_window
        return first - self.start, (self.end - first) % kernel.huge_page_size()

    @property
    def congruent(self) -> bool:
        """Whether address and file offset agree modulo a huge page; anonymous memory always passes."""
        return not self.is_file or (self.start - self.offset) % kernel.huge_page_size() == 0

    @property
    def whole(self) -> tuple[range, ...]:
        """The numbers of the windows with code that the kernel could map with one huge page.

        ``thp_vma_suitable_order`` in include/linux/huge_mm.h: the window lies inside the mapping, and address and file
        offset are congruent modulo the window.  They count from `first_window`; the ranges ascend.
        """
        page_size = kernel.huge_page_size()
        if self.end - self.start < page_size:
            return ()
        first = self.first_window
        count = (self.end - first) // page_size
        if count <= 0 or not self.congruent:
            return ()
        if self.code is None:
            return (range(count),)
        runs = windows_holding(self.code, first, first + count * page_size, page_size)
        return tuple(range((start - first) // page_size, (end - first) // page_size) for start, end in runs)

    @property
    def windows_possible(self) -> int:
        """How many windows `whole` has."""
        return sum(map(len, self.whole))

    def leading(self, count: int) -> int:
        """Return the number behind the first *count* of the possible windows."""
        behind = 0
        for numbers in self.whole:
            if count <= 0:
                break
            behind = numbers.start + min(count, len(numbers))
            count -= len(numbers)
        return behind

    def touched(self) -> dict[int, State] | None:
        """Return the states of the possible windows that have a page, by number and in order.

        None where only counts are known.
        """
        if self.pages is None:
            return None
        whole = self.whole
        if not whole:
            return {}
        known = touched(self.pages, self.first_window, whole[-1].stop, kernel.huge_page_size(), self.is_file)
        if len(whole) == 1 and not whole[0].start:
            return known
        return {index: known[index] for numbers in whole for index in _within(known, numbers)}

    def windows(self) -> tuple[State, ...] | None:
        """Return the state of each possible window, None as in `touched`; there may be millions."""
        known = self.touched()
        if known is None:
            return None
        return tuple(known.get(index, State.UNTOUCHED) for numbers in self.whole for index in numbers)

    def missing(self) -> Iterator[int]:
        """Yield the addresses of the possible windows that are known not to be huge."""
        if (known := self.touched()) is not None:
            first = self.first_window
            for numbers in self.whole:
                for index in numbers:
                    if known.get(index) != State.HUGE:
                        yield first + index * kernel.huge_page_size()

    @property
    def first_window(self) -> int:
        """The address of the first multiple of a huge page at or after the start."""
        page_size = kernel.huge_page_size()
        return -(-self.start // page_size) * page_size

    @property
    def windows_huge(self) -> int:
        """How many windows its huge pages fill."""
        known = self.touched()
        if known is not None:
            return sum(state == State.HUGE for state in known.values())
        return min(self.windows_possible, self.huge // kernel.huge_page_size())


def _within(known: dict[int, State], numbers: range) -> Iterable[int]:
    """Return those of *numbers* that are *known*, in order; either may be many."""
    if len(numbers) < len(known):
        return (index for index in numbers if index in known)
    return (index for index in known if index in numbers)


def coverage(huge: int, text: int) -> float:
    """Return *huge* bytes as a percentage of *text* bytes; 0 for no text."""
    return 100 * huge / text if text else 0.0


def parse(lines: Iterable[str], *, executable: bool = False) -> Iterator[Mapping]:
    """Yield the mappings that *lines* describe, in order; with *executable* only those that may be executed.

    Unknown lines, and a last mapping that is cut off in the middle, are read as far as they go: the process may end
    while it is being read, and later kernels add lines.
    """
    header: re.Match[str] | None = None
    counters: dict[str, int] = {}
    no_huge = False
    for line in lines:
        if "A" <= line < "[":  # counters have capitals, addresses small letters
            if header is None or line.endswith(" 0 kB\n"):
                continue
            key, _, value = line.partition(":")
            if key in _COUNTERS:
                number = value.split()
                if number and number[0].isdecimal():
                    counters[_COUNTERS[key]] = int(number[0]) << 10  # "kB" there means KiB
            elif key == "VmFlags":
                no_huge = "nh" in value.split()
        elif match := _HEADER.fullmatch(line.rstrip("\n")):
            if header:
                yield _mapping(header, counters, no_huge)
            header = match if not executable or "x" in match["permissions"] else None
            counters, no_huge = {}, False
    if header:
        yield _mapping(header, counters, no_huge)


def _mapping(header: re.Match[str], counters: dict[str, int], no_huge: bool) -> Mapping:
    start, end, permissions, offset, major, minor, inode, path = header.groups()
    deleted = path.startswith("/") and path.endswith(_DELETED)
    if deleted:
        path = path.removesuffix(_DELETED)
    if path.startswith("/"):
        # show_map_vma escapes only the newline (seq_path(m, &file->f_path, "\n")), so a backslash in the name
        # itself looks the same; `\012` is far more often the escape.
        path = path.replace("\\012", "\n")
    return Mapping(
        start=int(start, 16),
        end=int(end, 16),
        offset=int(offset, 16),
        path=path,
        permissions=permissions,
        device=(int(major, 16), int(minor, 16)),
        inode=int(inode),
        deleted=deleted,
        no_huge=no_huge,
        pages=None,
        code=None,
        own=False,
        **counters,
    )
