"""A map for terminals and as JSON.  Pure: returns text."""

from collections.abc import Iterator

from hugealign.io.units import format_size, printable
from hugealign.map.layout import CELLS, PARTS, HeatMap, Map
from hugealign.map.scale import NONE, plain, scale

#: From the hottest step to cells of text without samples.
BLOCKS, ASCII = "█▓▒░·", "@%+-."
_COLUMNS = 64
_NAME_SHOWN = 100


def text(shown: Map, shades: str = BLOCKS) -> str:
    """Return the map in lines of at most 80 columns if names allow it, drawn with the five characters *shades*."""
    return "".join(f"{line}\n" for line in _lines(shown, shades))


def _lines(shown: Map, shades: str) -> Iterator[str]:
    yield from heading(shown)
    cells = [cell for layout in shown.layouts for row in layout.rows for cell in _merged(row.heat)]
    steps = scale(cells, shown.ran.matched.hits * PARTS, len(shades) - 1)
    for layout in shown.layouts:
        yield ""
        yield from _strip(layout, [[steps.step(cell) for cell in _merged(row.heat)] for row in layout.rows], shades)
    yield ""
    labels = "  ".join(f"{shade} {label}" for shade, label in zip(shades, steps.labels(), strict=False))
    cell = format_size(shown.plan.page_size // _COLUMNS)
    yield f"one character is {cell}: {labels} of the {shown.ran.unit}  {shades[-1]} none"
    yield "* should be on a huge page; uncovered: not in this window or one before it"


def heading(shown: Map) -> list[str]:
    """Return the sources of the map, in a few lines for people."""
    plan, matched = shown.plan, shown.ran.matched
    sources = ", ".join(f"{printable(path)} ({printable(form)})" for path, form in shown.ran.sources)
    order = f"as in {printable(shown.order)}" if shown.order else "made from the profile"
    after = len(shown.layouts[-1].rows)
    huge = f"{min(plan.count, after)} of {after} windows of {format_size(plan.page_size)} huge"
    budget = f"what ran needs {plan.needed}, the budget is {plan.budget} ({printable(shown.budget.why)})"
    return [
        f"{printable(shown.ran.binary)}: {matched.hits:,} of {matched.total:,} {shown.ran.unit} found, from {sources}",
        f"order {order}: {huge}; {budget}",
    ]


def _merged(cells: list[int]) -> list[int]:
    wide = CELLS // _COLUMNS
    return [sum(cells[at : at + wide]) for at in range(0, CELLS, wide)]


def _strip(layout: HeatMap, steps: list[list[int]], shades: str) -> Iterator[str]:
    wide = CELLS // _COLUMNS
    yield f"{layout.name}"
    yield f"window{'uncovered':>74}"
    left = layout.uncovered()
    last = max(
        (row.number for row, row_steps in zip(layout.rows, steps, strict=True) if max(row_steps) > NONE), default=0
    )
    for row, row_steps in zip(layout.rows[:last], steps, strict=False):
        cells = [" "] * _COLUMNS
        for first, end in row.text:
            cells[first // wide : -(-end // wide)] = shades[-1] * (-(-end // wide) - first // wide)
        line = "".join(cell if step == NONE else shades[step] for cell, step in zip(cells, row_steps, strict=True))
        yield f"{row.number:4}{'*' if row.huge else ' '}|{line}|{percent(left[row.number], layout.total):>9}"
    if last < len(layout.rows):
        left_out = len(layout.rows) - last
        yield f"{left_out:4} {'more ' if last else ''}window{'s'[: left_out > 1]} without samples"


def percent(part: int, whole: int) -> str:
    """Return a percentage with the digits that a small share needs: only zero looks like zero."""
    if not whole:
        return "--"
    share = part * 100 / whole
    return f"{share:.2f} %" if share >= 0.1 else f"{plain(share)} %"
