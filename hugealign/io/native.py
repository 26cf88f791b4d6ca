"""Compile hugealign's C sources on demand, keep the results in a cache directory, and load them.

The name in the cache is a hash of the source and of the compile command, so a new version is compiled again and an old
file is never used for a new source.
"""

import hashlib
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from hugealign.errors import HugealignError
from hugealign.io import resources
from hugealign.io.descriptors import using
from hugealign.io.execution import finished
from hugealign.io.resources import check
from hugealign.io.units import printable

COMPILERS = ("cc", "gcc", "clang")
# No contraction: a fused multiply-add rounds once where Python rounds twice.
_FLAGS = (
    *("-std=gnu11", "-O2", "-ffp-contract=off", "-fPIC", "-shared"),
    *("-fvisibility=hidden", "-ftls-model=initial-exec", "-pthread"),
)
_SECONDS = 120
_LOADED: dict[str, Any] = {}  # by source


def library(source: str, *definitions: str) -> str:
    """Return the path of the shared object of *source*, one of our C files, compiled with -D *definitions*.

    The path is that of a descriptor that stays open (proc(5), /proc/PID/fd), so the file that was checked is the file
    that is loaded.  Raises HugealignError without a C compiler, and if compiling or keeping the result fails.
    """
    compiler = next((path for word in COMPILERS if (path := shutil.which(word))), None)
    if compiler is None:
        raise HugealignError("no C compiler found (cc, gcc, clang); on Debian: apt-get install gcc libc6-dev")
    command = [compiler, *_FLAGS, *(f"-D{word}" for word in definitions)]
    with open(source, "rb") as stream:
        key = hashlib.sha256(stream.read())
    key.update("\0".join((os.uname().machine, *command)).encode("utf-8", "surrogateescape"))
    name, _ = os.path.splitext(os.path.basename(source))
    name = f"{name}-{key.hexdigest()[:24]}.so"
    try:
        with using(cache()) as directory:
            return _kept(directory, name) or _compiled(command, source, directory, name)
    except OSError as error:
        why = f"{printable(resources.cache())}: {error.strerror}"
        raise HugealignError(f"cannot keep what was compiled: {why}; set XDG_CACHE_HOME") from None


def _path(fd: int) -> str:
    return f"/proc/{os.getpid()}/fd/{fd}"


def _kept(directory: int, name: str) -> str | None:
    """Return the path of *name* in the cache, or None if it is not there.  Raises HugealignError if it is not ours."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        return None
    check(os.fstat(fd), f"{resources.cache()}/{name}")
    return _path(fd)


def loaded(source: str, functions: Mapping[str, tuple[Any, tuple[Any, ...]]]) -> Any:
    """Return `library` of *source*, loaded by ctypes; *functions* maps names to result and argument types.

    Raises HugealignError as `library` does, and if the object cannot be loaded.
    """
    import ctypes  # `record` does without it

    made = _LOADED.get(source)
    if made is None:
        try:
            made = _LOADED[source] = ctypes.CDLL(library(source))
        except OSError as error:
            raise HugealignError(f"cannot load what was compiled: {printable(str(error))}") from None
    for name, (result, arguments) in functions.items():
        function = getattr(made, name)
        function.restype, function.argtypes = result, arguments
    return made


def cache() -> int:
    """Open our directory below ``XDG_CACHE_HOME``, where only we and root may write; make it if need be.

    Raises OSError, and HugealignError if others may write there or replace the directory, since they could put their
    code there.  So root uses nothing in another user's home.  HugealignError also if the home does not exist, as a
    service's ``/nonexistent``: root could make it, and should not.
    """
    path = resources.cache()
    if not os.path.isabs(path):  # a user without a home who is in no list of users
        raise HugealignError(f"{printable(path)}: nothing is kept below the current directory; set XDG_CACHE_HOME")
    home = os.path.expanduser("~")
    try:
        return resources.made(path, home)
    except FileNotFoundError:
        if os.path.isdir(home):
            raise
        raise HugealignError(f"{printable(home)}: no such directory; set XDG_CACHE_HOME") from None


def _compiled(command: list[str], source: str, directory: int, name: str) -> str:
    """Compile *source*, keep the result in the cache under *name*, and return its path."""
    beside = f".{os.getpid()}-{name}"
    try:
        # Make the file here, not in the linker, where the umask could open it to others.
        os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=directory))
        done = finished([*command, source, "-lm", "-o", f"{_path(directory)}/{beside}"], _SECONDS)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no message"]
            why = next((line for line in lines if "error" in line), lines[-1])
            raise HugealignError(
                f"{printable(command[0])} cannot compile {os.path.basename(source)}: {printable(why)}; "
                "on Debian: apt-get install gcc libc6-dev"
            )
        fd = os.open(beside, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        os.fchmod(fd, 0o700)
        os.rename(beside, name, src_dir_fd=directory, dst_dir_fd=directory)
        return _path(fd)
    except TimeoutError:
        raise HugealignError(f"{printable(command[0])} did not end within {_SECONDS} s") from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=directory)
