"""``hugealign map``: show which windows of a file's text a profile hits, as linked and with an order."""

import argparse
import gc
import sys

from hugealign.cli import messages, profiled
from hugealign.cli.arguments import add_json, add_page_size, page_size
from hugealign.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.map.layout import Map

EPILOG = """\
examples:
  hugealign map ./server --profile perf.data
  hugealign map ./server --profile perf.data --order server.order --svg heat.svg

Each row is a window.  In a picture each cell is 1/512 of the window: 4 KiB of
2 MiB.  The first strip shows the file as it is; the second, as linked with an
order: that of --order, or the one that `hugealign order` computes.  A picture
also shows the share of samples outside the first N windows.

map spreads the samples of a function evenly over its bytes.
"""
STATUS = {
    0: "shown",
    1: "fewer than half of the samples are in FILE",
    3: "a file could not be read or written",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("file", metavar="FILE", help="the program or library")
    add(
        "--profile",
        action="append",
        required=True,
        metavar="PROFILE",
        help="a profile that `hugealign order` reads; may be repeated",
    )
    add("--order", metavar="ORDER", help="an order file (default: compute the order from the profile)")
    add("--svg", metavar="OUT", help="write a picture to OUT; - is stdout")
    add_json(add, "schema hugealign.map/1")
    profiled.add_debuginfo(add)
    add_page_size(add)


def run(args: argparse.Namespace) -> int:
    """Draw or print the map and return the exit status."""
    gc.disable()  # as for `order`
    if args.svg == "-" and args.json:
        raise UsageError("map: --svg - and --json both write to standard output; give --svg a file")
    from hugealign.cli import output
    from hugealign.map.draw import heat_map
    from hugealign.profile.ran import ProfileOptions, what_ran

    output.keep_apart({"--svg": args.svg}, [args.file, *args.profile, args.order])

    size = page_size(args.page_size)
    ran = what_ran(args.file, args.profile, ProfileOptions(debuginfo=args.debuginfo), warn=messages.warning)
    _show(args, heat_map(ran, size, args.order))
    return 0


def _show(args: argparse.Namespace, shown: "Map") -> None:
    from hugealign.cli import output
    from hugealign.map import picture, report

    if args.svg:
        output.write(picture.svg(shown), args.svg)
    if args.json:
        output.write(report.to_json(shown), None, utf8=True)
    elif not args.svg:
        output.write(report.text(shown, report.BLOCKS if _takes(report.BLOCKS) else report.ASCII), None)


def _takes(words: str) -> bool:
    """Return whether standard output can encode *words*."""
    try:
        words.encode(sys.stdout.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
