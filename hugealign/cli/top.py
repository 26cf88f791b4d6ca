"""The command ``hugealign top``: rank the running programs by what they would gain from huge pages."""

import argparse
import sys
from contextlib import suppress

from hugealign.cli.arguments import add_form, add_json, columns, interval
from hugealign.cli.output import painted, plain, redrawn, write
from hugealign.diagnosis import documents
from hugealign.errors import STATUSES, HugealignError, UsageError
from hugealign.machine import state
from hugealign.machine.state import State
from hugealign.watch import top_report as report
from hugealign.watch.top import Machine, TopOptions, top, watch

EPILOG = """\
Each row is a program with all of its processes: its text, its large libraries
and its code without a file; -v shows each of these.  Below it is what to do, or
why nothing is.  Pages of a file that processes share count once; in JSON and in
metrics, which have a row for each part, once for each process.

  HUGE   windows that are huge now
  CAN    windows that can be huge with the file as it is
  COULD  windows that can be huge after what is below the row
  SAVES  the share of the processor time that this saves, by what page faults and
         misses cost here; once hugealign doctor has measured that, programs are
         in the order of it
  CPU%   processor time in per cent of one processor, since the last table; in
         the first table, since the process started

On a terminal top redraws the table: every --watch SECONDS, else as often as 1 %
of one processor allows. Elsewhere it prints the table once, or with --watch one
table after another. hugealign ps -v PID shows a process in detail.

examples:
  hugealign top                                        ^C ends it
  hugealign top --seconds 5                            CPU% of these 5 seconds
  hugealign top --watch 60 >>/var/log/hugealign.log    a log, with the time of each table
  hugealign top --format prometheus -o /var/lib/prometheus/node-exporter/hugealign.prom
"""
STATUS = {
    0: "done",
    130: STATUSES[130],
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``top`` to *parser*."""
    add = parser.add_argument
    times = parser.add_mutually_exclusive_group()
    times.add_argument("--once", action="store_true", help="print the table once, even on a terminal")
    times.add_argument("--watch", metavar="SECONDS", type=interval, help="repeat every SECONDS")
    times.add_argument(
        "--seconds", metavar="SECONDS", type=interval, help="measure CPU%% for SECONDS, then print the table once"
    )
    add(
        "-v",
        "--verbose",
        action="store_true",
        help="show each part of a program: its text, libraries, code without a file",
    )
    add("--containers", action="store_true", help="show containers and pods in rows of their own")
    form = parser.add_mutually_exclusive_group()
    add_json(form.add_argument, f"schema {Machine.SCHEMA}; with --watch one line per table")
    what = "format of the table (default: text); json: --json; prometheus: for the textfile collector of node_exporter"
    add_form(form.add_argument, ("text", "prometheus"), what)
    add(
        "-o",
        "--output",
        metavar="FILE",
        help="write the table to FILE (default: stdout); with --watch, replace it each time",
    )


def run(args: argparse.Namespace) -> int:
    """Look at all processes, print their text and return the exit status."""
    options = TopOptions(args.seconds, args.containers)
    to_file = args.output not in (None, "-")
    if to_file and args.watch and args.json:
        raise UsageError("top: --watch --json writes many documents; write to a pipe, not to a FILE")
    as_text = not args.json and args.format == "text"
    draw = not (to_file or args.once or args.seconds) and as_text and sys.stdout.isatty()
    if not (draw or args.watch):
        _show(args, top(options), watching=False)
        return 0
    for number, machine in enumerate(watch(options, args.watch)):
        if draw:
            _draw(machine, args.verbose)
        else:
            if number and as_text and not to_file:
                print()
            _show(args, machine, watching=True)
    return 0


def _show(args: argparse.Namespace, machine: Machine, *, watching: bool) -> None:
    if args.json:
        text = documents.text(machine, line=watching)
    elif args.format == "prometheus":
        text = report.metrics(machine, _whole())
    else:
        to_terminal = args.output in (None, "-") and sys.stdout.isatty()
        width = columns() if to_terminal else 0
        text = "\n".join(report.table(machine, width=width, verbose=args.verbose)) + "\n"
        text = painted(text) if args.output in (None, "-") else plain(text)
    sys.stdout.flush()
    write(text, args.output, utf8=args.json or args.format != "text")


def _whole() -> State | None:
    """Return what `hugealign enable --all` made huge; None without it, or if it cannot be read, as `status` reports."""
    with suppress(HugealignError):
        return state.read()
    return None


def _draw(machine: Machine, verbose: bool) -> None:
    import shutil  # it imports the compressors, which nothing here needs

    size = shutil.get_terminal_size()
    lines = report.table(machine, width=size.columns, height=size.lines - 1, verbose=verbose)
    # DECAWM off: names with wide characters take more columns than they have characters, and lines that wrap would
    # scroll the first rows away.
    drawn = redrawn(painted("\n".join(lines)).split("\n"))
    print(f"\x1b[?7l{drawn}\x1b[?7h", end="", flush=True)
