"""``hugealign run -- COMMAND``: make a command's text huge, then become the command."""

from hugealign.cli import launching
from hugealign.cli.launching import command_words
from hugealign.errors import COMMAND_STATUSES, UsageError
from hugealign.io.execution import end_when_told, execute

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

USAGE = (
    "hugealign run [-h] [-v] [--how HOW] [--libs] [--file PATH]... [--fix]\n"
    "                     [--store DIR] [--wait SECONDS]\n"
    "                     [--] COMMAND [ARGUMENT ...]"
)
EPILOG = """\
run finds COMMAND as the shell does, puts its text (for a script, that of the
interpreter) on huge pages and becomes COMMAND, with the same pid, signals and
descriptors and, apart from what is said below, the same environment and name.
If anything fails, COMMAND runs unchanged. If not all of its text is huge, one
line on stderr says why. SIGTERM, SIGINT and SIGQUIT end run while it prepares,
also as process 1 of a container.

--libs adds the libraries that COMMAND is linked with. --file adds what COMMAND
starts (a shell, make, npm) or opens later (Python, the libraries of a wheel);
hugealign advise -- COMMAND says what to add. From a directory, such as a virtual
environment, run takes the files that have a whole window, or get one with --fix.
COMMAND and its children also use what `hugealign stage` has staged.

--how=auto      in place, like `hugealign warm`, if the file system keeps huge
                pages; else from a copy that is mounted over the file; where that
                is forbidden, as in most containers, like copy, except a program
                that may look up its own path
--how=in-place  only in place, like `hugealign warm`
--how=stage     only from a mounted copy
--how=copy      the program from a copy in memory without a path, which needs no
                mount; libraries only in place. /proc/PID/exe and $ORIGIN then
                lead nowhere

Where the control group has a limit of memory, copies take at most a quarter of
what it has left; a file that needs more runs as it is.

A staged copy is on a tmpfs, mounted over the file in a mount namespace that only
COMMAND and its children see. Other processes do not see what these mount.
If `hugealign stage` has made a copy, run uses that one, and all processes share
it. For an ordinary user run also makes a user namespace: in it sudo and other
set-user-ID programs do not work, and files of other users appear to belong to
the user nobody. Use --how=in-place for a command that needs these.

If COMMAND uses the loader of glibc 2.44 or newer, run also adds glibc.elf.thp=1
to GLIBC_TUNABLES unless it is set there: the text then becomes huge again after
the kernel has evicted it.

examples:
  hugealign run --libs -- postgres -D /var/lib/postgresql
  hugealign run --fix --file .venv -- .venv/bin/python train.py
  hugealign run --file ./server -- sh -c './server --port 80'
"""
STATUS = COMMAND_STATUSES
_EXAMPLE = "hugealign run -- python3 script.py"

configure = launching.configure


def run(args: "argparse.Namespace") -> int:
    """Make the command's text huge and become the command; return 126 or 127 if that fails."""
    words = command_words(args.words, _EXAMPLE)
    if args.file and args.how == "copy":
        raise UsageError("run: --file cannot be combined with --how=copy, whose copies have no path")
    return _run(words, args)


def run_without_options(words: list[str]) -> int:
    """Do what `run` does for *words* without options, 8 ms faster: without argparse."""
    return _run(command_words(words, _EXAMPLE), None)


def _run(words: list[str], args: "argparse.Namespace | None") -> int:
    end_when_told()
    program, environ = launching.prepared(words[0], args)
    return execute(words, environ, program)
