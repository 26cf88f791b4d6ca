"""``hugealign order``: a profile becomes an order of functions and a number of windows."""

import argparse
import gc
import os
import sys

from hugealign.errors import HugealignError, UsageError
from hugealign.units import parse_page_size, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.elf.symbols import Functions
    from hugealign.order.orderfile import OrderFile
    from hugealign.profile.match import Matched
    from hugealign.profile.model import Profile

#: Below this share of samples found, the profile is taken for one of another program.
_LEAST_MATCHED = 0.5

_EPILOG = """\
examples:
  perf record -e cpu-clock:u -F 999 -g -o perf.data -- ./server
  hugealign order perf.data -b ./server -o server.order
  hugealign order --cpu skylake a.fdata b.fdata -b ./server
  hugealign order --diff old.order server.order

profiles, known by what they begin with, also in gzip or zstd: perf.data,
perf script's text, BOLT fdata, YAML and pre-aggregated, folded stacks,
callgrind, gprof (gmon.out or its text), AutoFDO text, llvm-profdata (raw,
indexed, sample), gcda, pprof, a list of symbols, an order file.

Exactly as many windows are to be huge as the functions that ran need, at most
one for each 2 MiB instruction TLB entry less the reserve.  Room left over is
filled with functions next to those that ran.

exit status: 0 order made (--diff: no difference); 1 less than half of the
samples found in EXE, and no order written (--diff: they differ); 2 wrong
usage; 3 could not read.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = "hugealign order [OPTION]... PROFILE... -b EXE [-o FILE]\n       hugealign order --diff OLD NEW"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("profiles", nargs="*", metavar="PROFILE", help="what ran; several are added up")
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
    add("--type", metavar="FORMAT", help="do not look: the profiles are of this format")
    add("--force", action="store_true", help="make an order even if most of the samples are not found in EXE")
    add = parser.add_argument_group("windows").add_argument
    add("--page-size", default="2M", metavar="SIZE", help="the huge page size (default: 2M)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--cpu", metavar="NAME", help="budget for this processor (default: the one that runs this)")
    which.add_argument("--itlb-2m", type=int, metavar="N", help="budget for N instruction TLB entries")
    add("--reserve", type=int, default=1, metavar="N", help="entries left to others (default: 1)")
    add("--no-fill", action="store_true", help="leave room as it is")


def run(args: argparse.Namespace) -> int:
    """Make the order or the comparison, print the report and return the exit status."""
    gc.disable()  # a million small objects and no cycles: looking for those takes a fourth of the time
    if args.diff:
        return _diff(args)
    if not args.profiles or not args.binary:
        raise UsageError("order: a PROFILE and -b EXE are needed; example: hugealign order perf.data -b ./server")
    return _order(args)


def _order(args: argparse.Namespace) -> int:
    from hugealign.cli import output
    from hugealign.order import budget as budgets
    from hugealign.order import compose, emit, hot, report, windows
    from hugealign.profile.match import match
    from hugealign.profile.model import Profile

    page_size = parse_page_size(args.page_size, "--page-size")
    budget = budgets.budget(args.cpu, args.itlb_2m, args.reserve)
    functions = _functions(args.binary)
    profile = Profile()
    read = [(path, _add(path, profile, functions, args)) for path in args.profiles]
    matched = match(profile, functions)
    _check_match(matched, args, profile)
    hot_order, cold = hot.hot_and_cold(matched, functions)
    plan = windows.plan(hot_order, cold, matched, functions, page_size, budget.windows, fill=not args.no_fill)
    made = report.Report(args.binary, functions.source, read, matched, plan, budget)
    text = report.to_json(made) if args.format == "json" else report.text(made)
    if args.output is not None:
        header = {
            "page-size": str(page_size),
            "windows": str(plan.count),
            "budget": f"{plan.budget} ({budget.why})",
            "profile": ", ".join(f"{os.path.basename(path)} ({form})" for path, form in read),
            "binary": os.path.basename(args.binary),
            "build-id": functions.build_id or "--",
            "matched": f"{matched.found} of {matched.total} samples",
        }
        order = compose.compose(plan, matched, functions, header)
        output.write(emit.FORMS[args.emit](order), args.output)
        unnamed = sum(not entry.name for entry in order.entries)
        if unnamed:
            _warn(f"{printable(args.binary)}: {unnamed} functions have no name; give the binary before strip (-b)")
    output.write(text, None, utf8=args.format == "json")
    if matched.rate < _LEAST_MATCHED:
        _warn(f"only {matched.rate:.0%} of the samples found; --force made an order all the same")
    return 0


def _functions(path: str) -> "Functions":
    from hugealign.elf.symbols import read_functions

    try:
        return read_functions(path)
    except HugealignError as error:
        raise HugealignError(f"{printable(path)}: {error}") from None
    except (OSError, ValueError) as error:
        raise HugealignError(f"{printable(path)}: {getattr(error, 'strerror', None) or error}") from None


def _add(path: str, profile: "Profile", functions: "Functions", args: argparse.Namespace) -> str:
    """Add the profile at *path* to the others, say what is odd about it, and return its format."""
    from hugealign.profile import read

    if args.type is not None and args.type not in read.FORMATS:
        raise UsageError(f"--type: unknown; known are {', '.join(read.FORMATS)}")
    profile.good = profile.bad = profile.first_bad = 0
    profile.notes.clear()
    try:
        form = read.add(path, profile, functions, args.binary, args.type)
    except HugealignError as error:
        raise HugealignError(f"{printable(path)}: {error}") from None
    if profile.bad:
        lines = "line is" if profile.bad == 1 else "lines are"
        first = f" (first: line {profile.first_bad})" if profile.first_bad else ""
        _warn(f"{printable(path)}: {profile.bad} {lines} not {form}{first}, left out")
    for note in profile.notes:
        _warn(f"{printable(path)}: {note}")
    return form


def _check_match(matched: "Matched", args: argparse.Namespace, profile: "Profile") -> None:
    if not matched.samples:
        where = f"; {profile.foreign} samples are in other files" if profile.foreign else ""
        raise _MismatchError(f"nothing in the profile is of {printable(args.binary)}{where}; give the binary that ran")
    if matched.total and matched.rate < _LEAST_MATCHED and not args.force:
        names = ", ".join(printable(name[:60]) for name, _ in matched.missing[:3])
        raise _MismatchError(
            f"only {matched.rate:.0%} of the samples are in functions of {printable(args.binary)} (not: {names}); "
            "give the binary that ran, or --force"
        )


class _MismatchError(HugealignError):
    """The profile is of another program."""

    exit_status = 1


def _diff(args: argparse.Namespace) -> int:
    from hugealign.cli import output
    from hugealign.order import diff

    if len(args.profiles) != 2:
        raise UsageError("order --diff: two order files are needed: OLD NEW")
    if args.binary or args.output:
        raise UsageError("order --diff: takes no -b and no -o; the report is on standard output")
    difference = diff.compare(*(_order_file(path) for path in args.profiles))
    output.write((diff.to_json if args.format == "json" else diff.text)(difference), None, utf8=args.format == "json")
    return 0 if difference.same else 1


def _order_file(path: str) -> "OrderFile":
    from hugealign.order import orderfile
    from hugealign.profile.lines import lines

    try:
        with open(path, "rb") as stream:
            return orderfile.parse(lines(stream))
    except HugealignError as error:
        raise HugealignError(f"{printable(path)}: {error}") from None
    except (OSError, ValueError) as error:
        raise HugealignError(f"{printable(path)}: {getattr(error, 'strerror', None) or error}") from None


def _warn(message: str) -> None:
    print(f"hugealign: warning: {message}", file=sys.stderr)
