"""The command line: one module per command, each with ``configure(parser)`` and ``run(args) -> int``.

Where argparse's defaults do not fit, a module has ``USAGE``, the ``EPILOG`` of its help, and the class ``PARSER``.  A
command's module is imported only when that command runs, and its heavy imports are inside ``run``: ``hugealign
--help`` must answer in 40 ms.
"""

import _signal  # type: ignore[import-not-found]  # as in __main__
import importlib
import io
import os
import sys

from hugealign.cli import messages, output
from hugealign.environment import reserve_standard_descriptors
from hugealign.errors import HugealignError
from hugealign.io.suggest import nearest
from hugealign.io.units import printable
from hugealign.settings import VARIABLES
from hugealign.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from types import ModuleType
    from typing import Any

#: command -> one line for ``--help``; the module of the same name in this package does the work.
COMMANDS = {
    "verify": "check files: is all of the text in whole huge-page windows?",
    "diff": "compare an old and a new program, package, directory or order",
    "ps": "is the text of a running process on huge pages?",
    "top": "which processes would gain from huge text, and what to do about each?",
    "advise": "would a command or a process gain from huge text?",
    "adapt": "make the hottest code of a running process huge, JIT included, within a budget",
    "warm": "bring a file's text into the page cache in huge folios",
    "run": "make a command's text huge, in the best way this machine has, then run it",
    "stage": "huge copies of files for services, where the file system keeps no huge pages",
    "oci-hook": "a hook for container engines: run an image's programs from huge copies",
    "enable": "let a systemd service run from huge text, now and after each upgrade",
    "disable": "let a systemd service start from its own files again",
    "order": "profile in, order of functions and number of windows out",
    "profile": "count what ran, and add it up over hosts and releases",
    "map": "draw where the heat of a profile lies: window by window, before and after",
    "fix": "make the text of a finished program or library whole by editing its headers",
    "build": "run a build with the linker shims active, without changing its compiler",
    "plugin": "build or find the LLVM plugin that gives hot functions their own sections",
    "path": "print the paths of CMake files, linker scripts and shims",
    "doctor": "what on this machine stands in the way of huge text?",
    "explain": "print what a rule or a diagnosis means and what to do about it",
    "help": "print the options of a command",
}

#: The commands of hugealign-lab, a distribution of its own (hugealign/cli/laboratory.py).
LABORATORY = {
    "trace": "record which code a command runs",
    "simulate": "count the TLB misses of a trace, under any layout, on any processor",
    "order-trace": "order the functions of a trace, with the number of huge windows that misses least",
}

_EPILOG = """\
as a compiler:
  hugealign [--page-size=SIZE] [--profile=FILE] COMPILER [ARGUMENT ...]
  hugealign-gcc, -g++, -clang, -clang++, -cc, -c++  [ARGUMENT ...]
      run COMPILER with its links laid out for huge pages; any other option
      as first word goes to cc.  In a build: CC="hugealign gcc".

exit status: 0 met; 1 findings; 2 wrong usage; 3 could not check.
As a compiler: the compiler's own, or 125 (hugealign failed),
126 (compiler not executable), 127 (compiler not found).

environment (booleans are 0 or 1; sizes take K, M, G):
"""


def _epilog() -> str:
    rows = [(f"{name}={example}", what) for name, (_, _, example, what) in VARIABLES.items()]
    width = max(len(setting) for setting, _ in rows)
    return _EPILOG + "".join(f"  {setting:<{width}}  {what}\n" for setting, what in rows)


