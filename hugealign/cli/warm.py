"""The command ``hugealign warm``: load the text of files into the page cache in huge pages."""

import argparse
import os
import sys

from hugealign.cli import files, messages, output
from hugealign.cli.arguments import add_json, count, seconds
from hugealign.errors import HugealignError, UsageError
from hugealign.io.progress import Progress
from hugealign.io.units import counted, format_size, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.io.places import Place
    from hugealign.pagecache.warm import CachedText

EPILOG = """\
Every process that maps the text afterwards gets huge pages, without any change to the
process, until the kernel needs the memory or the file is replaced.  So warm a
file after each boot and each installation, before the program starts.  warm
prints how much memory it takes.  It needs no privileges, never writes to the
file, and does not touch text that is huge already.

A program that was linked with an order contains the number of leading windows to
make huge.  warm loads only those unless --windows gives another number.

--libs finds libraries as the dynamic linker does, but runs nothing.  Libraries
without a whole window are listed and do not change the status.

--replace is for a file in use.  It warms a copy with the same owner, mode,
times, ACLs, capabilities and holes, then renames it over the file.  Running
processes keep the old file.  It replaces the named files, not their libraries.

-r warms the files with whole windows below each DIR, those with the most text
first, until the available memory or --max is used up.

--wait is for kernels from 5.14 to 6.0 with CONFIG_READ_ONLY_THP_FOR_FS and THP
"always" or "madvise".  There only khugepaged can make the text huge, and it
runs about every ten seconds.  Before 5.14 khugepaged handles only the text of
running programs: use hugealign run.

--undo brings the text back into small pages, for example to compare the two: a
process that starts afterwards has its text on 4 KiB pages.  Pages that a process
maps, and pages of tmpfs, stay huge.
"""
STATUS = {
    0: "all windows are huge (--undo: none is)",
    1: "fewer are (--undo: some still are)",
    3: "a file could not be read",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``warm`` to *parser*."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="an executable or a shared library; with -r also DIR")
    parser.add_argument("-r", "--recursive", action="store_true", help="warm the files with whole windows below DIR")
    parser.add_argument(
        "--max", metavar="SIZE", help="with -r, use at most SIZE of memory (default: what is available)"
    )
    parser.add_argument("--libs", action="store_true", help="include the shared libraries that the files need")
    parser.add_argument("--windows", metavar="N", type=count, help="load only the first N windows of each file")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true", help="only report what is huge")
    how.add_argument("--replace", action="store_true", help="replace a file in use with a warm copy")
    how.add_argument("--undo", action="store_true", help="bring the text back into small pages")
    parser.add_argument(
        "--wait",
        metavar="SECONDS",
        type=seconds,
        help="wait up to SECONDS for khugepaged, where only it can make text huge",
    )
    add_json(parser.add_argument, "schema hugealign.warm/1")


def run(args: argparse.Namespace) -> int:
    """Warm or check ``args.files``, print the result and return the exit status."""
    from hugealign.diagnosis import documents
    from hugealign.pagecache import report
    from hugealign.pagecache.warm import WarmOptions, cool, warm
    from hugealign.system import kernel

    _check(args)
    room = _Room(args) if args.recursive and not args.undo and not args.check else None
    options = WarmOptions(args.windows, args.check, args.replace, args.wait or 0.0)
    of_library = options.changed(replace=False)
    as_text = not args.json
    texts: list[CachedText] = []
    errors: list[tuple[str, HugealignError]] = []
    statuses: set[int] = set()
    try:
        chosen, missing = files.chosen(args, "warm")
        for name, needing in missing if as_text else ():
            messages.error(f"{printable(name)}: library not found; needed by {printable(needing)}")
        for file, library in chosen.items():
            path = files.path(file)
            if room and not room.has(file):
                continue
            try:
                with Progress(printable(path)) as progress:
                    if args.undo:
                        done = cool(file, progress)
                    else:
                        done = _with_remedy(warm(file, of_library if library else options, progress))
            except HugealignError as error:
                statuses.add(error.exit_status)
                errors.append((path, error))
                if as_text:
                    messages.failed(path, error)
                continue
            done = done.changed(library=library)
            texts.append(done)
            if room:
                room.take(done)
            counts = bool(done.offsets) or not library
            statuses.add(int(counts and done.diagnosis is not None))
            if as_text and counts:
                output.show(report.lines(done))
    except KeyboardInterrupt:
        print("hugealign: interrupted", file=sys.stderr)
        return 130
    if as_text:
        summary = [*report.total(texts), *(room.lines() if room else ())]
        print("".join(f"{line}\n" for line in summary), end="")
    else:
        lacking = [report.Missing(*pair) for pair in missing]
        print(documents.text(report.Report(texts, lacking, documents.failed(errors), kernel.huge_page_size())), end="")
    statuses.update({3} if missing else ())
    return 1 if 1 in statuses else max(statuses, default=0)


def _check(args: argparse.Namespace) -> None:
    """Raise UsageError for options that cannot be combined."""
    if args.undo and (args.windows, args.wait) != (None, None):
        raise UsageError("warm: --undo cannot be combined with --windows or --wait")
    if args.recursive and (args.replace or args.libs):
        raise UsageError("warm: -r cannot be combined with --replace or --libs")
    if args.max is not None and not args.recursive:
        raise UsageError("warm: --max requires -r")


class _Room:
    """The memory that `warm -r` may take, and the file systems on which it tries no more files."""

    def __init__(self, args: argparse.Namespace) -> None:
        from hugealign.io.units import parse_size
        from hugealign.system import kernel
        from hugealign.verification import inputs

        available = kernel.available_memory() or 0
        self._most = available if args.max is None else parse_size(args.max, "--max")
        self._room = inputs.TextLimit(self._most)
        self._left_out = 0
        self._small: set[int] = set()
        self._seen: set[tuple[int, int]] = set()

    def has(self, file: "str | Place") -> bool:
        """Return whether to warm the text of *file*."""
        from hugealign.pagecache.warm import window_bytes

        try:
            info = os.stat(file) if isinstance(file, str) else file.status()
            if info.st_dev in self._small or (info.st_dev, info.st_ino) in self._seen:
                return False
            self._seen.add((info.st_dev, info.st_ino))
            fits = self._room.fits(window_bytes(file))
        except (OSError, HugealignError):
            return True  # it is looked at, and reported
        self._left_out += not fits
        return fits

    def lines(self) -> list[str]:
        """Return the line about what was left out."""
        if self._left_out:
            return [f"{counted(self._left_out, 'file')} left out: more than {format_size(self._most)} (--max)"]
        return [] if self._room.taken else ["no window below became huge"]

    def take(self, done: "CachedText") -> None:
        """Count the result *done*."""
        self._room.take(done.huge_bytes)
        if done.diagnosis and done.diagnosis.code == "file-system.no-huge-pages":
            self._small.add(os.stat(done.path).st_dev)


def _with_remedy(done: "CachedText") -> "CachedText":
    """Return *done* with the remedy that gives the file windows, if it has none."""
    if done.offsets:
        return done
    from hugealign.fixing import remedies

    return done.changed(diagnosis=remedies.diagnose(done.path, done.page_size, ask_packages=True))
