"""The command ``hugealign ps``: is the text of running processes on huge pages."""

import argparse
import json
import mmap
import sys
from collections.abc import Iterator

from hugealign.cli import messages
from hugealign.cli.arguments import SplitParser, add_format, interval, percentage, seconds
from hugealign.cli.output import painted, redrawn, write
from hugealign.errors import STATUSES, UsageError
from hugealign.io.units import parse_page_size
from hugealign.watch import looking
from hugealign.watch import ps_report as report
from hugealign.watch.looking import PsOptions, Seen

PARSER = SplitParser
USAGE = "hugealign ps [OPTION]... PID|NAME...\n       hugealign ps [OPTION]... -- CMD [ARG]..."
EPILOG = """\
With -- CMD, ps starts CMD, looks at it every 20 ms until it ends, and shows the
last look.  It looks only at CMD itself, not at the processes that CMD starts.
CMD's own output goes to standard output, too; -o FILE keeps the report apart.
"""
STATUS = {
    0: "all windows are huge, or as much text as --min-coverage asks for",
    1: "fewer are, or none can be",
    3: "a process could not be looked at",
    130: STATUSES[130],
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``ps`` to *parser*."""
    parser.add_argument("targets", nargs="*", metavar="PID|NAME", help="a process, or all processes that run a program")
    parser.add_argument("-v", "--verbose", action="store_true", help="show each window, and why it is not huge")
    parser.add_argument("--windows", action="store_true", help=argparse.SUPPRESS)  # until the next release
    parser.add_argument("--libs", action="store_true", help="show shared libraries as well")
    parser.add_argument("--all", action="store_true", help="show anonymous code (JIT, remapped text) as well")
    parser.add_argument("--rodata", action="store_true", help="show read-only data beside the text")
    parser.add_argument(
        "--min-coverage",
        metavar="PCT",
        type=percentage,
        help="require PCT per cent of the bytes, not all windows",
    )
    parser.add_argument("--page-size", metavar="SIZE", help="window size (default: the kernel's huge page)")
    times = parser.add_mutually_exclusive_group()
    times.add_argument(
        "--after", dest="delay", metavar="SECONDS", type=seconds, help="look at CMD once, after SECONDS, then end it"
    )
    times.add_argument(
        "--wait",
        metavar="SECONDS",
        type=seconds,
        help="retry for up to SECONDS until enough is huge; then end CMD",
    )
    times.add_argument(
        "--watch", metavar="SECONDS", type=interval, help="look again every SECONDS until all processes end"
    )
    add_format(parser.add_argument, f"json: schema {report.SCHEMA}; one line per look with --watch")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write to FILE, replaced as a whole each time (default: -)"
    )


def run(args: argparse.Namespace) -> int:
    """Look at the processes that *args* names, print the verdicts and return the exit status."""
    if bool(args.targets) == bool(args.after):
        raise UsageError("ps: give either processes or -- and a command")
    if args.delay is not None and not args.after:
        raise UsageError("ps: --after is for -- and a command")
    if args.output not in (None, "-") and args.watch is not None and args.format == "json":
        raise UsageError("ps: --watch in JSON is for a pipe; a FILE has one document")
    if args.windows:
        messages.warning("ps --windows is now spelled -v")
        args.verbose = True
    page_size = parse_page_size(args.page_size, "--page-size") if args.page_size else 0
    options = looking.PsOptions(args.libs, args.all, page_size, args.min_coverage, args.rodata)
    if args.watch is not None:
        if args.after:
            return _watch(looking.watch_command(args.after, args.watch, options), args, options)
        return _watch(looking.watch(args.targets, args.watch, options), args, options)
    if args.after:
        seen = looking.command(args.after, options, args.delay, args.wait)
    else:
        seen = looking.processes(args.targets, options, args.wait or 0.0)
    return _show(args, seen, options.window)


def _watch(looks: Iterator[Seen], args: argparse.Namespace, options: PsOptions) -> int:
    status, watching = 3, "first"
    for seen in looks:
        status = _show(args, seen, options.window, watching)
        watching = "again"
    return status


def _show(args: argparse.Namespace, seen: Seen, page_size: int, watching: str = "") -> int:
    """Print what was *seen* and return the exit status; *watching*: empty, ``first`` or ``again``."""
    if args.format == "json":
        document = report.document(seen.verdicts, seen.errors, page_size)
        write(json.dumps(document, indent=None if watching else 1) + "\n", args.output, utf8=True)
    elif seen.verdicts:
        text = "\n".join(report.text(seen.verdicts, page_size, args.verbose, mmap.PAGESIZE))
        if args.output not in (None, "-"):
            text = f"{text}\n"
        elif watching and sys.stdout.isatty():
            text = redrawn(painted(text).split("\n"))
        else:
            text = ("\n" if watching == "again" else "") + painted(text) + "\n"
        write(text, args.output)
    if args.format != "json":
        for _, message in seen.errors:
            messages.error(message)
    return (3 if seen.errors else 0) if seen.met else 1
