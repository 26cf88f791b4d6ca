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
from hugealign.io import native, resources
from hugealign.io.descriptors import using
from hugealign.io.libc import libc
from hugealign.system import children, kernel, memory

_SOURCE = os.path.join(os.path.dirname(__file__), "textcosts.c")
_D, _P, _U32, _U64 = ctypes.c_double, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
_FUNCTIONS = {
    "chain": (_P, (_P, _P, _U32)),
    "jump": (_D, (_P, _P, _U32, _U32, _U32)),
    "cycle": (_D, (_U32,)),
    "map": (_D, (ctypes.c_int, _U64, _U64, _U64, _P, _P)),
}
_VERSION = 2  # of what is kept
_LIMIT = 10.0  # seconds for the child, on a busy machine
_AGAIN = 600.0  # seconds after which costs that are not certain are measured again
_DEADLINE = 1.5  # seconds of processor time after which no further point is measured
_LEAST_ROOM = 512 << 20  # bytes that must be free
_PAGE = 4096
_LINE = 64
#: Numbers of pages in a chain.  Up to _NEAR of them, all lines fit the first-level instruction cache of any server.
_COUNTS = (16, 32, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
_NEAR = 256
_MOST = max(_COUNTS) * _PAGE
_WINDOWS = (2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 80, 96)
_PLACEMENTS, _FAR_PLACEMENTS, _TURNS, _PASSES = 4, 1, 4, 2
_MAPPED = 4 << 20  # bytes of the file
#: Bytes of data and of code that a program goes through between two faults.  On an AMD EPYC 7003, where faults cost 10,
#: 17 and 22 µs with these, each that huge text avoided in a start of git, perl, bash, sed, cc1 or clang saved 12 to 19.
_BETWEEN = ((1 << 20, 0), (1 << 20, 384 << 10), (1 << 20, 1 << 20))
_FAULT_ROUNDS = 5
_MADV_HUGEPAGE, _MADV_NOHUGEPAGE, _MADV_COLLAPSE = 14, 15, 25
_WHY = "why"  # what the child answers instead of costs
#: A difference counts from here on: ns, and share of the time.
VISIBLE, _VISIBLE_SHARE = 0.1, 0.06


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

    @property
    def windows_held(self) -> int:
        """How many windows cost nothing: the most that were measured, if all of them do."""
        costly = [point.huge - point.small > VISIBLE for point in self.windows]
        full = next((at for at in range(len(costly)) if all(costly[at:])), len(costly))
        return self.windows[full - 1].count if full else 0

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
    costs, age = kept(_name())
    if costs and (costs.certain or age < _AGAIN):
        return costs
    room = min((size for size in (kernel.available_memory(), memory.room()) if size is not None), default=_LEAST_ROOM)
    if room < _LEAST_ROOM:
        raise HugealignError("the costs of text are not measured: less than 512 MiB of memory are free")
    native.library(_SOURCE)  # so that its errors are raised here
    child = children.function(_measured)
    children.collect([child], _LIMIT)
    if child.value is None:
        raise HugealignError("the costs of text are not measured: this system forbids the code for it")
    if why := child.value.get(_WHY):
        raise HugealignError(f"the costs of text are not measured: {why}")
    costs = TextCosts.from_json(child.value)
    keep(_name(), costs)
    return costs


def cached() -> TextCosts | None:
    """Return the costs of this machine if they were measured since it has booted, certain or not, else None."""
    return kept(_name())[0]


def kept(name: str) -> tuple[TextCosts | None, float]:
    """Return the costs that are kept under *name*, None without any, and how many seconds ago they were measured."""
    with (
        suppress(OSError, HugealignError, KeyError, TypeError, ValueError),
        using(resources.made(path := resources.cache(), path)) as directory,
        open(_at(directory, name), encoding="utf-8") as file,
    ):
        return TextCosts.from_json(json.load(file)), time.time() - os.fstat(file.fileno()).st_mtime
    return None, 0.0


@functools.cache
def known() -> TextCosts | None:
    """Return the costs of this machine; None if they cannot be measured.  A process measures them at most once."""
    with suppress(HugealignError):
        return of_this_machine()
    return None


def _name() -> str:
    return name_for("all")


def name_for(what: str) -> str:
    """Return the name under which *what* was measured is kept, on this processor since this boot."""
    return f"textcosts-{what}-{_VERSION}-{_identity()}.json"


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


def keep(name: str, costs: TextCosts) -> None:
    """Keep *costs* under *name*, instead of all that were kept, if there is a place for it."""
    with suppress(OSError, HugealignError), using(native.cache()) as directory:
        beside = f".{os.getpid()}-{name}"
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=directory)
        with open(fd, "w", encoding="utf-8") as file:
            file.write(json.dumps(asdict(costs)))
        for old in os.listdir(directory):
            if old.startswith("textcosts-") and old.endswith(".json"):
                with suppress(OSError):
                    os.unlink(old, dir_fd=directory)
        os.rename(beside, name, src_dir_fd=directory, dst_dir_fd=directory)


