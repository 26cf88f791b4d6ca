#!/usr/bin/env python3
"""Results as JSON become a report: ``report.py RESULTS.json -o DIR`` writes DIR/report.md.

    {"title": "…", "date": "2026-11-21", "machine": {"CPU": "…", "kernel": "…"},
     "sections": [{"title": "…", "text": "paragraphs, an empty line between them", "command": "what made it",
                   "output": "what a program printed", "table": {"columns": ["…"], "rows": [["…", 1, 2.5, null]]},
                   "plot": {"x": "…", "y": "…", "log_y": true, "series": [{"name": "…", "points": [[0, 12]]}]}}]}

Everything but the titles may be missing.  All words are taken as text: nothing in them becomes HTML, SVG or Markdown.
A plot is a picture beside the report, report-1.svg and so on, and the table of its points.  ``--name`` is another name
than report.  Exit status: 0 written, 2 wrong usage, 3 the JSON cannot be read, is not of this form, or the report
cannot be written.
"""

import argparse
import html
import json
import math
import os
import re
import sys
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_LIMIT = 16 << 20  # bytes of JSON
_POINTS_LIMIT = 2000  # in one plot
_LABEL = 80  # characters of a word in a plot

_WIDTH, _HEIGHT = 760, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 96, 200, 16, 52  # margins; the legend is in the right one
# Okabe and Ito's colours: told apart by the colour-blind too.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#777777", "#b8a800")


class FormError(Exception):
    """The document is not of the form that this file's head describes; where and why."""


