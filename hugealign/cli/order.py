"""``hugealign order``: turn a profile into an order of functions and a number of windows."""

import argparse
import gc
import sys

from hugealign.cli import messages, profiled
from hugealign.cli.arguments import add_json, add_page_size, number, page_size
from hugealign.errors import UsageError
from hugealign.io.units import without_commands

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hugealign.ordering.order import Order
    from hugealign.system.budget import Budget

USAGE = (
    "hugealign order [OPTION]... PROFILE... [-b EXE] [-o FILE]\n"
    "       hugealign order [OPTION]... PROFILE... --old-binary OLD -b NEW [-o FILE]"
)
EPILOG = """\
examples:
  perf record -e cpu-clock:u -F 999 -g -o perf.data -- ./server
  hugealign order perf.data -b ./server -o server.order
  hugealign order --cpu skylake a.fdata b.fdata -b ./server

order reads perf.data, the text of perf script, BOLT fdata and YAML, folded
stacks, callgrind, LLVM profiles (raw, indexed, sample, AutoFDO), gcda, pprof,
OpenTelemetry profiles, counts (hugealign profile), lists of symbols and order
files.  It detects the format and decompresses gzip and zstd.

The order requests enough huge windows for the functions that ran, but at most
one less than the processor has instruction TLB entries for 2 MiB pages, unless
more cost less than small pages would, as hugealign doctor has measured it.  If
the text has no more windows than this limit, all of it becomes huge; the order
still brings cache lines and branches together, and is written.  Functions that
the profile missed but that probably run fill the last window: callers, callees
and neighbours of those that it saw.

The line gain says how much time the order can save.  If it can save none, since
what ran lies together already, it says so, and the status is 0 all the same.

With --old-binary OLD -b NEW the profile is of OLD and the order is for NEW, a
later build of the same program.  order matches functions by name and, with
--blocks, their blocks by code, so a profile stays useful as sources change.
"""
STATUS = {
    0: "the order was computed",
    1: "no order: fewer than half of the samples are in EXE, or there are too few",
    3: "a profile or EXE could not be read, or there is no C compiler",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("profiles", nargs="*", metavar="PROFILE", help="a profile; several are added up")
    add(
        "-b",
        "--binary",
        metavar="EXE",
        help="the program or library to order, or its debug file (default: the only program on this machine that a "
        "perf.data or callgrind profile names)",
    )
    add("--old-binary", metavar="OLD", help="the build that was profiled, if it is not EXE")
    add("-o", "--output", metavar="FILE", help="write the order to FILE; - is stdout")
    add(
        "--emit",
        choices=("order", "lld"),
        default="order",
        help="format of FILE: hugealign's own, or lld's --symbol-ordering-file (default: order)",
    )
    add_json(add, "schema hugealign.order-report/1")
    add(
        "--blocks",
        action="store_true",
        help="split functions into hot and cold blocks; EXE must have clang's basic block map",
    )
    add("--type", metavar="FORMAT", help="the format of the profiles (default: detected)")
    add("--force", action="store_true", help="compute an order even if there are few samples, or most are not in EXE")
    profiled.add_reading(add)
    group = parser.add_argument_group("windows")
    add_page_size(group.add_argument)
    add_budget(group.add_mutually_exclusive_group().add_argument)


def add_budget(add: "Callable[..., object]") -> None:
    """Declare the options that say how many windows may be huge, by calling *add*."""
    add(
        "--cpu",
        metavar="NAME",
        help="limit the number of huge windows by the TLB of this processor (default: this machine's)",
    )
    add("--windows", metavar="N", help="request at most N huge windows; 0: an order for small pages")


def budget(args: argparse.Namespace) -> "Budget":
    """Return the budget that the options request.  Raises UsageError."""
    from hugealign.system.budget import MOST_WINDOWS, budget_of

    if args.windows is None:
        return budget_of(args.cpu)
    return budget_of(windows=number(args.windows, "--windows", most=MOST_WINDOWS))


def run(args: argparse.Namespace) -> int:
    """Make the order, print the report and return the exit status."""
    gc.disable()  # a million small objects without cycles: the search for cycles takes a fourth of the time
    if args.old_binary is not None and not args.binary:
        raise UsageError("order: --old-binary requires -b, the build to order")
    if args.old_binary == "":
        raise UsageError("order: --old-binary: no file")
    if not args.profiles:
        raise UsageError("order: no profile; example: hugealign order perf.data -b ./server")
    if not args.binary:
        args.binary = profiled.only_program("order", args.profiles)
    from hugealign.cli import output

    output.keep_apart({"-o": args.output}, [*args.profiles, args.binary, args.old_binary])
    from hugealign.io.progress import Progress
    from hugealign.ordering.order import OrderOptions, order

    options = OrderOptions(
        form=args.type,
        max_unpacked=profiled.max_unpacked(args),
        debuginfo=args.debuginfo,
        force=args.force,
        page_size=page_size(args.page_size),
        budget=budget(args),  # it starts a child process: before any thread starts
        blocks=args.blocks,
        old_binary=args.old_binary,
    )
    with Progress("hugealign: order") as progress:
        made = order(args.binary, args.profiles, options, warn=messages.warning, progress=progress.phase)
    return finish(made, args)


def finish(made: "Order", args: argparse.Namespace) -> int:
    """Write the order and print the report."""
    from hugealign import orderfile
    from hugealign.cli import output
    from hugealign.diagnosis import documents
    from hugealign.ordering import report
    from hugealign.ordering.compose import symbol_list

    text = documents.text(report.Report(made), names=str) if args.json else report.text(made)
    if args.output is not None:
        order = made.file()
        output.write(symbol_list(order) if args.emit == "lld" else orderfile.write(order), args.output)
    if args.output == "-":
        print(text if args.json else without_commands(text), end="", file=sys.stderr)
    else:
        output.write(text, None, utf8=args.json)
    return 0
