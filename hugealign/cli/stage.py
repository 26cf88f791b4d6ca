"""``hugealign stage``: keep a store of huge copies that services share."""

import argparse
import os

from hugealign.cli import files, messages, output
from hugealign.cli.arguments import add_json
from hugealign.errors import HugealignError, UsageError
from hugealign.io.progress import Progress
from hugealign.io.units import printable

EPILOG = """\
Some file systems keep no huge pages (ext4 before Linux 6.16, overlayfs on it, btrfs).
For them stage copies each FILE once, for all processes, to a tmpfs with huge
pages. The copy of /usr/sbin/mariadbd is then

  /run/hugealign/path/usr/sbin/mariadbd

A service mounts it over the file (`hugealign enable` writes the unit), and
`hugealign run` uses it. If the file has changed, stage replaces the copy. A copy
keeps times, group, ACLs and labels of its file. It belongs to root, and only
root can write to it. stage refuses set-user-ID files and files with
capabilities. Copies take whole huge pages, with --fix up to three more than the
file needs; together at most half of the machine's memory.

hugealign status lists the copies, and status --undo FILE removes that of FILE.
With the last copy the store goes. Processes that run from a copy keep it.
--outdated removes the copies of files that have changed: the processes that run
from them then show deleted files, as needrestart and lsof look for. The units
that `hugealign enable` writes do that.
"""
STATUS = {
    0: "done",
    1: "some windows are not huge, or a file has no window or is refused",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    from hugealign.run import store

    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="a program or shared library; with -r also DIR")
    add(
        "--fix",
        action="store_true",
        help="fix the copy of each file that fix gives more windows; the file does not change",
    )
    add(
        "-r",
        "--recursive",
        action="store_true",
        help="stage the files with windows below DIR, those with the most text first",
    )
    add("--libs", action="store_true", help="include the shared libraries with 1 MiB of text that the files need")
    add("--store", metavar="DIR", default=store.DEFAULT, help=f"the directory of the copies (default: {store.DEFAULT})")
    add("--owner", metavar="NAME", default="", help="use DIR/for/NAME for the paths of the copies instead of DIR/path")
    add("--outdated", action="store_true", help="only remove the copies of files that have changed")
    add_json(add, "schema hugealign.stage/1")


def run(args: argparse.Namespace) -> int:
    """Stage, and return the exit status."""
    from hugealign.diagnosis import documents
    from hugealign.run import report, store

    if args.outdated:
        if args.files:
            raise UsageError("stage: --outdated takes no FILE")
        store.refresh(args.store)
        return 0
    if not args.files:
        raise UsageError("stage: no file; example: hugealign stage /usr/sbin/mariadbd")
    os.umask(0o022)  # everyone reads, and only we change, what the system runs
    done, errors, status, left_out = [], [], 0, 0
    chosen, _ = files.chosen(args, "stage", large=True)
    paths = {files.path(file): library for file, library in chosen.items()}
    kept = store.identities(paths)
    for path, library in paths.items():
        try:
            with Progress("hugealign: stage") as progress:
                progress.phase(printable(path))
                staged = store.stage(path, args.store, args.fix, args.owner, kept)
        except HugealignError as error:
            status = max(status, error.exit_status)
            errors.append((path, error))
            full = library and _is_full(error)
            left_out += full
            if not full or left_out == 1:
                messages.failed(path, error)
            continue
        if staged.state == store.NO_WINDOW and library:
            continue
        done.append(staged)
        status = max(status, int(not staged.whole))
        if not args.json:
            output.show(report.lines(staged))
    if left_out > 1:
        messages.error(f"no room for {left_out - 1} more")
    if args.json:
        print(documents.text(report.Report(args.store, done, documents.failed(errors))), end="")
    return status


def _is_full(error: HugealignError) -> bool:
    """Return whether there was no room for a copy."""
    from hugealign.diagnosis.refusal import RefusalError

    if not isinstance(error, RefusalError):
        return False
    return error.diagnosis.code == "copy.no-room" or error.diagnosis.facts.get("error") == "ENOSPC"
