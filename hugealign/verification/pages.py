"""The page of text for each rule, for `hugealign explain` and docs/rules.md.

The text itself is one file per rule in ``explain/``; number, title, severity and condition come from the rule, so they
cannot disagree.
"""

import os
import textwrap

from hugealign.verification.rules import RULES

_DIRECTORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "explain")
_WIDTH = 80

_MARKDOWN_HEAD = """\
# The rules of `hugealign verify`

What each finding means, which behaviour of the kernel or the loader it rests on, and how to fix it. `hugealign
explain HA004` prints the same. An error fails the check; a warning or a note does so only where asked (`hugealign
verify --help`). Written by `make docs` from `hugealign/verification/explain`.
"""


def page(rule_id: str) -> str:
    """Return the page of the rule *rule_id*, no line wider than 80 columns, without a newline at its end."""
    rule = RULES[rule_id]
    head = textwrap.fill(f"{rule.id} ({rule.severity}): {rule.title}", _WIDTH)
    rests = textwrap.fill(f"Rests on: {rule.condition}.", _WIDTH, break_on_hyphens=False)
    return f"{head}\n\n{_body(rule_id)}\n\n{rests}"


def markdown() -> str:
    """Return docs/rules.md: all pages."""
    table = ["| rule | severity | |", "|---|---|---|"]
    table += [f"| [{rule.id}](#{rule.id.lower()}) | {rule.severity} | {rule.title} |" for rule in RULES.values()]
    parts = [_MARKDOWN_HEAD, *table]
    for rule in RULES.values():
        title = f"**{rule.title[0].upper()}{rule.title[1:]}** ({rule.severity})"
        parts += ["", f"## {rule.id}", "", title, "", _body(rule.id), "", f"Rests on: {rule.condition}."]
    return "\n".join(parts) + "\n"


def _body(rule_id: str) -> str:
    with open(os.path.join(_DIRECTORY, f"{rule_id}.txt"), encoding="utf-8") as file:
        return file.read().rstrip("\n")
