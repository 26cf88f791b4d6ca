"""The options of `hugealign run`, and what it does before it becomes the command, for itself and for `advise`."""

import contextlib
import sys
from collections.abc import Mapping, Sequence

from hugealign.environment import as_given
from hugealign.errors import HugealignError, UsageError
from hugealign.io.numbers import decimal
from hugealign.io.units import printable
from hugealign.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

_WAYS = ("auto", "in-place", "stage", "copy")
_FLAGS = {"-v": "verbose", "--verbose": "verbose", "--libs": "libs", "--fix": "fix", "--rodata": "rodata"}


class Asked(Record):
    """The arguments, with the names that argparse would use."""

    words: list[str]
    store: str
    how: str = _WAYS[0]
    verbose: bool = False
    libs: bool = False
    fix: bool = False
    rodata: bool = False
    wait: int = 0
    file: Sequence[str] = ()


def command_words(words: list[str], example: str) -> list[str]:
    """Return the command in *words*, after an optional ``--``.  Raises UsageError with the *example* if it is empty."""
    words = words[1:] if words[:1] == ["--"] else words
    if not words:
        raise UsageError(f"{example.split()[1]}: no command; example: {example}")
    return words


def quick(words: list[str]) -> Asked | None:
    """Return the arguments if they are simple; leave the rest to argparse, whose import takes a fifth of a start."""
    from hugealign.run import store

    found: dict[str, Any] = {"store": store.DEFAULT, "file": []}
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        name, equals, value = words[at].partition("=")
        if words[at] in _FLAGS:
            found[_FLAGS[words[at]]] = True
        elif equals and name in ("--how", "--store"):
            found[name.removeprefix("--")] = value
        elif words[at] == "--file" and at + 1 < len(words):
            at += 1
            found["file"].append(words[at])
        else:
            return None
        at += 1
    return Asked(words[at:], **found) if words[at:] and found.get("how", _WAYS[0]) in _WAYS else None


def configure(parser: "argparse.ArgumentParser") -> None:
    """Declare the options and the command."""
    import argparse

    from hugealign.run import store

    add = parser.add_argument
    add("-v", "--verbose", action="store_true", help="say on stderr how much of each file is huge")
    add("--how", choices=_WAYS, default=_WAYS[0], help="how to make it huge (default: auto)")
    add("--libs", action="store_true", help="also the shared libraries that it is linked with")
    add(
        "--file",
        metavar="PATH",
        action="append",
        default=[],
        help="also this program or library, which COMMAND starts or opens later; may be repeated",
    )
    add(
        "--fix",
        action="store_true",
        help="stage a fixed copy of a file that a fix gives more windows; the file stays as it is",
    )
    add("--rodata", action="store_true", help="also whole windows of read-only data")
    add("--store", metavar="DIR", default=store.DEFAULT, help=f"look for copies here (default: {store.DEFAULT})")
    add(
        "--wait",
        metavar="SECONDS",
        type=seconds,
        default=0,
        help="wait up to SECONDS for khugepaged to make it huge in place",
    )
    add("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="the command and its arguments")


# argparse shows the name of this function when it raises ValueError.
def seconds(text: str) -> int:
    """Return the number in ``30``, at most the seconds of a day; raises ValueError."""
    return decimal(text, 86400)


def prepared(command: str, args: "argparse.Namespace | Asked") -> tuple[str, Mapping[bytes, bytes]]:
    """Make the text of *command* huge as *args* say, and print the messages.

    Return the path to execute instead of the first word, and the environment for it.
    """
    lines: list[str] = []
    program = ""
    environ = as_given()
    try:
        from hugealign.run import launch

        options = launch.LaunchOptions(args.how, args.libs, args.fix, args.store, args.wait, args.rodata, args.file)
        done = launch.prepare(command, options)
        program = done.program
        if done.tunable:
            from hugealign.run import tunable

            environ = tunable.added(environ)
        if args.verbose:
            lines += [f"{t.line} ({t.how}){t.problem and f': {t.problem}'}" for t in done.texts]
        line = launch.worth_saying(done)
        if line and not (args.verbose and any(t.problem for t in done.texts)):
            lines.append(line)
    except HugealignError as error:
        lines.append(f"{printable(command)}: {error}")
    except OSError as error:
        lines.append(f"{printable(command)}: its text is as it was: {error.strerror}")
    except Exception as error:  # noqa: BLE001  # the command runs anyway
        lines.append(f"{printable(command)}: {type(error).__name__}: {printable(str(error))}")
    with contextlib.suppress(OSError):
        for line in lines:
            print(f"hugealign: {line}", file=sys.stderr, flush=True)
    return program, environ
