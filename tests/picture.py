"""The picture of the README, made by ``python -m tests.picture docs/before-after.svg``: what the kernel maps, drawn.

The demo's program is linked by gcc and by hugealign, both are warmed and run, and each 4 KiB of what smaps shows of
their text is coloured by the page that it is on.  Nothing is drawn that was not read.
"""

import argparse
import itertools
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from examples.demo import demo
from examples.demo.generate import generate
from examples.servers.text import WINDOW, Text
from tests.support import HUGEALIGN

PAGE = 4 << 10
_ACROSS = 32  # pages in a row of a window: 32 by 16 make 2 MiB
_CELL, _GAP, _LEFT, _ROW = 5, 15, 150, 125  # all multiples of a cell, which the pattern repeats in
_STYLE = """
text { font: 14px system-ui, sans-serif; fill: #24292f }
.note { font-size: 12px; fill: #57606a }
.huge { fill: #0072b2 } .small { fill: url(#small) } .page { fill: #d55e00 } .none { fill: #eaeef2 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .note { fill: #8b949e } .none { fill: #21262d } }
"""
# A page of its own for each cell.
_PATTERN = (
    f'<defs><pattern id="small" width="{_CELL}" height="{_CELL}" patternUnits="userSpaceOnUse" x="{_LEFT}" y="3">'
    f'<rect class="page" width="{_CELL - 1}" height="{_CELL - 1}"/></pattern></defs>'
)


def windows(text: Text) -> list[list[str]]:
    """Return for each window that *text* touches the class of each of its pages, from what the kernel counts.

    A window is huge as a whole or not at all; the kernel says how many bytes are, so as many whole windows are.
    """
    first, last = text.start // WINDOW, -(-text.end // WINDOW)
    whole = [w for w in range(first, last) if text.start <= w * WINDOW and (w + 1) * WINDOW <= text.end]
    if text.huge not in (0, len(whole) * WINDOW):
        raise SystemExit(f"picture: {text.huge} of {len(whole)} windows are huge; which ones is not known")
    result = []
    for window in range(first, last):
        there = [text.start <= window * WINDOW + at < text.end for at in range(0, WINDOW, PAGE)]
        kind = "huge" if text.huge and window in whole else "small"
        result.append([kind if here else "none" for here in there])
    return result


def svg(rows: list[tuple[str, Text]]) -> str:
    """Return the picture: a row for each program, a block for each window, a cell for each 4 KiB."""
    side = _ACROSS * _CELL
    most = max(len(windows(text)) for _, text in rows)
    width, height = _LEFT + most * (side + _GAP), len(rows) * _ROW + 24
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">']
    parts.append(
        f"<title>{'; '.join(_said(name, text) for name, text in rows)}</title><style>{_STYLE}</style>{_PATTERN}"
    )
    for number, (name, text) in enumerate(rows):
        top = number * _ROW + 3 + _CELL
        pages = (text.end - text.start) // PAGE
        entries = (text.huge // WINDOW) + (text.end - text.start - text.huge) // PAGE
        parts.append(f'<text x="0" y="{top + 24}">{name}</text>')
        parts.append(f'<text class="note" x="0" y="{top + 44}">{pages * PAGE / (1 << 20):.1f} MiB of text</text>')
        parts.append(f'<text class="note" x="0" y="{top + 60}">{entries:,} TLB entries</text>')
        for block, kinds in enumerate(windows(text)):
            left = _LEFT + block * (side + _GAP)
            for at, across, down, kind in _areas(kinds):
                x, y = left + at % _ACROSS * _CELL, top + at // _ACROSS * _CELL
                area = f'x="{x}" y="{y}" width="{across * _CELL}" height="{down * _CELL}"'
                parts.append(f'<rect class="{kind}" {area}/>')
    legend = (("page", "4 KiB pages"), ("huge", "one 2 MiB page"), ("none", "not of the text"))
    for number, (kind, words) in enumerate(legend):
        left = _LEFT + number * 170
        parts.append(f'<rect class="{kind}" x="{left}" y="{height - 20}" width="12" height="12"/>')
        parts.append(f'<text class="note" x="{left + 18}" y="{height - 10}">{words}</text>')
    return "\n".join((*parts, "</svg>", ""))


def _areas(kinds: list[str]) -> list[tuple[int, int, int, str]]:
    """Return rectangles of one kind each: the first cell, cells across, cells down."""
    if len(set(kinds)) == 1:
        return [(0, _ACROSS, len(kinds) // _ACROSS, kinds[0])]
    result = []
    for row in range(0, len(kinds), _ACROSS):
        at = row
        for kind, run in itertools.groupby(kinds[row : row + _ACROSS]):
            across = len(list(run))
            result.append((at, across, 1, kind))
            at += across
    return result


def _said(name: str, text: Text) -> str:
    return f"{name}: {text.huge >> 10} of {text.end - text.start >> 10} KiB of text on 2 MiB pages"


def main() -> int:
    """Build, warm, run, look, draw."""
    parser = argparse.ArgumentParser(prog="python -m tests.picture", description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    target = parser.parse_args().file
    rows = []
    with tempfile.TemporaryDirectory(prefix="hugealign-picture-", dir=Path.cwd()) as name:
        work = Path(name)
        objects = demo.compiled(["gcc"], generate(work / "src"), work / "objects")
        for title, compiler in (("gcc", ["gcc"]), ("hugealign gcc", [str(HUGEALIGN), "gcc"])):
            program = demo.linked(compiler, objects, work / re.sub(r"\W", "-", title))
            subprocess.run(
                [HUGEALIGN, "warm", program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
            )
            result = demo.run(program)
            rows.append((title, Text(result.start, result.end, result.huge)))
    for title, text in rows:
        print(_said(title, text))
    target.write_text(svg(rows), encoding="utf-8")
    return 0 if rows[1][1].huge else 1


if __name__ == "__main__":
    sys.exit(main())
