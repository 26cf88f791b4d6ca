"""The command ``hugealign fix``: make the text of a linked file whole by editing its headers."""

import argparse
import os
import sys

from hugealign.errors import HugealignError, UsageError
from hugealign.units import format_size, parse_page_size, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.elf.image import Image
    from hugealign.fix.output import Output
    from hugealign.fix.plan import Plan

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


def run(args: argparse.Namespace) -> int:
    """Do it and return the exit status: the largest of those of the files."""
    page_size = parse_page_size(args.page_size, "--page-size")
    if args.report:
        if args.undo:
            raise UsageError("--report and --undo contradict each other")
        from hugealign.fix.report import gather, render

        print(render(gather(args.files, page_size, args.level), page_size))
        return 0
    if args.output is not None and len(args.files) > 1:
        raise UsageError("-o takes one FILE; several are changed with --in-place")
    status = 0
    for path in args.files:
        try:
            _one(path, args, page_size)
        except HugealignError as error:
            print(f"hugealign: error: {printable(path)}: {error}", file=sys.stderr)
            status = max(status, error.exit_status)
    return status


def _one(path: str, args: argparse.Namespace, page_size: int) -> None:
    from hugealign.fix import examine
    from hugealign.fix.output import reader
    from hugealign.host import pagecache

    with pagecache.opened(path) as fd:
        if args.output is not None and os.path.exists(args.output) and os.path.samefile(path, args.output):
            raise UsageError("OUT is FILE itself; use --in-place")
        try:
            image = examine.read(fd)
            if args.undo:
                _undo(path, fd, image, args)
                return
            plan = examine.plan(fd, image, page_size, args.level)
            if plan.steps:
                from hugealign.fix.output import fixed

                output = fixed(reader(fd), image, plan)
                how = _write(path, fd, output, args)
                print("\n".join(_lines(path, image, plan, output.size, how)))
                return
        except OSError as error:
            raise HugealignError(error.strerror or str(error)) from error
        if args.output is not None:
            from hugealign.fix.output import unchanged

            _write(path, fd, unchanged(reader(fd), image), args)
        print(f"{printable(path)}: nothing to do: {_coverage(plan.covered_before, plan)}")


def _undo(path: str, fd: int, image: "Image", args: argparse.Namespace) -> None:
    from hugealign.fix.output import has_remains, original, reader, unchanged

    remains = has_remains(reader(fd), image)
    output = unchanged(reader(fd), image) if remains else original(reader(fd), image)
    how = _write(path, fd, output, args)
    what = "the remains of an interrupted fix removed" if remains else "as it was before it was fixed"
    print(f"{printable(path)}: {what}, {format_size(output.size)}{how}")


def _write(path: str, fd: int, output: "Output", args: argparse.Namespace) -> str:
    """Write *output* where *args* say, and return what there is to say about how."""
    from hugealign.fix import writing

    if args.output is not None:
        writing.write_new(fd, output, args.output)
    elif args.in_place:
        reason = writing.write_in_place(path, fd, output)
        return f" (by a copy: {reason})" if reason else ""
    return " (not done: --dry-run)" if args.dry_run else ""


def _lines(path: str, image: "Image", plan: "Plan", size: int, how: str) -> list[str]:
    windows = "window" if plan.windows == 1 else "windows"
    return [
        f"{printable(path)}: {plan.windows_before} -> {plan.windows} {windows} of {format_size(plan.page_size)}{how}",
        *(f"  {step}" for step in plan.steps),
        f"  text in whole windows: {_coverage(plan.covered_before, plan)} -> {_coverage(plan.covered, plan)}",
        f"  becomes executable: {format_size(plan.executable)} that were only readable",
        f"  file: {format_size(image.file_size)} -> {format_size(size)}",
    ]


def _coverage(covered: int, plan: "Plan") -> str:
    return f"{100 * covered / plan.text:.1f} % of {format_size(plan.text)}"
