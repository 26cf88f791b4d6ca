"""``hugealign trace -- COMMAND``: record which code a command runs."""

import argparse
import shutil
import sys

from hugealign.cli import output
from hugealign.cli.launching import command_words
from hugealign.errors import UsageError
from hugealign.io.units import format_size, parse_size, printable

_LEAST = 1 << 16  # bytes; a chunk and more

USAGE = "hugealign trace [-h] [-v] [-o FILE] [--limit SIZE] [--] COMMAND [ARGUMENT ...]"
EPILOG = """\
COMMAND runs under QEMU's user-mode emulation, 15 to 25 times slower.  It needs
no symbols and no special build, and may be for x86-64 or aarch64.  QEMU must
support plugins: Debian 12's does, others need --enable-plugins when configured.
trace records threads and forked processes.  It does not record a program that
one of them executes (exec), and says so.  The file grows by about a quarter of a
byte per block of code that runs.  Example:

  hugealign trace -o lua.trace -- lua bench.lua
  hugealign simulate lua.trace
"""
STATUS = {
    -1: "the command's own; 128 and the number of the signal that ended it",
    0: "",
    3: "the command could not be recorded",
    126: "the command is not executable, or cannot be traced",
    127: "the command was not found",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options and the command."""
    parser.add_argument(
        "-o",
        "--output",
        default="hugealign.trace",
        metavar="FILE",
        help="write the trace to FILE (default: hugealign.trace)",
    )
    parser.add_argument("--limit", default="1G", metavar="SIZE", help="stop recording at this size (default: 1G)")
    parser.add_argument("-v", "--verbose", action="store_true", help="print on stderr what was recorded")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="the command and its arguments")


def run(args: argparse.Namespace) -> int:
    """Record, say what is missing from the trace, and return the command's status."""
    words = command_words(args.words, "hugealign trace -o lua.trace -- lua bench.lua")
    if args.output == "-":
        raise UsageError("trace: standard output is COMMAND's; give -o a file")
    output.keep_apart({"-o": args.output}, [shutil.which(words[0])])
    limit = parse_size(args.limit, "--limit")
    if limit < _LEAST:
        raise UsageError(f"--limit: less than {format_size(_LEAST)}")

    from hugealign_lab.record import record

    done = record(words, args.output, limit)
    description, name = done.description, printable(args.output)
    events = f"{description.events:,} blocks"
    if description.cut:
        print(f"hugealign: {name}: cut at {events}: {description.cut}", file=sys.stderr)
    if description.execs:
        times = "once" if description.execs == 1 else f"{description.execs} times"
        print(
            f"hugealign: {name}: {times}, a process executed another program, which was not recorded; "
            "trace that program itself",
            file=sys.stderr,
        )
    if description.lost:
        print(f"hugealign: {name}: {description.lost} threads were not recorded: out of room", file=sys.stderr)
    if args.verbose:
        print(f"hugealign: {name}: {events}, {format_size(done.size)}", file=sys.stderr)
    return done.status
