"""What a linker writes of its inputs, in the names of files that are there.

Some inputs of ours are files in memory.  A build tool that reads their names in a dependency file, which CMake asks for
since 3.27 (``--dependency-file``), would link again each time, since they are gone.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_MAKE = str.maketrans({" ": "\\ ", "#": "\\#", "$": "$$"})


def renamed(text: bytes, names: "Mapping[str, str]", dependencies: bool = False) -> bytes:
    """Return *text* with other *names* of files; *dependencies*: as make has to read it."""
    for path in sorted(names, key=len, reverse=True):  # /proc/self/fd/10 before /proc/self/fd/1
        name = names[path].translate(_MAKE) if dependencies else names[path]
        text = text.replace(os.fsencode(path), os.fsencode(name))
    return text


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
        return  # it is none of ours
