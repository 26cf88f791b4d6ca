"""``hugealign order-trace TRACE``: the order of a trace, with the number of huge windows that misses least."""

import argparse
import gc

from hugealign.cli import messages, output
from hugealign.cli.arguments import add_json
from hugealign.cli.order import budget, finish
from hugealign.errors import UsageError

EPILOG = """\
order-trace replays TRACE under the order that `hugealign order` would compute from
it, once for each number of huge windows, and takes the number with the fewest
misses on all processors together.  --cpu may be repeated, and may also describe a TLB:
4k=128/8,2m=8,l2=1536/12.  With --windows or --old-binary it simulates
nothing, and uses the trace as a profile.

  hugealign trace -o server.trace -- ./server
  hugealign order-trace server.trace --cpu skylake --cpu zen3 -o server.order
"""
STATUS = {0: "the order was computed", 1: "no order: less than half of what ran is in EXE"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("trace", metavar="TRACE", help="a recording of `hugealign trace`")
    add("-b", "--binary", metavar="EXE", help="the program or library to order (default: the program that was traced)")
    add("--old-binary", metavar="OLD", help="the build that ran, if EXE is another build of the program")
    add("-o", "--output", metavar="FILE", help="write the order to FILE; - is stdout")
    add("--emit", choices=("order", "lld"), default="order", help="format of FILE (default: order)")
    add_json(add, "schema hugealign.order-report/1")
    add("--blocks", action="store_true", help="split functions into hot and cold blocks, by clang's map in EXE")
    add("--force", action="store_true", help="compute an order even if most of what ran is not in EXE")
    group = parser.add_argument_group("windows")
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "--cpu", action="append", metavar="NAME", help="simulate this processor (default: this machine's)"
    )
    which.add_argument("--windows", metavar="N", help="at most N huge windows; 0: an order for small pages")
    group.add_argument("--no-fill", action="store_true", help="order only functions that the trace saw")


def run(args: argparse.Namespace) -> int:
    """Make the order, print the report and return the exit status."""
    gc.disable()  # a million small objects and no cycles
    if args.old_binary is not None and not args.binary:
        raise UsageError("order-trace: --old-binary requires -b, the build to order")
    output.keep_apart({"-o": args.output}, [args.trace, args.binary, args.old_binary])
    from hugealign.io.progress import Progress
    from hugealign_lab.order import order_of_trace

    cpus, args.cpu = args.cpu, None
    given = args.windows is not None
    here = None if cpus else budget(args)
    if here and not here.cpu and not given:
        raise UsageError("order-trace: no source gives the TLB of this machine's processor; name one (--cpu)")
    with Progress("hugealign: order-trace") as progress:
        made = order_of_trace(
            args.trace,
            cpus or ([here.cpu] if here and here.cpu else []),
            args.binary,
            budget=here,
            fill=not args.no_fill,
            blocks=args.blocks,
            old_binary=args.old_binary,
            force=args.force,
            warn=messages.warning,
            progress=progress.say,
        )
    return finish(made, args)
