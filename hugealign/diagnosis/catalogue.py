"""The catalogue: a file in ``explain/`` for each code of a diagnosis, a sentence for each kind of remedy.

The first line of a file has the severity and the title, the second the sentence; the page for `hugealign explain`
follows.  In a sentence, ``{name}`` is a fact, ``{name:size}`` a number of bytes and ``{name:noun}`` a number of
things.  A part in brackets is left out unless all its facts are there, and neither 0 nor empty.
"""

import functools
import os
import textwrap

from hugealign.records import Record

_DIRECTORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "explain")
_WIDTH = 80


class Row(Record):
    """What the catalogue holds for a code; *severity* is ``error``, or ``note`` if nothing is to be done about it."""

    severity: str
    title: str
    sentence: str
    page: str


#: The sentence for each kind of remedy: ``{command}`` is its command, ``{effect}`` its windows before and after, and
#: other names are facts of the diagnosis.
REMEDIES = {
    "compile-pic": "compile with -fPIC",
    "copy-elsewhere": "copy it to another file system",
    "find-holder": "look for the process as root[, or replace the file: {command}]",
    "fix": "{command} ({effect})",
    "fix-program": "fix the program; the debug file fits it as it is",
    "install-decoder": "install capstone: {command}, or Debian: apt install python3-capstone",
    "level": "--level={higher} can",
    "look": "see: {command}",
    "newer-kernel": "Linux 6.1 can",
    "original-debug-file": "give the debug file of the original program",
    "other-file": "write another file: {command}",
    "patch-again": "if patchelf did that, patch the original with --page-size {page_size}",
    "prepare": "run: {command}; then try again",
    "raise-limit": "raise the limit, then try again",
    "relink": 'relink with CC="hugealign gcc" (or hugealign clang, …)',
    "retry": "try again",
    "run": "run: {command}[ ({effect})]",
    "stop": "stop it and try again[, or replace the file: {command}]",
    "wait": "wait until it closes the file, then try again",
}


def codes() -> list[str]:
    """Return all codes, by area."""
    return sorted(name.removesuffix(".txt") for name in os.listdir(_DIRECTORY))


@functools.cache
def row(code: str) -> Row:
    """Return the row of *code*, one of `codes`."""
    with open(os.path.join(_DIRECTORY, f"{code}.txt"), encoding="utf-8") as file:
        head, sentence, *body = file.read().rstrip("\n").split("\n")
    severity, title = head.split(": ", 1)
    return Row(severity, title, sentence, "\n".join(body).lstrip("\n"))


def page(code: str) -> str:
    """Return the page of *code*, no line wider than 80 columns, without a newline at its end."""
    found = row(code)
    head = textwrap.fill(f"{code} ({found.severity}): {found.title}", _WIDTH, break_on_hyphens=False)
    return f"{head}\n\n{found.page}".rstrip("\n")
