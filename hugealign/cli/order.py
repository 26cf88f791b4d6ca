"""``hugealign order``: a profile becomes an order of functions and a number of windows."""

import argparse
import gc
import os

from hugealign.cli import profiled
from hugealign.errors import HugealignError, UsageError
from hugealign.units import parse_page_size, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hugealign.elf.symbols import Functions
    from hugealign.lab.geometry import Geometry
    from hugealign.orderfile import OrderFile
    from hugealign.ordering.budget import Budget
    from hugealign.ordering.choice import Choice
    from hugealign.ordering.windows import Plan
    from hugealign.profile.match import Matched
    from hugealign.progress import Progress

    Found = tuple[list[int], list[int], Matched, Functions, int]  # what windows.plan begins with

_MOST = 128  # numbers of huge windows that are simulated

_EPILOG = """\
examples:
  perf record -e cpu-clock:u -F 999 -g -o perf.data -- ./server
  hugealign order perf.data -b ./server -o server.order
  hugealign order --cpu skylake a.fdata b.fdata -b ./server
  hugealign order --trace server.trace --cpu skylake --cpu zen3 -o server.order
  hugealign order --diff old.order server.order

profiles, known by what they begin with, also in gzip or zstd: perf.data,
perf script's text, BOLT fdata, YAML and pre-aggregated, folded stacks,
callgrind, gprof (gmon.out or its text), AutoFDO text, llvm-profdata (raw,
indexed, sample), gcda, pprof, a list of symbols, an order file.

Exactly as many windows are to be huge as the functions that ran need, at most
one for each 2 MiB instruction TLB entry less the reserve; all, if the text has
no more than those.  Room left over is filled with functions that probably run,
though the profile missed them: callees, callers and neighbours of what it saw.

With --trace the number is the one that misses least when the trace is replayed
under the order; then --cpu may be repeated, and be 4k=128/8,2m=8,l2=1536/12.

exit status: 0 order made (--diff: no difference); 1 less than half of the
samples found in EXE, and no order written (--diff: they differ); 2 wrong
usage; 3 could not read.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = (
        "hugealign order [OPTION]... PROFILE... -b EXE [-o FILE]\n"
        "       hugealign order [OPTION]... --trace TRACE [-b EXE] [-o FILE]\n"
        "       hugealign order --diff OLD NEW"
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("profiles", nargs="*", metavar="PROFILE", help="what ran; several are added up")
    add("--trace", metavar="TRACE", help="what ran, as `hugealign trace` recorded it, instead of profiles")
    add("-b", "--binary", metavar="EXE", help="the program or library, or its debug file, that the profile is of")
    add("-o", "--output", metavar="FILE", help="write the order to FILE, whole or not at all")
    add(
        "--emit",
        choices=("order", "lld", "list", "json"),
        default="order",
        help="form of FILE: hugealign's own, lld's --symbol-ordering-file, names alone, JSON (default: order)",
    )
    add("--format", choices=("text", "json"), default="text", help="form of the report (default: text)")
    add("--diff", action="store_true", help="compare two order files")
    profiled.configure(parser)


def run(args: argparse.Namespace) -> int:
    """Make the order or the comparison, print the report and return the exit status."""
    gc.disable()  # a million small objects and no cycles: looking for those takes a fourth of the time
    if args.diff:
        return _diff(args)
    if args.trace is not None:
        return _from_trace(args)
    if not args.profiles or not args.binary:
        raise UsageError("order: a PROFILE and -b EXE are needed; example: hugealign order perf.data -b ./server")
    return _from_profiles(args)


def _from_profiles(args: argparse.Namespace) -> int:
    from hugealign.elf.calls import Calls
    from hugealign.ordering import hot, windows

    page_size = parse_page_size(args.page_size, "--page-size")
    budget = profiled.budget(args)
    functions = profiled.read_functions(args.binary)
    matched, read = profiled.read_profiles(args.profiles, args.binary, functions, args)
    calls = Calls(args.binary, functions)
    found = *hot.hot_and_cold(matched, functions, calls), matched, functions, page_size
    plan = windows.plan(*found, budget.windows, None if args.no_fill else calls)
    return _finish(args, args.binary, functions, matched, plan, budget, read)


def _from_trace(args: argparse.Namespace) -> int:
    from hugealign.elf.calls import Calls
    from hugealign.lab.placement import WINDOW
    from hugealign.ordering import hot, windows
    from hugealign.progress import Progress

    if args.profiles or args.type is not None:
        raise UsageError("order --trace: takes no PROFILE and no --type")
    if parse_page_size(args.page_size, "--page-size") != WINDOW:
        raise UsageError("order --trace: simulates pages of 2M only")
    cpus, budget = _processors(args)
    progress = Progress("hugealign: order")
    try:
        traced = profiled.read_trace(args.trace, args.binary, args.force, progress.say)
        found = *hot.hot_and_cold(traced.matched, traced.functions), traced.matched, traced.functions, WINDOW
        choice = _simulated(traced, found, cpus, budget, progress)
    finally:
        progress.clear()
    fill = None if args.no_fill else Calls(traced.binary, traced.functions)
    plan = windows.plan(*found, budget.windows, fill, choice.chosen)
    read = [(args.trace, "trace")]
    return _finish(args, traced.binary, traced.functions, traced.matched, plan, budget, read, choice)


def _processors(args: argparse.Namespace) -> "tuple[list[Geometry], Budget]":
    """Return the processors to simulate, and the budget of the smallest."""
    from hugealign.lab import geometry
    from hugealign.ordering import budget as budgets
    from hugealign.processor.table import find

    if args.itlb_2m is not None:
        raise UsageError("order --trace: simulates all of the TLB: --cpu NAME, or --cpu 4k=128/8,2m=8, not --itlb-2m")
    words = list(dict.fromkeys(args.cpu or ()))
    if not words:
        budget = budgets.budget(None, None, args.reserve)
        if not budget.cpu:
            raise UsageError("order --trace: no source gives the TLB of this machine's processor; name one (--cpu)")
        return [geometry.geometry(find(budget.cpu))], budget
    cpus = [geometry.parse(word) if "=" in word else geometry.geometry(find(word)) for word in words]
    found = [budgets.of_entries(_entries(cpu), args.reserve, printable(cpu.name)) for cpu in cpus]
    return cpus, min(found, key=lambda budget: budget.windows)


def _entries(cpu: "Geometry") -> int:
    table = cpu.first.table(huge=True)
    return table.sets * table.ways


def _simulated(
    traced: profiled.Traced, found: "Found", cpus: "Sequence[Geometry]", budget: "Budget", progress: "Progress"
) -> "Choice":
    """Return the misses by the number of huge windows, to twice what any of *cpus* holds, each with its own order."""
    from hugealign.lab.placement import ordered
    from hugealign.lab.simulate import simulate, without
    from hugealign.ordering import windows
    from hugealign.ordering.choice import Choice

    rule = windows.plan(*found, budget.windows)
    most = min(2 * max(map(_entries, cpus)), _MOST)
    layouts = []
    for count in range(min(most, rule.needed) + 1):  # what ran has room in as many as it needs, and in more
        plan = windows.plan(*found, budget.windows, count=count)
        order = [placed.index for placed in plan.placed]
        placement = ordered(traced.trace, traced.file, "order", traced.functions, order)
        layouts.append((placement, range(count, most + 1 if count == rule.needed else count + 1)))
    total = max(1, traced.trace.description.events)
    done = simulate(
        traced.trace,
        layouts,
        [without(cpu, budget.reserve) for cpu in cpus],
        lambda events: progress.say(f"{events * 100 // total} % simulated"),
    )
    misses: dict[int, list[int]] = {}
    for row in done.rows:  # by number of windows, then in the order of the processors
        misses.setdefault(row.windows, []).append(row.misses)
    return Choice([cpu.name for cpu in cpus], list(misses.values()), rule.count)


def _finish(
    args: argparse.Namespace,
    binary: str,
    functions: "Functions",
    matched: "Matched",
    plan: "Plan",
    budget: "Budget",
    read: "Sequence[tuple[str, str]]",
    choice: "Choice | None" = None,
) -> int:
    """Write the order and print the report."""
    from hugealign.cli import output
    from hugealign.ordering import compose, emit, report

    unit = "samples" if choice is None else "instructions"
    made = report.Report(binary, functions.source, read, matched, plan, budget, choice)
    text = report.to_json(made) if args.format == "json" else report.text(made)
    if args.output is not None:
        header = {
            "page-size": str(plan.page_size),
            "windows": str(plan.count),
            "budget": f"{plan.budget} ({budget.why})",
            "profile": ", ".join(f"{os.path.basename(path)} ({form})" for path, form in read),
            "binary": os.path.basename(binary),
            "build-id": functions.build_id or "--",
            "matched": f"{matched.found} of {matched.total} {unit}",
        }
        order = compose.compose(plan, matched, functions, header)
        output.write(emit.FORMS[args.emit](order), args.output)
        unnamed = sum(not entry.name for entry in order.entries)
        if unnamed:
            profiled.warn(f"{printable(binary)}: {unnamed} functions have no name; give the binary before strip (-b)")
    output.write(text, None, utf8=args.format == "json")
    return 0


def _diff(args: argparse.Namespace) -> int:
    from hugealign.cli import output
    from hugealign.ordering import diff

    if len(args.profiles) != 2:
        raise UsageError("order --diff: two order files are needed: OLD NEW")
    if args.binary or args.output or args.trace:
        raise UsageError("order --diff: takes no -b, no -o and no --trace; the report is on standard output")
    difference = diff.compare(*(_order_file(path) for path in args.profiles))
    output.write((diff.to_json if args.format == "json" else diff.text)(difference), None, utf8=args.format == "json")
    return 0 if difference.same else 1


def _order_file(path: str) -> "OrderFile":
    from hugealign import orderfile
    from hugealign.profile.lines import lines

    try:
        with open(path, "rb") as stream:
            return orderfile.parse(lines(stream))
    except HugealignError as error:
        raise HugealignError(f"{printable(path)}: {error}") from None
    except (OSError, ValueError) as error:
        raise HugealignError(f"{printable(path)}: {getattr(error, 'strerror', None) or error}") from None
