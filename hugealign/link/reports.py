"""What a linker writes of its inputs, in the names of files that are there.

Some of our inputs are files in memory.  A build tool that reads their names in a dependency file, which CMake asks for
since 3.27 (``--dependency-file``), would link again each time, since they are gone.
"""

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_IN_MEMORY = re.compile(rb"/proc/self/fd/\d+")
_MAKE = str.maketrans({" ": "\\ ", "#": "\\#", "$": "$$"})


def renamed(text: bytes, names: "Mapping[str, str]", dependencies: bool = False) -> bytes:
    """Return *text* with other *names* for files in memory; *dependencies*: as make has to read it."""

    def name(found: re.Match[bytes]) -> bytes:
        path = os.fsdecode(found.group())
        other = names.get(path, path)
        return os.fsencode(other.translate(_MAKE) if dependencies and path in names else other)

    return _IN_MEMORY.sub(name, text)


def mend(path: str, names: "Mapping[str, str]", dependencies: bool) -> None:
    """Give the files that the report *path* speaks of other *names*."""
    try:
        if not os.path.isfile(path):
            return
        with open(path, "r+b") as file:
            text = file.read()
            file.seek(0)
            file.write(renamed(text, names, dependencies))
            file.truncate()
    except (OSError, ValueError):
        return  # not a file that we know
