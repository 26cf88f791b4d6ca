"""``hugealign run -- COMMAND``: make a command's text huge, then be the command."""

import contextlib
import sys
from collections.abc import Mapping

from hugealign.cli.words import command_words
from hugealign.environment import as_given
from hugealign.errors import HugealignError
from hugealign.execution import execute
from hugealign.numbers import decimal
from hugealign.records import Record
from hugealign.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

USAGE = (
    "hugealign run [-h] [-v] [--how HOW] [--libs] [--fix] [--rodata] [--store DIR] [--wait SECONDS]\n"
    "                     [--] COMMAND [ARGUMENT ...]"
)
EPILOG = """\
COMMAND is found as the shell finds it. Its text is made huge, and then it takes
the place of this process, with pid, environment, signals, descriptors and name
as given. For a script the interpreter's text counts. Whatever goes wrong,
COMMAND runs. Where not all of its text is huge, one line on stderr says why.

--how=auto      in place, as `hugealign warm` does it; where this file system
                keeps no huge pages, by a copy that is mounted over the file
--how=in-place  only as `hugealign warm` does it
--how=stage     only by such a copy
--how=copy      by a copy in memory without a path: for containers that may not
                mount. /proc/PID/exe and $ORIGIN then lead nowhere

A staged copy lies on a tmpfs in a mount namespace that only COMMAND and its
children see. It has the file's path. Root uses the copies of `hugealign stage`
where there are any. An ordinary user gets a user namespace as well, in which
sudo and other set-user-ID programs do not work and files of others belong to
nobody; use --how=in-place for a command that needs them.

Where the loader of COMMAND is that of glibc 2.44 or newer, GLIBC_TUNABLES gets
glibc.elf.thp=1 as well, with which the text comes back huge after the kernel
took it away; a value of your own for it stays.

Example:

  hugealign run --libs -- postgres -D /var/lib/postgresql

exit status: COMMAND's own; 2 wrong usage; 126 COMMAND not executable;
127 COMMAND not found.
"""


_WAYS = ("auto", "in-place", "stage", "copy")
_FLAGS = {"-v": "verbose", "--verbose": "verbose", "--libs": "libs", "--fix": "fix", "--rodata": "rodata"}


class Asked(Record):
    """What argparse would make of the words."""

    words: list[str]
    store: str
    how: str = _WAYS[0]
    verbose: bool = False
    libs: bool = False
    fix: bool = False
    rodata: bool = False
    wait: int = 0


def quick(words: list[str]) -> Asked | None:
    """Return what is asked for, if it is plain; the rest is for argparse, whose import takes a fifth of a start."""
    from hugealign.stage import store

    found: dict[str, Any] = {"store": store.DEFAULT}
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        name, equals, value = words[at].partition("=")
        if words[at] in _FLAGS:
            found[_FLAGS[words[at]]] = True
        elif equals and name in ("--how", "--store"):
            found[name.removeprefix("--")] = value
        else:
            return None
        at += 1
    return Asked(words[at:], **found) if words[at:] and found.get("how", _WAYS[0]) in _WAYS else None


def configure(parser: "argparse.ArgumentParser") -> None:
    """Declare the options and the command."""
    import argparse

    from hugealign.stage import store

    add = parser.add_argument
    add("-v", "--verbose", action="store_true", help="say on stderr how much of each file is huge")
    add("--how", choices=_WAYS, default=_WAYS[0], help="the way there (default: auto)")
    add("--libs", action="store_true", help="the shared libraries, too")
    add("--fix", action="store_true", help="stage a fixed copy of a file that has no whole window; the file stays")
    add("--rodata", action="store_true", help="read-only data in whole windows, too")
    add("--store", metavar="DIR", default=store.DEFAULT, help=f"look for copies here (default: {store.DEFAULT})")
    add("--wait", metavar="SECONDS", type=seconds, default=0, help="what khugepaged gets to make it huge in place")
    add("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="the command and its arguments")


# argparse shows the name of this function when it raises ValueError.
def seconds(text: str) -> int:
    """Return the number in ``30``, at most those of a day; raises ValueError."""
    return decimal(text, 86400)


def run(args: "argparse.Namespace | Asked") -> int:
    """Make the command's text huge and become the command; return 126 or 127 if there is none."""
    words = command_words(args.words, "hugealign run -- python3 script.py")
    program, environ = _prepared(words[0], args)
    return execute(words, environ, program)


def _prepared(command: str, args: "argparse.Namespace | Asked") -> tuple[str, Mapping[bytes, bytes]]:
    """Make the text huge and say what is to be said.

    Return what to execute in place of the first word, and the environment for it.
    """
    lines: list[str] = []
    program = ""
    environ = as_given()
    try:
        from hugealign.stage import launch

        options = launch.LaunchOptions(args.how, args.libs, args.fix, args.store, args.wait, args.rodata)
        done = launch.prepare(command, options)
        program = done.program
        if done.tunable:
            from hugealign.stage import tunable

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
    except Exception as error:  # noqa: BLE001  # the command runs all the same
        lines.append(f"{printable(command)}: {type(error).__name__}: {printable(str(error))}")
    with contextlib.suppress(OSError):
        for line in lines:
            print(f"hugealign: {line}", file=sys.stderr, flush=True)
    return program, environ
