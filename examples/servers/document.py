"""Markdown and SVG.  Pure.  Words are text: nothing in them becomes markup, and what does not show is spelt out."""

import html
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

_LABEL = 80  # characters of a word in a plot
_WIDTH, _HEIGHT = 760, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 96, 200, 16, 52  # margins; the legend is in the right one
# Okabe and Ito's colours: told apart by the colour-blind too.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#777777", "#b8a800")


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines over one pair of axes, by name; a point is two numbers, of which none is negative with *log_y*."""

    x: str
    y: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    log_y: bool = False


def fill(template: str, fields: Mapping[str, object], broken: Sequence[str] = ()) -> str:
    """Return the *template* with its *fields*, which are Markdown; *broken* promises are its first lines.

    A section with a field that is None is left out.
    """

    def there(section: str) -> bool:
        return not section.startswith("## ") or all(
            fields[name] is not None for name in re.findall(r"\{(\w+)\}", section)
        )

    lines = [f"**BROKEN: {inline(words)}**\n\n" for words in broken]
    sections = filter(there, re.split("(?m)^(?=## )", template))
    return "".join([*lines, *(section.format_map(fields) for section in sections)])


def inline(text: str) -> str:
    """Return *text*, a line, so that Markdown shows it as it is."""
    text = re.sub(r"([\\`*\[\]|$~])", r"\\\1", " ".join(_visible(text).split()))
    text = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", text)  # within a word it means nothing
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def fenced(text: str) -> str:
    """Return what a program printed, as a block."""
    text = _visible(text).strip("\n")
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}\n{text}\n{fence}"


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table; columns of numbers are aligned to the right, None is what there is not."""
    cells = [[_cell(value) for value in row] for row in rows]
    places = range(len(columns))
    numeric = [bool(cells) and all(re.match(r"[-+]?[\d.]|--$", row[at]) for row in cells) for at in places]
    lines = ["| " + " | ".join(map(inline, row)) + " |" for row in (columns, *cells)]
    lines.insert(1, "|" + "|".join("--:" if number else "---" for number in numeric) + "|")
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None:
        return "--"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    return str(value)


def points(plot: Plot) -> str:
    """Return *plot* as a table: a row for each x, a column for each series."""
    result = [dict(points) for points in plot.series.values()]
    places = sorted({x for points in result for x in points})
    rows = [[_number(x), *(_number(points[x]) if x in points else None for points in result)] for x in places]
    return table([f"{plot.y} by {plot.x}", *plot.series], rows)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:,.4g}"


def _visible(text: str) -> str:
    """Return *text* with everything but line feeds that does not show, or turns the writing around, spelt out."""
    return "".join(
        letter
        if letter == "\n" or (letter.isascii() and letter.isprintable()) or unicodedata.category(letter)[0] not in "CZ"
        else " "
        if letter == "\t" or unicodedata.category(letter) == "Zs"
        else f"\\u{{{ord(letter):x}}}"
        for letter in text.replace("\r\n", "\n")
    )


def svg(plot: Plot) -> str:
    """Return *plot* as an SVG document."""
    xs = [x for points in plot.series.values() for x, _ in points]
    ys = [y for points in plot.series.values() for _, y in points]
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    x_at, x_ticks = _linear(xs, _LEFT, right)
    y_at, y_ticks = _logarithmic(ys, bottom, _TOP) if plot.log_y else _linear([0.0, *ys], bottom, _TOP)
    middle = (_TOP + bottom) // 2
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" font-size="12" font-family="sans-serif"',
        f' viewBox="0 0 {_WIDTH} {_HEIGHT}">',
        f"<title>{_label(f'{plot.y} by {plot.x}')}</title>",
        f'<path d="M0 0H{_WIDTH}V{_HEIGHT}H0z" fill="#fff"/>',
    ]
    for value, word in y_ticks:
        y = y_at(value)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{right}" stroke="#8884"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{word}</text>')
    for value, word in x_ticks:
        x = x_at(value)
        parts.append(f'<path d="M{x:.1f} {bottom}v5" stroke="#000"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{word}</text>')
    parts += [
        f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" stroke="#000"/>',
        f'<text x="{(_LEFT + right) // 2}" y="{_HEIGHT - 10}" text-anchor="middle">{_label(plot.x)}</text>',
        f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">{_label(plot.y)}</text>',
    ]
    for number, (name, points) in enumerate(plot.series.items()):
        reported = [_label(f"{name}: {_number(x)}, {_number(y)}") for x, y in points]
        parts += _line(number, _label(name), [(x_at(x), y_at(y)) for x, y in points], reported)
    return "\n".join([*parts, "</svg>\n"])


def _line(number: int, label: str, points: Sequence[tuple[float, float]], told: Sequence[str]) -> Iterable[str]:
    colour = _COLOURS[number % len(_COLOURS)]
    dash = ("", ' stroke-dasharray="7 3"', ' stroke-dasharray="2 3"')[number // len(_COLOURS) % 3]
    way = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    yield f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'
    for (x, y), words in zip(points, told, strict=True):
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"><title>{words}</title></circle>'
    left, y = _WIDTH - _RIGHT + 14, _TOP + 10 + 18 * number
    yield f'<path d="M{left} {y - 4}h18" stroke="{colour}" stroke-width="3"{dash}/>'
    yield f'<text x="{left + 24}" y="{y}">{label}</text>'


def _label(text: str) -> str:
    text = " ".join(_visible(text).split())
    return html.escape(text if len(text) <= _LABEL else text[: _LABEL - 1] + "…")


_Axis = tuple[Callable[[float], float], list[tuple[float, str]]]


def _linear(values: Sequence[float], start: float, end: float) -> _Axis:
    """Return the place of a value between *start* and *end*, and the ticks; half a dozen of them, at round numbers."""
    low, high = min(values), max(values)
    if low == high:
        low, high = low - max(1.0, abs(low) / 2), high + max(1.0, abs(high) / 2)
    rough = (high - low) / 6
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    ticks = [(at * step, _number(at * step)) for at in range(first, last + 1)]
    return lambda value: start + (value - low) / (high - low) * (end - start), ticks


def _logarithmic(values: Sequence[float], start: float, end: float) -> _Axis:
    """Return an axis of decades; zero, which has no logarithm, lies one decade below the least value."""
    positive = [value for value in values if value > 0] or [1.0]
    low = math.floor(math.log10(min(positive)))
    high = max(low + 1, math.ceil(math.log10(max(positive))))
    bottom = low - (len(positive) < len(values))
    ticks = [(10.0**at, _number(10.0**at)) for at in range(low, high + 1, -(-(high - low) // 12))]
    ticks += [(0.0, "0")] if bottom < low else []

    scale = (end - start) / (high - bottom)
    return lambda value: start + (math.log10(value) - bottom if value > 0 else 0) * scale, ticks
