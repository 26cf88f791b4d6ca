"""The report as a compiler would write it, a line for each finding, for editors.  Pure."""

from hugealign.io.units import printable
from hugealign.verification.formats.words import log_lines
from hugealign.verification.result import Verification


def render(outcome: Verification) -> str:
    """Return ``file:1:1: error: message [HA001]`` for each finding; the place is a formality."""
    lines = []
    for file in outcome.files:
        place = f"{printable(file.report.path)}:1:1"
        if file.reason:
            lines.append(f"{place}: error: could not check: {file.reason}")
        lines += [f"{place}: {f.rule.severity}: {f.message} [{f.rule.id}]" for f in file.findings]
    return log_lines(lines)
