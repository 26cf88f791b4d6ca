"""The heat of a text, cell by cell: how the samples of functions spread over its windows.  Pure.

A row is a window, a cell its 512th part: 4 KiB of 2 MiB.  A profile says how often a function ran, not where in it, so
its samples are spread evenly over its bytes.  Cells are integers, in small parts of a sample, so they add up exactly.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import nlargest

from hugealign.elf.notes import BuildNote
from hugealign.elf.symbols import Functions
from hugealign.elf.windows import load_bias, text_windows
from hugealign.errors import HugealignError
from hugealign.ordering.windows import WindowPlan, alignment, place
from hugealign.profile.match import Matched, Named
from hugealign.profile.ran import Ran
from hugealign.system.budget import Budget

PARTS = 1 << 20  # of a sample
CELLS = 512  # of a row: the 4 KiB pages of 2 MiB
_ROWS_LIMIT = 4096  # 8 GiB of text
_HOTTEST = 3


@dataclass(slots=True)
class HeatRow:
    """One window."""

    number: int
    """Its number, from 1."""
    address: int
    """Its start as in p_vaddr; ordered, from the start of the text."""
    huge: bool
    """Whether one page can and should map it."""
    heat: list[int] = field(default_factory=lambda: [0] * CELLS)
    """The heat of each cell, in parts of samples."""
    text: list[tuple[int, int]] = field(default_factory=list)
    """The cells with text: the first, and the one behind the last."""
    hottest: list[tuple[str, int]] = field(default_factory=list)
    """The functions with the most samples that begin here: name and samples."""


@dataclass(frozen=True, slots=True)
class WindowHeat:
    """A window, and the heat outside of it and of the windows before it."""

    row: HeatRow
    left: int

    JSON = "number=row.number address=row.address huge=row.huge samples uncovered cells text=row.text hottest"

    @property
    def samples(self) -> float:
        """Its samples; the samples of a function are spread over its bytes."""
        return _samples(sum(self.row.heat))

    @property
    def uncovered(self) -> float:
        """The samples that are not in this window or in one before it."""
        return _samples(self.left)

    @property
    def cells(self) -> list[float]:
        """The samples of each cell."""
        return list(map(_samples, self.row.heat))

    @property
    def hottest(self) -> list[Named]:
        """Functions that begin here, at most three."""
        return [Named(*pair) for pair in self.row.hottest]


def _samples(heat: int) -> float:
    """Return samples, to a thousandth; integral ones as integers: most of a file is zeros."""
    return round(heat / PARTS, 3) if heat % PARTS else heat // PARTS


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A text in rows of one window each, by address."""

    name: str
    """One of `as linked`, `as linked, with an order`, `ordered`."""
    page_size: int
    total: int
    """The heat of all samples, also of those outside of the rows."""
    rows: Sequence[HeatRow]

    JSON = "name windows"

    @property
    def windows(self) -> list[WindowHeat]:
        """The heat of each window."""
        return list(map(WindowHeat, self.rows, self.uncovered()[1:]))

    def uncovered(self) -> list[int]:
        """Return the heat that is not in the first N windows, for N from 0 on."""
        left = [self.total]
        for row in self.rows:
            left.append(left[-1] - sum(row.heat))
        return left


@dataclass(frozen=True, slots=True)
class Map:
    """The heat of the text of a file by window."""

    ran: Ran
    budget: Budget
    plan: WindowPlan
    order: str
    """The order file, empty if the order was made from the profile."""
    note: BuildNote | None
    """What the link left in the file."""
    layouts: Sequence[HeatMap]
    """As linked, then ordered."""

    SCHEMA = "hugealign.map/1"
    JSON = (
        "file=ran.binary sources=ran.profiles order? unit=ran.unit samples.total=ran.matched.total "
        "samples.matched=ran.matched.hits samples.foreign=ran.matched.foreign page_size=plan.page_size cell_size "
        "needed=plan.needed huge=plan.count budget.windows=budget.windows budget.itlb_2m=budget.entries? "
        "budget.why=budget.why note layouts"
    )

    @property
    def cell_size(self) -> int:
        """Bytes of a cell: the 512th part of a window."""
        return self.plan.page_size // CELLS


