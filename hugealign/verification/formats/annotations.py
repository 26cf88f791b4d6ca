"""The report line by line: as a compiler would write it, for editors, and as commands to GitHub's runner.  Pure."""

from hugealign.diagnosis import forms
from hugealign.verification.formats.text import log_lines, totals
from hugealign.verification.result import Verification


def render_gcc(outcome: Verification) -> str:
    """Return a line for each diagnosis."""
    return log_lines([forms.gcc(one) for file in outcome.files for one in file.every()])


def render_github(outcome: Verification, base: str) -> str:
    """Return a command for each diagnosis, and the totals as plain lines; paths below *base* become relative to it."""
    lines = [forms.github(one, base) for file in outcome.files for one in file.every()]
    return "".join(line + "\n" for line in [*lines, *totals(outcome)])
