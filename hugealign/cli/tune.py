"""The command ``hugealign tune``: record, order, build again, measure, and keep what is faster."""

import argparse

from hugealign.cli import output
from hugealign.cli.arguments import SplitParser, add_json, add_output
from hugealign.cli.measure import add_measuring, measuring
from hugealign.diagnosis import documents
from hugealign.errors import STATUSES, UsageError
from hugealign.io.progress import Progress
from hugealign.io.units import printable
from hugealign.measuring import report
from hugealign.measuring.measure import Measurement
from hugealign.measuring.tune import PLAIN, TuneOptions, tune

PARSER = SplitParser
USAGE = "hugealign tune --build BUILD [OPTION]... -- CMD [ARG]..."
EPILOG = """\
CMD is a benchmark of the program that BUILD makes, and ends by itself. tune builds
the program plainly and for huge pages, records CMD with perf, computes an order,
builds in that order, and measures the three builds as hugealign measure does. The
one that takes the least processor time for certain becomes the program.

BUILD is a command for the shell. It must put hugealign in front of the compiler and
compile everything again. The builds, the profile and the order are kept in --place;
tune goes on from there if it is called again.

examples:
  hugealign tune --build 'make clean all CC="hugealign gcc"' -- ./server --benchmark
"""
STATUS = {
    0: "a build is faster, and is kept",
    1: "none is shown to be faster than the plain one, which is kept",
    3: "a step failed",
    126: STATUSES[126],
    127: STATUSES[127],
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``tune`` to *parser*."""
    add = parser.add_argument
    add("--build", metavar="BUILD", required=True, help="the shell command that builds the program")
    add("--place", metavar="DIR", default="hugealign-tune", help="keep the builds in DIR (default: %(default)s)")
    add_measuring(add)
    add_json(add, f"schema {Measurement.SCHEMA}")
    add_output(add)


def run(args: argparse.Namespace) -> int:
    """Tune the program of the command in *args*, print the result and return the exit status."""
    if not args.after:
        raise UsageError("tune: no command; example: hugealign tune --build 'make clean all' -- ./server --benchmark")
    options = TuneOptions(args.build, args.place, measuring(args, "tune"))
    with Progress("hugealign: tune", patience=0.0) as progress:
        tuned = tune(args.after, options, progress.say)
    if args.json:
        output.write(documents.text(tuned.measurement), args.output, utf8=True)
    else:
        lines = [*report.lines(tuned.measurement), f"kept: the {tuned.kept} build; order: {printable(tuned.order)}"]
        output.write_report("".join(f"{line}\n" for line in lines), args.output)
    return 1 if tuned.kept == PLAIN else 0
