"""The command ``hugealign adapt``: make the hottest windows of a running process huge, within a budget."""

import argparse
from collections.abc import Sequence

from hugealign.cli import messages, output
from hugealign.cli.arguments import TARGET, add_json, count, interval
from hugealign.diagnosis import documents
from hugealign.errors import STATUSES, UsageError
from hugealign.io.progress import Progress
from hugealign.io.units import printable
from hugealign.watch import adapt_report as report
from hugealign.watch.adapt import SECONDS, Adapted, AdaptOptions, adapt, keep_adapting, undo

EPILOG = """\
adapt samples which code the processes run. Then the kernel collapses the hottest
windows of that code into huge pages: JIT code, staged copies, and files on file
systems that allow it. Windows that are already huge count towards N. If fewer
than N are huge, code without a file becomes huge even if no sample hit it. If
more than N are, adapt splits the coldest where possible. With --watch it
repeats this as the load changes, and finds a target again after a restart.

N=auto is what the processor can hold: its TLB entries for 2 MiB pages of
instructions, less one. More huge windows than entries can make code slower.
adapt needs Linux 6.1 and root (CAP_SYS_NICE, CAP_SYS_PTRACE).

examples:
  hugealign adapt java                             once, as many windows as the processor holds
  hugealign adapt --watch 60 php8.2-fpm.service    every minute, until ^C
  hugealign adapt --undo java
"""
STATUS = {
    0: "done",
    1: "the kernel refused some of the windows",
    3: "no process could be sampled or changed",
    130: STATUSES[130],
}


# argparse shows the name of this function when it raises ValueError.
def windows(text: str) -> int | None:
    """Return the number in ``8``, None for ``auto``; raises ValueError."""
    return None if text == "auto" else count(text)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``adapt`` to *parser*."""
    add = parser.add_argument
    add("targets", nargs="+", metavar=TARGET, help="a process, or all processes of a program or of a service")
    add("--windows", metavar="N", type=windows, help="make at most N windows of each process huge (default: auto)")
    add(
        "--seconds", metavar="SECONDS", type=interval, default=SECONDS, help="sample for SECONDS (default: %(default)s)"
    )
    add("--watch", metavar="SECONDS", type=interval, help="repeat every SECONDS")
    add("--undo", action="store_true", help="split the huge windows of code without a file again")
    add("-v", "--verbose", action="store_true", help="list the windows that are hot or huge")
    add_json(add, f"schema {report.Report.SCHEMA}; one line per round with --watch")


def run(args: argparse.Namespace) -> int:
    """Adapt the processes that *args* names, print the outcome and return the exit status."""
    if args.undo and (args.watch is not None or args.windows is not None):
        raise UsageError("adapt: --undo cannot be combined with --watch or --windows")
    if args.undo:
        return _show(args, undo(args.targets))
    options = AdaptOptions(args.windows, args.seconds)
    if args.watch is None:
        with Progress("hugealign: adapt") as progress:
            progress.at_once(f"sampling for {args.seconds:g} s")
            done = adapt(args.targets, options)
        return _show(args, done)
    waiting = False
    for done in keep_adapting(args.targets, args.watch, options):
        if done:
            _show(args, done, line=True)
        elif not waiting:
            names = ", ".join(map(printable, args.targets))
            messages.warning(f"adapt: no process is named {names} now; retrying every {args.watch:g} s")
        waiting = not done
    return 0


def _show(args: argparse.Namespace, done: Sequence[Adapted], *, line: bool = False) -> int:
    if args.json:
        failed = documents.failed((str(process.pid), process.error) for process in done if process.error)
        made = report.Report([process for process in done if not process.error], failed)
        print(documents.text(made, line=line), end="", flush=True)
    for process in () if args.json else done:
        if process.error:
            messages.error(process.error)
        else:
            output.show(report.lines(process, verbose=args.verbose))
    if all(process.error for process in done):
        return 3
    return 0 if all(process.met for process in done) else 1
