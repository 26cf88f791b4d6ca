"""``hugealign explain``: the meaning of a rule, why it matters, and how to fix its findings."""

import argparse

from hugealign.errors import UsageError
from hugealign.verification import pages
from hugealign.verification.rules import RULES
from hugealign.verification.selection import no_rule


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("rule", nargs="*", metavar="HAxxx", help="the rule's id; without one, all are listed")


def run(args: argparse.Namespace) -> int:
    """Print the rules asked for, or one line per rule."""
    if not args.rule:
        for rule in RULES.values():
            print(f"{rule.id}  {rule.severity:7}  {rule.title}")
        return 0
    wanted = [name.upper() for name in args.rule]
    for given, name in zip(args.rule, wanted, strict=True):
        if name not in RULES:
            raise UsageError(f"explain: {no_rule(given)}")
    print("\n\n".join(pages.page(rule_id) for rule_id in wanted))
    return 0
