"""``hugealign map``: the heat of a file's text by window, as linked and under an order."""

import argparse
import gc
import os
import sys

from hugealign.cli import profiled
from hugealign.errors import HugealignError, UsageError
from hugealign.units import parse_page_size, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.elf.notes import BuildNote
    from hugealign.elf.symbols import Functions
    from hugealign.map.layout import Map
    from hugealign.ordering.budget import Budget
    from hugealign.ordering.windows import Plan
    from hugealign.profile.match import Matched

_EPILOG = """\
examples:
  hugealign map ./server --profile perf.data
  hugealign map ./server --profile perf.data --svg heat.svg
  hugealign map ./server --trace server.trace --order server.order --png heat.png

One row is a window, one cell of a picture its 512th part: 4 KiB of 2 MiB.  The
first strip is the file as it is; the second as a link with the order would make
it: that of --order, or the one that `hugealign order` would make of the profile.
A picture also has the share of samples that the first N windows leave uncovered.

A function's samples are spread evenly over its bytes.  --png needs rsvg-convert.

exit status: 0 shown; 1 less than half of the samples found in FILE; 2 wrong
usage; 3 could not read, or not write.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("file", metavar="FILE", help="the program or library")
    add(
        "--profile", action="append", metavar="PROFILE", help="what ran, as `hugealign order` takes it; may be repeated"
    )
    add("--trace", metavar="TRACE", help="what ran, as `hugealign trace` recorded it")
    add("--order", metavar="ORDER", help="an order file; default: the order is made from the profile")
    add("--svg", metavar="OUT", help="write a picture to OUT")
    add("--png", metavar="OUT", help="write a picture to OUT")
    add("--format", choices=("text", "json"), help="print this; default: text, nothing with --svg or --png")
    profiled.configure(parser)


def run(args: argparse.Namespace) -> int:
    """Draw or print the map and return the exit status."""
    gc.disable()  # as for `order`
    if bool(args.profile) == (args.trace is not None):
        raise UsageError("map: needs --profile or --trace; example: hugealign map ./server --profile perf.data")
    if args.trace is not None and args.type is not None:
        raise UsageError("map: --trace takes no --type")
    from hugealign.map import layout

    page_size = parse_page_size(args.page_size, "--page-size")
    budget = profiled.budget(args)
    functions, matched, sources, unit = _what_ran(args)
    plan = _plan(args, functions, matched, page_size, budget)
    note = _note(args.file, functions)
    try:
        layouts = (layout.before(functions, matched, page_size, note), layout.after(functions, matched, plan))
    except HugealignError as error:
        raise HugealignError(f"{printable(args.file)}: {error}") from None
    _show(args, layout.Map(args.file, sources, unit, matched, budget, plan, args.order or "", note, layouts))
    return 0


def _what_ran(args: argparse.Namespace) -> "tuple[Functions, Matched, list[tuple[str, str]], str]":
    """Return the functions, what ran of them, the sources (path, format) and what samples are."""
    if args.trace is None:
        functions = profiled.read_functions(args.file)
        matched, read = profiled.read_profiles(args.profile, args.file, functions, args)
        return functions, matched, read, "samples"
    from hugealign.progress import Progress

    progress = Progress("hugealign: map")
    try:
        traced = profiled.read_trace(args.trace, args.file, args.force, progress.say)
    finally:
        progress.clear()
    return traced.functions, traced.matched, [(args.trace, "trace")], "instructions"


def _plan(
    args: argparse.Namespace, functions: "Functions", matched: "Matched", page_size: int, budget: "Budget"
) -> "Plan":
    from hugealign.elf.calls import Calls
    from hugealign.ordering import hot, windows

    if args.order is None:
        calls = Calls(args.file, functions)
        found = *hot.hot_and_cold(matched, functions, calls), matched, functions, page_size
        return windows.plan(*found, budget.windows, None if args.no_fill else calls)
    from hugealign.lab.orders import read_order

    functions, order = read_order(args.order, args.file)
    order = list(dict.fromkeys(order))
    count = _windows(args.order)
    return windows.plan(order, [], matched, functions, page_size, budget.windows, count=count)


def _windows(path: str) -> int | None:
    """Return how many windows an order file wants huge; None if it does not say, as lld's do not."""
    from hugealign import orderfile
    from hugealign.profile.lines import lines

    try:
        with open(path, "rb") as stream:
            wanted = orderfile.parse(lines(stream)).header.get("windows", "")
    except (HugealignError, OSError):
        return None
    return int(wanted) if wanted.isascii() and wanted.isdigit() and 0 < len(wanted) < 9 else None


def _note(path: str, functions: "Functions") -> "BuildNote | None":
    from hugealign.elf.notes import read_notes

    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return read_notes(fd, functions.image).build
    finally:
        os.close(fd)


def _show(args: argparse.Namespace, shown: "Map") -> None:
    from hugealign.cli import output
    from hugealign.map import picture, raster, report

    drawn = picture.svg(shown) if args.svg or args.png else ""
    if args.png:
        output.write_bytes(raster.png(drawn), args.png)
    if args.svg:
        output.write(drawn, args.svg)
    if args.format == "json":
        output.write(report.to_json(shown), None, utf8=True)
    elif args.format or not drawn:
        output.write(report.text(shown, report.BLOCKS if _takes(report.BLOCKS) else report.ASCII), None)


def _takes(words: str) -> bool:
    """Return whether standard output can say *words*."""
    try:
        words.encode(sys.stdout.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
