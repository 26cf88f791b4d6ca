"""``hugealign build -- COMMAND``: run a build with the linker shims active and its compiler unchanged.

gcc and clang look for their linker in the directories of ``COMPILER_PATH`` before their own.  Nothing else is set, and
the command replaces this process: status, signals and output are its own.
"""

import argparse
import os

from hugealign.cli.launching import command_words
from hugealign.environment import as_given
from hugealign.errors import COMMAND_STATUSES, UsageError, WrapperError
from hugealign.io.execution import execute

USAGE = "hugealign build [-h] [--] COMMAND [ARGUMENT ...]"
EPILOG = """\
build sets COMPILER_PATH, where every gcc and clang that COMMAND runs finds the
linker shims.  CC and the compilers' arguments do not change.

These links do not use COMPILER_PATH and stay unchanged:
  links that run ld directly, as fpc does
  links of compilers that are their own linker: tcc, zig cc, go without
    -linkmode=external
  links with -B DIR where DIR contains a linker, such as -B/usr/libexec/mold
    (CC="hugealign gcc" handles this)
  links of rustc 1.90 and newer with its own linker (unless it is passed
    -Clinker=hugealign-cc or -Clinker-features=-lld)
  links with a path in clang's --ld-path=
  links of a build that clears its environment

ccache treats a new COMPILER_PATH as a new compiler: the first build misses the
cache.

example:
  hugealign build -- make -j8
"""
STATUS = COMMAND_STATUSES


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command to run."""
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="COMMAND", help="the command that builds, such as make"
    )


def run(args: argparse.Namespace) -> int:
    """Become the command; return 126 or 127 if that fails."""
    words = command_words(args.words, "hugealign build -- make")
    environ = as_given()
    if environ.get(b"HUGEALIGN_DISABLE") != b"1":
        _activate(environ)
    return execute(words, environ)


def _activate(environ: dict[bytes, bytes]) -> None:
    """Put the shims first in COMPILER_PATH; raise WrapperError if no link could be laid out."""
    from hugealign import settings
    from hugealign.io.resources import PACKAGE

    shims = os.path.join(PACKAGE, "libexec")
    if ":" in shims:
        raise WrapperError(f"COMPILER_PATH cannot contain {shims}, because of the colon; install hugealign elsewhere")
    if not os.access(os.path.join(shims, "ld"), os.X_OK):  # compilers would silently skip it
        raise WrapperError(f"{shims}/ld cannot be executed; reinstall hugealign")
    try:
        settings.from_environ(os.environ)
    except UsageError as error:
        raise WrapperError(str(error)) from None
    users = environ.get(b"COMPILER_PATH")
    environ[b"COMPILER_PATH"] = os.fsencode(shims) + (b":" + users if users else b"")
