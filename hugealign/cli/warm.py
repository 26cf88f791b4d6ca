"""The command ``hugealign warm``: bring the text of files into the page cache in huge folios."""

import argparse
import os
import sys

from hugealign.cli.arguments import count, seconds, window_size
from hugealign.errors import HugealignError
from hugealign.progress import shown
from hugealign.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.pagecache.text import CachedText, WarmOptions

_EPILOG = """\
Afterwards every process that maps the text gets huge pages, unchanged, until
the kernel needs the memory or the file is replaced.  So warm a file after each
boot and each installation, before the program starts.  It costs the memory
printed.  It needs no privileges and never writes to the file.  What is huge
already is left alone, also under a running program.

A program that was linked with a profile says how many leading windows have to
be huge; only these are warmed unless --windows gives another number.

--libs finds the libraries as the dynamic linker would, and runs nothing.
Libraries without a whole window are named and do not change the status.

--all-text takes every window of the file with text in it.  The windows at head
and tail of a segment, and those of a segment that is not aligned, are mapped in
4 KiB pages all the same, but from one piece of memory: fewer faults, and some
processors keep neighbouring pages in one TLB entry.  A window that the file
ends in cannot be huge and is left out.

--replace is for a file in use.  It warms a copy with the same owner, mode,
times, ACLs, capabilities and holes, then renames it over the file.  Running
processes keep the old file.  It concerns the files named, not their libraries.

--wait is for kernels from 5.4 to 6.0 with CONFIG_READ_ONLY_THP_FOR_FS and THP
"always" or "madvise".  There only khugepaged can make the text huge, and it
comes by every ten seconds or so.

exit status: 0 all windows huge; 1 fewer; 2 wrong usage; 3 could not look.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``warm`` to *parser*."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("files", nargs="+", metavar="FILE", help="an executable or a shared library")
    parser.add_argument("--libs", action="store_true", help="the shared libraries that the files need, too")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--windows", metavar="N", type=count, help="only the leading N windows of each file")
    which.add_argument("--all-text", action="store_true", help="windows that hold only some text, too")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true", help="only measure: nothing is evicted or read")
    how.add_argument("--replace", action="store_true", help="put a warm copy in the place of a file in use")
    parser.add_argument(
        "--wait", metavar="SECONDS", type=seconds, help="let khugepaged try what we cannot, for that long at most"
    )
    parser.add_argument("--page-size", metavar="SIZE", help="window size (default: the kernel's huge page)")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="json: schema hugealign.warm/1")


def run(args: argparse.Namespace) -> int:
    """Warm or check ``args.files``, print the result and return the exit status."""
    from hugealign.pagecache.text import WarmOptions

    page_size = window_size(args.page_size)
    wait = args.wait or 0.0
    options = WarmOptions(page_size, args.windows, args.all_text, args.check, args.replace, wait)
    work = _Work(options, args.format)
    try:
        for path in args.files:
            work.do(path)
            if args.libs:
                work.do_libraries(path)
    except KeyboardInterrupt:
        print("hugealign: interrupted", file=sys.stderr)
        return 130
    work.finish()
    return 1 if 1 in work.statuses else max(work.statuses)


def _with_cure(done: "CachedText") -> "CachedText":
    """Return *done* with what gives the file windows, if it has none."""
    from dataclasses import replace

    if done.obstacle is None or done.obstacle.code != "no-window":
        return done
    from hugealign.fixing.cure import cure_or_relink

    return replace(done, obstacle=replace(done.obstacle, mend=cure_or_relink(done.path, done.page_size)))


class _Work:
    """The files one after the other, each reported when it is done."""

    def __init__(self, options: "WarmOptions", form: str) -> None:
        self.statuses: set[int] = set()
        self._options = options
        self._text = form == "text"
        self._texts: list[CachedText] = []
        self._libraries: set[str] = set()
        self._missing: list[tuple[str, str]] = []
        self._errors: list[tuple[str, str]] = []
        self._seen: set[str] = set()

    def do(self, path: str, library: bool = False) -> None:
        """Warm or check the file at *path*."""
        from dataclasses import replace

        from hugealign.pagecache import report
        from hugealign.pagecache.text import warm

        self._seen.add(os.path.realpath(path))
        options = replace(self._options, replace=False) if library else self._options
        try:
            with shown(path) as progress:
                done = _with_cure(warm(path, options, progress))
        except HugealignError as error:
            self.statuses.add(error.exit_status)
            self._errors.append((path, str(error)))
            if self._text:
                print(f"hugealign: error: {printable(path)}: {error}", file=sys.stderr)
            return
        self._texts.append(done)
        if library:
            self._libraries.add(path)
        self.statuses.add(0 if library and not done.offsets else int(done.obstacle is not None))
        if self._text and (done.offsets or not library):
            print("\n".join(report.lines(done)), flush=True)

    def do_libraries(self, path: str) -> None:
        """Warm or check what the file at *path* needs, each library once."""
        from hugealign.machine import libraries

        try:
            found = libraries.resolve(path)
        except HugealignError:
            return  # said already
        for library in found.paths:
            if library not in self._seen:
                self.do(library, library=True)
        for name, needing in found.missing:
            if (name, needing) not in self._missing:
                self._missing.append((name, needing))
                self.statuses.add(3)
                if self._text:
                    message = f"{printable(name)}: library not found; needed by {printable(needing)}"
                    print(f"hugealign: error: {message}", file=sys.stderr)

    def finish(self) -> None:
        """Print what is said once for all files."""
        from hugealign.pagecache import report

        if self._text:
            print("".join(f"{line}\n" for line in report.total(self._texts, self._libraries)), end="")
            return
        import json

        page_size = self._options.page_size
        document = report.document(self._texts, self._libraries, self._missing, self._errors, page_size)
        print(json.dumps(document, indent=1))
