"""``hugealign diff OLD NEW``: what got better and what got worse, in programs, packages, trees or order files."""

import argparse
import os
import sys

from hugealign.cli.arguments import FAIL_ON, add_json, add_output, add_page_size, page_size
from hugealign.errors import UsageError

EPILOG = """\
examples:
  hugealign diff /usr/bin/server build/server
  hugealign diff -r /usr/lib/server build/lib
  hugealign diff server_1.0_amd64.deb server_1.1_amd64.deb
  hugealign diff old.order server.order

diff compares the findings, coverage and sizes of programs and libraries; in
packages and directories, of those with the same name. For order files, it
compares the functions and the number of windows.
"""
STATUS = {
    0: "NEW is not worse than OLD (orders: no difference)",
    1: "NEW has new findings (--fail-on), or less coverage (orders: they differ)",
    3: "something could not be checked",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("old", metavar="OLD", help="a program, library, archive, directory with -r, or order file")
    add("new", metavar="NEW", help="the new version of OLD")
    add("-r", "--recursive", action="store_true", help="compare the programs and libraries below two directories")
    add_page_size(add)
    add(
        "--fail-on",
        choices=FAIL_ON,
        default="error",
        help="the lowest severity of a new finding that makes NEW worse (default: error)",
    )
    add_json(add, "schema hugealign.compare/1 (orders: hugealign.order-diff/1)")
    add_output(add)


def run(args: argparse.Namespace) -> int:
    """Compare the two, write the report and return the exit status."""
    from hugealign import orderfile
    from hugealign.cli import output

    output.keep_apart({"-o": args.output}, [args.old, args.new])
    orders = [orderfile.is_order(path) for path in (args.old, args.new)]
    if any(orders):
        if not all(orders):
            raise UsageError("diff: an order file can only be compared with an order file")
        return _orders(args)
    from hugealign.verification import formats
    from hugealign.verification.formats.text import Style
    from hugealign.verification.rules import Policy
    from hugealign.verification.selection import Selection
    from hugealign.verification.verify import VerifyOptions, compare

    options = VerifyOptions(Policy(page_size(args.page_size)), Selection(fail_on=args.fail_on), args.recursive)
    compared = compare(args.old, args.new, options)
    stream = sys.stdout if args.output in (None, "-") else None
    style = Style(colour=output.colour_wanted(stream, os.environ))
    output.write(
        formats.render_comparison("json" if args.json else "text", compared, style), args.output, utf8=args.json
    )
    return compared.status


def _orders(args: argparse.Namespace) -> int:
    from hugealign.cli import output
    from hugealign.diagnosis import documents
    from hugealign.orderfile import load
    from hugealign.ordering import diff

    difference = diff.compare(load(args.old), load(args.new))
    text = documents.text(difference, names=str) if args.json else diff.text(difference)
    output.write(text, args.output, utf8=args.json)
    return 0 if difference.same else 1
