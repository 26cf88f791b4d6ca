"""Where a report goes: to standard output or, whole or not at all, into a file."""

import os
import sys
from collections.abc import Iterable, Mapping

from hugealign.errors import HugealignError
from hugealign.units import printable


def colour_wanted(mode: str, to_file: bool, environ: "Mapping[str, str]") -> bool:
    """Return whether to colour, for *mode* ``always``, ``never`` or ``auto``: on a terminal, if nobody objects.

    ``NO_COLOR`` (https://no-color.org) counts before ``FORCE_COLOR`` and ``CLICOLOR_FORCE``; empty is unset.
    """
    if mode != "auto":
        return mode == "always"
    if environ.get("NO_COLOR"):
        return False
    if any(environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return not to_file and sys.stdout.isatty() and environ.get("TERM", "dumb") != "dumb"


def redrawn(lines: "Iterable[str]") -> str:
    """Return what puts *lines* in the place of those that a terminal shows (ECMA-48).

    It moves to the top, clears to the end of each line, and then what is below.
    """
    return "\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J"


def write(text: str, path: str | None, utf8: bool = False) -> None:
    """Write *text* to the file at *path*, or to standard output if that is None or ``-``.

    A file is written in UTF-8; a terminal in its own encoding unless *utf8*, which programs expect.  Raises
    HugealignError if the file cannot be written, BrokenPipeError if the reader of standard output went away.
    """
    try:
        encoding = sys.stdout.encoding if path is None and not utf8 else "utf-8"
        write_bytes(text.encode(encoding, "backslashreplace"), path)
    except ValueError as error:  # of a standard output that is closed
        raise _unwritten("standard output", error) from None


def write_bytes(data: bytes, path: str | None) -> None:
    """Write *data* as `write` does its text: to a file whole or not at all, or to standard output."""
    if path is None or path == "-":
        try:
            sys.stdout.flush()
            rest = memoryview(data)
            while rest:  # without Python's buffer, which would be tried again at exit
                rest = rest[os.write(sys.stdout.fileno(), rest) :]
        except BrokenPipeError:
            raise
        except (OSError, ValueError) as error:
            raise _unwritten("standard output", error) from None
        return
    from hugealign import replacing  # `re`, `secrets`: only where something is written

    try:
        replacing.write(path, data)
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        raise _unwritten(path, error) from None


def _unwritten(path: str, error: Exception) -> HugealignError:
    return HugealignError(f"{printable(path)}: cannot be written: {getattr(error, 'strerror', None) or error}")
