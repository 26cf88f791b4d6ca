"""The catalogue: a file in ``explain/`` for each code of a diagnosis, a sentence for each kind of remedy.

The first line of a file has the severity and the title, the second the sentence.  A line ``source:`` may say what the
code rests on in the kernel or the loader, and a line ``fix:`` what helps where a diagnosis names no remedy of its own:
a kind of REMEDIES, or a sentence.  After an empty line follows the page for `hugealign explain`.

In a sentence, ``{name}`` is a fact, ``{name:size}`` a number of bytes, ``{name:hex}`` an address, ``{name:errno}`` what
the system says to an error of that name, and ``{name:noun}`` a number of things.  A part in brackets is left out unless
all its facts are there, and neither 0 nor empty.
"""

import functools
import os

from hugealign.records import Record

_DIRECTORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "explain")
_WIDTH = 80

ERROR, WARNING, NOTE = SEVERITIES = ("error", "warning", "note")
#: The area of the rules of `hugealign verify`.
RULES = "HA"


class Row(Record):
    """What the catalogue holds for a code.

    *severity* is ERROR, WARNING, or NOTE if nothing is to be done about it.  *source* and *fix*, a kind of REMEDIES or
    a sentence, may be empty.
    """

    severity: str
    title: str
    sentence: str
    source: str
    fix: str
    page: str


_RELINK = 'relink with CC="hugealign gcc" (or hugealign clang, …)'
_RELINK_GO = "build it with CC=hugealign-gcc and -ldflags=-linkmode=external"
_FIX = "{command} ({effect})"
#: The sentence for each kind of remedy: ``{command}`` is its command, ``{effect}`` its windows before and after, and
#: other names are facts of the diagnosis.
REMEDIES = {
    "adapt-or-option": "run: {command}, or start it with {option}",
    "allow-huge-pages": "start it from a process that does not disable huge pages",
    "allow-more": "--max-unpacked=SIZE allows more",
    "as-root": "run the command as root",
    "compile-pic": "compile with -fPIC",
    "copy-elsewhere": "copy it to another file system",
    "create-anew": "create the container anew",
    "exec-form": "start directly what the shell starts, in an image by CMD's exec form, or find it with: {command}",
    "fewer-windows": "request fewer with --windows",
    "find-holder": "look for the process as root[, or replace the file: {command}]",
    "fix": _FIX,
    "fix-or-relink": f"{_FIX}; or {_RELINK}",
    "fix-or-relink-go": f"{_FIX}; or {_RELINK_GO}",
    "fix-program": "fix the program; --debug-file-of moves its debug file",
    "frequency": "use --frequency {most}",
    "install-compiler": "install one; Debian: apt install gcc libc6-dev",
    "install-perf": "install it; Debian: apt install linux-perf",
    "install-zstd": "install zstd; Debian: apt install zstd",
    "level": "use --level={higher}",
    "link": "link it first",
    "look": "see: {command}",
    "make-again": "fix the program that it was made from, then make it again",
    "more-executable": "--max-executable={data} lets {data:size} of data become executable",
    "name-files": "to find these: {command}",
    "name-program": "start it first, or name what it runs: --file FILE",
    "newer-kernel": "use Linux 6.1 or newer",
    "none": "",
    "none-known": "no command is known that makes more of it huge",
    "now": "now: {command}",
    "one-name": "for this name alone: {command}",
    "original-debug-file": "pass the debug file of the original program",
    "other-file": "write another file: {command}",
    "other-linker": "relink with -fuse-ld=bfd",
    "patch-again": "if patchelf did that, patch the original with --page-size {page_size}",
    "prepare": "run: {command}; then try again",
    "process": "for the process with that number: {command}",
    "raise-limit": "raise the limit, then try again",
    "recurse": "check its contents with -r",
    "relink": _RELINK,
    "relink-go": _RELINK_GO,
    "relink-sections": f"{_RELINK}, and remove section headers only afterwards (llvm-objcopy --strip-sections)",
    "remove-runtime": "remove the runtime {runtime} from it, then restart containerd",
    "restart": "restart it",
    "retry": "try again",
    "run": "run: {command}[ ({effect})]",
    "run-anew": "run: {command}; then create the container anew",
    "set-option": "start it with {option}",
    "start": "start it with: {command}[ ({effect})]",
    "start-inside": "in its container, start it with: {command}[ ({effect})]",
    "stop": "stop it and try again[, or replace the file: {command}]",
    "sync": "run: sync",
    "undo": "undo: {command}",
    "unpack": "unpack it first",
    "unset": "run: unset {name}",
    "wait": "wait until it closes the file, then try again",
}


def codes() -> list[str]:
    """Return all codes, by area."""
    return sorted(name.removesuffix(".txt") for name in os.listdir(_DIRECTORY))


def area(code: str) -> str:
    """Return the area of *code*: RULES, or the part before its dot."""
    before, dot, _ = code.partition(".")
    return before if dot else RULES


def rules() -> list[str]:
    """Return the codes of the rules of `hugealign verify`."""
    return [code for code in codes() if area(code) == RULES]


@functools.cache
def row(code: str) -> Row:
    """Return the row of *code*, one of `codes`."""
    with open(os.path.join(_DIRECTORY, f"{code}.txt"), encoding="utf-8") as file:
        head, _, page = file.read().partition("\n\n")
    first, sentence, *more = head.rstrip("\n").split("\n")
    severity, title = first.split(": ", 1)
    fields = dict(line.split(": ", 1) for line in more)
    return Row(severity, title, sentence, fields.get("source", ""), fields.get("fix", ""), page.rstrip("\n"))


def advice(code: str) -> str:
    """Return what helps where a diagnosis with *code* names no remedy of its own; empty if nothing does."""
    fix = row(code).fix
    return REMEDIES.get(fix, fix)


def page(code: str) -> str:
    """Return the page of *code*, no line wider than 80 columns, without a newline at its end."""
    import textwrap

    entry = row(code)
    parts = [textwrap.fill(f"{code} ({entry.severity}): {entry.title}", _WIDTH, break_on_hyphens=False), entry.page]
    if entry.source:
        parts.append(textwrap.fill(f"Rests on: {entry.source}.", _WIDTH, break_on_hyphens=False))
    return "\n\n".join(part for part in parts if part)
