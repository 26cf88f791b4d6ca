"""What text costs on this machine: page faults, page walks and first-level misses, measured in about a second.

No table knows this: a hypervisor multiplies what a page walk costs, and some processors hide a first-level miss
completely.  ``textcosts.c`` jumps from page to page, the same cache lines on small and on huge pages, and maps the same
file in both.
"""

import ctypes
import functools
import json
import mmap
import os
import random
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any, Self

from hugealign.errors import HugealignError
from hugealign.io import native
from hugealign.io.descriptors import using
from hugealign.system import children, kernel, memory

_SOURCE = os.path.join(os.path.dirname(__file__), "textcosts.c")
_D, _P, _U32, _U64 = ctypes.c_double, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
_FUNCTIONS = {
    "jump": (_D, (_P, _P, _U32, _U32, _U32)),
    "cycle": (_D, (_U32,)),
    "map": (_D, (ctypes.c_int, _U64, _U64, _U64, _P, _U64, _U32, _P)),
}
_VERSION = 1  # of what is kept
_LIMIT = 5.0  # seconds for the child
_AGAIN = 600.0  # seconds after which costs that are not certain are measured again
_DEADLINE = 1.5  # seconds after which no further point is measured
_LEAST_ROOM = 512 << 20  # bytes that must be free
_PAGE = 4096
_LINE = 64
#: Numbers of pages in a chain.  Up to _NEAR of them, all lines fit the first-level instruction cache of any server.
_COUNTS = (16, 32, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
_NEAR = 256
_MOST = max(_COUNTS) * _PAGE
_WINDOWS = (2, 4, 6, 8, 12, 16, 24, 32, 48)
_PLACEMENTS, _FAR_PLACEMENTS, _TURNS, _PASSES = 4, 1, 4, 2
_MAPPED = 8 << 20  # bytes of the file
#: Bytes of its own data that a program touches between two faults: none, the first-level cache, the second.
_EVICTED = (0, 256 << 10, 1 << 20)
_MADV_HUGEPAGE, _MADV_NOHUGEPAGE, _MADV_COLLAPSE = 14, 15, 25
#: A difference counts from here on: ns, and share of the time.
_VISIBLE, _VISIBLE_SHARE = 0.1, 0.06


@dataclass(frozen=True, slots=True)
class Range:
    """A cost in nanoseconds: most likely *value*, between *low* and *high*."""

    low: float
    value: float
    high: float


@dataclass(frozen=True, slots=True)
class Point:
    """Nanoseconds for a jump to the next of *count* pages, or windows: on *small* pages, and on *huge* ones."""

    count: int
    small: float
    huge: float

    @property
    def share(self) -> float:
        """The share of the time on small pages that huge ones save.

        No program saves more: none goes to another page more often than one that does nothing else.
        """
        return max(0.0, 1 - self.huge / self.small)


@dataclass(frozen=True, slots=True)
class TextCosts:
    """What text costs on this machine.

    Attributes:
        cycle: Nanoseconds of a processor cycle.
        fault: A page fault of file text in small pages, its share of unmapping included.
        huge_fault: The same of a huge page.
        around: The bytes that one fault of small pages maps.
        first: A miss of the first-level instruction TLB that hits the next level, beyond what it costs on huge pages.
        first_share: The most of a program's time that such misses can take.
        reach: How many small pages cost nothing, or next to nothing; 0 if more than were measured.
        walk: A page walk, beyond what the same code costs on huge pages; None if all that was measured fits.
        walk_share: The most of a program's time that walks can take.
        points: The curve behind these, by number of pages.
        windows: Jumps to the next of several windows (*huge*), and to as many lines of one window (*small*).
        certain: Whether rounds agreed.
    """

    cycle: float
    fault: Range
    huge_fault: Range | None
    around: int
    first: Range
    first_share: float
    reach: int
    walk: Range | None
    walk_share: float
    points: tuple[Point, ...] = ()
    windows: tuple[Point, ...] = ()
    certain: bool = True

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Return what `dataclasses.asdict` has made *data* of.  Raises KeyError, TypeError, ValueError."""
        ranges = {name: data[name] and Range(**data[name]) for name in ("fault", "huge_fault", "first", "walk")}
        curves = {name: tuple(Point(**point) for point in data[name]) for name in ("points", "windows")}
        return cls(**{**data, **ranges, **curves})


def of_this_machine() -> TextCosts:
    """Return the costs here, measured once in each boot.

    Raises HugealignError without a C compiler, without memory for it, and where no process may write code.
    """
    name = f"textcosts-{_VERSION}-{_identity()}.json"
    with (
        suppress(OSError, HugealignError, KeyError, TypeError, ValueError),
        using(native.cache()) as directory,
        open(_at(directory, name), encoding="utf-8") as file,
    ):
        costs = TextCosts.from_json(json.load(file))
        if costs.certain or time.time() - os.fstat(file.fileno()).st_mtime < _AGAIN:
            return costs
    room = min((size for size in (kernel.available_memory(), memory.room()) if size is not None), default=_LEAST_ROOM)
    if room < _LEAST_ROOM:
        raise HugealignError("the costs of text are not measured: less than 512 MiB of memory are free")
    native.library(_SOURCE)  # so that its errors are raised here
    child = children.function(_measured)
    children.collect([child], _LIMIT)
    if child.value is None:
        raise HugealignError("the costs of text are not measured: this system forbids the code for it")
    costs = TextCosts.from_json(child.value)
    with suppress(OSError, HugealignError), using(native.cache()) as directory:
        _keep(directory, name, json.dumps(asdict(costs)))
    return costs


@functools.cache
def known() -> TextCosts | None:
    """Return the costs of this machine; None if they cannot be measured.  A process measures them at most once."""
    with suppress(HugealignError):
        return of_this_machine()
    return None


def _at(directory: int, name: str) -> str:
    return f"/proc/self/fd/{directory}/{name}"


def _identity() -> str:
    """Return a name for this boot on this processor: a virtual machine can move to another one."""
    import hashlib

    digest = hashlib.sha256(os.uname().release.encode())
    for path in ("/proc/sys/kernel/random/boot_id", "/sys/devices/virtual/dmi/id/sys_vendor", "/proc/cpuinfo"):
        with suppress(OSError), open(path, "rb") as file:
            lines = file.read(1 << 12).splitlines()
            digest.update(b"\n".join(line for line in lines if not line.startswith((b"cpu MHz", b"bogomips"))))
    return digest.hexdigest()[:24]


def _keep(directory: int, name: str, text: str) -> None:
    beside = f".{os.getpid()}-{name}"
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=directory)
    with open(fd, "w", encoding="utf-8") as file:
        file.write(text)
    for old in os.listdir(directory):
        if old.startswith("textcosts-") and old.endswith(".json"):
            with suppress(OSError):
                os.unlink(old, dir_fd=directory)
    os.rename(beside, name, src_dir_fd=directory, dst_dir_fd=directory)


def _measured() -> dict[str, Any]:
    """Return the costs as `from_json` takes them; for a child, which may be killed for it."""
    began = time.monotonic()
    code = native.loaded(_SOURCE, _FUNCTIONS)
    cycle = code.cycle(20)
    fault, around = _fault(code, huge=False)
    assert fault  # noqa: S101  # small pages can be had everywhere
    huge_fault, _ = _fault(code, huge=True)
    small, huge = _memory(huge=False), _memory(huge=True)
    curves: list[list[Point]] = []
    for _ in range(_PASSES):
        curves.append([])
        for count in _COUNTS:
            if time.monotonic() - began > _DEADLINE:
                break
            curves[-1].append(_point(code, small, huge, count))
    points = [_least(same) for same in zip(*curves, strict=False)]
    windows = [_spread(code, huge, count) for count in _WINDOWS]
    costs = judge(cycle, fault, huge_fault, around, points, windows)
    return asdict(replace(costs, certain=_agree([judge(cycle, fault, huge_fault, around, c) for c in curves])))


def _least(same: Sequence[Point]) -> Point:
    return Point(same[0].count, min(point.small for point in same), min(point.huge for point in same))


def _agree(passes: Sequence[TextCosts]) -> bool:
    """Return whether the *passes* found the same."""
    steps = [next((n for n, count in enumerate(_COUNTS) if count >= costs.reach), 0) for costs in passes]
    firsts = [costs.first.value for costs in passes]
    whole = all(len(costs.points) == len(_COUNTS) for costs in passes)
    return whole and max(steps) - min(steps) <= 1 and max(firsts) - min(firsts) < _VISIBLE


def judge(
    cycle: float,
    fault: Range,
    huge_fault: Range | None,
    around: int,
    points: Sequence[Point],
    windows: Sequence[Point] = (),
) -> TextCosts:
    """Return what the curve of *points* says; the other parts are as they were measured.  Pure."""
    near = [point for point in points if point.count <= _NEAR]
    far = [point for point in points if point.count > _NEAR]
    # A level that is full costs at each larger number, too; a single point above the others is a disturbance.
    full = next((at for at in range(len(far)) if all(map(_is_visible, far[at:]))), len(far))
    beyond = far[full:]
    first = sorted(point.small - point.huge for point in near if point.count > _NEAR // 4)
    # Up to so many pages, both sides run the same lines from the same caches: what differs is the TLB, or noise.
    middle = max(0.0, median(first)) if first else 0.0
    high = max(0.0, *first, 0.0) if first else 0.0
    slowest = min((point.small for point in near if point.count > _NEAR // 4), default=1.0)
    walk = None
    if beyond:
        more = [point.small - point.huge for point in beyond]
        walk = Range(*(max(0.0, _quantile(more, part)) for part in (0.25, 0.5, 0.75)))
    return TextCosts(
        cycle,
        fault,
        huge_fault,
        around,
        Range(0.0 if middle < _VISIBLE else first[0], middle, high),
        (middle if middle < _VISIBLE else high) / slowest,
        (far[full - 1].count if full else near[-1].count) if beyond else 0,
        walk,
        _quantile([point.share for point in beyond], 0.75) if beyond else 0.0,
        tuple(points),
        tuple(windows),
    )


def _quantile(values: Sequence[float], part: float) -> float:
    """Return the value below which the *part* of the *values* is: the ends are what a disturbance makes."""
    ranked = sorted(values)
    at = part * (len(ranked) - 1)
    low = int(at)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (at - low) * (ranked[high] - ranked[low])


def _is_visible(point: Point) -> bool:
    return point.small - point.huge > max(_VISIBLE, _VISIBLE_SHARE * point.huge)


def _fault(code: Any, *, huge: bool) -> tuple[Range | None, int]:
    """Return what a fault of file text costs, and how many bytes it maps; None if no huge pages can be had."""
    window, faults = kernel.huge_page_size(), ctypes.c_uint64()
    with using(os.memfd_create("text", os.MFD_CLOEXEC)) as fd, _anonymous(max(_EVICTED)) as evicted:
        os.write(fd, b"\xcc" * _MAPPED)
        if huge and not _collapse(fd):
            return None, 0
        piece = window if huge else _around(code, fd, window)
        costs = []
        for size in _EVICTED:
            passed = code.map(fd, _MAPPED, window, piece, evicted, size, 12, ctypes.byref(faults))
            costs.append(passed / max(1, faults.value))
        return Range(*sorted(costs)), piece


def _around(code: Any, fd: int, window: int) -> int:
    """Return how many bytes one fault maps (fault_around_bytes of mm/memory.c)."""
    faults = ctypes.c_uint64()
    code.map(fd, _MAPPED, window, _PAGE, None, 0, 1, ctypes.byref(faults))
    return max(_PAGE, _MAPPED // max(1, faults.value) // _PAGE * _PAGE)


class _anonymous:  # noqa: N801  # reads as what `with` does
    """Memory that is there before it is used; its address."""

    def __init__(self, size: int) -> None:
        self._memory = mmap.mmap(-1, size)
        self._memory.write(bytes(size))
        self._view = ctypes.c_char.from_buffer(self._memory)

    def __enter__(self) -> int:
        return ctypes.addressof(self._view)

    def __exit__(self, *_: object) -> None:
        del self._view
        self._memory.close()


def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = _P
    library.mmap.argtypes = (_P, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64)
    library.madvise.argtypes = (_P, ctypes.c_size_t, ctypes.c_int)
    return library


def _mapped(size: int, protection: int, flags: int, fd: int) -> int:
    """Return the address, a multiple of the huge page size, of a new mapping.  Raises OSError."""
    window = kernel.huge_page_size()
    room = _libc().mmap(None, size + window, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    start = (room + window - 1) // window * window
    address = _libc().mmap(start, size, protection, flags | 0x10, fd, 0)  # MAP_FIXED
    if address != start:
        raise OSError(ctypes.get_errno(), "mmap")
    return int(start)


def _collapse(fd: int) -> bool:
    """Make the file in memory huge (madvise(2), MADV_COLLAPSE, Linux 6.1); return whether it is."""
    start = _mapped(_MAPPED, mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_SHARED, fd)
    done = not _libc().madvise(start, _MAPPED, _MADV_COLLAPSE)
    _libc().munmap(_P(start), ctypes.c_size_t(_MAPPED))
    return done


def _memory(*, huge: bool) -> int:
    """Return the address of memory for code, on huge pages if they can be had."""
    protection = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    size = max(_MOST, max(_WINDOWS) * kernel.huge_page_size()) if huge else _MOST
    start = _mapped(size, protection, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, -1)  # MAP_NORESERVE
    _libc().madvise(start, size, _MADV_HUGEPAGE if huge else _MADV_NOHUGEPAGE)
    return start


def _point(code: Any, small: int, huge: int, count: int) -> Point:
    """Return the least times of several placements of *count* pages: what disturbs makes a time longer."""
    placements = _PLACEMENTS if count <= _NEAR else _FAR_PLACEMENTS
    jumps, turns = max(8000, 2 * count), _TURNS if count <= _NEAR else _TURNS - 1
    times = [1e12, 1e12]
    for offsets in _placed(count, placements):
        for _ in range(turns):  # by turns: what disturbs for longer than a turn disturbs both
            for side, base in enumerate((small, huge)):
                times[side] = min(times[side], code.jump(base, offsets.buffer_info()[0], count, jumps, 2))
    return Point(count, *times)


def _placed(count: int, placements: int) -> Iterator["array[int]"]:
    """Yield the offsets of one line in each of *count* pages, in random order; lines share few sets of the cache."""
    for number in range(placements):
        chance = random.Random(number)  # noqa: S311  # always the same
        pages = list(range(count))
        chance.shuffle(pages)
        yield array("Q", (page * _PAGE + (page * 7 + number) % (_PAGE // _LINE) * _LINE for page in pages))


def _spread(code: Any, base: int, count: int) -> Point:
    """Return the times of as many lines in one window, and in *count* windows."""
    window = kernel.huge_page_size()
    lines = [(number * 7) % (_PAGE // _LINE) * _LINE + number * _PAGE for number in range(count)]
    times = [1e12, 1e12]
    for _ in range(_TURNS):
        for side, step in enumerate((0, window)):
            offsets = array("Q", (line + number * step for number, line in enumerate(lines)))
            times[side] = min(times[side], code.jump(base, offsets.buffer_info()[0], count, 8000, 2))
    return Point(count, *times)