def before(functions: Functions, matched: Matched, page_size: int, note: BuildNote | None) -> HeatMap:
    """Return the present layout of the file.  Raises HugealignError for more text than can be shown."""
    image = functions.image
    bias = load_bias(image)
    ranges = [(s.p_vaddr + bias, s.p_vaddr + s.p_memsz + bias) for s in image.text_segments if s.p_memsz]
    whole = [(first + bias, last + bias) for _, first, last in text_windows(image, page_size)]
    meant = note.windows if note and note.windows else _ROWS_LIMIT
    rows = _rows(ranges, page_size)
    for row in rows:
        row.huge = meant > 0 and any(first <= row.address < last for first, last in whole)
        meant -= row.huge
    spread(rows, [start + bias for start in functions.starts], functions, matched, page_size)
    for row in rows:
        row.address -= bias
    name = "as linked, with an order" if note and note.hot_start < note.hot_end else "as linked"
    return HeatMap(name, page_size, matched.hits * PARTS, rows)


def after(functions: Functions, matched: Matched, plan: WindowPlan) -> HeatMap:
    """Return the layout of a link with the order of *plan*, with other functions behind.  Raises HugealignError."""
    sequence = list(dict.fromkeys((*(placed.index for placed in plan.placed), *range(len(functions)))))
    placed = place(functions.starts, functions.sizes, sequence, functions.lead, alignment(functions))
    end = placed[-1] + functions.sizes[sequence[-1]]
    rows = _rows([(0, end)], plan.page_size)
    for row in rows:
        row.huge = row.number <= plan.count
    starts = [start for _, start in sorted(zip(sequence, placed, strict=True))]
    spread(rows, starts, functions, matched, plan.page_size)
    return HeatMap("ordered", plan.page_size, matched.hits * PARTS, rows)


def _rows(ranges: Sequence[tuple[int, int]], page_size: int) -> list[HeatRow]:
    """Return a row without samples for each window that has text; *ranges* are the addresses of the text."""
    count = sum((end - 1) // page_size - start // page_size + 1 for start, end in ranges)
    if count > _ROWS_LIMIT:
        raise HugealignError(f"text of {count} windows: more than {_ROWS_LIMIT} cannot be shown")
    cell = page_size // CELLS
    rows: dict[int, HeatRow] = {}
    for start, end in sorted(ranges):
        for window in range(start // page_size, (end - 1) // page_size + 1):
            base = window * page_size
            row = rows.setdefault(window, HeatRow(len(rows) + 1, base, huge=False))
            first, last = max(start - base, 0), min(end - base, page_size)
            row.text.append((first // cell, -(-last // cell)))
    return list(rows.values())


def spread(
    rows: Sequence[HeatRow], starts: Sequence[int], functions: Functions, matched: Matched, page_size: int
) -> None:
    """Add the samples of the functions, which begin at *starts*, to the cells of *rows*."""
    bases = [row.address for row in rows]
    cell = page_size // CELLS
    begun: list[list[tuple[int, int]]] = [[] for _ in rows]
    for index, samples in matched.samples.items():
        start, size = starts[index], max(functions.sizes[index], 1)
        first, last = bisect_right(bases, start) - 1, bisect_left(bases, start + size)
        if first >= 0 and start < bases[first] + page_size and samples:
            begun[first].append((samples, index))
        for row in rows[max(first, 0) : last] if samples else ():
            at = max(start, row.address)
            end = min(start + size, row.address + page_size)
            while at < end:
                number = (at - row.address) // cell
                until = min(end, row.address + (number + 1) * cell)
                # Sums up to each place are rounded down, so the parts add up to the whole.
                row.heat[number] += samples * PARTS * (until - start) // size - samples * PARTS * (at - start) // size
                at = until
    for row, shares in zip(rows, begun, strict=True):
        hottest = nlargest(_HOTTEST, shares, key=lambda pair: (pair[0], -pair[1]))
        row.hottest = [(functions.names[i] or f"@{functions.starts[i]:x}", samples) for samples, i in hottest]
