"""Messages on standard error: `hugealign: error: …`, in colour on a terminal."""

import os
import sys

from hugealign.cli.output import colour_wanted
from hugealign.io import progress
from hugealign.io.units import printable, without_commands

_COLOURS = {"error": "1;31", "warning": "1;33"}


def error(message: object) -> None:
    """Print an error; *message* fits a terminal."""
    _say("error", message)


def failed(path: str, failure: Exception) -> None:
    """Print the error that *failure* is about the file at *path*."""
    from hugealign.diagnosis.refusal import words

    error(f"{printable(path)}: {words(path, failure)}")


def warning(message: object) -> None:
    """Print a warning; *message* fits a terminal."""
    _say("warning", message)


def _say(kind: str, message: object) -> None:
    progress.clear()
    stream = sys.stderr
    word = f"{kind}:"
    if colour_wanted(stream, os.environ):
        word = f"\x1b[{_COLOURS[kind]}m{word}\x1b[0m"
    print(without_commands(f"hugealign: {word} {message}"), file=stream)
