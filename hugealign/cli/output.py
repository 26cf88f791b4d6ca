"""Write reports: to standard output or, whole or not at all, into a file."""

import os
import sys

from hugealign.errors import HugealignError, UsageError, cause
from hugealign.io.units import printable, without_commands

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import TextIO


def colour_wanted(stream: "TextIO | None", environ: "Mapping[str, str]") -> bool:
    """Return whether to use colours: on a terminal, unless disabled.

    *stream* is the destination, None for a file.  ``NO_COLOR`` (https://no-color.org) overrides ``FORCE_COLOR`` and
    ``CLICOLOR_FORCE``, and these override ``CLICOLOR=0`` (https://bixense.com/clicolors); empty is unset.
    """
    if environ.get("NO_COLOR"):
        return False
    if any(environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    if stream is None or environ.get("CLICOLOR") == "0":
        return False
    return stream.isatty() and environ.get("TERM", "dumb") != "dumb"


def painted(text: str) -> str:
    """Return the report *text* for standard output: `without_commands`, and without colours unless wanted."""
    text = without_commands(text)
    return text if colour_wanted(sys.stdout, os.environ) else plain(text)


def plain(text: str) -> str:
    """Return the report *text* without the colours of `hugealign.diagnosis.render`; no name in it has any."""
    import re

    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def encodes(words: str) -> bool:
    """Return whether standard output can encode *words*."""
    try:
        words.encode(sys.stdout.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def show(lines: "Iterable[str]") -> None:
    """Print the *lines* of a report."""
    print(painted("\n".join(lines)), flush=True)


def redrawn(lines: "Iterable[str]") -> str:
    """Return the text that replaces the lines on a terminal by *lines* (ECMA-48).

    It moves to the top, clears each line to its end, and then everything below.
    """
    return "\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J"


def keep_apart(outputs: "Mapping[str, str | None]", inputs: "Iterable[str | None]") -> None:
    """Raise UsageError if two options write one file, or if one writes a file that is read: an *inputs* path.

    *outputs* maps each option that writes to its value.
    """
    # Several reports may go to a device or a pipe, as to /dev/null.
    written = {option: out for option, out in outputs.items() if out and out != "-" and not _is_special(out)}
    if not written:
        return
    from hugealign.io import replacing

    taken = {path: "which is read" for path in inputs if path}
    for option, out in written.items():
        for path, why in taken.items():
            if replacing.same(path, out):
                raise UsageError(f"{option} {printable(out)} would replace {printable(path)}, {why}")
        taken[out] = f"the output of {option}"


def _is_special(path: str) -> bool:
    return os.path.exists(path) and not os.path.isfile(path)


def write(text: str, path: str | None, utf8: bool = False) -> None:
    """Write *text* to the file at *path*, or to standard output if that is ``-``, or None for a report.

    A file gets UTF-8; a report gets the encoding of standard output, `without_commands`, unless it is *utf8*, which
    programs expect.  Raises HugealignError if the file cannot be written, BrokenPipeError if the reader of standard
    output went away.
    """
    for_people = path is None and not utf8
    try:
        encoding = sys.stdout.encoding if for_people else "utf-8"
        write_bytes((without_commands(text) if for_people else text).encode(encoding, "backslashreplace"), path)
    except ValueError as error:  # standard output is closed
        raise unwritten("standard output", error) from None


def write_report(text: str, path: "str | None") -> None:
    """Write a report for people, with its colours where standard output shows them."""
    write(painted(text) if path in (None, "-") else plain(text), path)


def write_bytes(data: bytes, path: str | None) -> None:
    """Write *data* as `write` does text: to a file, whole or not at all, or to standard output."""
    if path is None or path == "-":
        try:
            sys.stdout.flush()
            rest = memoryview(data)
            while rest:  # bypass Python's buffer, which Python would flush again at exit
                rest = rest[os.write(sys.stdout.fileno(), rest) :]
        except BrokenPipeError:
            raise
        except (OSError, ValueError) as error:
            raise unwritten("standard output", error) from None
        return
    from hugealign.io import replacing  # imports `re` and `secrets`

    try:
        replacing.write(path, data)
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        raise unwritten(path, error) from None


def unwritten(path: str, error: Exception) -> HugealignError:
    """Return the error for a file, or standard output, that cannot be written."""
    return HugealignError(f"{printable(path)}: cannot be written: {cause(error)}")
