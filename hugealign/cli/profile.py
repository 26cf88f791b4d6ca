"""``hugealign profile``: turn profiles into counts, and the counts of many hosts into one."""

import argparse
import gc

from hugealign.cli import messages, profiled
from hugealign.cli.arguments import add_json, add_output, number, percentage
from hugealign.errors import UsageError
from hugealign.io.progress import Progress
from hugealign.io.units import counted

EPILOG = """\
examples:
  hugealign profile reduce perf.data -b ./server -o host.counts.gz
  hugealign profile merge hosts/*.counts.gz -o all.counts
  hugealign profile merge --keep-going --cap 1000000 hosts/*.counts -o all.counts
  hugealign order all.counts -b ./server -o server.order
  hugealign profile drift server.order all.counts -b ./server --threshold 5%

Counts are sorted text, one count per line, by build ID.  merge adds them up, in any
order and in any number of steps.  Output to a FILE.gz is compressed.

drift compares the share of the samples in the leading windows of ORDER with the
share in those of a new order.
"""
STATUS = {
    0: "done (drift: ORDER still fits)",
    1: "merge skipped files (--keep-going); drift: ORDER is out of date",
    3: "a file could not be read, and nothing was written",
}
_MOST = 10**18 - 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, (what, configure_action) in {
        "reduce": ("reduce profiles to counts of functions, calls and blocks, by build ID", _configure_reduce),
        "merge": ("add up the counts of many hosts", _configure_merge),
        "drift": ("check how well an order still fits new profiles", _configure_drift),
    }.items():
        configure_action(actions.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}."))


def _configure_reduce(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("profiles", nargs="+", metavar="PROFILE", help="any profile that `hugealign order` reads")
    add(
        "-b",
        "--binary",
        action="append",
        default=[],
        metavar="EXE",
        help="a program or library that ran; may be repeated (default: those on this machine that the profiles name)",
    )
    add_output(add, "counts")
    add("--blocks", action="store_true", help="also count blocks within functions, for `order --blocks`")
    profiled.add_reading(add)


def _configure_merge(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="a file of counts, compressed or not")
    add_output(add, "sum")
    add(
        "--weight",
        action="append",
        default=[],
        metavar="PATTERN=N",
        help="multiply the counts of files that match PATTERN by N (* and ? as in a shell; the first match wins)",
    )
    add("--cap", metavar="N", help="scale down a file if its total of any kind of count exceeds N")
    add("--keep-going", action="store_true", help="skip files that cannot be read, and name them")


def _configure_drift(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("order", metavar="ORDER", help="an order file")
    add("profiles", nargs="+", metavar="PROFILE", help="a profile; several are added up")
    profiled.add_binary(add)
    add(
        "--threshold",
        type=percentage,
        default=5.0,
        metavar="P",
        help="end with status 1 if a new order's windows hold more of the samples by over P percentage points "
        "(default: 5)",
    )
    add_json(add, "schema hugealign.order-drift/1")
    profiled.add_reading(add)


def run(args: argparse.Namespace) -> int:
    """Run the action and return the exit status."""
    gc.disable()  # millions of small objects and no cycles
    return {"reduce": _reduce, "merge": _merge, "drift": _drift}[args.action](args)


def _reduce(args: argparse.Namespace) -> int:
    from hugealign.cli import output
    from hugealign.profile.reduce import ReduceOptions, reduce_profiles

    options = ReduceOptions(args.blocks, profiled.max_unpacked(args), args.debuginfo)
    output.keep_apart({"-o": args.output}, [*args.profiles, *args.binary])
    with Progress("hugealign: profile reduce") as progress:
        progress.phase(f"reading {counted(len(args.profiles), 'file')}")
        reduced = reduce_profiles(args.profiles, args.binary, options, warn=messages.warning)
    output.keep_apart({"-o": args.output}, reduced.binaries)  # including those that the profiles name
    _write(reduced.file(), args.output)
    return 0


def _merge(args: argparse.Namespace) -> int:
    from hugealign.profile.merge import MOST_WEIGHT, MergeOptions, merge_counts

    weights = []
    for word in args.weight:
        pattern, equals, weight = word.rpartition("=")
        if not equals or not pattern:
            raise UsageError("--weight: not PATTERN=N, as in 'eu-*=3'")
        weights.append((pattern, number(weight, "--weight", most=MOST_WEIGHT)))
    cap = None if args.cap is None else number(args.cap, "--cap", most=_MOST)
    options = MergeOptions(weights, cap, args.keep_going)
    with Progress("hugealign: profile merge") as progress:
        merged = merge_counts(progress.over(args.files), options, warn=messages.warning)
    _write(merged.file(), args.output)
    if merged.skipped:
        messages.warning(f"{len(merged.skipped)} of {len(merged.skipped) + merged.files} files skipped")
    return 1 if merged.skipped else 0


def _drift(args: argparse.Namespace) -> int:
    from hugealign.cli import output
    from hugealign.diagnosis import documents
    from hugealign.ordering import drift

    drifted = drift.drift(
        args.order,
        args.profiles,
        args.binary or profiled.only_program("profile drift", args.profiles),
        profiled.options(args),
        warn=messages.warning,
    )
    report = drift.Report(drifted, args.threshold / 100)
    output.write(documents.text(report) if args.json else drift.text(report), None, utf8=args.json)
    return int(report.out_of_date)


def _write(data: bytes, path: str | None) -> None:
    from hugealign.cli import output
    from hugealign.profile.counts import packed

    output.write_bytes(packed(data) if path is not None and path.endswith(".gz") else data, path)
