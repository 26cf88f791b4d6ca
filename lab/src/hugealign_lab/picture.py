"""A map as a picture: heat strips of both layouts, and the heat that the first N windows leave uncovered.  Pure.

File, profile and symbol names are untrusted: ElementTree makes all markup and treats names only as text, after
`printable` has removed what XML 1.0 does not allow (section 2.2, "Characters").
"""

import math
from collections.abc import Callable, Sequence
from xml.etree import ElementTree as ET

from hugealign.io.units import counted, format_size, printable
from hugealign.map.layout import CELLS, PARTS, HeatMap, HeatRow, Map
from hugealign.map.report import heading, percent
from hugealign.map.scale import NONE, Scale, plain, scale

#: From the hottest to the coolest: each lighter than the one before, which any colour vision can tell apart.
HEAT = ("#2d0a3c", "#5c1560", "#8f2469", "#bd3a5f", "#de5f4c", "#f08b45", "#f8b659", "#fbdf8e")
COLD = "#e4e6ea"  # text without samples
PAPER, INK, FAINT = "#ffffff", "#1c1c1c", "#c4c8ce"  # its own background, whatever the viewer has
HUGE = "#00755e"
LINES = ("#7a7a7a", "#0060a8")  # of the layouts; they also differ in lightness and in their marks

_WIDTH, _LEFT, _CELL = 1200, 84, 2
_STRIP = CELLS * _CELL
_TITLE_SHOWN, _NAME_SHOWN = 150, 60
_CURVE = 260
_MARKS = 64  # points of a curve that get a mark each
_DECADES = 9  # of the curve at most: below that there is nothing left to see


def svg(shown: Map) -> str:
    """Return the picture as an SVG document."""
    return ET.tostring(_drawn(shown), encoding="unicode", xml_declaration=False) + "\n"


def _third(share: int, of: int) -> tuple[int, int]:
    """Return the limit below *share* / *of* on a scale with two steps in each power of ten."""
    return (3, of * 10) if share == 1 else (1, of)


