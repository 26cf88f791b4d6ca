"""``hugealign map``: the heat of a file's text by window, as linked and under an order."""

import argparse
import gc
import sys

from hugealign.cli import messages, profiled
from hugealign.errors import UsageError
from hugealign.units import parse_page_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.map.layout import Map
    from hugealign.profile.ran import Ran

EPILOG = """\
examples:
  hugealign map ./server --profile perf.data
  hugealign map ./server --profile perf.data --svg heat.svg
  hugealign map ./server --trace server.trace --order server.order --png heat.png

Each row is a window.  Each cell of a picture is a 512th of it, 4 KiB of 2 MiB.
The first strip shows the file as it is, the second as a link with an order would
make it: the order of --order, or else the one that `hugealign order` makes.  A
picture also shows the share of samples outside the first N windows.

The samples of a function are spread evenly over its bytes.  --png needs rsvg-convert.

exit status: 0 shown; 1 less than half of the samples found in FILE; 2 wrong
usage; 3 could not read, or not write.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("file", metavar="FILE", help="the program or library")
    add("--profile", action="append", metavar="PROFILE", help="a profile, as for `hugealign order`; may be repeated")
    add("--trace", metavar="TRACE", help="a recording of `hugealign trace`")
    add("--order", metavar="ORDER", help="an order file; default: make the order from the profile")
    add("--svg", metavar="OUT", help="write a picture to OUT; - is stdout")
    add("--png", metavar="OUT", help="write a picture to OUT; - is stdout")
    add("--format", choices=("text", "json"), help="print this; default: text, nothing with --svg or --png")
    profiled.configure(parser)


def run(args: argparse.Namespace) -> int:
    """Draw or print the map and return the exit status."""
    gc.disable()  # as for `order`
    if bool(args.profile) == (args.trace is not None):
        raise UsageError("map: needs --profile or --trace; example: hugealign map ./server --profile perf.data")
    if args.trace is not None and args.type is not None:
        raise UsageError("map: --trace takes no --type")
    if [args.svg, args.png, "-" if args.format else None].count("-") > 1:
        raise UsageError("map: only one thing goes to standard output")
    from hugealign.cli import output
    from hugealign.map.draw import heat_map

    read = [args.file, *(args.profile or []), args.trace, args.order]
    output.keep_apart({"--svg": args.svg, "--png": args.png}, read)

    page_size = parse_page_size(args.page_size, "--page-size")
    budget = profiled.budget(args)
    ran = _what_ran(args)
    _show(args, heat_map(ran, page_size=page_size, budget=budget, fill=not args.no_fill, order=args.order))
    return 0


def _what_ran(args: argparse.Namespace) -> "Ran":
    if args.trace is None:
        from hugealign.profile.ran import what_ran

        return what_ran(
            args.file,
            args.profile,
            form=args.type,
            max_unpacked=profiled.max_unpacked(args),
            debuginfo=args.debuginfo,
            force=args.force,
            warn=messages.warning,
        )
    from hugealign.lab.ran import traced
    from hugealign.progress import Progress

    with Progress("hugealign: map") as progress:
        return traced(
            args.trace,
            args.file,
            force=args.force,
            warn=messages.warning,
            progress=progress.say,
            instead="as FILE",
        ).ran


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
    """Return whether standard output can encode *words*."""
    try:
        words.encode(sys.stdout.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
