"""The command line: one module per command, each with ``configure(parser)`` and ``run(args) -> int``.

Where argparse's defaults do not fit, a module has ``USAGE``, the ``EPILOG`` of its help, what its ``STATUS`` means,
and the class ``PARSER``.  A command's module is imported only when that command runs, and its heavy imports are inside
``run``: ``hugealign --help`` must answer in 40 ms.
"""

import _signal  # type: ignore[import-not-found]  # as in __main__
import importlib
import io
import os
import sys

from hugealign.cli import messages, output
from hugealign.environment import reserve_standard_descriptors
from hugealign.errors import STATUSES, HugealignError
from hugealign.io.units import nearest, printable
from hugealign.settings import VARIABLES
from hugealign.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from types import ModuleType
    from typing import Any

    from hugealign.cli.arguments import Parser

#: What a person wants -> command -> one line for ``--help``; the module of the command's name does the work.
GROUPS = {
    "build a program": {
        "build": "run a build and lay out what it links for huge pages, without changing its compiler",
        "plugin": "build or find the LLVM plugin that gives hot functions their own sections",
        "path": "print the path of the CMake files, the linker scripts or the linker shims",
    },
    "check it": {
        "verify": "check that programs and libraries are laid out for huge pages",
        "diff": "compare an old and a new program, package, directory or order",
        "explain": "explain the code of a diagnosis, such as HA001",
    },
    "change a finished program": {
        "fix": "prepare a finished program or library for huge pages, without relinking it",
    },
    "put hot code first": {
        "order": "compute a function order and a number of huge windows from a profile",
        "tune": "record, order, build again, measure, and keep what is faster",
        "map": "show which windows of the text a profile hits, before and after an order",
        "profile": "reduce and merge profiles of many hosts, and check an order for drift",
    },
    "run it from huge pages": {
        "run": "run a command with its text on huge pages",
        "warm": "load a file's text into the page cache in huge pages",
        "stage": "keep copies of files in huge pages, for file systems that do not support them",
        "enable": "run a systemd service with its text on huge pages, also after upgrades",
        "disable": "undo enable: run a systemd service from its own files again",
        "oci-hook": "run a container's programs from huge copies (a hook for container engines)",
    },
    "look at what runs": {
        "ps": "show which text of a process is on huge pages, and why the rest is not",
        "top": "rank the running programs by how much they would gain from huge pages",
        "measure": "measure what huge pages, or another build, save of a command's time",
        "advise": "estimate what a command or a process would gain from huge pages",
        "adapt": "put the hottest code of a running process on huge pages, JIT code included",
        "doctor": "check that this machine can put text on huge pages",
        "status": "list or undo what hugealign has changed on this machine",
    },
}
#: command -> one line.
COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}

#: The commands of hugealign-lab, a distribution of its own (hugealign/cli/laboratory.py).
LABORATORY = {
    "trace": "record which code a command runs",
    "simulate": "count the TLB misses of a trace, for any layout and processor",
    "draw-map": "draw what map shows as a picture",
    "order-trace": "compute a function order and a number of huge windows from a trace",
}

_EPILOG = """\
as a compiler:
  hugealign [--page-size=SIZE] [--profile=FILE] COMPILER [ARGUMENT ...]
  hugealign-gcc, -g++, -clang, -clang++, -cc, -c++  [ARGUMENT ...]
      Run COMPILER with its links laid out for huge pages.  COMPILER is cc if
      the first word is another option.  In a build: CC="hugealign gcc".

exit status (as a compiler: the compiler's own, or 125 to 127):
{statuses}
environment (with an example each; booleans are 0 or 1; sizes take K, M, G):
"""


def _table(rows: "dict[str, str]") -> str:
    width = max(len(name) for name in rows)  # not map: hugealign.cli.map may be loaded
    return "".join(f"  {name:<{width}}  {what}\n" for name, what in rows.items())


def _statuses(own: "dict[int, str]") -> str:
    """Return the table of a command's exit statuses, its *own* beside those that all commands share."""
    rows = sorted(({n: STATUSES[n] for n in (0, 2, 3)} | own).items())
    return _table({str(n) if n >= 0 else "n": what for n, what in rows if what})


