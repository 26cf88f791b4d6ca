"""The command ``hugealign ps``: is the text of running processes on huge pages."""

import argparse
import mmap
import sys

from hugealign.cli import messages
from hugealign.cli.arguments import TARGET, SplitParser, add_json, columns, interval, percentage, seconds
from hugealign.cli.output import painted, plain, redrawn, write
from hugealign.diagnosis import documents
from hugealign.errors import STATUSES, UsageError
from hugealign.io.units import counted, printable
from hugealign.process import naming
from hugealign.system import kernel
from hugealign.watch import ps
from hugealign.watch import ps_report as report
from hugealign.watch.ps import Seen

_MOST = 8  # PIDs in a line

PARSER = SplitParser
USAGE = "hugealign ps [OPTION]... PID|NAME|UNIT...\n       hugealign ps [OPTION]... -- CMD [ARG]..."
EPILOG = """\
A UNIT is a service as `hugealign enable` takes it, with or without .service: all
of its processes, but for helpers with less text than a window.  A running service
comes before programs of its name; name these by PID.

With -- CMD, ps starts CMD, samples it every 20 ms and, when CMD ends, shows the
last sample.  It does not show processes that CMD starts.  CMD also writes to
standard output; use -o FILE to keep the report apart.
"""
STATUS = {
    0: "all windows are huge, or as much text as --min-coverage requires",
    1: "fewer are huge, or none can be",
    3: "a process could not be read",
    130: STATUSES[130],
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``ps`` to *parser*."""
    add = parser.add_argument
    add("targets", nargs="*", metavar=TARGET, help="a process, or all processes of a program or of a service")
    add(
        "-v",
        "--verbose",
        action="store_true",
        help="show each window, why it is not huge, and small libraries",
    )
    add("--all", action="store_true", help="also count libraries and code without a file (JIT, remapped text)")
    add(
        "--min-coverage",
        metavar="PCT",
        type=percentage,
        help="require that PCT per cent of the text is huge (default: every window)",
    )
    times = parser.add_mutually_exclusive_group()
    times.add_argument(
        "--wait", metavar="SECONDS", type=seconds, help="wait up to SECONDS until enough is huge, and then end CMD"
    )
    times.add_argument("--watch", metavar="SECONDS", type=interval, help="repeat every SECONDS until the processes end")
    add_json(add, f"schema {report.Report.SCHEMA}; with --watch one line per report")
    add(
        "-o",
        "--output",
        metavar="FILE",
        help="write the report to FILE (default: stdout); with --watch, replace it each time",
    )


def run(args: argparse.Namespace) -> int:
    """Look at the processes that *args* names, print the verdicts and return the exit status."""
    if bool(args.targets) == bool(args.after):
        raise UsageError("ps: give either processes or -- and a command")
    if args.output not in (None, "-") and args.watch is not None and args.json:
        raise UsageError("ps: --watch --json writes many documents; write to a pipe, not to a FILE")
    options = ps.PsOptions(args.all, args.min_coverage)
    if args.watch is None:
        if args.after:
            return _show(args, ps.command(args.after, options, args.wait))
        status = _show(args, ps.processes(args.targets, options, args.wait or 0.0))
        for target in () if args.json else args.targets:
            _name_others(target)
        return status
    status, watching = 3, "first"
    words, watch = (args.after, ps.watch_command) if args.after else (args.targets, ps.watch)
    for seen in watch(words, args.watch, options):
        status = _show(args, seen, watching)
        watching = "again"
    return status


def _name_others(target: str) -> None:
    """Name the processes that have the name of the service *target* and are not part of it."""
    if others := naming.outside(target):
        these = " ".join(map(str, others[:_MOST])) + " ..." * (len(others) > _MOST)
        what = f"{counted(len(others), 'process', 'processes')} of this name outside the service"
        print(f"hugealign: ps: {printable(target)}: {what}; for these: hugealign ps {these}", file=sys.stderr)


def _show(args: argparse.Namespace, seen: Seen, watching: str = "") -> int:
    """Print what was *seen* and return the exit status; *watching*: empty, ``first`` or ``again``."""
    page_size = kernel.huge_page_size()
    if args.json:
        made = report.Report(page_size, seen.verdicts, seen.little, documents.failed(seen.errors))
        write(documents.text(made, line=bool(watching)), args.output, utf8=True)
    elif seen.verdicts:
        to_terminal = args.output in (None, "-") and sys.stdout.isatty()
        width = columns() if to_terminal else 0
        text = "\n".join(report.text(seen.verdicts, args.verbose, mmap.PAGESIZE, width=width, little=seen.little))
        if args.output not in (None, "-"):
            text = f"{plain(text)}\n"
        elif watching and sys.stdout.isatty():
            text = redrawn(painted(text).split("\n"))
        else:
            text = ("\n" if watching == "again" else "") + painted(text) + "\n"
        write(text, args.output)
    if not args.json:
        for _, error in seen.errors:
            messages.error(error)
    return (3 if seen.errors else 0) if seen.met else 1
