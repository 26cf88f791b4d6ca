"""What `hugealign run` and `advise` share: the options, and the work before the command starts."""

import contextlib
import sys
from collections.abc import Mapping

from hugealign.environment import as_given
from hugealign.errors import HugealignError, UsageError
from hugealign.io.units import format_size, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any

    from hugealign.run.launch import TextResult


def command_words(words: list[str], example: str) -> list[str]:
    """Return the command in *words*, after an optional ``--``.  Raises UsageError with the *example* if it is empty."""
    words = words[1:] if words[:1] == ["--"] else words
    if not words:
        raise UsageError(f"{example.split()[1]}: no command; example: {example}")
    return words


def add_files(add: "Callable[..., Any]", command: str) -> None:
    """Add the options for which files become huge, by calling *add*; the help calls the command *command*."""
    about = f"include the shared libraries with 1 MiB of text that {command} is linked with"
    add("--libs", action="store_true", help=about)
    add(
        "--file",
        metavar="PATH",
        action="append",
        default=[],
        help=f"include this program or library, or those below this directory, which {command} starts or opens later; "
        "may be repeated",
    )
    add(
        "--fix",
        action="store_true",
        help="run from a fixed copy of each file that fix gives more windows; the file does not change",
    )


def configure(parser: "argparse.ArgumentParser") -> None:
    """Declare the options and the command."""
    import argparse

    from hugealign.cli.arguments import seconds
    from hugealign.run import store

    add = parser.add_argument
    add("-v", "--verbose", action="store_true", help="print on stderr how much of each file is huge")
    ways = ("auto", "in-place", "stage", "copy")
    add("--how", choices=ways, default=ways[0], help="the way to put text on huge pages (default: auto)")
    add_files(add, "COMMAND")
    add("--store", metavar="DIR", default=store.DEFAULT, help=f"use the copies in DIR (default: {store.DEFAULT})")
    add(
        "--wait",
        metavar="SECONDS",
        type=seconds,
        default=0,
        help="wait up to SECONDS until khugepaged makes the text huge in place (default: 0)",
    )
    add("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="the command and its arguments")


def prepared(command: str, args: "argparse.Namespace | None") -> tuple[str, Mapping[bytes, bytes]]:
    """Make the text of *command* huge as *args* say, None if there are no options, and print the messages.

    Return the path to execute instead of the first word, and the environment for it.
    """
    lines: list[str] = []
    program = ""
    environ, verbose = as_given(), bool(args and args.verbose)
    try:
        from hugealign.run import launch, tunable

        options = launch.LaunchOptions()
        if args:
            options = launch.LaunchOptions(args.how, args.libs, args.fix, args.store, args.wait, args.file)
        done = launch.prepare(command, options)
        program = done.program
        if done.tunable:
            environ = tunable.with_tunable(environ)
        shown = done.texts if verbose else done.worst
        lines += [_line(text, verbose) for text in shown]
        counted = [text for text in done.texts if text.windows and text.how != launch.STORE]
        if shown and len(counted) > 1 and not verbose:
            huge, windows = sum(text.huge for text in counted), sum(text.windows for text in counted)
            lines[-1] = f"{huge} of {windows} windows huge in {len(counted)} files; {lines[-1]}"
    except (HugealignError, OSError) as error:
        from hugealign.diagnosis.refusal import DiagnosedError, error_name, words

        why = DiagnosedError("program.unchanged", error=error_name(error)) if isinstance(error, OSError) else error
        lines.append(f"{printable(command)}: {words(command, why)}")
    except Exception as error:  # noqa: BLE001  # the command runs anyway
        lines.append(f"{printable(command)}: {type(error).__name__}: {printable(str(error))}")
    with contextlib.suppress(OSError):
        for line in lines:
            print(f"hugealign: {line}", file=sys.stderr, flush=True)
    return program, environ


def _line(text: "TextResult", verbose: bool) -> str:
    line = printable(text.path)
    if text.windows:
        line += f": {text.huge} of {text.windows} windows huge"
        line += f" ({text.how})" if verbose else ""
        if verbose and text.executable:
            line += f", {format_size(text.executable)} of read-only data executable"
    if text.diagnosis is None:
        return line
    from hugealign.diagnosis import render  # it imports re

    return f"{line}: {render.text(text.diagnosis)}"