def _commands() -> str:
    groups = GROUPS | {"laboratory (the package hugealign-lab)": LABORATORY}
    return "\n".join(f"{title}:\n{_table(group)}" for title, group in groups.items())


def _epilog() -> str:
    variables = {f"{name}={example}": what for name, (_, _, example, what) in VARIABLES.items()}
    return f"{_commands()}\n{_EPILOG.format(statuses=_statuses(STATUSES))}{_table(variables)}"


def parser() -> "argparse.ArgumentParser":
    """Return the parser for words that are not a command; its help lists the commands."""
    import argparse

    from hugealign.cli.arguments import HelpFormatter

    made = argparse.ArgumentParser(
        prog="hugealign",
        description="Put a program's text on huge pages, and show what the kernel mapped.",
        epilog=_epilog(),
        formatter_class=HelpFormatter,
    )
    made.add_argument("-V", "--version", action="version", version=f"hugealign {__version__}")
    made.add_argument("command", metavar="COMMAND", help="a command below; hugealign help COMMAND prints its options")
    return made


def command_parser(name: str) -> "Parser":
    """Return the parser of the command *name*.  Raises NotInstalledError if hugealign-lab has it and is missing."""
    from hugealign.cli import arguments

    summary = (COMMANDS | LABORATORY)[name]
    module = _module(name)
    statuses = _statuses(getattr(module, "STATUS", {}))
    made: Parser = getattr(module, "PARSER", arguments.Parser)(
        prog=f"hugealign {name}",
        description=f"{summary[0].upper()}{summary[1:]}.",
        usage=getattr(module, "USAGE", None),
        epilog="\n".join(filter(None, (getattr(module, "EPILOG", ""), f"exit status:\n{statuses}"))),
        formatter_class=arguments.HelpFormatter,
    )
    module.configure(made)
    return made


def _module(name: str) -> "ModuleType":
    if name in LABORATORY:
        from hugealign.cli import laboratory

        return laboratory.command(name)
    return importlib.import_module(f"hugealign.cli.{name.replace('-', '_')}")


def not_found(word: str, following: str = "") -> str:
    """Return the message for a first word that is neither a command nor a program, in the shell's words."""
    if following in COMMANDS or following in LABORATORY:
        return f"{printable(word)}: command not found; did you mean: hugealign {following} {printable(word)}"
    near = nearest(word, [*COMMANDS, *LABORATORY, "version"])
    near = "--version" if near == "version" else near
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
    except ImportError as error:  # commands import modules as they run, and a file system can fail meanwhile
        messages.error(
            f"Python cannot load one of its modules: {printable(str(error))}; try again, or reinstall Python"
        )
        return HugealignError.exit_status
    except MemoryError:
        messages.error("not enough memory for this process; raise its limits (ulimit -v)")
        return HugealignError.exit_status
    except BrokenPipeError:
        # The reader went away (`hugealign verify … | head`): not our error; keep the
        # interpreter from complaining again when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        # Commands turn errors of files into HugealignError.  So this is standard output, usually on a full disk, or the
        # working directory, which was deleted.
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
    """A stream that discards what it cannot write, without an error."""

    def write(self, data: "Any", /) -> int:
        try:
            done = super().write(data)
        except OSError:
            done = None
        return len(memoryview(data)) if done is None else done


def _complete_streams() -> None:
    """Make the standard streams usable: open them if closed, and let them print any name in any locale.

    A message that cannot be written, because the disk is full or its reader has gone, changes neither work nor status.
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
    more: list[str] = []
    if argv[0] == "help":
        argv, more = [*argv[1:2], "--help"], argv[2:]
    if argv[0] in COMMANDS or argv[0] in LABORATORY:
        if argv[0] == "run" and argv[1:] and (argv[1] == "--" or not argv[1].startswith("-")):
            from hugealign.cli.run import run_without_options

            return run_without_options(argv[1:])
        made = command_parser(argv[0])
        if more:
            made.refuse(f"{more[0]}: one word too many; hugealign help {more[0]}")
        status: int = _module(argv[0]).run(made.parse_args(argv[1:]))
        return status
    if argv[0].startswith("-"):
        parser().parse_args(argv)  # --help, --version and wrong options end here
        return 2
    messages.error(not_found(argv[0], *argv[1:2]))
    return 127
