"""``hugealign map``: show which windows of a file's text a profile hits, as linked and with an order."""

import argparse
import gc

from hugealign.cli import messages, profiled
from hugealign.cli.arguments import add_json, add_page_size, page_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.map.layout import Map

EPILOG = """\
examples:
  hugealign map perf.data -b ./server
  hugealign map perf.data -b ./server --order server.order

Each row is a window.  The first map shows the file as it is; the second, as
linked with an order: that of --order, or the one that `hugealign order` computes.

map spreads the samples of a function evenly over its bytes.
"""
STATUS = {
    0: "shown",
    1: "fewer than half of the samples are in EXE",
    3: "a file could not be read",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_inputs(parser)
    add_json(parser.add_argument, "schema hugealign.map/1")


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Declare what a map is made of."""
    add = parser.add_argument
    add("profiles", nargs="+", metavar="PROFILE", help="a profile that `hugealign order` reads; several are added up")
    profiled.add_binary(add)
    add("--order", metavar="ORDER", help="an order file (default: compute the order from the profiles)")
    profiled.add_reading(add)
    add_page_size(add)


def mapped(args: argparse.Namespace, command: str) -> "Map":
    """Return the map of the inputs in *args*, for *command*.  Raises HugealignError."""
    gc.disable()  # as for `order`
    from hugealign.map.draw import heat_map
    from hugealign.profile.ran import what_ran

    size = page_size(args.page_size)
    binary = args.binary or profiled.only_program(command, args.profiles)
    return heat_map(what_ran(binary, args.profiles, profiled.options(args), warn=messages.warning), size, args.order)


def run(args: argparse.Namespace) -> int:
    """Print the map and return the exit status."""
    shown = mapped(args, "map")
    from hugealign.cli import output
    from hugealign.diagnosis import documents
    from hugealign.map import report

    if args.json:
        output.write(documents.text(shown, line=True, names=str), None, utf8=True)
    else:
        output.write(report.text(shown, report.BLOCKS if output.encodes(report.BLOCKS) else report.ASCII), None)
    return 0
