"""The report as commands to GitHub's runner, which shows them as annotations.  Pure.

The escapes are those that the runner undoes (ActionCommand.cs in github.com/actions/runner).
"""

from hugealign.io.units import printable
from hugealign.verification.formats.words import relative, totals
from hugealign.verification.result import Verification
from hugealign.verification.rules import ERROR, NOTE, WARNING

_COMMANDS = {ERROR: "error", WARNING: "warning", NOTE: "notice"}


def render(outcome: Verification, base: str) -> str:
    """Return a command for each finding, and the totals as plain lines; paths below *base* are made relative to it."""
    lines = []
    for file in outcome.files:
        path = printable(relative(file.report.path, base))
        if file.reason:
            lines.append(_command("error", path, "hugealign: could not check", f"{path}: {file.reason}"))
        for finding in file.findings:
            title = f"{finding.rule.id}: {finding.rule.title}"
            message = f"{path}: {finding.message}\nfix: {finding.rule.fix}"
            lines.append(_command(_COMMANDS[finding.rule.severity], path, title, message))
    return "".join(line + "\n" for line in [*lines, *totals(outcome)])


def _command(name: str, path: str, title: str, message: str) -> str:
    return f"::{name} file={_property(path)},title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