@dataclass(frozen=True, slots=True)
class Table:
    """Words in columns; *numeric* says which columns are aligned to the right."""

    columns: list[str]
    rows: list[list[str]]
    numeric: list[bool]


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines over one pair of axes."""

    x: str
    y: str
    log_y: bool
    series: list[tuple[str, list[tuple[float, float]]]]


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what may stand under it; what is missing is empty or None."""

    title: str
    text: str
    command: str
    output: str
    table: Table | None
    plot: Plot | None


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report."""

    title: str
    date: str
    machine: Table | None
    sections: list[Section]


# ---- the document ----------------------------------------------------------------------------------------------------


def parse(document: Any) -> Report:
    """Check *document*, JSON as Python has it; raises FormError."""
    top = _mapping(document, "the document")
    machine = _mapping(top.get("machine", {}), "machine")
    return Report(
        _line(top.get("title"), "title"),
        _line(top.get("date", ""), "date"),
        _table(["machine", ""], [[key, value] for key, value in machine.items()], "machine") if machine else None,
        [_section(part, f"section {number}") for number, part in enumerate(_list(top.get("sections", []), "sections"))],
    )


def _section(value: Any, where: str) -> Section:
    part = _mapping(value, where)
    table, plot = part.get("table"), part.get("plot")
    if table is not None:
        words = _mapping(table, f"{where}: table")
        table = _table(words.get("columns"), words.get("rows"), f"{where}: table")
    return Section(
        _line(part.get("title"), f"{where}: title"),
        _text(part.get("text", ""), f"{where}: text"),
        _text(part.get("command", ""), f"{where}: command"),
        _text(part.get("output", ""), f"{where}: output"),
        table,
        None if plot is None else _plot(_mapping(plot, f"{where}: plot"), f"{where}: plot"),
    )


def _table(columns: Any, rows: Any, where: str) -> Table:
    names = [_line(name, where) for name in _list(columns, f"{where}: columns")]
    cells = [_list(row, f"{where}: row") for row in _list(rows, f"{where}: rows")]
    if not names or any(len(row) != len(names) for row in cells):
        raise FormError(f"{where}: not as many cells in a row as columns")
    words = [[_cell(value, where) for value in row] for row in cells]
    numeric = [bool(words) and all(re.match(r"[-+]?[\d.]|--$", row[at]) for row in words) for at in range(len(names))]
    return Table(names, words, numeric)


def _plot(part: dict[str, Any], where: str) -> Plot:
    series, count = [], 0
    log_y = part.get("log_y", False) is True
    for line in _list(part.get("series"), f"{where}: series"):
        found = _mapping(line, f"{where}: series")
        points = [_point(point, log_y, where) for point in _list(found.get("points"), f"{where}: points")]
        count += len(points)
        if points:
            series.append((_line(found.get("name", ""), where), points))
    if not series or count > _POINTS_LIMIT:
        raise FormError(f"{where}: {'no points' if not series else f'more than {_POINTS_LIMIT} points'}")
    return Plot(_line(part.get("x", ""), where), _line(part.get("y", ""), where), log_y, series)


def _point(value: Any, log_y: bool, where: str) -> tuple[float, float]:
    pair = _list(value, f"{where}: point")
    if len(pair) != 2 or any(isinstance(number, bool) or not isinstance(number, int | float) for number in pair):
        raise FormError(f"{where}: a point is two numbers")
    if any(abs(number) > 1e300 for number in pair) or (log_y and pair[1] < 0):
        raise FormError(f"{where}: a number that cannot be drawn")
    return float(pair[0]), float(pair[1])


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormError(f"{where}: not an object")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise FormError(f"{where}: not a list")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise FormError(f"{where}: not a string")
    return _visible(value)


def _line(value: Any, where: str) -> str:
    return " ".join(_text(value, where).split())


def _cell(value: Any, where: str) -> str:
    if value is None:
        return "--"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**30 else "absurd"
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".") if abs(value) < 1e30 else "absurd"
    return _line(value, where)


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


# ---- Markdown --------------------------------------------------------------------------------------------------------


def markdown(report: Report, name: str) -> tuple[str, list[str]]:
    """Return *report* as Markdown, and its pictures, which it names *name*-1.svg and so on."""
    pictures: list[str] = []
    lines = [f"# {_plain(report.title)}", ""]
    if report.date:
        lines += [_plain(report.date), ""]
    if report.machine:
        lines += [*_markdown_table(report.machine), ""]
    for section in report.sections:
        lines += [f"## {_plain(section.title)}", ""]
        lines += [line for words in _paragraphs(section.text) for line in (_plain(words), "")]
        lines += _fenced(section.command, "sh") if section.command else []
        lines += _fenced(section.output, "") if section.output else []
        if section.table:
            lines += [*_markdown_table(section.table), ""]
        if section.plot:
            pictures.append(svg(section.plot))
            words = _inline(f"{section.plot.y} by {section.plot.x}")
            lines += [f"![{words}]({name}-{len(pictures)}.svg)", "", *_markdown_table(_points(section.plot)), ""]
    return "\n".join(lines).rstrip() + "\n", pictures


def _plain(text: str) -> str:
    """Return *text* so that Markdown shows it as it is, at the beginning of a line too."""
    text = re.sub(r"(?m)^(\s*)([-+#=])", r"\1\\\2", _inline(text))
    return re.sub(r"(?m)^(\s*\d+)([.)])", r"\1\\\2", text)


def _inline(text: str) -> str:
    text = re.sub(r"([\\`*\[\]|$~])", r"\\\1", text)
    text = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", text)  # within a word it means nothing
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _fenced(text: str, language: str) -> list[str]:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence + language, text.strip("\n"), fence, ""]


def _markdown_table(table: Table) -> list[str]:
    rows = [table.columns, *table.rows]
    lines = ["| " + " | ".join(_inline(cell) for cell in row) + " |" for row in rows]
    return [lines[0], "|" + "|".join("--:" if numeric else "---" for numeric in table.numeric) + "|", *lines[1:]]


def _points(plot: Plot) -> Table:
    """Return *plot* as a table: a row for each x, a column for each series."""
    found = [dict(points) for _, points in plot.series]
    places = sorted({x for points in found for x in points})
    rows = [[_number(x), *(_number(points[x]) if x in points else "--" for points in found)] for x in places]
    return Table([f"{plot.y} by {plot.x}", *(name for name, _ in plot.series)], rows, [True] * (1 + len(found)))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:,.4g}"


def _paragraphs(text: str) -> list[str]:
    return [words.strip("\n") for words in re.split(r"\n\s*\n", text) if words.strip()]


# ---- plots -----------------------------------------------------------------------------------------------------------


def svg(plot: Plot) -> str:
    """Return *plot* as an SVG document."""
    xs = [x for _, points in plot.series for x, _ in points]
    ys = [y for _, points in plot.series for _, y in points]
    x_at, x_ticks = _linear(min(xs), max(xs), _LEFT, _WIDTH - _RIGHT)
    y_at, y_ticks = (_logarithmic if plot.log_y else _from_zero)(ys, _HEIGHT - _BOTTOM, _TOP)
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" font-size="12" font-family="sans-serif"',
        f' viewBox="0 0 {_WIDTH} {_HEIGHT}">',
        f"<title>{_label(f'{plot.y} by {plot.x}')}</title>",
        f'<path d="M0 0H{_WIDTH}V{_HEIGHT}H0z" fill="#fff"/>',
    ]
    for value, word in y_ticks:
        y = y_at(value)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{right}" stroke="#8884"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_label(word)}</text>')
    for value, word in x_ticks:
        x = x_at(value)
        parts.append(f'<path d="M{x:.1f} {bottom}v5" stroke="#000"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{_label(word)}</text>')
    middle = (_TOP + bottom) // 2
    parts += [
        f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" stroke="#000"/>',
        f'<text x="{(_LEFT + right) // 2}" y="{_HEIGHT - 10}" text-anchor="middle">{_label(plot.x)}</text>',
        f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">{_label(plot.y)}</text>',
    ]
    for number, (name, points) in enumerate(plot.series):
        parts += _line_of(number, name, [(x_at(x), y_at(y), x, y) for x, y in points])
    return "\n".join([*parts, "</svg>\n"])


def _line_of(number: int, name: str, points: Sequence[tuple[float, float, float, float]]) -> Iterable[str]:
    colour = _COLOURS[number % len(_COLOURS)]
    dash = ("", ' stroke-dasharray="7 3"', ' stroke-dasharray="2 3"')[number // len(_COLOURS) % 3]
    way = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in points)
    yield f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'
    for x, y, told_x, told_y in points:
        told = _label(f"{name}: {_number(told_x)}, {_number(told_y)}")
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"><title>{told}</title></circle>'
    y = _TOP + 10 + 18 * number
    left = _WIDTH - _RIGHT + 14
    yield f'<path d="M{left} {y - 4}h18" stroke="{colour}" stroke-width="3"{dash}/>'
    yield f'<text x="{left + 24}" y="{y}">{_label(name)}</text>'


def _label(text: str) -> str:
    return html.escape(text if len(text) <= _LABEL else text[: _LABEL - 1] + "…")


_Axis = tuple[Callable[[float], float], list[tuple[float, str]]]


def _linear(low: float, high: float, start: float, end: float) -> _Axis:
    """Return the place of a value between *start* and *end*, and the ticks; half a dozen of them, at round numbers."""
    if low == high:
        low, high = low - max(1.0, abs(low) / 2), high + max(1.0, abs(high) / 2)
    rough = (high - low) / 6
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    first = math.ceil(low / step - 1e-9)
    count = math.floor(high / step + 1e-9) - first
    ticks = [(at * step, _number(at * step)) for at in range(first, first + min(count, 12) + 1)]
    return lambda value: start + (value - low) / (high - low) * (end - start), ticks


def _from_zero(values: Sequence[float], start: float, end: float) -> _Axis:
    return _linear(min(0.0, *values), max(0.0, *values), start, end)


def _logarithmic(values: Sequence[float], start: float, end: float) -> _Axis:
    """Return an axis of decades; zero, which has no logarithm, lies one decade below the least value."""
    positive = [value for value in values if value > 0] or [1.0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    high = max(high, low + 1)
    bottom = low - (len(positive) < len(values))
    step = -(-(high - low) // 12)
    ticks = [(10.0**at, _number(10.0**at)) for at in range(low, high + 1, step)]
    if bottom < low:
        ticks.append((0.0, "0"))

    def place(value: float) -> float:
        at = math.log10(value) if value > 0 else bottom
        return start + (at - bottom) / (high - bottom) * (end - start)

    return place, ticks


# ---- in and out ------------------------------------------------------------------------------------------------------


def read(path: str) -> Report:
    """Read the JSON at *path*; raises FormError or OSError."""
    with open(path, "rb") as stream:
        data = stream.read(_LIMIT + 1)
    if len(data) > _LIMIT:
        raise FormError(f"more than {_LIMIT >> 20} MiB")
    try:
        return parse(json.loads(data, parse_constant=_no_constant))
    except RecursionError:
        raise FormError("nested too deeply") from None
    except ValueError as error:
        raise FormError(f"not JSON: {error}") from None


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not a number")


def write(directory: str, name: str, text: str) -> None:
    """Write *text* to *name* in *directory*, whole or not at all; raises OSError."""
    os.makedirs(directory, exist_ok=True)
    handle, beside = tempfile.mkstemp(prefix=f".{name}.", dir=directory)
    try:
        with open(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            os.fchmod(stream.fileno(), 0o644)
        os.replace(beside, os.path.join(directory, name))
    except BaseException:
        os.unlink(beside)
        raise


def main(words: Sequence[str] | None = None) -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(description="Results as JSON become a report in Markdown, with its plots.")
    parser.add_argument("results", metavar="RESULTS.json")
    parser.add_argument("-o", "--output", metavar="DIR", required=True)
    parser.add_argument("--name", default="report", help="of the file without .md (default: report)")
    args = parser.parse_args(words)
    try:
        report = read(args.results)
        text, pictures = markdown(report, args.name)
        for number, picture in enumerate(pictures, 1):
            write(args.output, f"{args.name}-{number}.svg", picture)
        write(args.output, f"{args.name}.md", text)
    except FormError as error:
        return _failed(args.results, str(error))
    except OSError as error:
        return _failed(error.filename or args.results, error.strerror or str(error))
    return 0


def _failed(path: str, why: str) -> int:
    print(f"report.py: {_visible(str(path))}: {_visible(why)}".replace("\n", " "), file=sys.stderr)
    return 3


if __name__ == "__main__":
    sys.exit(main())
