"""What our parent gave us, to pass on: the environment, ignored signals, and the descriptors that it closed.

Not all of it reaches Python.  dash imports only variables with names that it can use itself, so `a.b` and exported
functions of bash are gone, and it exports some of its own (``PWD``, ``OPTIND``, ``PPID``).  The loader's variables
would give Python libraries of another program.  Python ignores two signals, and forgets whether they were ignored.
sh/given.sh tells us of all that in variables: names of the shell's and the loader's variables, a colon, and base64 of
those that it was given, with the nameless ones; a mask of signals.  sh/shim.sh, which may take no time, tells us of
``LD_LIBRARY_PATH`` alone.
"""

import _signal  # type: ignore[import-not-found]
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_ENVIRON, _IGNORED, _LIBRARIES = b"_HUGEALIGN_ENVIRON", b"_HUGEALIGN_IGNORED", b"_HUGEALIGN_LIBRARIES"
SIGPIPE = 13  # the module costs a third of a link's startup time
_IGNORED_BY_PYTHON = (SIGPIPE, 25)  # and SIGXFSZ


def as_given() -> dict[bytes, bytes]:
    """Return the environment that our launcher was given, with the settings that its options make.

    It lacks the ``LC_CTYPE`` that Python adds to a C locale (PEP 538), with which the programs that we run would use
    other quotation marks in their messages.
    """
    current = _inherited()
    shells, options, encoded = current.pop(_ENVIRON, b"").partition(b":")
    current.pop(_IGNORED, None)
    if _LIBRARIES in current:
        current[b"LD_LIBRARY_PATH"] = current.pop(_LIBRARIES)
    if not options:
        return current
    from binascii import Error, a2b_base64

    try:
        given = _variables(a2b_base64(encoded))
    except Error:
        return current
    names = set(shells.split(b"|"))
    return {name: value for name, value in current.items() if name not in names} | given


def restore() -> None:
    """Make ``os.environ`` what we were given, if a launcher tells us: for tools that we run, and their libraries."""
    os.environb.pop(_IGNORED, None)  # `signals_to_reset` still finds it: /proc/self/environ stays as it was
    if _ENVIRON in os.environb:
        given = as_given()
        os.environb.clear()
        os.environb.update(given)


def signals_to_reset() -> "list[int]":
    """Return the signals ignored by Python that a program is not to inherit as ignored, because we did not.

    A program inherits the signals that its parent ignores (POSIX, exec), and services start with SIGPIPE ignored
    (systemd.exec, ``IgnoreSIGPIPE=``).  Where no launcher tells us, as in a link, what our parent ignores counts.
    """
    mask = _inherited().get(_IGNORED) or _ignored_by(os.getppid())
    try:
        ignored = int(mask, 16)
    except ValueError:
        ignored = 0
    return [number for number in _IGNORED_BY_PYTHON if not ignored >> (number - 1) & 1]


def die_of_pipes() -> None:
    """Let SIGPIPE end us as it ends other programs: from a reader that has gone, or to our process group."""
    if SIGPIPE in signals_to_reset():
        reset_signals([SIGPIPE])


def reset_signals(numbers: "Iterable[int]") -> None:
    """Give the signals *numbers* their defaults, for the program that takes this process's place next."""
    for number in numbers:
        _signal.signal(number, _signal.SIG_DFL)


def _inherited() -> dict[bytes, bytes]:
    try:
        with open("/proc/self/environ", "rb") as file:
            return _variables(file.read())
    except OSError:
        return dict(os.environb)


def _variables(data: bytes) -> dict[bytes, bytes]:
    """Return the variables in *data*; of two with one name, the first, like getenv."""
    variables: dict[bytes, bytes] = {}
    for entry in data.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals:
            variables.setdefault(name, value)
    return variables


def _ignored_by(pid: int) -> bytes:
    """Return the mask of signals that process *pid* ignores, in hexadecimal; empty if it cannot be read."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            return next((line[7:] for line in file if line.startswith(b"SigIgn:")), b"")
    except OSError:
        return b""


def reserve_standard_descriptors() -> None:
    """Occupy the descriptors 0, 1 and 2 that our parent has closed, until the next exec.

    Otherwise a file that we open could get such a number: our messages would be written into it, and the linker's own
    stdout would replace it.  The programs that we run find the descriptors closed again.
    """
    for path, mode in (("/dev/null", os.O_RDWR), ("/", os.O_RDONLY)):  # the latter is everywhere
        try:
            while (fd := os.open(path, mode | os.O_CLOEXEC)) <= 2:
                pass
            os.close(fd)
        except OSError:
            continue
        return
