"""``hugealign explain``: the meaning of a rule or of a diagnosis, why it matters, and what to do about it."""

import argparse

from hugealign.diagnosis import catalogue
from hugealign.errors import UsageError
from hugealign.verification import pages
from hugealign.verification.rules import RULES
from hugealign.verification.selection import no_rule


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("code", nargs="*", metavar="CODE", help="a rule or a diagnosis; without one, all are listed")


def run(args: argparse.Namespace) -> int:
    """Print the pages asked for, or one line per rule and diagnosis."""
    if not args.code:
        for rule in RULES.values():
            print(f"{rule.id:26}  {rule.severity:7}  {rule.title}")
        for code in catalogue.codes():
            print(f"{code:26}  {catalogue.row(code).severity:7}  {catalogue.row(code).title}")
        return 0
    codes = set(catalogue.codes())
    for given in args.code:
        if given.lower() not in codes and given.upper() not in RULES:
            raise UsageError(f"explain: {no_rule(given)}")
    print("\n\n".join(catalogue.page(x.lower()) if x.lower() in codes else pages.page(x.upper()) for x in args.code))
    return 0
