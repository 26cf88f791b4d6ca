"""``hugealign status``: list what hugealign has changed on this machine, and undo it."""

import argparse
import os
from itertools import zip_longest

from hugealign.cli import messages, output
from hugealign.cli.arguments import add_json

EPILOG = """\
status lists, each with the command that undoes it:
  services (enable), and container hooks and runtimes that start hugealign
  units and scripts from hugealign's examples
  stores of copies (stage, enable, oci-hook)
  files fixed in place (fix) or replaced by warm copies (warm --replace)
  your cache of what hugealign compiled

Of the files, ordinary users see only those that they have fixed or replaced.
hugealign records such files in /var/lib/hugealign/journal, or for an ordinary
user in ~/.local/state/hugealign/journal (or below XDG_STATE_HOME), before it
changes them.

--undo undoes everything that is listed, or only each WHAT, and lists what is
left to do, and who must do it. A running process keeps its huge text until it
is restarted; hugealign adapt --undo splits only that of code without a file.

examples:
  sudo hugealign status
  sudo hugealign status --undo
  sudo hugealign status --undo /usr/sbin/mariadbd   remove the copy of a file
"""
STATUS = {
    0: "listed; with --undo: nothing is left",
    1: "something could not be undone, or a WHAT is not changed; the message says why",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    about = "only this service, changed path, file with a copy, or store"
    parser.add_argument("what", nargs="*", metavar="WHAT", help=about)
    parser.add_argument("--undo", action="store_true", help="undo what is listed")
    add_json(parser.add_argument, "schema hugealign.status/1")


def run(args: argparse.Namespace) -> int:
    """List or undo, and return the exit status."""
    from hugealign.changes import changes, report
    from hugealign.diagnosis import documents

    os.umask(0o022)
    listed, errors = changes.find(args.what)
    as_text = not args.json
    status = 0
    for subject, error in errors:
        status = max(status, getattr(error, "exit_status", 3))
        if as_text:
            messages.failed(subject, error)
    undone = None
    if as_text and not (listed and args.undo) and (listed or not errors):
        output.show(report.lines(listed))
    if args.undo:
        undone = []
        for change in listed:
            done = changes.undo(change)
            undone.append(done)
            if done.failure and as_text:
                messages.failed(change.subject, done.failure)
            if as_text and (lines := report.undone_lines(done)):
                output.show(lines)
        changes.find()  # takes what was undone out of the journal
        status = 1 if not all(done.done for done in undone) else status
    if not as_text:
        reported = [report.ReportedChange(*pair) for pair in zip_longest(listed, undone or ())]
        print(documents.text(report.Report(reported, documents.failed(errors))), end="")
    return status
