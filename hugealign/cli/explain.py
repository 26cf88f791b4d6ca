"""``hugealign explain``: what a diagnosis means, why it matters, and what to do about it."""

import argparse

from hugealign.diagnosis.catalogue import area, codes, page, row
from hugealign.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("code", nargs="*", metavar="CODE", help="the code of a diagnosis; without one, list all codes")


def run(args: argparse.Namespace) -> int:
    """Print the requested pages, or one line per code, by area."""
    every = {code.lower(): code for code in codes()}
    if not args.code:
        for name in dict.fromkeys(map(area, every.values())):
            print(f"{name}:")
            for code in every.values():
                if area(code) == name:
                    print(f"  {code:26}  {row(code).severity:7}  {row(code).title}")
        return 0
    for given in args.code:
        if given.lower() not in every:
            from hugealign.verification.selection import no_rule

            raise UsageError(f"explain: {no_rule(given)}")
    print("\n\n".join(page(every[given.lower()]) for given in args.code))
    return 0
