"""``hugealign run -- COMMAND``: warm a command's text, then be the command."""

import argparse
import contextlib
import os
import sys

from hugealign.environment import as_given
from hugealign.errors import HugealignError, UsageError
from hugealign.execution import execute
from hugealign.units import printable

_EPILOG = """\
COMMAND is found as the shell finds it, warmed as by `hugealign warm`, and then
takes the place of this process, with environment, signals and name as given.
For a script the interpreter is warmed.  COMMAND runs whether or not that works,
and nothing is printed unless -v is given.  Example:

  hugealign run --libs -- postgres -D /var/lib/postgresql

exit status: COMMAND's own; 2 wrong usage; 126 COMMAND not executable;
127 COMMAND not found.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options and the command."""
    parser.usage = "hugealign run [-h] [-v] [--libs] [--] COMMAND [ARGUMENT ...]"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("-v", "--verbose", action="store_true", help="say on stderr what was warmed")
    parser.add_argument("--libs", action="store_true", help="warm the shared libraries, too")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="the command and its arguments")


def run(args: argparse.Namespace) -> int:
    """Warm the command in a process of its own and become the command; return 126 or 127 if there is none."""
    words = args.words[1:] if args.words[:1] == ["--"] else args.words
    if not words:
        raise UsageError("run: no command; example: hugealign run -- python3 script.py")
    # In a child: whatever becomes of it, and whatever it changes of itself (prctl), the command is not touched.
    sys.stdout.flush()
    child = -1
    with contextlib.suppress(OSError):
        child = os.fork()
    if child == 0:
        _warm_and_exit(words[0], args)
    if child > 0:
        os.waitpid(child, 0)
    return execute(words, as_given())


def _warm_and_exit(command: str, args: argparse.Namespace) -> None:
    lines: list[str] = []
    try:
        lines = _warm(command, args.libs)
        if args.verbose:
            print("\n".join(lines), file=sys.stderr, flush=True)
    except BaseException as error:  # noqa: BLE001  # the command runs all the same
        if args.verbose:
            with contextlib.suppress(OSError):
                print(f"hugealign: {printable(command)}: {printable(str(error))}", file=sys.stderr, flush=True)
    finally:
        os._exit(0)


def _warm(command: str, libraries: bool) -> list[str]:
    """Return a line for each file that has windows, or cannot be looked at."""
    from hugealign.pagecache import report
    from hugealign.pagecache.launch import warm_command

    return [
        f"hugealign: {printable(path)}: {done}"
        if isinstance(done, HugealignError)
        else f"hugealign: {report.lines(done)[0]}"
        for path, done in warm_command(command, libraries)
    ]
