"""Execute a command in place of this process, or as a child until it ends."""

import errno
import os
import signal
import sys
from collections.abc import Mapping, Sequence

from hugealign.environment import reset_signals, signals_to_reset
from hugealign.errors import HugealignError
from hugealign.io.regular import opened
from hugealign.io.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import CompletedProcess
    from threading import Thread

_INTERPRETERS = 4  # files that are looked at; the kernel follows as many interpreters, or one more
_LINE = 256  # bytes of a script that the kernel reads (BINPRM_BUF_SIZE)


def start_thread(thread: "Thread") -> None:
    """Start *thread*.  Raises HugealignError if the system has no room for it: pthread_create(3) fails with EAGAIN."""
    try:
        thread.start()
    except RuntimeError as error:
        raise HugealignError(f"no thread can be started: {error}; raise the limit of processes (ulimit -u)") from error


def finished(words: Sequence[str], seconds: int, environ: Mapping[str, str] | None = None) -> "CompletedProcess[str]":
    """Run the command *words* without input until it ends, and return its status and output.

    Raises TimeoutError if it takes more than *seconds*, and OSError.
    """
    import subprocess  # `run` does without it

    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    try:
        return subprocess.run(
            words, stdin=null, stdout=pipe, stderr=pipe, env=environ, timeout=seconds, check=False,
            encoding="utf-8", errors="surrogateescape",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TimeoutError(errno.ETIMEDOUT, f"it did not end within {seconds} s") from None


def execute(words: Sequence[str], environ: Mapping[bytes, bytes], program: str = "") -> int:
    """`become` the command *words*; on failure, say why and return 126 or 127 as env(1) does."""
    reset_signals(signals_to_reset())
    if signal.SIGCHLD in signal.sigpending():  # blocked by our parent, and sent for a child of ours
        signal.sigtimedwait([signal.SIGCHLD], 0)
    try:
        become(words, environ, program)
    except (FileNotFoundError, NotADirectoryError):
        status, reason = 127, "command not found"
    except ValueError as error:
        status, reason = 127, str(error) if words[0] else "no command has an empty name"
    except OSError as error:
        status, reason = 126, "is a directory" if os.path.isdir(words[0]) else f"not executable: {error.strerror}"
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    print(f"hugealign: error: {printable(words[0]) or repr('')}: {reason}", file=sys.stderr)
    return status


def end_when_told() -> None:
    """As process 1 of a container, end at the signals that end any other process, until the command takes our place.

    The kernel passes them to a process 1 only if it handles them (pid_namespaces(7)).
    """
    if os.getpid() == 1:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                signal.signal(number, lambda given, _: os._exit(128 + given))


def become(words: Sequence[str], environ: Mapping[bytes, bytes], program: str = "") -> None:
    """Execute *words* as execvp does, with *environ*; it returns only by raising OSError or ValueError.

    *program* is the path to execute instead of the first word, which stays the name.  If a guard forbids it, the first
    word is executed, and one line says so.  A script without ``#!`` is run by a shell, even if another program of its
    name is later in PATH, which `os.execvpe` would take; but no ELF file is.
    """
    if program:
        try:
            os.execve(program, list(words), environ)  # noqa: S606  # no shell on purpose
        except OSError as error:
            print(f"hugealign: {printable(words[0])}: its copy cannot be executed: {error.strerror}", file=sys.stderr)
    path = which(words[0])
    try:
        (os.execve if path else os.execvpe)(path or words[0], list(words), environ)  # no shell on purpose
    except OSError as error:
        if error.errno != errno.ENOEXEC or not path or _is_elf(path):
            raise
        os.execve("/bin/sh", ["sh", path, *words[1:]], environ)  # noqa: S606  # see exec(3)


def _is_elf(path: str) -> bool:
    """Return whether a shell would take machine code, such as that of another processor, for a script."""
    try:
        with opened(path) as fd:
            return os.pread(fd, 4, 0) == b"\x7fELF"
    except HugealignError:
        return False


def which(command: str) -> str | None:
    """Return the path that *command* executes; `shutil.which` would import three compressors."""
    places = [command] if "/" in command else [os.path.join(place, command) for place in os.get_exec_path()]
    return next((path for path in places if os.access(path, os.X_OK) and not os.path.isdir(path)), None)


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
