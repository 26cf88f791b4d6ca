"""``make rules``: write docs/reference/rules.md, the pages of all diagnoses."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from hugealign.diagnosis import catalogue  # noqa: E402 - the checkout's

DOCUMENT = ROOT / "docs" / "reference" / "rules.md"
_HEAD = """\
# Diagnoses

What each diagnosis means, which behaviour of the kernel or the loader it rests on, and what to do about it. `hugealign
explain HA004` prints the same. The codes HA001, HA002 … are the rules of `hugealign verify`: an error fails the check,
a warning or a note only on request (`hugealign verify --help`). Written by `make rules` from
`hugealign/diagnosis/explain`.
"""


def markdown() -> str:
    """Return docs/reference/rules.md: the pages of all codes, by area."""
    lines = [_HEAD]
    every = catalogue.codes()
    for name in dict.fromkeys(map(catalogue.area, every)):
        rows = {code: catalogue.row(code) for code in every if catalogue.area(code) == name}
        lines += [f"## {name}", "", "| code | severity | |", "|---|---|---|"]
        lines += [f"| [{code}](#{_anchor(code)}) | {row.severity} | {row.title} |" for code, row in rows.items()]
        for code, row in rows.items():
            title = f"**{row.title[0].upper()}{row.title[1:]}** ({row.severity})"
            parts = [f"### {code}", title, row.page, f"Rests on: {row.source}." if row.source else ""]
            lines += ["", "\n\n".join(part for part in parts if part)]
        lines.append("")
    return "\n".join(lines)


def _anchor(code: str) -> str:
    """Return the fragment that GitHub and MyST give the heading of *code*."""
    return code.lower().replace(".", "")


if __name__ == "__main__":
    DOCUMENT.write_text(markdown(), encoding="utf-8")
