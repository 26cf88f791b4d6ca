"""The command ``hugealign doctor``: check that this machine can put text on huge pages."""

import argparse
import os
import sys

from hugealign.cli.arguments import add_json

EPILOG = """\
To test whether a file system supports huge pages, doctor writes an unnamed file
of two windows, which disappears when doctor ends.  It writes nothing else and
needs no privileges.

Marks (Unicode if the output can encode it):

  +  fine
  x  prevents huge text; the line names a remedy
  -  missing, but not needed
  ?  could not be checked
"""
STATUS = {
    0: "nothing prevents huge text",
    1: "something prevents it",
    3: "a PATH could not be checked",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="a directory that programs run from (default: the current directory)"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show the curve behind the costs of text")
    add_json(parser.add_argument, "schema hugealign.doctor/1")


def run(args: argparse.Namespace) -> int:
    """Look, print the findings and return the exit status."""
    from hugealign.cli import output
    from hugealign.diagnosis import documents
    from hugealign.doctor import checks, probes, report
    from hugealign.system import textcosts

    findings = probes.diagnose(args.paths or [os.curdir])
    if args.json:
        output.write(documents.text(report.Report(findings)), None, utf8=True)
    else:
        text = report.text(findings, sys.stdout.encoding or "ascii")
        if args.verbose and (costs := textcosts.known()):
            text += "".join(f"{line}\n" for line in report.curve(costs))
        output.write(output.painted(text), None)
    return checks.exit_status(findings)
