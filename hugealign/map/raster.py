"""A picture as PNG, by librsvg's ``rsvg-convert``: text needs fonts, and fonts need a library."""

import shutil
import subprocess

from hugealign.errors import HugealignError
from hugealign.io.units import printable

_SECONDS = 120


def png(svg: str) -> bytes:
    """Return *svg* as PNG.  Raises HugealignError if the tool is missing or fails."""
    tool = shutil.which("rsvg-convert")
    if tool is None:
        raise HugealignError("--png needs rsvg-convert; on Debian: apt-get install librsvg2-bin; --svg needs nothing")
    try:
        done = subprocess.run(
            [tool, "--format=png"], input=svg.encode(), capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise HugealignError(f"rsvg-convert did not end within {_SECONDS} s") from None
    except OSError as error:
        raise HugealignError(f"rsvg-convert: {error.strerror}") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"status {done.returncode}"]
        raise HugealignError(f"rsvg-convert: {printable(said[-1])}")
    return done.stdout
