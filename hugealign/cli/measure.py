"""The command ``hugealign measure``: measure what huge pages, or another build, save of a command's time."""

import argparse
import shlex
import shutil
from dataclasses import replace

from hugealign.cli import launching, output
from hugealign.cli.arguments import SplitParser, add_json, count, interval, percentage
from hugealign.diagnosis import documents
from hugealign.errors import STATUSES, UsageError
from hugealign.io.progress import Progress
from hugealign.measuring import report
from hugealign.measuring.measure import COPIES, SECONDS, WITHIN, Measurement, MeasureOptions, measure
from hugealign.run.launch import LaunchOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PARSER = SplitParser
USAGE = "hugealign measure [OPTION]... -- CMD [ARG]..."
EPILOG = """\
measure runs CMD by turns, in random order, from copies of the same bytes on small
and on huge pages, several copies of each, since identical copies of a file can
differ in speed by some per cent. The copies lie over the files in namespaces of
their own, and are gone with measure. Where no mounts are allowed, it makes the
files themselves huge and small by turns in the page cache.

The first line is the ratio of the processor time with its 95 % interval. CMD has
no input and no terminal, its output is discarded, and its files are written as
many times as it runs. It must succeed; short runs are measured many at a time.

With --load, CMD is a server: measure starts it, waits until LOAD succeeds, runs
LOAD, counts what the server spends meanwhile, and ends it by SIGTERM.

An interrupt ends the measurement, and shows what is known after two rounds.

examples:
  hugealign measure --fix -- git --version
  hugealign measure --fix --libs --file /usr/lib/gcc -- make -C project
  hugealign measure --vs ./server-ordered -- ./server --benchmark
  hugealign measure --fix --load 'redis-benchmark -q' -- redis-server
"""
STATUS = {
    0: "faster on huge pages, or with another build",
    1: "no difference shown, slower, or nothing to compare",
    3: "the command failed, or cannot be measured",
    126: STATUSES[126],
    127: STATUSES[127],
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``measure`` to *parser*."""
    add = parser.add_argument
    launching.add_files(add, "CMD")
    add(
        "--vs",
        metavar="PROGRAM",
        action="append",
        nargs="+",
        default=[],
        help="compare another build, on huge pages, in CMD's place; several files are placements of one build; may be "
        "repeated",
    )
    add_measuring(add)
    add_json(add, f"schema {Measurement.SCHEMA}")
    add("-o", "--output", metavar="FILE", help="write the report to FILE (default: stdout)")


def add_measuring(add: "Callable[..., Any]") -> None:
    """Add the options of a measurement, which `tune` shares, by calling *add*."""
    add("--load", metavar="LOAD", help="measure what the server CMD spends for the command LOAD")
    add(
        "--copies", metavar="N", type=count, default=COPIES, help="copies of each file (default: %(default)s, least: 2)"
    )
    add("--rounds", metavar="N", type=count, help="run N rounds (least: 2)")
    add("--for", metavar="SECONDS", type=interval, help=f"begin no round after SECONDS (default: {SECONDS:g})")
    add(
        "--within",
        metavar="PERCENT",
        type=percentage,
        help=f"end as soon as the interval reaches no further than so (default: {100 * WITHIN:g}%%)",
    )


def measuring(args: argparse.Namespace, command: str) -> MeasureOptions:
    """Return the options of a measurement in *args*.  Raises UsageError."""
    if args.copies < 2 or (args.rounds or 2) < 2:
        raise UsageError(f"{command}: an interval needs at least 2 copies and 2 rounds")
    return MeasureOptions(
        load=_load(args.load),
        copies=args.copies,
        rounds=args.rounds,
        seconds=vars(args)["for"] or SECONDS,
        within=WITHIN if args.within is None else args.within / 100,
    )


def run(args: argparse.Namespace) -> int:
    """Measure the command in *args*, print the result and return the exit status."""
    if not args.after:
        raise UsageError("measure: no command; example: hugealign measure --fix -- git --version")
    output.keep_apart({"-o": args.output}, [shutil.which(args.after[0])])
    files = LaunchOptions(libs=args.libs, fix=args.fix, files=args.file)
    options = replace(measuring(args, "measure"), files=files, builds=tuple(map(tuple, args.vs)))
    with Progress("hugealign: measure", patience=0.0) as progress:
        result = measure(args.after, options, progress.say)
    if args.json:
        output.write(documents.text(result), args.output, utf8=True)
    else:
        output.write_report("".join(f"{line}\n" for line in report.lines(result)), args.output)
    return 0 if result.faster else 1


def _load(text: str | None) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text or ""))
    except ValueError as error:
        raise UsageError(f"--load: not a command: {error}") from None
    if text is not None and not words:
        raise UsageError("--load: no command; example: --load 'redis-benchmark -q'")
    return words