def _measured() -> dict[str, Any]:
    """Return the costs as `from_json` takes them; for a child, which may be killed for it."""
    began = time.process_time()
    code = native.loaded(_SOURCE, _FUNCTIONS)
    cycle = code.cycle(20)
    with _Memory(_MOST, huge=False) as small, _Memory(_MOST, huge=True) as huge:
        fault, around = _fault(code, small, huge=False)
        assert fault  # noqa: S101  # small pages can be had everywhere
        huge_fault, _ = _fault(code, small, huge=True)
        if not huge:
            return {_WHY: "the kernel gives no huge pages"}
        curves: list[list[Point]] = []
        for _ in range(_PASSES):
            curves.append([])
            for count in _COUNTS:
                if time.process_time() - began > _DEADLINE:
                    break
                curves[-1].append(_point(code, small, huge, count))
    if len(curves[0]) < len(_COUNTS):  # half a curve would say that nothing costs time
        return {_WHY: "the processor is too slow for it"}
    points = [_least([curve[at] for curve in curves if at < len(curve)]) for at in range(len(_COUNTS))]
    with _Memory(max(_WINDOWS) * kernel.huge_page_size(), huge=True) as memory:
        windows = [_spread(code, memory, count) for count in _WINDOWS] if memory else []
    costs = judge(cycle, fault, huge_fault, around, points, windows)
    return asdict(replace(costs, certain=_agree([judge(cycle, fault, huge_fault, around, c) for c in curves])))


def _least(same: Sequence[Point]) -> Point:
    return Point(same[0].count, min(point.small for point in same), min(point.huge for point in same))


def _agree(passes: Sequence[TextCosts]) -> bool:
    """Return whether the *passes* found the same."""
    steps = [next((n for n, count in enumerate(_COUNTS) if count >= costs.reach), 0) for costs in passes]
    firsts = [costs.first.value for costs in passes]
    whole = all(len(costs.points) == len(_COUNTS) for costs in passes)
    return whole and max(steps) - min(steps) <= 1 and max(firsts) - min(firsts) < VISIBLE


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
    # A full level also costs at each larger number; a single point above the others is a disturbance.
    full = next((at for at in range(len(far)) if all(map(_is_visible, far[at:]))), len(far))
    beyond = far[full:]
    first = sorted(point.small - point.huge for point in near if point.count > _NEAR // 4)
    # Up to this many pages, both sides run the same lines from the same caches: what differs is the TLB, or noise.
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
        Range(0.0 if middle < VISIBLE else first[0], middle, high),
        (middle if middle < VISIBLE else high) / slowest,
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
    return point.small - point.huge > max(VISIBLE, _VISIBLE_SHARE * point.huge)


class _Between(ctypes.Structure):
    """`struct between` of the C code."""

    _fields_ = (("data", _P), ("size", _U64), ("code", _P), ("jumps", _U32))


def _fault(code: Any, memory: int, *, huge: bool) -> tuple[Range | None, int]:
    """Return what a fault of file text costs, and how many bytes it maps; None if no huge pages can be had.

    At *memory* is room for the data and the code of the program that faults.
    """
    window, faults = kernel.huge_page_size(), ctypes.c_uint64()
    with using(os.memfd_create("text", os.MFD_CLOEXEC)) as fd:
        os.write(fd, b"\xcc" * _MAPPED)
        if huge and not _collapse(fd):
            return None, 0
        piece = window if huge else _around(code, fd, window)
        costs = []
        for data, text in _BETWEEN:
            lines = array("Q", range(data, data + text, _LINE))
            random.Random(0).shuffle(lines)  # noqa: S311  # always the same
            chain = code.chain(memory, lines.buffer_info()[0], len(lines)) if lines else None
            between = _Between(memory, data, chain, len(lines))
            rounds = []
            for _ in range(_FAULT_ROUNDS):
                passed = code.map(fd, _MAPPED, window, piece, ctypes.byref(between), ctypes.byref(faults))
                rounds.append(passed / max(1, faults.value))
            costs.append(median(rounds))
        return Range(*sorted(costs)), piece


def _around(code: Any, fd: int, window: int) -> int:
    """Return how many bytes one fault maps (fault_around_bytes of mm/memory.c)."""
    faults = ctypes.c_uint64()
    code.map(fd, _MAPPED, window, _PAGE, ctypes.byref(_Between()), ctypes.byref(faults))
    return max(_PAGE, _MAPPED // max(1, faults.value) // _PAGE * _PAGE)


def _mapped(size: int, protection: int, flags: int, fd: int) -> int:
    """Return the address, a multiple of the huge page size, of a new mapping.  Raises OSError."""
    window = kernel.huge_page_size()
    room = libc().mmap(None, size + window, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    start = (room + window - 1) // window * window
    address = libc().mmap(start, size, protection, flags | 0x10, fd, 0)  # MAP_FIXED
    if address != start:
        raise OSError(ctypes.get_errno(), "mmap")
    return int(start)


def _collapse(fd: int) -> bool:
    """Make the file in memory huge (madvise(2), MADV_COLLAPSE, Linux 6.1); return whether it is."""
    start = _mapped(_MAPPED, mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_SHARED, fd)
    done = not libc().madvise(start, _MAPPED, _MADV_COLLAPSE)
    libc().munmap(start, _MAPPED)
    return done


class _Memory:
    """Memory for code, all of it on huge pages or none of it; its address, 0 if that cannot be had."""

    def __init__(self, size: int, *, huge: bool) -> None:
        protection = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        self._size = size
        self._start = start = _mapped(size, protection, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
        libc().madvise(start, size, _MADV_HUGEPAGE if huge else _MADV_NOHUGEPAGE)
        ctypes.memset(start, 0, size)
        self._as_wished = not huge or _huge_bytes(start) == size

    def __enter__(self) -> int:
        return self._start if self._as_wished else 0

    def __exit__(self, *_: object) -> None:
        libc().munmap(self._start, self._size)


def _huge_bytes(start: int) -> int:
    """Return how many bytes of the mapping that begins at *start* are on huge pages."""
    with open("/proc/self/smaps", encoding="utf-8", errors="replace") as file:
        found = False
        for line in file:
            found = found or line.startswith(f"{start:x}-")
            if found and line.startswith("AnonHugePages:"):
                return int(line.split()[1]) << 10
    return 0


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
