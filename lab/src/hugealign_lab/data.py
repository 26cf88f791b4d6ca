"""Code that runs and the data that it loads and stores: misses of both kinds of TLB, by the segments on huge pages.

Pages lie where the process had them.  Huge segments lie as a linker could put them: each begins on a window
and fills its last one.  Stack, heap and written data are on 4 KiB pages.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hugealign.elf.windows import BASE_PAGE, align_down
from hugealign.errors import HugealignError
from hugealign.io.progress import silent
from hugealign.io.units import printable
from hugealign_lab.geometry import Geometry
from hugealign_lab.placement import REGION, WINDOW, Keys, Pages, keyed
from hugealign_lab.replay import CODE, DATA, OF_DATA, Replay
from hugealign_lab.tracefile import File, Trace, TracedSegment

_ADDRESSES = 1 << 64
TEXT, RODATA = "text", "rodata"
#: The segments that are huge, of the program and of its libraries.
HUGE: dict[str, frozenset[str]] = {
    "none": frozenset(),
    "text": frozenset({TEXT}),
    "rodata": frozenset({RODATA}),
    "text,rodata": frozenset({TEXT, RODATA}),
}


@dataclass(frozen=True, slots=True)
class DataRow:
    """One processor with the segments *huge*: misses of the first level and page walks, for code and for data."""

    huge: str
    cpu: str
    code_misses: int
    data_misses: int
    code_walks: int
    data_walks: int


@dataclass(frozen=True, slots=True)
class DataSimulation:
    """All rows, and the blocks (*events*) and *instructions* that ran in *threads*; *ended* of them reached their end.

    *rodata* is the bytes of read-only segments in the files of the trace.
    """

    rows: tuple[DataRow, ...]
    events: int
    instructions: int
    rodata: int
    threads: int
    ended: int

    def row(self, huge: str, cpu: str) -> DataRow:
        """Return the row for *huge* and *cpu*."""
        return next(row for row in self.rows if (row.huge, row.cpu) == (huge, cpu))


@dataclass(frozen=True, slots=True)
class PlacedPages:
    """The *pages* of blocks and of data, and for each the kind of its segment and the number of its window."""

    pages: Pages
    windows: Sequence[tuple[str, int] | None]


def simulate(
    trace: Trace,
    cpus: Sequence[Geometry],
    progress: Callable[[int], None] = silent,
    marks: bytes | None = None,
) -> DataSimulation:
    """Return the misses for each choice in HUGE and each processor.  Raises HugealignError if *trace* has no data."""
    if not trace.description.data:
        raise HugealignError(f"{printable(trace.path)}: has no loads and stores; hugealign trace --data records them")
    found = placed(trace)
    with Replay(trace, data=True) as replay:
        if marks is not None:
            replay.part(marks)
        layout = replay.layout(found.pages)
        machines = []
        for name, kinds in HUGE.items():
            variant = replay.variant(layout, keys(found, kinds))
            machines += [(name, cpu.name, replay.machine(variant, cpu)) for cpu in cpus]
        replay.run(progress)
        rows = []
        for name, cpu, machine in machines:
            (code, code_walks), (data, data_walks) = (replay.counts(machine, side) for side in (CODE, DATA))
            rows.append(DataRow(name, cpu, code, data, code_walks, data_walks))
        events, instructions, threads, ended = replay.totals()
    rodata = sum(s.p_filesz for file in trace.description.files for s in file.segments if _kind(s) == RODATA)
    return DataSimulation(tuple(rows), events, instructions, rodata, threads, ended)


def placed(trace: Trace) -> PlacedPages:
    """Return the places of the pages of code and data in *trace*.  Pure."""
    files = trace.description.files
    starts = _windows(files)
    dense: dict[int, int] = {}
    windows: list[tuple[str, int] | None] = []

    def page(address: int, number: int) -> int:
        file = files[number]
        moved = address + ((number << REGION) if number and file.bias is None else file.bias or 0)
        index = dense.setdefault(moved % _ADDRESSES // BASE_PAGE, len(dense))
        if index == len(windows):
            windows.append(_window(file, starts[number], address))
        return index

    first, last = array("I"), array("I")
    for block, (address, number, size, _) in enumerate(trace.block_rows()):
        if of_data := trace.pages.get(block):
            first.append(page(*of_data) | OF_DATA)
            last.append(first[-1])
        elif size:
            first.append(page(address, number))
            last.append(page(address + size - 1, number))
        else:  # number 0 is no block
            first.append(page(0, 0))
            last.append(first[-1])
    return PlacedPages(Pages(first, last, tuple(dense)), windows)


def keys(found: PlacedPages, kinds: frozenset[str]) -> Keys:
    """Return the keys if the segments of these *kinds* are huge.  Pure."""
    pages = zip(found.pages.numbers, found.windows, strict=True)
    return keyed((window[1], True) if window and window[0] in kinds else (page, False) for page, window in pages)


def _kind(segment: TracedSegment) -> str:
    return "" if segment.writable else TEXT if segment.executable else RODATA


def _windows(files: Sequence[File]) -> list[list[int]]:
    """Return the number of the first window of each segment of each file; windows follow one another."""
    number = 0
    found: list[list[int]] = []
    for file in files:
        found.append([])
        for segment in file.segments:
            found[-1].append(number)
            number += -(-_span(segment) // WINDOW)
    return found


def _span(segment: TracedSegment) -> int:
    """Return the bytes from the start of the segment's first page to its end."""
    return segment.p_memsz + segment.p_vaddr % BASE_PAGE


def _window(file: File, starts: Sequence[int], address: int) -> tuple[str, int] | None:
    """Return the kind and the window of the page of *address*, None if no huge page can serve it."""
    for segment, start in zip(file.segments, starts, strict=True):
        within = align_down(address, BASE_PAGE) - align_down(segment.p_vaddr, BASE_PAGE)
        if 0 <= within < _span(segment):
            kind = _kind(segment)
            return (kind, start + within // WINDOW) if kind else None
    return None
