"""The command ``hugealign warm``: load the text of files into the page cache in huge pages."""

import argparse
import json
import os
import sys

from hugealign.cli import messages, output
from hugealign.cli.arguments import add_json, count, seconds
from hugealign.errors import HugealignError, UsageError
from hugealign.io.progress import Progress
from hugealign.io.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from hugealign.pagecache.text import CachedText

EPILOG = """\
Every process that then maps the text gets huge pages, without any change to the
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
    parser.add_argument("files", nargs="+", metavar="FILE", help="an executable or a shared library")
    parser.add_argument("--libs", action="store_true", help="also the shared libraries that the files need")
    parser.add_argument("--windows", metavar="N", type=count, help="load only the first N windows of each file")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true", help="only report what is huge")
    how.add_argument("--replace", action="store_true", help="replace a file in use by a warm copy")
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
    from hugealign.pagecache import report
    from hugealign.pagecache.text import WarmOptions, cool, warm

    if args.undo and (args.windows, args.wait) != (None, None):
        raise UsageError("warm: --undo goes with --libs and --json alone")
    options = WarmOptions(args.windows, args.check, args.replace, args.wait or 0.0)
    of_library = options.changed(replace=False)
    as_text = not args.json
    texts: list[CachedText] = []
    libraries: set[str] = set()
    missing: dict[tuple[str, str], None] = {}
    errors: list[tuple[str, HugealignError]] = []
    statuses: set[int] = set()
    try:
        for path, library in _paths(args, missing):
            try:
                with Progress(printable(path)) as progress:
                    if args.undo:
                        done = cool(path, progress)
                    else:
                        done = _with_remedy(warm(path, of_library if library else options, progress))
            except HugealignError as error:
                statuses.add(error.exit_status)
                errors.append((path, error))
                if as_text:
                    messages.failed(path, error)
                continue
            texts.append(done)
            if library:
                libraries.add(path)
            counts = bool(done.offsets) or not library
            statuses.add(int(counts and done.diagnosis is not None))
            if as_text and counts:
                output.show(report.lines(done))
    except KeyboardInterrupt:
        print("hugealign: interrupted", file=sys.stderr)
        return 130
    if as_text:
        print("".join(f"{line}\n" for line in report.total(texts, libraries)), end="")
    else:
        print(json.dumps(report.document(texts, libraries, list(missing), errors), indent=1))
    statuses.update({3} if missing else ())
    return 1 if 1 in statuses else max(statuses)


def _with_remedy(done: "CachedText") -> "CachedText":
    """Return *done* with the remedy that gives the file windows, if it has none."""
    if done.offsets:
        return done
    from hugealign.fixing import remedies

    return done.changed(diagnosis=remedies.diagnose(done.path, done.page_size))


def _paths(args: argparse.Namespace, missing: "dict[tuple[str, str], None]") -> "Iterator[tuple[str, bool]]":
    """Yield each file and, with ``--libs``, each library that the files need, once, and whether it is a library.

    Add libraries that do not exist to *missing*, as (name, the file that needs it).
    """
    from hugealign.system import libraries

    seen: set[str] = set()
    for path in args.files:
        seen.add(os.path.realpath(path))
        yield path, False
        if not args.libs:
            continue
        try:
            found = libraries.resolve(path)
        except HugealignError:
            continue  # already reported
        for library in found.paths:
            if library not in seen:
                seen.add(os.path.realpath(library))
                yield library, True
        for name, needing in found.missing:
            if (name, needing) not in missing and not args.json:
                message = f"{printable(name)}: library not found; needed by {printable(needing)}"
                messages.error(message)
            missing[name, needing] = None
