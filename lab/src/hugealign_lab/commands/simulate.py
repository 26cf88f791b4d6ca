"""``hugealign simulate TRACE``: the TLB misses of a trace by layout and processor."""

import argparse

from hugealign.cli.arguments import add_json
from hugealign.errors import NumberFormatError, UsageError
from hugealign.io.numbers import decimal

_WINDOWS_LIMIT, _NUMBER_LIMIT = 4096, 10**8 - 1

EPILOG = """\
layouts:
  original     addresses as in the file, the leading N windows of 2 MiB huge
  order:FILE   the functions of an order file first, the others behind them, as
               in a link with that order; the leading N windows huge
  elf:FILE     as in FILE, another link of the same objects; the leading N windows huge
  all-4k       as original, with 4 KiB pages
  all-2m       as original, with every window of the text huge

Each row shows the number of huge windows that misses least; --curve shows every
N.  Libraries are on 4 KiB pages.  Each thread runs on a processor of its own.
With --from and --until only that part of a thread counts, with empty TLBs at its
start; threads that never enter the function do not count.  Give functions as
`nm` prints them.  Data and the kernel, which share the second level, are not
simulated, so the walks are fewer than on a real machine.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("trace", metavar="TRACE", help="a recording of `hugealign trace`")
    parser.add_argument("--binary", metavar="EXE", help="lay out this file (default: the program that was traced)")
    parser.add_argument(
        "--layout",
        action="append",
        metavar="LAYOUT",
        help="simulate this layout; may be repeated (default: original, all-4k and all-2m)",
    )
    parser.add_argument("--windows", metavar="N|M-N", help="try these numbers of huge windows (default: 0-16)")
    parser.add_argument(
        "--cpu",
        action="append",
        metavar="NAME",
        help="may be repeated; zen4 and the like, or as 4k=128/8,2m=8,l2=1536/12; "
        "default: skylake, sapphirerapids, zen3, neoverse-n1",
    )
    parser.add_argument("--from", dest="first", metavar="FUNCTION", help="count from where a thread first enters it")
    parser.add_argument(
        "--until", dest="last", metavar="FUNCTION", help="stop counting where the thread next enters it"
    )
    parser.add_argument("--curve", action="store_true", help="show the misses for every number of huge windows")
    add_json(parser.add_argument, "schema hugealign.simulate/1")


def run(args: argparse.Namespace) -> int:
    """Replay the trace and print the table."""
    windows = _windows(args.windows or "0-16")
    from hugealign.cli import output
    from hugealign.io.progress import Progress
    from hugealign_lab import report
    from hugealign_lab.simulation import CPUS, LAYOUTS, simulated

    layouts, cpus = args.layout or LAYOUTS, args.cpu or CPUS
    with Progress("hugealign: simulate") as progress:

        def say(percent: int) -> None:
            progress.say(f"{percent} %")

        result = simulated(
            args.trace,
            args.binary,
            layouts=layouts,
            windows=windows,
            cpus=cpus,
            first=args.first,
            last=args.last,
            progress=say,
        )
    output.write(report.to_json(result) if args.json else report.text(result, curve=args.curve), None, utf8=args.json)
    return 0


def _windows(text: str) -> range:
    first, dash, last = text.partition("-")
    try:
        low, high = decimal(first, _NUMBER_LIMIT), decimal(last if dash else first, _NUMBER_LIMIT)
    except NumberFormatError:
        raise UsageError("--windows: not a number, or a range such as 0-16") from None
    if not low <= high <= _WINDOWS_LIMIT:
        raise UsageError(f"--windows: not a range of numbers up to {_WINDOWS_LIMIT}")
    return range(low, high + 1)
