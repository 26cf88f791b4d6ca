"""The command ``hugealign doctor``: find what stands in the way of huge text on this machine."""

import argparse
import os
import sys

from hugealign.cli.arguments import add_json

EPILOG = """\
To find out whether a file system keeps files in huge folios, doctor writes an
unnamed file of two windows, which is gone afterwards.  It writes nothing else,
and needs no privileges.

+ fine   x in the way, with its fix   - not in the way   ? could not look
(in Unicode unless the output's encoding lacks it)
"""
STATUS = {
    0: "nothing is in the way",
    1: "something is",
    3: "a PATH could not be tried",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="where programs will run from (default: the current directory)"
    )
    add_json(parser.add_argument, "schema hugealign.doctor/1")


def run(args: argparse.Namespace) -> int:
    """Look, print the findings and return the exit status."""
    from hugealign.cli import output
    from hugealign.doctor import checks, report
    from hugealign.doctor.probes import diagnose

    findings = diagnose(args.paths or [os.curdir])
    if args.json:
        output.write(report.to_json(findings), None, utf8=True)
    else:
        output.write(output.painted(report.text(findings, sys.stdout.encoding or "ascii")), None)
    return checks.exit_status(findings)
