"""Where a report goes: to standard output or, whole or not at all, into a file."""

import os
import sys

from hugealign.errors import HugealignError
from hugealign.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_TRIES = 100


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


def write(text: str, path: str | None, utf8: bool = False) -> None:
    """Write *text* to the file at *path*, or to standard output if that is None.

    A file is written in UTF-8; a terminal in its own encoding unless *utf8*, which programs expect.  Raises
    HugealignError if the file cannot be written, BrokenPipeError if the reader of standard output went away.
    """
    try:
        if path is None:
            sys.stdout.flush()
            rest = memoryview(text.encode("utf-8" if utf8 else sys.stdout.encoding, "backslashreplace"))
            while rest:  # without Python's buffer, which would be tried again at exit
                rest = rest[os.write(sys.stdout.fileno(), rest) :]
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        raise _unwritten("standard output", error) from None
    if path is not None:
        write_bytes(text.encode("utf-8", "backslashreplace"), path)


def write_bytes(data: bytes, path: str) -> None:
    """Write *data* to the file at *path*, whole or not at all.  Raises as `write` does."""
    try:
        _replace(os.path.realpath(path), data)
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        raise _unwritten(path, error) from None


def _unwritten(path: str, error: Exception) -> HugealignError:
    return HugealignError(f"{printable(path)}: cannot be written: {getattr(error, 'strerror', None) or error}")


def _replace(path: str, data: bytes) -> None:
    """Write *data* beside *path* and rename it; straight into what is no regular file (``/dev/stdout``, a pipe)."""
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as stream:
            stream.write(data)
        return
    for number in range(_TRIES):
        beside = os.path.join(os.path.dirname(path), f".hugealign-{os.getpid()}-{number}")
        try:
            fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            break
        except FileExistsError:
            continue
    else:
        raise FileExistsError(17, "the directory is full of remains of earlier runs")
    try:
        with open(fd, "wb") as stream:
            stream.write(data)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
