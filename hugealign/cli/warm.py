"""The command ``hugealign warm``: bring the text of files into the page cache in huge folios."""

import argparse
import os
import shlex
import sys

from hugealign.errors import HugealignError, UsageError
from hugealign.units import format_size, parse_page_size, printable

_EPILOG = """\
Afterwards every process that maps the text gets huge pages, unchanged, until
the kernel needs the memory or the file is replaced: warm after each boot and
each installation, before the program starts.  It costs the memory printed.
Needs no privileges, never writes to the file; what is huge already is left
alone, also under a running program.

exit status: 0 all windows huge; 1 fewer; 2 wrong usage; 3 could not look.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``warm`` to *parser*."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("files", nargs="+", metavar="FILE", help="an executable or a shared library")
    parser.add_argument("--windows", metavar="N", type=count, help="only the leading N windows of each file")
    parser.add_argument("--check", action="store_true", help="only measure, evict and read nothing")
    parser.add_argument("--page-size", metavar="SIZE", help="window size (default: the kernel's huge page)")


def run(args: argparse.Namespace) -> int:
    """Warm or check ``args.files``, print one line for each and return the exit status."""
    from hugealign.host import kernel, pagecache

    page_size = kernel.huge_page_size()
    if args.page_size:
        page_size = parse_page_size(args.page_size, "--page-size")
        if page_size % kernel.huge_page_size():
            raise UsageError(f"--page-size: this kernel's huge pages are {format_size(kernel.huge_page_size())}")
    statuses = set()
    for path in args.files:
        try:
            with pagecache.opened(path) as fd:
                offsets = pagecache.text_windows(fd, page_size, args.windows)
                work = pagecache.measure if args.check else pagecache.warm
                huge = work(fd, offsets, page_size)
                info = os.fstat(fd)
        except HugealignError as error:
            print(f"hugealign: error: {printable(path)}: {error}", file=sys.stderr)
            statuses.add(error.exit_status)
            continue
        done = sum(huge)
        print(f"{printable(path)}: {done} of {len(huge)} windows huge ({format_size(done * page_size)})")
        if not huge or done < len(huge):
            print(f"  {_reason(path, info, page_size, huge, args.check)}")
        statuses.add(0 if huge and all(huge) else 1)
    return 1 if 1 in statuses else max(statuses)


def count(text: str) -> int:
    """Return the number in ``3``, at least 1; raises ValueError.  argparse shows the name of this function."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _reason(path: str, info: os.stat_result, page_size: int, huge: list[bool], check: bool) -> str:
    """Return why windows of *path* are not huge, and the command that mends it."""
    from hugealign.host import kernel, processes

    name = printable(shlex.quote(path))
    if not huge:
        return f"no whole {format_size(page_size)} window of text; see: hugealign verify {name}"
    if check:
        return f"not warmed; run: hugealign warm {name}"
    if users := processes.users(info, path):
        others = f" and {len(users) - 1} more" if len(users) > 1 else ""
        return f"in use by process {users[0]}{others}; stop it, then: hugealign warm {name}"
    if any(huge):
        compact = "echo 1 | sudo tee /proc/sys/vm/compact_memory"
        return f"no free memory in one piece; run: {compact}; hugealign warm {name}"
    return (
        f"{kernel.file_system(info.st_dev) or 'this file system'} gives this file no huge folios; "
        f"move {name} to XFS (Linux 5.18), ext4 (6.16) or tmpfs, then warm it"
    )
