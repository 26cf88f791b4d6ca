"""The command ``hugealign cool``: bring the text of files into the page cache in small pages again."""

import argparse
import sys

from hugealign.cli.warm import page_size_of
from hugealign.errors import HugealignError
from hugealign.units import printable

_EPILOG = """\
The opposite of warm, to compare the two without building again: a process that
is started afterwards has its text in 4 KiB pages.  Needs no privileges, never
writes to the file.  Pages that a process maps stay as they are, and so do those
of tmpfs.

exit status: 0 no window huge; 1 some still are; 2 wrong usage; 3 could not
look.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``cool`` to *parser*."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("files", nargs="+", metavar="FILE", help="an executable or a shared library")


def run(args: argparse.Namespace) -> int:
    """Cool ``args.files``, print a line for each and return the exit status."""
    from hugealign.pagecache import measure as pagecache
    from hugealign.pagecache import obstacles, warming
    from hugealign.pagecache.treatment import Treatment
    from hugealign.progress import Progress

    page_size = page_size_of(None)
    statuses = set()
    for path in args.files:
        progress = Progress(printable(path))
        try:
            with pagecache.opened(path) as fd:
                offsets = pagecache.text_windows(fd, page_size, all_text=True)
                outcome = warming.cool(fd, offsets, page_size, progress)
                obstacle = obstacles.to_small(fd, path) if any(outcome.huge) else None
        except HugealignError as error:
            progress.clear()
            print(f"hugealign: error: {printable(path)}: {error}", file=sys.stderr)
            statuses.add(error.exit_status)
            continue
        except KeyboardInterrupt:
            progress.clear()
            print("hugealign: interrupted", file=sys.stderr)
            return 130
        progress.clear()
        print("\n".join(Treatment(path, page_size, offsets, outcome, obstacle).lines), flush=True)
        statuses.add(int(any(outcome.huge)))
    return 1 if 1 in statuses else max(statuses)