def parser() -> "argparse.ArgumentParser":
    """Return the parser for words that are not a command; its help lists the commands."""
    import argparse

    made = argparse.ArgumentParser(
        prog="hugealign",
        description="Put a program's text on huge pages, and prove it.",
        epilog=_epilog(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("-V", "--version", action="version", version=f"hugealign {__version__}")
    commands = made.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in (COMMANDS | {name: f"{what} (hugealign-lab)" for name, what in LABORATORY.items()}).items():
        commands.add_parser(name, help=summary)
    return made


def command_parser(name: str) -> "argparse.ArgumentParser":
    """Return the parser of the command *name*.  Raises NotInstalledError for one of hugealign-lab's without it."""
    import argparse

    summary = (COMMANDS | LABORATORY)[name]
    description = summary[0].upper() + summary[1:].rstrip("?") + ("?" if summary.endswith("?") else ".")
    module = _module(name)
    made: argparse.ArgumentParser = getattr(module, "PARSER", argparse.ArgumentParser)(
        prog=f"hugealign {name}",
        description=description,
        usage=getattr(module, "USAGE", None),
        epilog=getattr(module, "EPILOG", None),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.configure(made)
    return made


def _module(name: str) -> "ModuleType":
    if name in LABORATORY:
        from hugealign.cli import laboratory

        return laboratory.command(name)
    return importlib.import_module(f"hugealign.cli.{name.replace('-', '_')}")


def not_found(word: str) -> str:
    """Return the message for a first word that is neither a command nor a program, in the shell's words."""
    near = nearest(word, COMMANDS | LABORATORY)
    return f"{printable(word)}: command not found{f'; did you mean: hugealign {near}' if near else ''}"


def main(argv: list[str]) -> int:
    """Run the command in *argv* (without the program name) and return the exit status."""
    reserve_standard_descriptors()
    _complete_streams()
    try:
        try:
            if _signal.getsignal(_signal.SIGINT) == _signal.SIG_DFL:  # by __main__
                _signal.signal(_signal.SIGINT, _signal.default_int_handler)
            status = _run(argv)
        except SystemExit as end:  # argparse has printed the help, the version, or an error
            status = int(end.code or 0)
        sys.stdout.flush()
    except HugealignError as error:
        messages.error(error)
        return error.exit_status
    except MemoryError:
        messages.error("not enough memory for this process; raise its limits (ulimit -v)")
        return HugealignError.exit_status
    except BrokenPipeError:
        # The reader went away (`hugealign verify … | head`): not our error; keep the
        # interpreter from complaining again when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        # Commands turn errors of files into HugealignError, so this one is of standard output, usually a full disk, or
        # of the working directory, which was deleted.
        if error.filename is not None:
            messages.error(f"{printable(os.fsdecode(error.filename))}: {error.strerror}")
        elif isinstance(error, FileNotFoundError):
            messages.error(f"the working directory: {error.strerror}")
        else:
            messages.error(output.unwritten("standard output", error))
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return HugealignError.exit_status
    except KeyboardInterrupt:
        return 130
    return status


class _Lossy(io.FileIO):
    """A stream whose errors are nobody's concern: what it cannot write is lost."""

    def write(self, data: "Any", /) -> int:
        try:
            done = super().write(data)
        except OSError:
            done = None
        return len(memoryview(data)) if done is None else done


def _complete_streams() -> None:
    """Make the standard streams usable: open them if closed, and let them print any name in any locale.

    A message that nobody can read, on a full disk or for a reader that has gone, changes neither work nor status.
    """
    # A stream that our parent closed (`>&-`) is None, and print(file=None) would print our messages on stdout.
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - for as long as we live
    if sys.stdout is None:  # what is printed is lost, so writing has to fail, as on a full disk
        closed = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        sys.stdout = open(closed, "w", encoding="utf-8")  # noqa: SIM115 - for as long as we live
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    elif isinstance(sys.stderr, io.TextIOWrapper) and sys.stderr.name == "<stderr>":  # not a test's own
        encoding = sys.stderr.encoding
        stream = io.BufferedWriter(_Lossy(sys.stderr.fileno(), "w", closefd=False))
        sys.stderr = io.TextIOWrapper(stream, encoding, "backslashreplace", line_buffering=True)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as on standard error


def _run(argv: list[str]) -> int:
    if not argv:
        parser().print_help(sys.stderr)
        return 2
    if argv[0] in COMMANDS or argv[0] in LABORATORY:
        status: int = _module(argv[0]).run(command_parser(argv[0]).parse_args(argv[1:]))
        return status
    if argv[0].startswith("-"):
        parser().parse_args(argv)  # --help, --version and wrong options end here
        return 2
    messages.error(not_found(argv[0]))
    return 127
