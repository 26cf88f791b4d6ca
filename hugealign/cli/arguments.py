"""Helpers that the command lines of several commands share."""

import argparse
import os
import re
import sys

from hugealign.errors import NumberFormatError, UsageError
from hugealign.io.numbers import decimal
from hugealign.io.units import parse_page_size, printable
from hugealign.settings import OWN

#: How processes are named.
TARGET = "PID|NAME|UNIT"

_PAGE_SIZE = "the huge page size (default: that of the file's processor: 1M for s390x, 32M for LoongArch, else 2M)"
#: The lowest severities that can fail a file.
FAIL_ON = ("error", "warning", "note", "never")
_COUNT_LIMIT = 10**9
_SECONDS_LIMIT = 10**6

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn


# argparse translates its own words, and only those: help in two languages, for 1 ms of each command.
setattr(argparse, "_", str)  # noqa: B010 - no name of its interface


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal.  argparse would call shutil for each option, which loads three compressors."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=columns() - 2)


def columns() -> int:
    """Return the width of the terminal, or COLUMNS, as `shutil.get_terminal_size` does."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and columns.strip("0"):
        return int(columns)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return 80


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line that says what to type; argparse's own begin with the whole usage."""

    def parse_args(self, args: "Any" = None, namespace: "Any" = None) -> "Any":
        """Parse *args*, and suggest what an unknown option was meant to be."""
        found, rest = self.parse_known_args(args, namespace)
        if rest:
            from hugealign.cli import mistakes

            self.refuse(mistakes.no_option(self._command(), rest, self.options()))
        return found

    def options(self) -> "set[str]":
        """Return all options, including those of actions, as `hugealign profile` has."""
        below = [action.choices.values() for action in self._actions if isinstance(action.choices, dict)]
        return set(self._option_string_actions).union(*(parser.options() for parsers in below for parser in parsers))

    def error(self, message: str) -> "NoReturn":
        """Print *message*, which is argparse's, and exit."""
        self.refuse(f"{message}; hugealign {self._command()} --help says more")

    def refuse(self, message: str) -> "NoReturn":
        """Print *message*, and exit."""
        from hugealign.cli import messages

        messages.error(f"{self._command()}: {printable(message)}")
        self.exit(2)

    def _command(self) -> str:
        return self.prog.removeprefix("hugealign").strip()


class StrictParser(Parser):
    """A parser that refuses ``--`` as the value of an option."""

    def parse_known_args(self, args: "Any" = None, namespace: "Any" = None) -> "Any":
        """Parse *args*.  Before Python 3.13, argparse took such a value for the end of the options, and lost it."""
        words = list(args)
        for word in words[: words.index("--") if "--" in words else None]:
            if word[:1] == "-" and word[2:].endswith("--"):
                self.error(f"{printable(word)}: an option cannot have -- as its value")
        return super().parse_known_args(words, namespace)


class SplitParser(StrictParser):
    """A parser that ignores the words after ``--``; they become *after*, None without ``--``."""

    def parse_known_args(self, args: "Any" = None, namespace: "Any" = None) -> "Any":
        """Parse the words before ``--``."""
        words = list(args)
        end = words.index("--") if "--" in words else len(words)
        namespace, rest = super().parse_known_args(words[:end], namespace)
        namespace.after = words[end + 1 :] if end < len(words) else None
        return namespace, rest


def add_json(add: "Callable[..., Any]", summary: str) -> None:
    """Add ``--json`` by calling *add*; *summary* names the schema."""
    add("--json", action="store_true", help=f"print JSON, {summary}")


def add_output(add: "Callable[..., Any]", what: str = "report") -> None:
    """Add ``-o``, the file to which *what* is written, by calling *add*."""
    add("-o", "--output", metavar="FILE", help=f"write the {what} to FILE (default: stdout)")


def add_page_size(add: "Callable[..., Any]") -> None:
    """Add ``--page-size``, the window size of the layout, by calling *add*."""
    add("--page-size", metavar="SIZE", help=_PAGE_SIZE)


def page_size(text: str | None, where: str = "--page-size") -> int:
    """Return the page size that *text*, given at *where*, stands for; OWN without one.  Raises UsageError."""
    return parse_page_size(text, where) if text else OWN


def memory(text: str | None) -> int | None:
    """Return the bytes of ``512M``, or of ``2%`` of the memory, given as --max.  Raises UsageError."""
    if text is None:
        return None
    from hugealign.machine.machine_policy import size

    try:
        return size(text)
    except (ValueError, UsageError):
        raise UsageError("--max: not a size (examples: 512M, 2%)") from None


class _Form(argparse.Action):
    """Set the form of the report; ``json`` means --json."""

    def __call__(self, _parser: "Any", namespace: "Any", values: "Any", _option: "Any" = None) -> None:
        namespace.json = values == "json"
        namespace.format = "text" if namespace.json else values


def add_form(add: "Callable[..., Any]", forms: "Sequence[str]", what: str) -> None:
    """Add ``--format``, which takes one of *forms*, text first, and ``json``; *what* is the help."""
    add("--format", action=_Form, choices=(*forms, "json"), default=forms[0], help=what)


def number(text: str, where: str, *, most: int) -> int:
    """Return the number *text*, from 0 to *most*, that is given at *where*.  Raises UsageError."""
    try:
        return decimal(text, most)
    except NumberFormatError:
        raise UsageError(f"{where}: {printable(text[:40])}: not a number from 0 to {most}") from None


# argparse shows the names of these functions when they raise ValueError.
def count(text: str) -> int:
    """Return the number in ``3``, at least 1; raises ValueError."""
    number = decimal(text, _COUNT_LIMIT)
    if number < 1:
        raise ValueError
    return number


def percentage(text: str) -> float:
    """Return the number in ``95``, ``99.5`` or ``95%``; raises ValueError."""
    return _fraction(text.removesuffix("%"), 100)


def seconds(text: str) -> float:
    """Return the number in ``0.5``; raises ValueError."""
    return _fraction(text, _SECONDS_LIMIT)


def interval(text: str) -> float:
    """Return the number in ``0.5``, at least 0.01; raises ValueError or ArgumentTypeError."""
    number = seconds(text)
    if number < 0.01:
        raise argparse.ArgumentTypeError(f"{text} is too short; give at least 0.01 (seconds)")
    return number


def _fraction(text: str, maximum: int) -> float:
    if not re.fullmatch(r"[0-9]{0,12}\.?[0-9]{0,12}", text, re.ASCII) or not 0 <= (number := float(text)) <= maximum:
        raise ValueError
    return number
