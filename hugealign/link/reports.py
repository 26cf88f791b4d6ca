"""Replace the names of files in memory in what a linker writes about its inputs.

Some of our inputs are files in memory.  A build tool that read their names in a dependency file would link again each
time, since they are gone; CMake requests such a file since 3.27 (``--dependency-file``).
"""

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_IN_MEMORY = re.compile(rb"/proc/self/fd/\d+")
_MAKE = str.maketrans({" ": "\\ ", "#": "\\#", "$": "$$"})


def renamed(text: bytes, names: "Mapping[str, str]", dependencies: bool = False) -> bytes:
    """Return *text* with *names* in place of files in memory; with *dependencies*, escaped for make."""

    def name(match: re.Match[bytes]) -> bytes:
        path = os.fsdecode(match.group())
        other = names.get(path, path)
        return os.fsencode(other.translate(_MAKE) if dependencies and path in names else other)

    return _IN_MEMORY.sub(name, text)


def place(report: str, output: str) -> str:
    """Return where a linker that made *output* has written its *report*.

    GNU ld's ``-Map`` takes a directory, and ``%`` for the output (ld manual, "Command-line Options").
    """
    if os.path.isfile(report):
        return report
    if "%" in report:
        before, _, behind = report.partition("%")
        return f"{before}{output}{behind or '.map'}"
    return os.path.join(report, f"{os.path.basename(output)}.map")


def rename_in(path: str, names: "Mapping[str, str]", dependencies: bool) -> None:
    """Replace the files in memory that the report at *path* mentions by their *names*, as `renamed` does."""
    try:
        if not os.path.isfile(path):
            return
        with open(path, "r+b") as file:
            text = file.read()
            file.seek(0)
            file.write(renamed(text, names, dependencies))
            file.truncate()
    except (OSError, ValueError):
        return  # an unknown kind of file
