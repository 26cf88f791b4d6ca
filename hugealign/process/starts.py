"""How a process was started: the path that it was called by, the script in front of it, and what it unpacked."""

import os
import re
import struct
import time
from contextlib import suppress

from hugealign.diagnosis.refusal import RefusalError
from hugealign.io import mounts
from hugealign.io.descriptors import using
from hugealign.io.execution import which
from hugealign.io.regular import FileError, opened
from hugealign.process import procfs
from hugealign.process.procfs import FileId
from hugealign.system import rooted

_TICK = 1 / os.sysconf("SC_CLK_TCK")
_AT_EXECFN = 31  # include/uapi/linux/auxvec.h
_PATH_MAX = 4096
_SCRIPT_LIMIT = 1 << 18  # bytes of a script that are read; that of LibreOffice has 5,000


def called(pid: int, program: FileId, exe: str = "") -> str:
    """Return the path by which *pid* was started; empty if that is *exe*, or none is known that leads to its *program*.

    The python of a virtual environment is a link, and finds its packages by that name.  The kernel keeps the name that
    execve got (AT_EXECFN); for a script that is the script's, and the interpreter's name is the first argument.
    """
    for find in (_execve_name, _first_argument):
        with suppress(OSError, ValueError, LookupError, struct.error, RefusalError):
            name = os.fsdecode(find(pid))
            if name == exe:  # of most processes
                return ""
            path = os.path.join(os.readlink(f"/proc/{pid}/cwd"), name)
            if "/" not in name or mounts.behind_server(path, pid):
                continue
            # Links on the way are the process's, in its mount namespace and below its root.
            with (
                using(os.open(f"/proc/{pid}/root", os.O_PATH | os.O_CLOEXEC)) as root,
                using(rooted.resolve(root, path)) as fd,
            ):
                reached = procfs.identity(f"/proc/self/fd/{fd}")
            if reached == program:
                return path if "/../" in path else os.path.normpath(path)
    return ""


def wrapper(pid: int, program: str) -> str:
    """Return the path of the script that people start for the *program* of *pid*; empty if none is known.

    Such a script sets variables that the program needs, and executes it (R, erl, firefox).  A shell leaves the path of
    what it starts in the variable ``_``, which dash passes on; without it, the script has the program's name and is in
    PATH.  It names the program.  What itself is in PATH, people start by its name.
    """
    name = os.path.basename(program)
    own = which(name)
    if own == program:
        return ""
    with suppress(OSError):
        variables = dict(item.partition(b"=")[::2] for item in procfs.read(f"/proc/{pid}/environ").split(b"\0"))
        place = os.fsdecode(variables.get(b"PWD", b"")) or os.readlink(f"/proc/{pid}/cwd")
        typed = os.path.join(place, os.fsdecode(variables.get(b"_", b"")))
        interpreted = {os.path.join(place, os.fsdecode(word)) for word in _arguments(pid)}
        for path in filter(None, (typed, own)):
            if path not in interpreted and os.access(path, os.X_OK) and _starts(path, name):
                return os.path.normpath(path)
    return ""


def _starts(path: str, name: str) -> bool:
    """Return whether the file at *path* is a script that has the word *name*, or its beginning (soffice, beam)."""
    if mounts.behind_server(path):
        return False
    with suppress(FileError), opened(path) as fd:
        text = os.pread(fd, _SCRIPT_LIMIT, 0)
        word = re.escape(os.fsencode(name.partition(".")[0]))
        return text.startswith(b"#!") and bool(re.search(rb"(?<![\w-])%s(?![\w-])" % word, text))
    return False


def _execve_name(pid: int) -> bytes:
    name = dict(struct.iter_unpack("=QQ", procfs.read(f"/proc/{pid}/auxv")))[_AT_EXECFN]
    with using(os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)) as memory:
        return os.pread(memory, _PATH_MAX, name).partition(b"\0")[0]


def _first_argument(pid: int) -> bytes:
    with using(os.open(f"/proc/{pid}/cmdline", os.O_RDONLY | os.O_CLOEXEC)) as words:
        return os.read(words, _PATH_MAX).partition(b"\0")[0]


def unpacked(pid: int, path: str) -> bool:
    """Return whether *pid* made the file at *path* after it started, or its parent if that has the same command line.

    It makes another at its next start.  Raises OSError.
    """
    file, made = procfs.identity(path), procfs.born(path)
    made -= time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    # The kernel rounds the start and the file's time down.  A launcher unpacks its program at once.
    later = -_TICK if file == _program(pid) else _TICK
    while True:
        stat = procfs.stat(f"/proc/{pid}/stat")
        # A process has not made the program that it executes; an upgrade may have.
        if made > stat.started + later and file != _program(pid):
            return True
        parent = stat.parent
        # The child may have another program, as of Nuitka, but is called by the name of its parent's.
        if not parent or _arguments(parent) != _arguments(pid) or not called(pid, _program(parent)):
            return False
        pid = parent


def _program(pid: int) -> FileId:
    return procfs.identity(f"/proc/{pid}/exe")


def _arguments(pid: int) -> list[bytes]:
    return procfs.read(f"/proc/{pid}/cmdline").split(b"\0")[1:]
