"""What commands that read profiles share: options, and the program that a profile names."""

import argparse
import errno
import os
import sys
from collections.abc import Callable

from hugealign.errors import HugealignError, UsageError
from hugealign.io.units import parse_size, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.profile.ran import ProfileOptions


def add_binary(add: Callable[..., object]) -> None:
    """Add ``--binary``, the one program that ran, by calling *add*."""
    default = "default: the only program that the profiles name"
    add("-b", "--binary", metavar="EXE", help=f"the program or library ({default})")


def add_reading(add: Callable[..., object]) -> None:
    """Add the options that say how profiles are read, by calling *add*."""
    add(
        "--max-unpacked",
        metavar="SIZE",
        help="refuse profiles that decompress to more (default: 64M plus 128 times their own size)",
    )
    add(
        "--debuginfo",
        action="append",
        metavar="DIR",
        help="search DIR for the debug files of stripped programs, by build ID; may be repeated (default: "
        "/usr/lib/debug and the cache of debuginfod's clients)",
    )


def max_unpacked(args: argparse.Namespace) -> int | None:
    """Return the limit for unpacked profiles in bytes; None for the default.  Raises UsageError."""
    return None if args.max_unpacked is None else parse_size(args.max_unpacked, "--max-unpacked")


def options(args: argparse.Namespace) -> "ProfileOptions":
    """Return how *args* say that profiles are read.  Raises UsageError."""
    from hugealign.profile.ran import ProfileOptions

    return ProfileOptions(max_unpacked=max_unpacked(args), debuginfo=args.debuginfo)


def only_program(command: str, profiles: list[str]) -> str:
    """Return the only program that *profiles* name, and print it for *command*.

    Raises UsageError if they name none or several, HugealignError if a profile does not exist.
    """
    from hugealign.profile.programs import programs

    for profile in profiles:
        if not os.path.exists(profile):
            raise HugealignError(f"{printable(profile)}: {os.strerror(errno.ENOENT)}")
    paths = programs(profiles)
    if len(paths) != 1:
        known = f": {', '.join(map(printable, paths[:3]))}{' ...' if len(paths) > 3 else ''}" if paths else ""
        example = printable(paths[0]) if paths else "./server"
        raise UsageError(f"{command}: which program ran{known}? give it with -b, for example: -b {example}")
    message = f"using {printable(paths[0])}, the only program in the profile; use -b to choose another"
    print(f"hugealign: {command}: {message}", file=sys.stderr)
    return paths[0]
