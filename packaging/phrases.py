"""``make check``: what a person reads has no phrase that CONTRIBUTING.md rules out.

This looks at documents and diagnoses, at the docstrings and comments of Python, at what the product prints, and at the
comments of other code, but not at what is between backticks or quotes.  A row of the table in CONTRIBUTING.md without
a pattern here is an error.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: The rows of the table, by what they rule out, as patterns; None if only a person can judge.
PATTERNS = {
    "mend, cure, heal": r"mend(?:s|ed|ing)?|cure[sd]?|curing|heal(?:s|ed|ing)?",
    "is told, gets to know": r"(?:is|are|was|were|be|been|being) told(?! (?:apart|from))|gets? to know",
    "whole (of text)": None,
    "congruent": r"congruent(?! (?:to|modulo))",
    "guard (outside code)": None,
    "asked, asks for": r"ask(?:s|ed|ing)? for|(?:is|are|was|were|be|not) asked",
    "goes with, belongs to (an option)": r"goes with",
    "for want of": r"for want of",
    "nobody, somebody": r"(?<!user\s)nobody|somebody",
    "as without hugealign": r"(?<!fast\s)as without hugealign",
    "is none, is no X": r"(?<!there\s)(?:is|are|was|were) (?:none|no)(?! (?:more|longer|less|[a-z]{3,}er|worse)\b)",
    "besides, too (at a sentence's end)": r"(?:, too|besides)(?=[.;:)]|\Z)",
    "stands in the way": r"stands? in the way",
    "comes out": r"comes? out",
}
_ROWS = (f"(?P<r{n}>{pattern})" for n, pattern in enumerate(PATTERNS.values()) if pattern)
_ANY = re.compile(rf"\b(?:{'|'.join(_ROWS)})(?!\w)".replace(" ", r"[\s#]+"), re.IGNORECASE)  # also across lines
#: Written by commands, taken from other projects, or the table itself.
_OTHERS = re.compile(r"docs/measured/|tests/(?:fuzz/)?corpus/|tests/documents-|examples/.*\.patch|CONTRIBUTING\.md\Z")
_TABLE = re.compile(r"^\| instead of \| write \|\n\|[-| ]+\|\n((?:\|.*\n)+)", re.MULTILINE)
_CODE = re.compile(r"^ *```.*?^ *```|``[^`]*``|`[^`\n]*`|\"[^\"\n]*\"", re.MULTILINE | re.DOTALL)
_COMMENTS = {
    "#": (".sh", ".cmake", ".toml", ".yml", ".yaml", ".service", ""),
    "/": (".c", ".cc", ".cpp", ".h", ".ld"),
}
_PROSE = (".md", ".txt")
_PRODUCT = ("hugealign/", "lab/src/")  # whose strings are printed


def found(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the phrases in the prose *text*: the line, the words, and the row of the table."""
    text = _CODE.sub(lambda match: re.sub(r"[^\n]", "`", match[0]), text)
    for match in _ANY.finditer(text):
        if not match[0].endswith("None"):
            row = list(PATTERNS)[int(str(match.lastgroup)[1:])]
            yield text.count("\n", 0, match.start()) + 1, match[0], row


def prose(name: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield what a person reads in the file of that *name*, and the line where it begins."""
    suffix = Path(name).suffix
    if suffix in _PROSE:
        yield 1, text
    elif suffix == ".py":
        yield from _python(text, printed=name.startswith(_PRODUCT))
    for sign, suffixes in _COMMENTS.items():
        if suffix in suffixes:
            pattern = r"(?:^|\s)#[^\n]*" if sign == "#" else r"//[^\n]*|/\*.*?\*/"
            for match in re.finditer(pattern, text, re.DOTALL | re.MULTILINE):
                yield text.count("\n", 0, match.start()) + 1, match[0]


def _python(text: str, *, printed: bool) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of the module *text*, also those of fields, and its comments; all strings if *printed*."""
    tree = ast.parse(text)
    alone = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    for node in ast.walk(tree) if printed else alone:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def rows(contributing: str) -> list[str]:
    """Return what the table of CONTRIBUTING.md rules out, row by row."""
    match = _TABLE.search(contributing)
    return [line.split("|")[1].strip() for line in match[1].splitlines()] if match else []


def main() -> int:
    """Print each phrase, and return the exit status."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True, text=True)
    places = []
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if _OTHERS.search(name) or path.is_symlink() or not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for start, words in prose(name, text) if _ANY.search(text) else ():
            places += [
                f"{name}:{start + line - 1}: {phrase!r}: CONTRIBUTING.md says what to write instead of {row!r}"
                for line, phrase, row in found(words)
            ]
    table = rows((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    places += [f"CONTRIBUTING.md: {row}: not a row of packaging/phrases.py" for row in table if row not in PATTERNS]
    print(*places, sep="\n", end="\n" if places else "")
    return 1 if places else 0


if __name__ == "__main__":
    sys.exit(main())
