"""The command ``hugealign fix``: prepare a linked file for huge pages, without relinking it."""

import argparse
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
  align     change only the alignment of the text segment
  shift     extend the text segment to window boundaries; the read-only data in
            between become executable, at most --max-executable
  separate  move the text, and all that follows it, away from what only the
            loader reads, and fill the gap with traps; no data become
            executable, and even text smaller than a window gets one.  Changes
            the build ID

Without --level, fix uses separate if nothing refers across the gap, else shift,
and says which and why. Where shift would cost too much at one end of the text,
that end stays as it is.

Only separate changes addresses, also in relocations, symbols and debug
information.

LLD and mold leave no room in a file, so in their files fix also moves the file's
contents. fix prints how much becomes executable. --undo restores the file byte
for byte. fix refuses a file that might behave differently afterwards, or lose
hardening.

-r fixes the files below each DIR in place, those with the most to gain first,
and skips those that fix refuses. After an interruption run it again. If a file
has names outside DIR (hard links into the cache of uv or pnpm), those keep the
old file. fix updates the hashes in a wheel's RECORD. With --undo, -r undoes all
fixes below DIR.

--in-place replaces FILE once the new file is complete and on the disk, with the
same owner, mode, times, ACLs, capabilities and holes. Running processes keep the
old one. Killed at any moment, fix leaves the old file or the new one. After any
other failure the error message says which.

examples:
  hugealign fix --dry-run /usr/sbin/mariadbd      what it would do
  hugealign fix /usr/sbin/mariadbd -o mariadbd    into another file
  hugealign fix --in-place /usr/sbin/mariadbd
  hugealign fix --undo /usr/sbin/mariadbd
  hugealign fix --dry-run /usr/sbin /usr/lib      which would gain the most
  hugealign fix -r .venv                          all libraries of its wheels
"""
#: What another link would not change: addresses for a boot loader, and a copy that is incomplete.
_NOT_OF_THE_LINK = ("file.truncated", "fix.physical-addresses")
STATUS = {
    0: "done, or nothing to do",
    1: "refused (-r skips such files and ends with 0)",
    3: "a file could not be read or written",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``fix`` to *parser*."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="a program or shared library; with -r or --dry-run also DIR"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "-o", "--output", metavar="OUT", help="write the fixed file to OUT, with the mode of FILE; - is stdout"
    )
    what.add_argument("--in-place", action="store_true", help="replace FILE with the fixed file")
    what.add_argument(
        "--dry-run",
        action="store_true",
        help="only print what fix would do; for a directory, rank the files by their gain",
    )
    parser.add_argument("--undo", action="store_true", help="restore FILE as it was before fix; in place without -o")
    parser.add_argument("-r", "--recursive", action="store_true", help="fix the files below DIR in place")
    parser.add_argument("--max", metavar="SIZE", help="with -r, put no more than SIZE of text into whole windows")
    parser.add_argument("--level", choices=_LEVELS, default="", help="fix at this level (default: see below)")
    parser.add_argument(
        "--max-executable",
        metavar="SIZE",
        help="let at most SIZE of read-only data become executable (default: a quarter of the text in new windows)",
    )
    parser.add_argument(
        "--debug-file-of",
        metavar="PROGRAM",
        help="write to OUT a copy of FILE, a separate debug file, that matches the separated PROGRAM",
    )
    add_page_size(parser.add_argument)
    add_json(parser.add_argument, "schema hugealign.fix/1 (directories: hugealign.fix-report/1)")


def run(args: argparse.Namespace) -> int:
    """Fix, undo or rank, and return the exit status: the largest one of all files."""
    options = _options(args)
    if args.recursive and not args.dry_run:
        return _recursive(args, options)
    if args.max is not None:
        raise UsageError("fix: --max requires -r, without --dry-run")
    if args.dry_run and any(map(os.path.isdir, args.files)):
        return _rank(args, options)
    if args.output is None and not args.in_place and not args.dry_run:
        if not args.undo:
            raise UsageError("fix: no output; give -o OUT, --in-place, or --dry-run to see what it would do")
        options = options.changed(in_place=True)
    if args.output is not None and len(args.files) > 1:
        raise UsageError("-o takes one FILE; several are changed with --in-place")
    from hugealign.diagnosis import documents
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
        print(documents.text(report.Report(fixed, documents.failed(failures))), end="")
    return status


def _warn(done: "Fixed") -> None:
    """Warn of what a fix could not do."""
    for note in done.notes:
        from hugealign.diagnosis import render

        messages.warning(f"{printable(done.path)}: {render.text(note)}")


def _recursive(args: argparse.Namespace, options: "FixOptions") -> int:
    """Fix what gains below directories, or undo that."""
    if args.output is not None or args.debug_file_of is not None:
        raise UsageError("fix: -r cannot be combined with -o or --debug-file-of")
    from hugealign.diagnosis import documents
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
        print(documents.text(report.Report(fixed, documents.failed(failures))), end="")
    else:
        print(report.tree_line(steps))
    # Some files are always refused; the others are fixed.
    return max((step.error.exit_status for step in steps if step.error and step.error.exit_status > 1), default=0)


def _options(args: argparse.Namespace) -> "FixOptions":
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
    """Return *error*; if `fix` refuses the file at *path* without a remedy, add the link that may help."""
    from hugealign.diagnosis.refusal import RefusalError
    from hugealign.fixing import remedies

    if not isinstance(error, RefusalError):
        return error
    diagnosis = error.diagnosis.about(path)
    if not diagnosis.remedy and not undo and diagnosis.code not in _NOT_OF_THE_LINK:
        diagnosis = diagnosis.changed(remedy=remedies.relink(path))
    return RefusalError.of(diagnosis)


def _to_stdout(args: argparse.Namespace, options: "FixOptions") -> int:
    """Write one fixed file to standard output, and report on standard error.  Raises HugealignError."""
    import shutil

    from hugealign.fixing import report
    from hugealign.fixing.fix import fix_into
    from hugealign.io.unpacking import no_room, unnamed_file

    (path,) = args.files
    if args.json:
        raise UsageError("fix: -o - and --json both write to standard output; give -o a file")
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
    from hugealign.diagnosis import documents
    from hugealign.fixing import gains, report
    from hugealign.verification import inputs

    with Progress("hugealign: fix") as progress:
        programs = inputs.programs(args.files, progress.say)
        gain = gains.gather(programs, options.changed(one_name=True), progress.say)
    if args.json:
        print(documents.text(report.GainReport(gain)), end="")
    else:
        print(output.painted(report.gains_table(gain)))
    return 0
