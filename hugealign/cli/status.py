"""``hugealign status``: list what hugealign has changed on this machine, and undo it."""

import argparse
import json
import os

from hugealign.cli import messages, output
from hugealign.cli.arguments import add_json

EPILOG = """\
status lists, each with the command that undoes it: services that run from huge
text (enable), hooks and runtimes that start hugealign for containers, units and
scripts from hugealign's examples, stores of copies (stage, enable, oci-hook),
files fixed in place (fix), files replaced by warm copies (warm --replace), and
your cache of what was compiled on demand.  As an ordinary user it lists
the files that you have fixed or replaced, not those of root.

Files that were fixed or replaced are noted before they are changed, in
/var/lib/hugealign or, for ordinary users, in ~/.local/state/hugealign (or
hugealign in XDG_STATE_HOME).  Everything else is found by looking.  What has
gone, or is no longer fixed, is not listed, and its note is removed.

--undo undoes all of it, and says what is left and who must do what.  A process
keeps what it runs from until it is restarted.  What adapt has made huge in a
process, hugealign adapt --undo makes small.

examples:
  sudo hugealign status
  sudo hugealign status --undo
"""
STATUS = {
    0: "listed; with --undo: nothing is left",
    1: "something is left that could not be undone, for the reason given",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--undo", action="store_true", help="undo what is listed")
    add_json(parser.add_argument, "schema hugealign.status/1")


def run(args: argparse.Namespace) -> int:
    """List or undo, and return the exit status."""
    from hugealign.changes import changes, report

    os.umask(0o022)
    listed, errors = changes.find()
    as_text = not args.json
    status = 0
    for subject, error in errors:
        status = 3
        if as_text:
            messages.failed(subject, error)
    undone = None
    if as_text and not (args.undo and listed):
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
        print(json.dumps(report.document(listed, undone, errors), indent=1))
    return status
