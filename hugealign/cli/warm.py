"""The command ``hugealign warm``: bring the text of files into the page cache in huge folios."""

import argparse
import os
import sys

from hugealign.errors import HugealignError, UsageError
from hugealign.units import format_size, parse_page_size, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.pagecache.treatment import Treatment
    from hugealign.progress import Progress

_EPILOG = """\
Afterwards every process that maps the text gets huge pages, unchanged, until
the kernel needs the memory or the file is replaced: warm after each boot and
each installation, before the program starts.  It costs the memory printed.
Needs no privileges, never writes to the file; what is huge already is left
alone, also under a running program.

A program that was linked with a profile says how many leading windows are to
be huge: so many, and no more, unless --windows says otherwise.

--libs finds the libraries as the dynamic linker would, and runs nothing.
Libraries without a whole window are named, and are no finding.

--all-text takes every window of the file with text in it.  The windows at head
and tail of a segment, and those of a segment that is not aligned, are mapped in
4 KiB pages all the same, but from one piece of memory: fewer faults, and some
processors keep neighbouring pages in one TLB entry.  A window that the file
ends in cannot be huge, and is left out.

--replace, for a file in use: a copy with owner, mode, times, ACLs, capabilities
and holes is warmed and then renamed over it.  Processes that run keep the old
file.  Only the files named, not their libraries.

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
    how.add_argument("--check", action="store_true", help="only measure, evict and read nothing")
    how.add_argument("--replace", action="store_true", help="put a warm copy in the place of a file in use")
    parser.add_argument("--page-size", metavar="SIZE", help="window size (default: the kernel's huge page)")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="json: schema hugealign.warm/1")


def run(args: argparse.Namespace) -> int:
    """Warm or check ``args.files``, print what came of it and return the exit status."""
    page_size = page_size_of(args.page_size)
    work = _Work(args, page_size)
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


def page_size_of(text: str | None) -> int:
    """Return the window size: the kernel's, or the multiple of it that the option asks for.  Raises UsageError."""
    from hugealign.machine import kernel

    huge = kernel.huge_page_size()
    page_size = parse_page_size(text, "--page-size") if text else huge
    if page_size % huge:
        raise UsageError(f"--page-size: this kernel's huge pages are {format_size(huge)}")
    return page_size


def count(text: str) -> int:
    """Return the number in ``3``, at least 1; raises ValueError.  argparse shows the name of this function."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


class _Work:
    """The files one after the other, each reported when it is done."""

    def __init__(self, args: argparse.Namespace, page_size: int) -> None:
        self.args = args
        self.page_size = page_size
        self.statuses: set[int] = set()
        self.treatments: list[Treatment] = []
        self.missing: list[tuple[str, str]] = []
        self.errors: list[tuple[str, str]] = []
        self._seen: set[str] = set()

    def do(self, path: str, library: bool = False) -> None:
        """Warm or check the file at *path*."""
        self._seen.add(os.path.realpath(path))
        try:
            done = treat(path, self.page_size, self.args, library)
        except HugealignError as error:
            self._error(path, error)
            return
        self.treatments.append(done)
        self.statuses.add(0 if library and not done.offsets else int(done.obstacle is not None))
        if self.args.format == "text" and (done.offsets or not library):
            print("\n".join(done.lines), flush=True)

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
            if (name, needing) not in self.missing:
                self.missing.append((name, needing))
                self.statuses.add(3)
                if self.args.format == "text":
                    message = f"{printable(name)}: library not found; needed by {printable(needing)}"
                    print(f"hugealign: error: {message}", file=sys.stderr)

    def finish(self) -> None:
        """Print what is said once for all files."""
        from hugealign.pagecache import treatment

        if self.args.format == "json":
            import json

            print(json.dumps(treatment.document(self.treatments, self.missing, self.errors, self.page_size), indent=1))
            return
        if small := [printable(os.path.basename(t.path)) for t in self.treatments if t.library and not t.offsets]:
            noun = "libraries" if len(small) > 1 else "library"
            print(f"{len(small)} {noun} without a whole window: {treatment.shortened(small)}")
        if len(self.treatments) > 1:
            huge = sum(t.huge for t in self.treatments)
            windows = sum(len(t.offsets) for t in self.treatments)
            print(f"total: {huge} of {windows} windows huge ({format_size(huge * self.page_size)})")

    def _error(self, path: str, error: HugealignError) -> None:
        self.statuses.add(error.exit_status)
        self.errors.append((path, str(error)))
        if self.args.format == "text":
            print(f"hugealign: error: {printable(path)}: {error}", file=sys.stderr)


def treat(path: str, page_size: int, args: argparse.Namespace, library: bool = False) -> "Treatment":
    """Warm or check the file at *path* as *args* says.  Raises HugealignError."""
    from hugealign.machine import memory
    from hugealign.pagecache import measure as pagecache
    from hugealign.pagecache import warming
    from hugealign.pagecache.treatment import Treatment
    from hugealign.progress import Progress
    from hugealign.ps.backing import windows_meant

    progress = Progress(printable(path))
    try:
        with pagecache.opened(path) as fd:
            limit, note = args.windows, ""
            if limit is None and not args.all_text and (limit := windows_meant(fd, page_size)):
                note = f"as many windows as its build asks for ({limit}); --windows asks for others"
            offsets = pagecache.text_windows(fd, page_size, limit, args.all_text)
            hits = memory.limit_hits()
            if args.check:
                outcome = warming.Outcome(tuple(pagecache.measure(fd, offsets, page_size)))
            else:
                outcome = warming.warm(fd, offsets, page_size, progress)
            obstacle = None
            if not offsets or not all(outcome.huge):
                from hugealign.pagecache import obstacles

                if not offsets:
                    obstacle = obstacles.no_window(path, page_size)
                elif args.check:
                    obstacle = obstacles.not_warmed(path)
                else:
                    obstacle = obstacles.to_huge(fd, path, outcome, hits)
        done = Treatment(path, page_size, offsets, outcome, obstacle, library, note=note)
        return _replaced(done, progress) if args.replace and not library and offsets and obstacle else done
    finally:
        progress.clear()


def _replaced(before: "Treatment", progress: "Progress") -> "Treatment":
    """Put a warm copy in the place of a file that could not be warmed, unless the copy is no warmer."""
    from dataclasses import replace as changed

    from hugealign.machine import memory
    from hugealign.pagecache import measure as pagecache
    from hugealign.pagecache import obstacles, replace, warming

    path, offsets, page_size = before.path, before.offsets, before.page_size
    outcome = before.outcome
    hits = memory.limit_hits()

    def warmer(copy: int) -> bool:
        nonlocal outcome
        outcome = warming.warm(copy, offsets, page_size, progress)
        return sum(outcome.huge) > before.huge

    with pagecache.opened(path) as fd:
        user = obstacles.user_of(os.fstat(fd), path)
    try:
        if not replace.replace(path, warmer):
            return changed(before, note="not replaced: a copy gets no more huge pages")
    except replace.ReplaceError as error:
        return changed(before, note=f"not replaced: {error}")
    note = "replaced by a copy"
    if user:
        note += f"; process {user} keeps the old file until it is started again"
    with pagecache.opened(path) as fd:
        obstacle = None if all(outcome.huge) else obstacles.to_huge(fd, path, outcome, hits)
    return changed(before, outcome=outcome, obstacle=obstacle, replaced=True, note=note)
