"""``hugealign verify``: hold files against the rules of placement."""

import argparse
import importlib
import os
import sys

from hugealign.cli.arguments import split_at_dashes
from hugealign.errors import UsageError
from hugealign.units import parse_page_size, parse_size, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from hugealign.verification.baseline import Baseline
    from hugealign.archives.counts import Counts
    from hugealign.verification.formats.text import Style
    from hugealign.verification.outcome import FileOutcome, Outcome
    from hugealign.verification.rules import Policy
    from hugealign.verification.selection import Selection

_FORMATS = ("text", "json", "sarif", "github", "junit", "gcc")
_BASELINE_LIMIT = 256 << 20

_EPILOG = """\
examples:
  hugealign verify ./server libfoo.so        each file, in words
  hugealign verify -q -r build/              a tree; only what is not ok
  find . -name '*.so' -print0 | hugealign verify -0 -
  hugealign verify --format sarif -o result.sarif ./server
  hugealign verify --format json -o known.json ./server; later:
  hugealign verify --baseline known.json ./server
  hugealign verify build/server -- /usr/bin/server

With -- OLD, each FILE is held against the OLD in the same place: findings
gained and lost, coverage and sizes; archives and directories by the names
inside them.  Without a FILE before it, -- ends the options.

exit status: 0 ok (with OLD: not worse); 1 findings at or above --fail-on
(with OLD: such findings that OLD did not have, or less coverage); 2 wrong
usage; 3 something could not be checked, and nothing was found.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    split_at_dashes(parser)
    parser.usage = "hugealign verify [OPTION]... FILE... [-- OLD...]"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    add = parser.add_argument_group("what is checked").add_argument
    add(
        "paths",
        nargs="*",
        metavar="FILE",
        help="a program, library, archive (.deb, .rpm, .whl, .zip, .tar, container image), directory with -r, "
        "or - for a list on standard input",
    )
    add(
        "-r",
        "--recursive",
        action="store_true",
        help="check every program and library below a directory; symbolic links in it are not followed",
    )
    add("-0", "--null", action="store_true", help="names on standard input end with a NUL byte (find -print0)")
    add(
        "-j",
        "--jobs",
        default="1",
        metavar="N",
        help="check N files at a time (default: 1; auto or 0: one per usable CPU)",
    )
    add(
        "--max-unpacked",
        default="16G",
        metavar="SIZE",
        help="stop at an archive that unpacks to more than this (default: 16G)",
    )
    add = parser.add_argument_group("what is asked of it").add_argument
    add("--page-size", default="2M", metavar="SIZE", help="the huge page size (default: 2M)")
    add(
        "--min-text",
        default="256K",
        metavar="SIZE",
        help="files with less text are ok wherever it lies (default: 256K, which a 64-entry 4 KiB iTLB covers)",
    )
    add("--pad-threshold", default="4K", metavar="SIZE", help="a tail up to this size is ok (default: 4K)")
    add(
        "--cpu",
        metavar="NAME",
        help="say if the text has more windows than this processor has 2 MiB instruction TLB entries (HA016)",
    )
    add("--select", action="append", metavar="IDS", help="only these rules, as HA001,HA004 (default: all)")
    add("--ignore", action="append", metavar="IDS", help="not these rules")
    add(
        "--fail-on",
        choices=("error", "warning", "note", "never"),
        help="the least grave finding that fails a file (default: error)",
    )
    add("--strict", action="store_true", help="the same as --fail-on warning")
    add("--baseline", metavar="FILE", help="accept the findings in FILE, an earlier run's --format json")
    printed = parser.add_argument_group("what is printed")
    add = printed.add_argument
    add("--format", choices=_FORMATS, default="text", help="form of the report (default: text)")
    add("-o", "--output", metavar="FILE", help="write the report to FILE, whole or not at all")
    volume = printed.add_mutually_exclusive_group()
    volume.add_argument("-q", "--quiet", action="store_true", help="text: only files that are not ok")
    volume.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="text: a table of coverage by file and segment, what is fixed since the baseline, what was passed over",
    )
    add("--kernels", action="store_true", help="text: say what each known kernel and loader would do with the text")
    add(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="text: colours (default: auto: on a terminal; NO_COLOR and FORCE_COLOR are obeyed)",
    )


def run(args: argparse.Namespace) -> int:
    """Check the files, write the report, return the exit status."""
    from hugealign.cli import output
    from hugealign.verification.selection import Selection

    new, old = _sides(args)
    if args.strict and args.fail_on not in (None, "warning"):
        raise UsageError(f"--strict and --fail-on {args.fail_on} contradict each other")
    selection = Selection(args.select, args.ignore, "warning" if args.strict else args.fail_on or "error")
    policy = _policy(args)
    if old:
        text, status = _compare(args, new, old, policy, selection)
    else:
        text, status = _check(args, new, policy, selection)
    output.write(text, args.output, utf8=args.format != "text")
    return status


def _sides(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Return the files and the old files; where no file stands before ``--``, it merely ends the options."""
    new, after = args.paths, args.after or []
    if not new and args.after is not None:
        end = after.index("--") if "--" in after else len(after)
        new, after = after[:end], after[end + 1 :]
    elif args.after == []:
        raise UsageError("verify: no OLD after --")
    if not new:
        raise UsageError("verify: no file; example: hugealign verify ./server")
    if after and len(after) != len(new):
        raise UsageError(f"verify: {len(new)} FILE and {len(after)} OLD; each FILE is held against one OLD")
    if after and "-" in (*new, *after):
        raise UsageError("verify: - cannot be compared; give the files")
    if after and args.format not in ("text", "json"):
        raise UsageError(f"verify: a comparison has no form {args.format}; it has text and json")
    if after and args.baseline:
        raise UsageError("verify: give either --baseline or -- OLD")
    return new, after


