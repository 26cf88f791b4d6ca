"""The command ``hugealign fix``: make the text of a linked file whole by editing its headers."""

import argparse
import json
import os
import sys

from hugealign.errors import HugealignError, UsageError
from hugealign.units import parse_page_size, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.elf.image import Image
    from hugealign.fixing.output import Output
    from hugealign.fixing.show import Outcome

_LEVELS = ("align", "shift", "merge")
_EPILOG = """\
levels, from the least invasive to the most:
  align   only the alignment of the text segment
  shift   the text segment grows to the boundaries of windows; read-only data
          that come to lie in it become executable as well (the default)
  merge   all read-only segments beside the text become part of it

No address changes; where the linker packed the file, contents move in it.
What the fix makes executable is said.  --undo gives the file back as it was,
byte for byte.  Refused is what would not run afterwards as it did before.

--in-place appends new tables and then writes the headers, in a fraction of a
second; where contents move, or the file is in use, has capabilities or is
set-user-ID, a copy with all of its attributes takes its place.  A kill leaves
the old file or the new one.

examples:
  hugealign fix --dry-run /usr/sbin/mariadbd      what it would do
  hugealign fix /usr/sbin/mariadbd -o mariadbd    into another file
  hugealign fix --in-place /usr/sbin/mariadbd
  hugealign fix --undo --in-place /usr/sbin/mariadbd
  hugealign fix --report /usr/sbin /usr/lib       who would gain the most

exit status: 0 done, or nothing to do; 1 refused; 2 wrong usage; 3 the file
could not be read or written.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``fix`` to *parser*."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("files", nargs="+", metavar="FILE", help="a program or shared library; with --report also DIR")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("-o", "--output", metavar="OUT", help="write the result to OUT, with the mode of FILE")
    what.add_argument("--in-place", action="store_true", help="change FILE itself")
    what.add_argument("--dry-run", action="store_true", help="only say what would be done")
    what.add_argument("--report", action="store_true", help="rank programs and libraries by what they would gain")
    parser.add_argument("--undo", action="store_true", help="give back the file as it was before it was fixed")
    parser.add_argument("--level", choices=_LEVELS, default="shift", help="how much to change (default: shift)")
    parser.add_argument("--page-size", default="2M", metavar="SIZE", help="the huge page size (default: 2M)")
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="json: schema hugealign.fix/1, with --report hugealign.fix-report/1",
    )


def run(args: argparse.Namespace) -> int:
    """Do it and return the exit status: the largest of those of the files."""
    page_size = parse_page_size(args.page_size, "--page-size")
    if args.report:
        return _report(args, page_size)
    if args.output is not None and len(args.files) > 1:
        raise UsageError("-o takes one FILE; several are changed with --in-place")
    from hugealign.fixing import show

    outcomes, failures = [], []
    status = 0
    for path in args.files:
        try:
            outcome = _one(path, args, page_size)
        except UsageError:
            raise
        except HugealignError as error:
            failures.append(show.Failure(path, str(error), refused=error.exit_status == 1))
            status = max(status, error.exit_status)
            if args.format == "text":
                print(f"hugealign: error: {printable(path)}: {error}", file=sys.stderr)
            continue
        outcomes.append(outcome)
        if args.format == "text":
            print("\n".join(show.lines(outcome)), flush=True)
    if args.format == "json":
        print(json.dumps(show.document(outcomes, failures), indent=1))
    return status


def _report(args: argparse.Namespace, page_size: int) -> int:
    if args.undo:
        raise UsageError("--report and --undo contradict each other")
    from hugealign.fixing import report, show

    gains = report.gather(args.files, page_size, args.level)
    if args.format == "json":
        print(json.dumps(show.report_document(gains, page_size, args.level), indent=1))
    else:
        print(report.render(gains, page_size))
    return 0


def _one(path: str, args: argparse.Namespace, page_size: int) -> "Outcome":
    from hugealign.elf.fixrecord import reader
    from hugealign.fixing import examine, show
    from hugealign.fixing.output import fixed, unchanged
    from hugealign.pagecache import measure as pagecache

    with pagecache.opened(path) as fd:
        if args.output is not None and os.path.exists(args.output) and os.path.samefile(path, args.output):
            raise UsageError("OUT is FILE itself; use --in-place")
        try:
            before = os.fstat(fd).st_size
            image = examine.read(fd)
            if args.undo:
                return _undo(path, fd, image, args)
            plan = examine.plan(fd, image, page_size, args.level)
            action, output = show.NOTHING, unchanged(reader(fd), image)
            if plan.edits:
                action, output = show.FIX, fixed(reader(fd), image, plan)
        except OSError as error:
            raise HugealignError(error.strerror or str(error)) from error
        if action == show.NOTHING and args.output is None:
            return show.Outcome(path, action, before, before, "", plan=plan)
        where, copied = _write(path, fd, output, args)
        return show.Outcome(path, action, before, output.size, where, copied, plan)


def _undo(path: str, fd: int, image: "Image", args: argparse.Namespace) -> "Outcome":
    from hugealign.elf.fixrecord import reader
    from hugealign.fixing import show
    from hugealign.fixing.output import has_remains, original, unchanged

    remains = has_remains(reader(fd), image)
    output = unchanged(reader(fd), image) if remains else original(reader(fd), image)
    before = os.fstat(fd).st_size
    where, copied = _write(path, fd, output, args)
    return show.Outcome(path, show.REMOVE_REMAINS if remains else show.UNDO, before, output.size, where, copied)


def _write(path: str, fd: int, output: "Output", args: argparse.Namespace) -> tuple[str, str]:
    """Write *output* where *args* say; return where that was, and why by a copy, if in place and so."""
    from hugealign.fixing import writing

    if args.output is not None:
        writing.write_new(fd, output, args.output)
        return args.output, ""
    if args.in_place:
        return path, writing.write_in_place(path, fd, output)
    return "", ""
