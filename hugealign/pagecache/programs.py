"""Find and warm the files that a command will execute: the first step of `hugealign run`."""

import os
from collections.abc import Iterator

from hugealign.errors import HugealignError
from hugealign.execution import which
from hugealign.regular import opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.pagecache.text import CachedText, WarmOptions

_INTERPRETERS = 4  # files that are looked at; the kernel follows as many interpreters, or one more
_LINE = 256  # bytes of a script that the kernel reads (BINPRM_BUF_SIZE)


def warm_command(
    command: str, libs: bool = False, options: "WarmOptions | None" = None
) -> "Iterator[tuple[str, CachedText | HugealignError]]":
    """Warm the program that *command* executes, with *libs* its shared libraries as well, as *options* say.

    Yield each path with its result; libraries without a whole window are skipped.  Raises HugealignError.
    """
    from hugealign.pagecache.text import warm

    program = binary(command)
    if program is None:
        return
    for path in (program, *(shared_libraries(program) if libs else ())):
        try:
            done = warm(path, options)
        except HugealignError as error:
            yield path, error
            continue
        if done.offsets or (done.rodata and done.rodata.offsets) or path == program:
            yield path, done


def shared_libraries(program: str) -> tuple[str, ...]:
    """Return the real paths of the shared libraries that the loader would map for *program*.  Raises HugealignError."""
    from hugealign.machine import libraries

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
