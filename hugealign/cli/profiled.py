"""What commands that read profiles share: options, and the program that a profile names."""

import argparse
import errno
import os
import sys
from collections.abc import Callable

from hugealign.errors import HugealignError, UsageError
from hugealign.io.units import parse_size, printable


def add_debuginfo(add: Callable[..., object]) -> None:
    """Declare the option for the places of debug files."""
    add(
        "--debuginfo",
        action="append",
        metavar="DIR",
        help="search DIR for the debug files of stripped programs, by build ID; may be repeated (default: "
        "/usr/lib/debug and the cache of debuginfod's clients)",
    )


def add_max_unpacked(add: Callable[..., object]) -> None:
    """Declare the option for the size of what packed profiles unpack to, by calling *add*."""
    add(
        "--max-unpacked",
        metavar="SIZE",
        help="refuse profiles that decompress to more (default: 64M plus 128 times their own size)",
    )


def max_unpacked(args: argparse.Namespace) -> int | None:
    """Return the limit for unpacked profiles in bytes; None for the default.  Raises UsageError."""
    return None if args.max_unpacked is None else parse_size(args.max_unpacked, "--max-unpacked")


def only_program(command: str, profiles: list[str]) -> str:
    """Return the only program that *profiles* name, and say so for *command*.  Raises UsageError without one.

    HugealignError if a profile does not exist.
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