def _drawn(shown: Map) -> ET.Element:
    root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "font-family": "sans-serif"})
    title = f"Heat of {_short(shown.ran.binary)} by window of {format_size(shown.plan.page_size)}"
    _child(root, "title").text = title
    paper = _child(root, "rect", x=0, y=0, width=_WIDTH, fill=PAPER)
    _words(root, 16, 28, title, size=18, weight="bold")
    y = 48.0
    for line in heading(shown):
        _words(root, 16, y, line[:_TITLE_SHOWN] + ("…" if len(line) > _TITLE_SHOWN else ""), fill="#4a4a4a")
        y += 17
    cells = (cell for layout in shown.layouts for row in layout.rows for cell in row.heat)
    steps = scale(cells, shown.ran.matched.hits * PARTS, len(HEAT), _third)
    y = _legend(root, y + 8, steps, shown)
    rows = max(len(layout.rows) for layout in shown.layouts)
    height = max(2, min(16, 480 // max(rows, 1)))
    for layout in shown.layouts:
        y = _heat_strip(root, y + 34, layout, steps, height)
    y = _curves(root, y + 72, shown)
    root.set("width", str(_WIDTH))
    root.set("height", f"{y:g}")
    root.set("viewBox", f"0 0 {_WIDTH} {y:g}")
    paper.set("height", f"{y:g}")
    return root


def _short(name: str) -> str:
    plain = printable(name)
    return plain if len(plain) <= _NAME_SHOWN else "…" + plain[-_NAME_SHOWN:]


def _child(parent: ET.Element, tag: str, **attributes: float | str) -> ET.Element:
    """Append an element; attributes are numbers and words of this module, with `_` for `-`."""
    named = {key.replace("_", "-"): f"{v:g}" if isinstance(v, (int, float)) else v for key, v in attributes.items()}
    return ET.SubElement(parent, tag, named)


def _words(
    parent: ET.Element, x: float, y: float, words: str, size: int = 12, anchor: str = "start", weight: str = "normal",
    fill: str = INK,
) -> ET.Element:  # fmt: skip
    element = _child(parent, "text", x=x, y=y, font_size=size, text_anchor=anchor, font_weight=weight, fill=fill)
    element.text = printable(words)
    return element


def _line(parent: ET.Element, x1: float, y1: float, x2: float, y2: float, stroke: str = FAINT) -> ET.Element:
    return _child(parent, "line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=stroke)


def _legend(root: ET.Element, y: float, steps: Scale, shown: Map) -> float:
    """Draw the legend of colours, from *y* down; return its lower end."""
    cell = format_size(shown.plan.page_size // CELLS)
    words = f"share of all {shown.ran.unit} in one cell of {cell}, at least:"
    _words(root, _LEFT, y + 12, words)
    x = _LEFT + 8 + 6.4 * len(words)
    for colour, label in (*zip(HEAT, steps.labels(), strict=True), (COLD, "text, none")):
        _child(root, "rect", x=x, y=y + 2, width=14, height=12, fill=colour, stroke=FAINT, stroke_width=0.5)
        _words(root, x + 18, y + 12, label)
        x += 32 + 6.6 * len(label)
    _child(root, "rect", x=_LEFT, y=y + 20, width=5, height=12, fill=HUGE)
    _words(root, _LEFT + 12, y + 30, "a window that should be on a huge page")
    return y + 36


def _heat_strip(root: ET.Element, y: float, layout: HeatMap, steps: Scale, height: int) -> float:
    """Draw one layout from *y* down, a row of *height* for each window; return its lower end."""
    _words(root, _LEFT, y - 6, f"{layout.name}: {counted(len(layout.rows), 'window')}", size=13, weight="bold")
    _words(root, _LEFT + _STRIP + 84, y - 6, "uncovered", anchor="end")
    label = _words(root, 16, y + height * len(layout.rows) / 2, "window", anchor="middle")
    label.set("transform", f"rotate(-90 16 {y + height * len(layout.rows) / 2:g})")
    paths: dict[int, list[str]] = {}
    left = layout.uncovered()
    each = -(-13 // height)
    for number, row in enumerate(layout.rows):
        top = y + number * height
        deep = height - 1 if height > 4 else height
        for first, end in row.text:
            paths.setdefault(NONE, []).append(_box(first, end, top, deep))
        for first, end, step in _runs(row.heat, steps):
            paths.setdefault(step, []).append(_box(first, end, top, deep))
        if row.huge:
            _child(root, "rect", x=_LEFT - 9, y=top, width=5, height=height if height > 4 else deep, fill=HUGE)
        if number % each == 0:
            _words(root, _LEFT - 14, top + 6 + height / 4, str(row.number), size=10, anchor="end")
            words = percent(left[row.number], layout.total)
            _words(root, _LEFT + _STRIP + 84, top + 6 + height / 4, words, size=10, anchor="end")
    for step in sorted(paths):  # NONE first, below the others
        fill = COLD if step == NONE else HEAT[step]
        _child(root, "path", d="".join(paths[step]), fill=fill, shape_rendering="crispEdges")
    for number, row in enumerate(layout.rows):
        over = _child(root, "rect", x=_LEFT, y=y + number * height, width=_STRIP, height=height, fill="none")
        over.set("pointer-events", "all")
        _child(over, "title").text = _tip(row, layout)
    return y + height * len(layout.rows)


def _tip(row: HeatRow, layout: HeatMap) -> str:
    names = ", ".join(f"{_short(name)} ({percent(samples * PARTS, layout.total)})" for name, samples in row.hottest)
    return f"window {row.number}: {percent(sum(row.heat), layout.total)}; hottest: {names or '--'}"


def _box(first: int, end: int, top: float, height: int) -> str:
    return f"M{_LEFT + first * _CELL} {top:g}h{(end - first) * _CELL}v{height}h{(first - end) * _CELL}z"


def _runs(cells: Sequence[int], steps: Scale) -> list[tuple[int, int, int]]:
    """Return runs of neighbouring cells of one step as (first, end, step), without empty cells."""
    runs: list[tuple[int, int, int]] = []
    for at, samples in enumerate(cells):
        if not samples:
            continue
        step = steps.step(samples)
        if runs and runs[-1][1:] == (at, step):
            runs[-1] = (runs[-1][0], at + 1, step)
        else:
            runs.append((at, at + 1, step))
    return runs


def _curves(root: ET.Element, y: float, shown: Map) -> float:
    """Draw the share of samples that the first N windows leave uncovered, from *y* down; return its lower end."""
    _words(root, _LEFT, y - 32, f"{shown.ran.unit} outside of the first N windows", size=13, weight="bold")
    shares = [[count / max(layout.total, 1) for count in layout.uncovered()] for layout in shown.layouts]
    lowest = min((share for curve in shares for share in curve if share > 0), default=1.0)
    decades = min(max(1, math.ceil(-math.log10(lowest) - 1e-9)), _DECADES)
    budget = shown.budget.windows
    most = max(len(curve) - 1 for curve in shares)
    if budget <= 2 * most:
        most = max(most, budget)
    bottom = y + _CURVE
    step = _CURVE / (decades + 0.5)  # the last half is for zero

    def across(windows: float) -> float:
        return _LEFT + _STRIP * windows / most

    def down(share: float) -> float:
        return min(y - step * math.log10(share), bottom - step / 2) if share > 0 else bottom

    for decade in range(decades + 1):
        _line(root, _LEFT, y + decade * step, _LEFT + _STRIP, y + decade * step)
        _words(root, _LEFT - 8, y + decade * step + 4, f"{plain(100 / 10**decade)} %", anchor="end")
    _words(root, _LEFT - 8, bottom + 4, "none", anchor="end")
    _line(root, _LEFT, bottom, _LEFT + _STRIP, bottom, INK)
    every = max(1, -(-most // 32))
    for windows in range(0, most + 1, every):
        _line(root, across(windows), bottom, across(windows), bottom + 4, INK)
        _words(root, across(windows), bottom + 18, str(windows), anchor="middle")
    words = f"N, leading windows of {format_size(shown.plan.page_size)}"
    _words(root, _LEFT + _STRIP / 2, bottom + 38, words, anchor="middle")
    words = f"budget: {budget} ({shown.budget.why})"[:_NAME_SHOWN]
    if budget <= most:
        mark = _line(root, across(budget), y, across(budget), bottom, INK)
        mark.set("stroke-dasharray", "5 4")
        left = across(budget) > _LEFT + _STRIP / 2
        _words(root, across(budget), y - 8, words, anchor="end" if left else "start")
    else:
        _words(root, _LEFT + _STRIP, y - 8, f"{words}, more than there are", anchor="end")
    for number, (layout, curve, colour) in enumerate(zip(shown.layouts, shares, LINES, strict=True)):
        _curve(root, curve, colour, across, down, filled=bool(number))
        x = _LEFT + _STRIP - 420 + 240 * number
        _line(root, x, y - 36, x + 32, y - 36, colour).set("stroke-width", "2.5")
        _mark(root, x + 16, y - 36, colour, filled=bool(number))
        _words(root, x + 40, y - 32, layout.name)
    return bottom + 56


def _curve(
    root: ET.Element,
    shares: Sequence[float],
    colour: str,
    across: Callable[[float], float],
    down: Callable[[float], float],
    filled: bool,
) -> None:
    """Draw one curve, as far as any share is left."""
    last = next((windows for windows, share in enumerate(shares) if share <= 0), len(shares) - 1)
    points = [(across(windows), down(share)) for windows, share in enumerate(shares[: last + 1])]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    _child(root, "polyline", points=path, fill="none", stroke=colour, stroke_width=2.5)
    for x, y in points if len(points) <= _MARKS else ():
        _mark(root, x, y, colour, filled)


def _mark(root: ET.Element, x: float, y: float, colour: str, filled: bool) -> None:
    if filled:
        _child(root, "circle", cx=x, cy=y, r=4, fill=colour)
    else:
        _child(root, "rect", x=x - 3.5, y=y - 3.5, width=7, height=7, fill=PAPER, stroke=colour, stroke_width=2)
