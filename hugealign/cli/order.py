"""``hugealign order``: turn a profile into an order of functions and a number of windows."""

import argparse
import gc
import sys

from hugealign.cli import messages, profiled
from hugealign.cli.arguments import add_json, add_page_size, page_size
from hugealign.errors import NumberFormatError, UsageError
from hugealign.io.numbers import decimal
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

A profile may be: perf.data, perf script's text, BOLT fdata and YAML, folded
stacks, callgrind, LLVM's (raw, indexed, sample, AutoFDO), gcda, pprof,
OpenTelemetry's profiles, a fleet's counts, a list of symbols, an order file.
Its first bytes tell which; gzip and zstd are unpacked.

The order asks for as many huge windows as the functions that ran need, but for
no more than the processor has 2 MiB instruction TLB entries, less one for others.
A text with fewer windows than that is huge as a whole.  Likely functions fill
the room that is left, though the profile missed them: those that call functions
it saw, are called by them, or lie beside them.

With --old-binary OLD -b NEW, the profile is of OLD, and the order is for NEW,
another build of the same program.  `order` finds functions by name, and with
--blocks their blocks by their code, so a profile outlives changes of the
sources.
"""
STATUS = {
    0: "the order is written",
    1: "no order: less than half of the samples are in EXE, or too few samples",
    3: "a profile or EXE could not be read, or no C compiler is there to sort by",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("profiles", nargs="*", metavar="PROFILE", help="a profile; several are added together")
    add(
        "-b",
        "--binary",
        metavar="EXE",
        help="the program or library, or its debug file, that the profile is of (default: the one program here that a "
        "perf.data or callgrind profile names)",
    )
    add("--old-binary", metavar="OLD", help="the build that the profile is of, if EXE is another build of the program")
    add("-o", "--output", metavar="FILE", help="write the order to FILE, whole or not at all; - is stdout")
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
        help="split functions into hot and cold blocks; EXE needs clang's map of basic blocks",
    )
    add("--type", metavar="FORMAT", help="the format of the profiles (default: detect it)")
    add("--force", action="store_true", help="go on even if most samples match nothing, or there are too few")
    profiled.add_max_unpacked(add)
    profiled.add_debuginfo(add)
    group = parser.add_argument_group("windows")
    add_page_size(group.add_argument)
    add_budget(group.add_mutually_exclusive_group().add_argument)


def add_budget(add: "Callable[..., object]") -> None:
    """Declare the options that say how many windows may be huge, by calling *add*."""
    add("--cpu", metavar="NAME", help="as many huge windows as this processor can hold (default: this machine's)")
    add("--windows", metavar="N", help="at most N huge windows; 0: an order for small pages")


def budget(args: argparse.Namespace) -> "Budget":
    """Return the budget that the options ask for.  Raises UsageError."""
    from hugealign.system.budget import MOST_WINDOWS, budget_of

    if args.windows is None:
        return budget_of(args.cpu)
    try:
        return budget_of(windows=decimal(args.windows, MOST_WINDOWS))
    except NumberFormatError:
        raise UsageError(f"--windows: not a number from 0 to {MOST_WINDOWS}") from None


def run(args: argparse.Namespace) -> int:
    """Make the order, print the report and return the exit status."""
    gc.disable()  # a million small objects and no cycles: the search for cycles takes a fourth of the time
    if args.old_binary is not None and not args.binary:
        raise UsageError("order: --old-binary needs -b, the build to make an order for")
    if args.old_binary == "":
        raise UsageError("order: --old-binary: no file")
    if not args.profiles:
        raise UsageError("order: no profile; example: hugealign order perf.data -b ./server")
    if not args.binary:
        args.binary = profiled.only_program("order", args.profiles)
    _keep_inputs(args)
    return _from_profiles(args)


def _keep_inputs(args: argparse.Namespace) -> None:
    from hugealign.cli import output

    output.keep_apart({"-o": args.output}, [*args.profiles, args.binary, args.old_binary])


def _from_profiles(args: argparse.Namespace) -> int:
    from hugealign.io.progress import Progress
    from hugealign.ordering.order import OrderOptions, order

    options = OrderOptions(
        form=args.type,
        max_unpacked=profiled.max_unpacked(args),
        debuginfo=args.debuginfo,
        force=args.force,
        page_size=page_size(args.page_size),
        budget=budget(args),  # it asks in a child process, so do it before a thread starts
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
    from hugealign.ordering import report
    from hugealign.ordering.compose import symbol_list

    text = report.to_json(made) if args.json else report.text(made)
    if args.output is not None:
        order = made.file()
        output.write(symbol_list(order) if args.emit == "lld" else orderfile.write(order), args.output)
    if args.output == "-":
        print(text if args.json else without_commands(text), end="", file=sys.stderr)
    else:
        output.write(text, None, utf8=args.json)
    return 0