def _policy(args: argparse.Namespace) -> "Policy":
    from hugealign.verification.rules import Policy

    cpu, entries = "", 0
    if args.cpu:
        from hugealign.processor import table as cpus

        found = cpus.find(args.cpu)
        cpu, entries = found.name, found.itlb_2m or 0
        if not entries:
            raise UsageError(f"--cpu: no source gives the 2 MiB instruction TLB entries of {cpu}")
    return Policy(
        parse_page_size(args.page_size, "--page-size"),
        parse_size(args.min_text, "--min-text"),
        parse_size(args.pad_threshold, "--pad-threshold"),
        cpu=cpu,
        itlb_2m=entries,
    )


def _paths(args: argparse.Namespace, words: list[str]) -> "Iterator[str]":
    from hugealign.verification.inputs import names_from

    for word in words:
        if word == "-":
            yield from names_from(sys.stdin.buffer, args.null)
        else:
            yield word


def _check(args: argparse.Namespace, words: list[str], policy: "Policy", selection: "Selection") -> tuple[str, int]:
    """Return the report on the files that *words* name, and the exit status."""
    from hugealign.archives.counts import Counts
    from hugealign.verification.outcome import Outcome

    baseline = _baseline(args.baseline) if args.baseline else None
    counts = Counts()
    files = _outcomes(args, _paths(args, words), policy, selection, baseline, counts)
    fixed = baseline.fixed([file.report.path for file in files], selection.rules) if baseline else []
    outcome = Outcome(files, policy.page_size, fixed, counts.skipped())
    if not files:
        print("hugealign: error: no files on standard input", file=sys.stderr)
    return _render(args, outcome), outcome.status(selection.fail_on)


def _outcomes(
    args: argparse.Namespace,
    paths: "Iterator[str]",
    policy: "Policy",
    selection: "Selection",
    baseline: "Baseline | None" = None,
    counts: "Counts | None" = None,
) -> "list[FileOutcome]":
    from hugealign.verification.inputs import check_all, parse_jobs

    reports = check_all(
        paths,
        policy,
        recursive=args.recursive,
        jobs=parse_jobs(args.jobs),
        max_unpacked=parse_size(args.max_unpacked, "--max-unpacked"),
        counts=counts,
    )
    return [selection.judge(report, baseline) for report in reports]


def _baseline(path: str) -> "Baseline":
    from hugealign.verification.baseline import parse

    try:
        with open(path, "rb") as stream:
            data = stream.read(_BASELINE_LIMIT)
    except (OSError, ValueError) as error:
        raise UsageError(f"--baseline: {printable(path)}: {getattr(error, 'strerror', None) or error}") from None
    return parse(data, path)


def _compare(
    args: argparse.Namespace, new: list[str], old: list[str], policy: "Policy", selection: "Selection"
) -> tuple[str, int]:
    """Return the comparison of *new* with *old*, word by word, and the exit status."""
    from hugealign.verification import compare
    from hugealign.verification.formats import comparison

    def side(word: str) -> "list[tuple[str, FileOutcome]]":
        files = _outcomes(args, iter([word]), policy, selection)
        return [(file.report.path.removeprefix(word).lstrip("/"), file) for file in files]

    compared = []
    for after, before in zip(new, old, strict=True):
        compared += compare.pairs(side(after), side(before), selection.fail_on, policy)
    if args.format == "json":
        text = comparison.render_json(compared, policy.page_size)
    else:
        text = comparison.render_text(compared, _style(args))
    return text, compare.status(compared, selection.fail_on)


def _style(args: argparse.Namespace) -> "Style":
    from hugealign.cli import output
    from hugealign.verification.formats.text import Style

    colour = output.colour_wanted(args.color, bool(args.output), os.environ)
    return Style(args.quiet, args.verbose, args.kernels, colour)


def _render(args: argparse.Namespace, outcome: "Outcome") -> str:
    if args.format == "text":
        from hugealign.verification.formats import text

        return text.render(outcome, _style(args))
    # Imported by name, since each form brings modules of its own.
    form = importlib.import_module(f"hugealign.verification.formats.{args.format}")
    report: str = form.render(outcome, os.getcwd()) if args.format in ("sarif", "github") else form.render(outcome)
    return report
