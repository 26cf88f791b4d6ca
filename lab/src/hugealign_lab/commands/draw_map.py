"""``hugealign draw-map``: what ``hugealign map`` shows, as a picture."""

import argparse

from hugealign.cli import map as map_command
from hugealign.cli import output

EPILOG = """\
example:
  hugealign draw-map perf.data -b ./server -o heat.svg

Each row is a window, each cell 1/512 of it: 4 KiB of 2 MiB.  The first strip shows
the file as it is; the second, as linked with an order: that of --order, or the one
that `hugealign order` computes.  The curves show the share of samples outside the
first N windows.
"""
STATUS = {
    0: "drawn",
    1: "fewer than half of the samples are in EXE",
    3: "a file could not be read or written",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    map_command.add_inputs(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write the picture to FILE (default: stdout)")


def run(args: argparse.Namespace) -> int:
    """Draw the map and return the exit status."""
    output.keep_apart({"-o": args.output}, [*args.profiles, args.binary, args.order])
    from hugealign_lab import picture

    shown = map_command.mapped(args, "draw-map")
    output.keep_apart({"-o": args.output}, [shown.ran.binary])  # also those that the profiles name
    output.write(picture.svg(shown), args.output)
    return 0
