"""``hugealign order``: turn a profile into an order of functions and a number of windows."""

import argparse
import gc
import sys

from hugealign.cli import messages, profiled
from hugealign.cli.arguments import percentage
from hugealign.errors import UsageError
from hugealign.settings import PAGE_SIZE
from hugealign.units import parse_page_size, printable, without_commands

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.ordering.order import Order

USAGE = (
    "hugealign order [OPTION]... PROFILE... [-b EXE] [-o FILE]\n"
    "       hugealign order [OPTION]... --trace TRACE [-b EXE] [-o FILE]\n"
    "       hugealign order [OPTION]... PROFILE|--trace TRACE --old-binary OLD -b NEW [-o FILE]\n"
    "       hugealign order --diff OLD NEW\n"
    "       hugealign order --drift ORDER PROFILE... -b EXE [--trace TRACE] [--threshold P]"
)
EPILOG = """\
examples:
  perf record -e cpu-clock:u -F 999 -g -o perf.data -- ./server
  hugealign order perf.data -b ./server -o server.order
  hugealign order --cpu skylake a.fdata b.fdata -b ./server
  hugealign order --trace server.trace --cpu skylake --cpu zen3 -o server.order
  hugealign order --diff old.order server.order
  hugealign order --drift server.order all.counts -b ./server --threshold 5%

A profile may be: perf.data, perf script's text, BOLT fdata, YAML and
pre-aggregated, folded stacks, callgrind, AutoFDO
text, llvm-profdata (raw, indexed, sample), gcda, pprof, OpenTelemetry's
profiles, a fleet's counts, a list of symbols, an order file.  Its first bytes
tell which; gzip and zstd are unpacked.

The order asks for as many huge windows as the functions that ran need, but for
no more than the processor has 2 MiB instruction TLB entries, less the reserve.
A text with fewer windows than that is huge as a whole.  Likely functions fill
the room that is left, though the profile missed them: those that call functions
it saw, are called by them, or lie beside them.

With --trace, `order` replays the trace under the order and takes the number of
windows that misses least.  --cpu may then be repeated, and may also describe a
TLB: 4k=128/8,2m=8,l2=1536/12.  With --itlb-2m it simulates nothing and takes the
trace as a profile.

With --old-binary OLD -b NEW, the profile is of OLD, and the order is for NEW,
another build of the same program.  `order` finds functions by name, and with
--blocks their blocks by their code, so a profile outlives changes of the
sources.  It simulates nothing then.

With --drift, the report says what share of the heat the leading windows of
ORDER still hold, and what share those of a new order would; with --trace in
misses, too.

exit status: 0 order made (--diff: no difference; --drift: still good); 1 no
order written, because less than half of the samples are of EXE, or there are
too few for small pages (--diff: they differ; --drift: out of date); 2 wrong
usage; 3 could not read.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("profiles", nargs="*", metavar="PROFILE", help="a profile; several are added together")
    add("--trace", metavar="TRACE", help="a recording of `hugealign trace`, instead of profiles")
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
        choices=("order", "lld", "list", "json"),
        default="order",
        help="format of FILE: hugealign's own, lld's --symbol-ordering-file, names alone, JSON (default: order)",
    )
    add("--format", choices=("text", "json"), default="text", help="format of the report (default: text)")
    add(
        "--blocks",
        action="store_true",
        help="split functions into hot and cold blocks; EXE needs clang's map of basic blocks",
    )
    add("--diff", action="store_true", help="compare two order files")
    add("--drift", metavar="ORDER", help="check how well this order still fits the profiles")
    add(
        "--threshold",
        type=percentage,
        metavar="P",
        help="--drift: out of date if the windows of a new order would hold over P %% more of all heat (default: 5)",
    )
    profiled.configure(parser)


def run(args: argparse.Namespace) -> int:
    """Make the order or the comparison, print the report and return the exit status."""
    gc.disable()  # a million small objects and no cycles: the search for cycles takes a fourth of the time
    if args.threshold is not None and args.drift is None:
        raise UsageError("order: --threshold belongs to --drift")
    if args.old_binary is not None and (args.diff or args.drift is not None or not args.binary):
        raise UsageError("order: --old-binary needs -b, the build to make an order for, and neither --diff nor --drift")
    if args.old_binary == "":
        raise UsageError("order: --old-binary: no file")
    if args.diff:
        return _diff(args)
    if args.drift is not None:
        return _drift(args)
    if args.trace is not None:
        _keep_inputs(args)
        return _from_trace(args)
    if not args.profiles:
        raise UsageError("order: no profile; example: hugealign order perf.data -b ./server")
    if not args.binary:
        args.binary = _only_program(args.profiles)
    _keep_inputs(args)
    return _from_profiles(args)


def _keep_inputs(args: argparse.Namespace) -> None:
    from hugealign.cli import output

    output.keep_apart({"-o": args.output}, [*args.profiles, args.trace, args.binary, args.old_binary])


def _only_program(profiles: list[str]) -> str:
    """Return the program that *profiles* name, and say so.  Raises UsageError unless there is exactly one."""
    from hugealign.profile.programs import programs

    found = programs(profiles)
    if len(found) != 1:
        known = f": {', '.join(map(printable, found[:3]))}{' ...' if len(found) > 3 else ''}" if found else ""
        example = printable(found[0]) if found else "./server"
        raise UsageError(f"order: which program ran{known}? give it with -b, as in: -b {example}")
    told = f"using {printable(found[0])}, the only program in the profile; use -b to choose another"
    print(f"hugealign: order: {told}", file=sys.stderr)
    return found[0]


def _from_profiles(args: argparse.Namespace) -> int:
    from hugealign.ordering.order import order
    from hugealign.progress import Progress

    page_size = parse_page_size(args.page_size, "--page-size")
    budget = profiled.budget(args)  # it asks in a child process, so do it before a thread starts
    with Progress("hugealign: order") as progress:
        made = order(
            args.binary,
            args.profiles,
            form=args.type,
            max_unpacked=profiled.max_unpacked(args),
            debuginfo=args.debuginfo,
            force=args.force,
            page_size=page_size,
            budget=budget,
            fill=not args.no_fill,
            blocks=args.blocks,
            old_binary=args.old_binary,
            warn=messages.warning,
            progress=progress.phase,
        )
    return _finish(made, args)


def _from_trace(args: argparse.Namespace) -> int:
    from hugealign.lab.order import order_of_trace
    from hugealign.ordering.budget import budget_of
    from hugealign.progress import Progress

    if args.profiles or args.type is not None:
        raise UsageError("order --trace: takes no PROFILE and no --type")
    if parse_page_size(args.page_size, "--page-size") != PAGE_SIZE:
        raise UsageError("order --trace: simulates pages of 2M only")
    given = args.itlb_2m is not None
    here = None if args.cpu else profiled.budget(args) if given else budget_of(reserve=profiled.reserve(args))
    if here and not here.cpu and not given:
        raise UsageError("order --trace: no source gives the TLB of this machine's processor; name one (--cpu)")
    with Progress("hugealign: order") as progress:
        made = order_of_trace(
            args.trace,
            args.cpu or ([here.cpu] if here and here.cpu else []),
            args.binary,
            budget=here,
            reserve=profiled.reserve(args),
            fill=not args.no_fill,
            blocks=args.blocks,
            old_binary=args.old_binary,
            force=args.force,
            warn=messages.warning,
            progress=progress.say,
        )
    return _finish(made, args)


def _finish(made: "Order", args: argparse.Namespace) -> int:
    """Write the order and print the report."""
    from hugealign.cli import output
    from hugealign.ordering import emit, report

    json = args.format == "json"
    text = report.to_json(made) if json else report.text(made)
    if args.output is not None:
        order = made.file()
        output.write(emit.FORMS[args.emit](order), args.output)
    if args.output == "-":
        print(text if json else without_commands(text), end="", file=sys.stderr)
    else:
        output.write(text, None, utf8=json)
    return 0


def _diff(args: argparse.Namespace) -> int:
    from hugealign.cli import output
    from hugealign.orderfile import load
    from hugealign.ordering import diff

    if len(args.profiles) != 2:
        raise UsageError("order --diff: two order files are needed: OLD NEW")
    if args.binary or args.output or args.trace:
        raise UsageError("order --diff: takes no -b, no -o and no --trace; the report is on standard output")
    if args.blocks or args.drift:
        raise UsageError("order --diff: takes no --blocks and no --drift")
    difference = diff.compare(*map(load, args.profiles))
    output.write((diff.to_json if args.format == "json" else diff.text)(difference), None, utf8=args.format == "json")
    return 0 if difference.same else 1


def _drift(args: argparse.Namespace) -> int:
    from hugealign.cli import output
    from hugealign.lab.drift import with_misses
    from hugealign.ordering import drift
    from hugealign.progress import Progress

    if not args.profiles:
        raise UsageError(
            "order --drift: no profile; example: hugealign order --drift server.order all.counts -b ./server"
        )
    if args.output or args.blocks or args.itlb_2m is not None:
        raise UsageError("order --drift: takes no -o, no --blocks and no --itlb-2m: ORDER says how many windows")
    found = drift.drift(
        args.drift,
        args.profiles,
        args.binary or _only_program(args.profiles),
        form=args.type,
        max_unpacked=profiled.max_unpacked(args),
        debuginfo=args.debuginfo,
        force=args.force,
        page_size=parse_page_size(args.page_size, "--page-size"),
        warn=messages.warning,
    )
    if args.trace is not None:
        with Progress("hugealign: order") as progress:
            cpus = args.cpu or ["skylake"]
            found = with_misses(found, args.trace, cpus, profiled.reserve(args), progress.say)
    threshold = (5.0 if args.threshold is None else args.threshold) / 100
    json = args.format == "json"
    output.write((drift.to_json if json else drift.text)(found, threshold), None, utf8=json)
    return 1 if found.lost > threshold else 0
