"""``hugealign explain``: what a rule means, why it matters and how to mend what it finds."""

import argparse
import textwrap

from hugealign.errors import UsageError
from hugealign.verify.rules import RULES, Rule


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("rule", nargs="*", metavar="HAxxx", help="the rule's id; without one, all are listed")


def run(args: argparse.Namespace) -> int:
    """Print the rules asked for, or a line for each rule there is."""
    if not args.rule:
        for rule in RULES.values():
            print(f"{rule.id}  {rule.severity:7}  {rule.title}")
        return 0
    wanted = [RULES.get(name.upper()) for name in args.rule]
    if None in wanted:
        raise UsageError("no such rule; `hugealign explain` lists them")
    print("\n\n".join(_page(rule) for rule in wanted if rule))
    return 0


def _page(rule: Rule) -> str:
    why = textwrap.fill(rule.why, 80)
    fix = textwrap.fill(rule.fix, 80, initial_indent="Mend: ", subsequent_indent="      ", break_on_hyphens=False)
    return f"{rule.id} ({rule.severity}): {rule.title}\n\n{why}\n\n{fix}"
