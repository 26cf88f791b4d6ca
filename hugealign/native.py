"""Our C sources, compiled when they are needed, kept in a cache directory, and loaded.

The name in the cache is a hash of the source and of the command that compiles it: a new version is compiled again, and
an old file is never used for a new source.
"""

import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from typing import Any

from hugealign.errors import HugealignError
from hugealign.units import printable

_COMPILERS = ("cc", "gcc", "clang")
# No contraction: a fused multiply-add rounds once where Python rounds twice.
_FLAGS = (
    *("-std=gnu11", "-O2", "-ffp-contract=off", "-fPIC", "-shared"),
    *("-fvisibility=hidden", "-ftls-model=initial-exec", "-pthread"),
)
_SECONDS = 120


def library(source: str, *definitions: str) -> str:
    """Return the path of the shared object of *source*, a C file of ours, compiled with -D *definitions*.

    Raises HugealignError without a C compiler, and if nothing can be compiled or kept.
    """
    compiler = next((path for word in _COMPILERS if (path := shutil.which(word))), None)
    if compiler is None:
        raise HugealignError("no C compiler found (cc, gcc, clang); on Debian: apt-get install gcc libc6-dev")
    command = [compiler, *_FLAGS, *(f"-D{word}" for word in definitions)]
    with open(source, "rb") as stream:
        key = hashlib.sha256(stream.read())
    key.update("\0".join((os.uname().machine, *command)).encode("utf-8", "surrogateescape"))
    try:
        directory = cache()
        name, _ = os.path.splitext(os.path.basename(source))
        path = os.path.join(directory, f"{name}-{key.hexdigest()[:24]}.so")
        if not os.path.exists(path):
            _compile(command, source, path)
    except OSError as error:
        raise HugealignError(f"cannot keep what was compiled: {printable(str(error))}; set XDG_CACHE_HOME") from None
    return path


def loaded(source: str, functions: Mapping[str, tuple[Any, tuple[Any, ...]]]) -> Any:
    """Return `library` of *source*, loaded by ctypes; *functions* are its results' and arguments' types, by name.

    Raises HugealignError as `library` does, and if it cannot be loaded.
    """
    import ctypes  # `record` does without it

    path = library(source)
    try:
        made = ctypes.CDLL(path)
    except OSError as error:
        raise HugealignError(f"cannot load what was compiled: {printable(str(error))}") from None
    for name, (result, arguments) in functions.items():
        function = getattr(made, name)
        function.restype, function.argtypes = result, arguments
    return made


def cache() -> str:
    """Return our directory below ``XDG_CACHE_HOME``, made if need be; only we may write there.

    Raises HugealignError if others may: they could put code of theirs there.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.cache")
    path = os.path.join(base, "hugealign")
    os.makedirs(path, mode=0o700, exist_ok=True)
    found = os.stat(path)
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise HugealignError(
            f"{printable(path)}: others may write there, so nothing is run from it; chmod 700, or chown"
        )
    return path


def _compile(command: list[str], source: str, path: str) -> None:
    fd, beside = tempfile.mkstemp(suffix=".so", dir=os.path.dirname(path))
    os.close(fd)
    try:
        done = subprocess.run(
            [*command, source, "-lm", "-o", beside],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_SECONDS,
            check=False,
        )
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
            why = next((line for line in lines if "error" in line), lines[-1])
            raise HugealignError(
                f"{printable(command[0])} cannot compile {os.path.basename(source)}: {printable(why)}; "
                "on Debian: apt-get install gcc libc6-dev"
            )
        os.replace(beside, path)
    except subprocess.TimeoutExpired:
        raise HugealignError(f"{printable(command[0])} did not end within {_SECONDS} s") from None
    finally:
        if os.path.exists(beside):
            os.unlink(beside)
