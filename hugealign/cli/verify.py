"""``hugealign verify``: check files against the rules of placement."""

import argparse
import os
import sys

from hugealign.cli import messages
from hugealign.cli.arguments import (
    FAIL_ON,
    StrictParser,
    add_form,
    add_json,
    add_output,
    add_page_size,
    number,
    page_size,
)
from hugealign.errors import UsageError
from hugealign.io.units import parse_size
from hugealign.settings import DEFAULT_MIN_TEXT, OWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hugealign.verification.baseline import Baseline
    from hugealign.verification.configuration import Configuration
    from hugealign.verification.result import FileReport, Verification
    from hugealign.verification.selection import Selection

_MOST_WINDOWS = 1 << 20
_MOST_EDITS = 50  # files whose edits are tried; each takes some milliseconds
_FORMS = ("text", "sarif", "github", "junit", "gcc")  # of hugealign.verification.formats

PARSER = StrictParser
EPILOG = """\
examples:
  hugealign verify ./server libfoo.so                 a report on each file
  hugealign verify -q -r build/                       only what is not ok
  find . -name '*.so' -print0 | hugealign verify -0 -
  hugealign verify --format sarif -o result.sarif ./server
  hugealign verify --json -o known.json ./server      record the findings
  hugealign verify --baseline known.json ./server     report only new ones
"""
STATUS = {
    0: "ok",
    1: "findings at or above --fail-on",
    3: "no findings, but something could not be checked",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    _add_inputs(parser.add_argument_group("what to check").add_argument)
    _add_demands(parser.add_argument_group("what to require"))
    _add_output(parser.add_argument_group("what to print"))


def _add_inputs(add: "Callable[..., object]") -> None:
    add(
        "paths",
        nargs="*",
        metavar="FILE",
        help="a program, library or archive (.deb, .rpm, .whl, .zip, .tar, container image); with -r a directory; "
        "- reads names from standard input",
    )
    add(
        "-r",
        "--recursive",
        action="store_true",
        help="check every program and library below a directory; symbolic links in it are not followed",
    )
    add("-0", "--null", action="store_true", help="read names that end with a NUL byte, as find -print0 prints")
    add(
        "-j",
        "--jobs",
        metavar="N",
        help="check N files at a time (default: 1; auto or 0: one per usable CPU)",
    )
    add(
        "--max-unpacked",
        metavar="SIZE",
        help="refuse an archive that decompresses to more (default: 64M plus 128 times its own size)",
    )
    add(
        "--allow-empty",
        action="store_true",
        default=None,
        help="accept archives and directories without a program",
    )


def _add_demands(group: "argparse._ArgumentGroup") -> None:
    add = group.add_argument
    add_page_size(add)
    add(
        "--min-text",
        metavar="SIZE",
        help=f"do not check files with less text (default: {DEFAULT_MIN_TEXT}; LoongArch: 4M)",
    )
    add("--min-windows", metavar="N", help="fail files with fewer whole windows of text (HA030; default: 0)")
    add("--select", action="append", metavar="IDS", help="check only these rules, such as HA001,HA004 (default: all)")
    add("--ignore", action="append", metavar="IDS", help="do not check these rules")
    add(
        "--fail-on",
        choices=FAIL_ON,
        help="the lowest severity that fails a file (default: error)",
    )
    add("--baseline", metavar="FILE", help="accept the findings in FILE, the --json of an earlier run")
    add(
        "--config",
        metavar="FILE",
        help="read options from FILE; /dev/null: none (default: hugealign.toml, or [tool.hugealign] of "
        "pyproject.toml, in this directory or the nearest above it)",
    )


def _add_output(group: "argparse._ArgumentGroup") -> None:
    add = group.add_argument
    form = group.add_mutually_exclusive_group()
    add_json(form.add_argument, "schema hugealign.verify/1")
    add_form(form.add_argument, _FORMS, "format of the report (default: text); json: --json")
    add_output(add)
    volume = group.add_mutually_exclusive_group()
    volume.add_argument("-q", "--quiet", action="store_true", help="text: leave out files that are ok")
    volume.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="text: add coverage by file and segment, what was fixed since the baseline, and what was skipped",
    )
    add("--kernels", action="store_true", help="text: add what each kernel and loader would do with the files")


