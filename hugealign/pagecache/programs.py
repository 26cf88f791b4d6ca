"""Find and warm the files that a command will execute: the first step of `hugealign run`."""

import os
from collections.abc import Iterator, Sequence

from hugealign.errors import HugealignError
from hugealign.io.execution import which
from hugealign.io.regular import opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.pagecache.text import CachedText, WarmOptions

_INTERPRETERS = 4  # files that are looked at; the kernel follows as many interpreters, or one more
_LINE = 256  # bytes of a script that the kernel reads (BINPRM_BUF_SIZE)


def warm_files(
    paths: Sequence[str], options: "WarmOptions | None" = None
) -> "Iterator[tuple[str, CachedText | HugealignError]]":
    """Warm the files at *paths* as *options* say, and yield each path with its result or error."""
    from hugealign.pagecache.text import warm

    for path in paths:
        try:
            yield path, warm(path, options)
        except HugealignError as error:
            yield path, error


def shared_libraries(program: str) -> tuple[str, ...]:
    """Return the real paths of the shared libraries that the loader would map for *program*.  Raises HugealignError."""
    from hugealign.system import libraries

    return libraries.resolve(program).paths


def binary(command: str) -> str | None:
    """Return the path of the ELF file that *command* executes; for a script with ``#!``, its interpreter.

    None if there is none.  Raises FileError.
    """
    path = which(command)
    for _ in range(_INTERPRETERS):
        if path is None:
            return None
        with opened(path) as fd:
            line = os.pread(fd, _LINE, 0)
        if not line.startswith(b"#!"):
            return path
        words = os.fsdecode(line[2:].split(b"\n")[0]).split()
        if words and os.path.basename(words[0]) == "env":
            words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        path = which(words[0]) if words else None
    return None
