"""The command ``hugealign fix``: make the text of a linked file whole by editing its headers."""

import argparse
import json
import os
import sys

from hugealign.cli import messages, output
from hugealign.cli.arguments import add_json, add_page_size, page_size
from hugealign.errors import HugealignError, UsageError
from hugealign.io.progress import Progress
from hugealign.io.units import parse_size, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.fixing.fix import Fixed, FixOptions

_LEVELS = ("align", "shift", "separate")
EPILOG = """\
levels, from the least invasive to the most:
  align   only the alignment of the text segment
  shift   the text segment grows to window boundaries; the read-only data in
          between become executable, no more than --max-executable
  separate
          the text, and all that follows it, moves away from what only the
          loader reads; traps fill its windows, no data become executable, and
          text of less than a window is whole, too.  Needs capstone, which makes
          sure that no code reaches across.  The build ID becomes another

Without --level, a file gets separate where nothing reaches across, else shift;
fix says which, and why.  Where shift would cost too much, the text begins or
ends as with align.

Only separate changes addresses, in relocations, symbols and debug information,
too: --debug-file-of PROGRAM makes the same of the separate debug FILE of a
program, for the separated PROGRAM.

If the linker packed the file, contents move in it.  fix prints how much becomes
executable.  --undo restores the file byte for byte.  fix refuses a file that
might behave differently afterwards, or lose a protection.

-r fixes what is below each DIR in place, the files with the most to gain first,
and leaves out what fix refuses; run it again to go on after an interruption. Of
a file with several names (hard links, as from uv's or pnpm's cache) only the
name below DIR gets the fixed file. A wheel's RECORD gets the new hashes. With
--undo, -r undoes all fixes below DIR.

--in-place puts the fixed file in the place of FILE when it is complete and on
the disk, with owner, mode, times, ACLs, capabilities and holes; running
processes keep the old one.  A kill at any moment leaves one or the other.  An
error message says which of them is there.

examples:
  hugealign fix --dry-run /usr/sbin/mariadbd      what it would do
  hugealign fix /usr/sbin/mariadbd -o mariadbd    into another file
  hugealign fix --in-place /usr/sbin/mariadbd
  hugealign fix --undo /usr/sbin/mariadbd
  hugealign fix --dry-run /usr/sbin /usr/lib      who would gain the most
  hugealign fix -r .venv                          all libraries of its wheels
"""
#: Of these another link would have as many: a boot loader's addresses, and a copy that ended too soon.
_NOT_OF_THE_LINK = ("file.truncated", "fix.physical-addresses")
STATUS = {
    0: "done, or nothing to do",
    1: "refused",
    3: "a file could not be read or written",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``fix`` to *parser*."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="a program or shared library; with -r or --dry-run also DIR"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("-o", "--output", metavar="OUT", help="write the result to OUT, with its mode; - is stdout")
    what.add_argument("--in-place", action="store_true", help="put the result in the place of FILE")
    what.add_argument(
        "--dry-run", action="store_true", help="only print what fix would do; rank what a directory holds by its gain"
    )
    parser.add_argument(
        "--undo", action="store_true", help="restore the file as it was before fix, in place without -o"
    )
    parser.add_argument("-r", "--recursive", action="store_true", help="fix in place what gains below a DIR")
    parser.add_argument("--max", metavar="SIZE", help="with -r, leave no more than SIZE of text in whole windows")
    parser.add_argument("--level", choices=_LEVELS, default="", help="do just this (default: see below)")
    parser.add_argument(
        "--max-executable",
        metavar="SIZE",
        help="the most read-only data that may become executable (default: a quarter of the text that the file gains)",
    )
    parser.add_argument(
        "--debug-file-of", metavar="PROGRAM", help="FILE is the debug file of a program that was separated as PROGRAM"
    )
    add_page_size(parser.add_argument)
    add_json(parser.add_argument, "schema hugealign.fix/1, of a directory hugealign.fix-report/1")


def run(args: argparse.Namespace) -> int:
    """Fix, undo or rank, and return the exit status: the largest one of all files."""
    options = _options(args)
    if args.recursive and not args.dry_run:
        return _recursive(args, options)
    if args.max is not None:
        raise UsageError("fix: --max requires -r")
    if args.dry_run and any(map(os.path.isdir, args.files)):
        return _rank(args, options)
    if args.output is None and not args.in_place and not args.dry_run:
        if not args.undo:
            raise UsageError("fix: where to? give -o OUT, --in-place, or --dry-run to see what it would do")
        options = options.changed(in_place=True)
    if args.output is not None and len(args.files) > 1:
        raise UsageError("-o takes one FILE; several are changed with --in-place")
    from hugealign.fixing import report
    from hugealign.fixing.fix import OutputError, fix

    if args.debug_file_of is not None:
        return _debug_file(args)
    if args.output == "-":
        return _to_stdout(args, options)
    fixed, failures = [], []
    status = 0
    for path in args.files:
        try:
            done = fix(path, options)
        except UsageError:
            raise
        except HugealignError as error:
            at_fault = error.path if isinstance(error, OutputError) else path
            failures.append((at_fault, _with_remedy(at_fault, error, undo=args.undo)))
            status = max(status, error.exit_status)
            if not args.json:
                messages.failed(*failures[-1])
            continue
        fixed.append(done)
        _warn(done)
        if not args.json:
            output.show(report.lines(done))
    if args.json:
        print(json.dumps(report.document(fixed, failures), indent=1))
    return status


def _warn(done: "Fixed") -> None:
    """Say what goes with a fix, if it could not be done."""
    for note in done.notes:
        from hugealign.diagnosis import render

        messages.warning(f"{printable(done.path)}: {render.text(note)}")


def _recursive(args: argparse.Namespace, options: "FixOptions") -> int:
    """Fix what gains below directories, or undo that."""
    if args.output is not None or args.debug_file_of is not None:
        raise UsageError("fix: -r fixes in place; leave -o and --debug-file-of out")
    from hugealign.fixing import report, trees

    most = None if args.max is None else parse_size(args.max, "--max")
    steps = []
    with Progress("hugealign: fix") as progress:
        for step in trees.fix_below(args.files, options, most, progress.say):
            steps.append(step)
            progress.clear()
            if step.done:
                _warn(step.done)
                if not args.json:
                    output.show(report.lines(step.done)[:1])
            elif step.error and not args.json:
                messages.failed(step.path, step.error)
    if args.json:
        fixed = [step.done for step in steps if step.done]
        failures = [(step.path, step.error) for step in steps if step.error]
        print(json.dumps(report.document(fixed, failures), indent=1))
    else:
        print(report.tree_line(steps))
    # Of many files some are always refused; they keep nobody from using the others.
    return max((step.error.exit_status for step in steps if step.error and step.error.exit_status > 1), default=0)


def _options(args: argparse.Namespace) -> "FixOptions":
    """Return what *args* ask for.  Raises UsageError."""
    from hugealign.fixing.fix import FixOptions

    most = None if args.max_executable is None else parse_size(args.max_executable, "--max-executable")
    return FixOptions(args.level, page_size(args.page_size), args.undo, args.output, args.in_place, most)


def _debug_file(args: argparse.Namespace) -> int:
    """Write the moved copy of a debug file.  Raises HugealignError."""
    from hugealign.fixing.separation.debugfile import move_debug_file

    if args.output in (None, "-") or args.undo or args.json:
        raise UsageError("fix: --debug-file-of takes one FILE and -o OUT")
    (path,) = args.files
    try:
        identity = move_debug_file(path, args.debug_file_of, args.output)
    except HugealignError as error:
        messages.failed(path, _with_remedy(path, error, undo=True))
        return error.exit_status
    print(f"{printable(args.output)}: the debug file of build ID {identity}")
    return 0


def _with_remedy(path: str, error: HugealignError, *, undo: bool) -> HugealignError:
    """Return *error*; where `fix` refuses the file at *path* without a remedy of its own, another link may help."""
    from hugealign.diagnosis.refusal import RefusalError
    from hugealign.fixing import remedies

    if not isinstance(error, RefusalError):
        return error
    found = error.diagnosis.about(path)
    if not found.remedy and not undo and found.code not in _NOT_OF_THE_LINK:
        found = found.changed(remedy=remedies.relink(path))
    return RefusalError.of(found)


def _to_stdout(args: argparse.Namespace, options: "FixOptions") -> int:
    """Write one fixed file to standard output, and report on standard error.  Raises HugealignError."""
    import shutil

    from hugealign.fixing import report
    from hugealign.fixing.fix import fix_into
    from hugealign.io.unpacking import no_room, unnamed_file

    (path,) = args.files
    if args.json:
        raise UsageError("fix: only one thing goes to standard output; give -o a file, or leave out --json")
    with unnamed_file() as file:
        try:
            done = fix_into(path, file.fileno(), options)
        except HugealignError as error:
            messages.failed(path, _with_remedy(path, error, undo=args.undo))
            return error.exit_status
        except OSError as error:
            raise no_room(error) from error
        sys.stdout.flush()
        shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    print("\n".join(report.lines(done)), file=sys.stderr)
    return 0


def _rank(args: argparse.Namespace, options: "FixOptions") -> int:
    if args.undo:
        raise UsageError("fix: a directory cannot be undone; give the files")
    from hugealign.fixing import gains, report

    with Progress("hugealign: fix") as progress:
        found = gains.gather(args.files, options.changed(one_name=True), progress.say)
    if args.json:
        print(json.dumps(report.report_document(found), indent=1))
    else:
        print(output.painted(report.gains_table(found)))
    return 0