def run(args: argparse.Namespace) -> int:
    """Check the files, write the report, return the exit status."""
    from hugealign.cli import output
    from hugealign.io.progress import Progress
    from hugealign.verification import formats
    from hugealign.verification.formats.text import Style
    from hugealign.verification.inputs import parse_jobs
    from hugealign.verification.rules import Policy
    from hugealign.verification.verify import VerifyOptions, verify

    if not args.paths:
        raise UsageError("verify: no file; example: hugealign verify ./server")
    output.keep_apart({"-o": args.output}, args.paths)
    config = _configuration(args)
    selection = _selection(args, config)
    policy = Policy(
        page_size(*config.chosen("page-size", args.page_size)),
        parse_size(*least) if (least := config.chosen("min-text", args.min_text)).value else OWN,
        number(*config.chosen("min-windows", args.min_windows, "0"), most=_MOST_WINDOWS),
    )
    jobs = parse_jobs(*config.chosen("jobs", args.jobs, "1"))
    unpacked = config.chosen("max-unpacked", args.max_unpacked)
    stream = sys.stdout if args.output in (None, "-") else None
    style = Style(args.quiet, args.verbose, args.kernels, output.colour_wanted(stream, os.environ))
    baseline = config.chosen("baseline", args.baseline)
    options = VerifyOptions(
        policy,
        selection,
        args.recursive,
        jobs,
        parse_size(*unpacked) if unpacked.value else None,
        _baseline(*baseline) if baseline.value else None,
        config.chosen("allow-empty", args.allow_empty).value or False,
    )
    with Progress("hugealign: verify") as progress:
        outcome = verify(_paths(args), options, progress=progress.say)
    if not outcome.files and not outcome.empty:
        messages.error("no files on standard input")
    if args.output and os.path.isfile(args.output):  # a program that was found in a directory or a list
        programs = (file.path.partition("!")[0] for file in outcome.files if file.coverage)
        output.keep_apart({"-o": args.output}, programs)
    form = "json" if args.json else args.format
    if form in ("text", "json"):  # the others annotate a build, whose link should change
        outcome = _with_edits(outcome)
    base = os.getcwd() if form in formats.WITH_BASE else ""
    text, status = formats.render(form, outcome, style, base), outcome.status
    output.write(text, args.output, utf8=form != "text")
    return status


def _baseline(path: str, where: str) -> "Baseline":
    from hugealign.verification.baseline import read  # json, which takes 3 ms to load

    return read(path, where)


def _configuration(args: argparse.Namespace) -> "Configuration":
    from hugealign.verification import configuration

    if args.config == os.devnull:
        return configuration.NONE
    if args.config is not None:
        return configuration.read(args.config)
    try:
        return configuration.find(os.getcwd())
    except FileNotFoundError:  # the current directory was removed
        return configuration.NONE


def _selection(args: argparse.Namespace, config: "Configuration") -> "Selection":
    from hugealign.verification.selection import Selection

    level = config.chosen("fail-on", args.fail_on, "error")
    if level.value not in FAIL_ON:
        raise UsageError(f"{level.where}: not one of {', '.join(FAIL_ON)}")
    select, ignore = config.chosen("select", args.select), config.chosen("ignore", args.ignore)
    places = (select.where, ignore.where)
    return Selection(select.value, ignore.value, level.value, config.exceptions, places)


def _with_edits(outcome: "Verification") -> "Verification":
    """Return *outcome* with remedies for the first few files that lack windows; each takes trial fixes."""
    from hugealign.verification.rules import LACK_WINDOWS, PLACEMENT

    lacking = [
        file
        for file in outcome.files
        if not file.fix_level and any(diagnosis.code in LACK_WINDOWS for diagnosis in file.diagnoses)
    ]
    tried = {id(file) for file in lacking[:_MOST_EDITS] if os.path.isfile(file.path)}
    if not tried:
        return outcome
    from hugealign.fixing import remedies

    def with_edit(file: "FileReport") -> "FileReport":
        if id(file) not in tried:
            return file
        edit, link = remedies.edit(file.path, file.policy.page_size, ask_packages=True), remedies.relink(file.path)
        remedy = link
        if edit and link:
            split = any(diagnosis.code == "HA007" for diagnosis in file.diagnoses)
            again = split and remedies.laid_out(file.path)  # another link would also split it
            remedy = edit if again else edit.changed(kind=f"{edit.kind}-or-{link.kind}")
        return file.changed(
            diagnoses=tuple(
                diagnosis.changed(remedy=remedy)
                if remedy and remedy != remedies.RELINK and diagnosis.code in (*LACK_WINDOWS, *PLACEMENT)
                else diagnosis
                for diagnosis in file.diagnoses
            )
        )

    return outcome.changed(files=tuple(map(with_edit, outcome.files)))


def _paths(args: argparse.Namespace) -> "Iterator[str]":
    from hugealign.verification.inputs import names_from

    for word in args.paths:
        if word == "-":
            yield from names_from(sys.stdin.buffer, args.null)
        else:
            yield word
