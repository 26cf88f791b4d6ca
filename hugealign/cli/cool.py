"""The command ``hugealign cool``: bring the text of files into the page cache in small pages again."""

import argparse
import sys

from hugealign.cli import messages, output
from hugealign.errors import HugealignError
from hugealign.progress import Progress
from hugealign.units import printable

EPILOG = """\
cool is the opposite of warm: a process that starts afterwards has its text in
4 KiB pages, so you can compare the two without a rebuild.  It needs no
privileges and never writes to the file.  Pages that a process maps stay as they
are, and so do those of tmpfs.  --rodata also takes the windows of read-only
data; a file linked with HUGEALIGN_SEGMENTS=text,rodata needs no option for them.

exit status: 0 no window huge; 1 some still are; 2 wrong usage; 3 could not
look.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``cool`` to *parser*."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="an executable or a shared library")
    parser.add_argument("--rodata", action="store_true", help="also whole windows of read-only data")


def run(args: argparse.Namespace) -> int:
    """Cool ``args.files``, print a line for each and return the exit status."""
    from hugealign.pagecache import report
    from hugealign.pagecache.text import cool

    statuses = set()
    for path in args.files:
        try:
            with Progress(printable(path)) as progress:
                done = cool(path, progress, rodata=args.rodata)
        except HugealignError as error:
            messages.error(f"{printable(path)}: {error}")
            statuses.add(error.exit_status)
            continue
        except KeyboardInterrupt:
            print("hugealign: interrupted", file=sys.stderr)
            return 130
        output.show(report.lines(done))
        statuses.add(int(done.huge > 0 or (done.rodata is not None and done.rodata.huge > 0)))
    return 1 if 1 in statuses else max(statuses)
