"""The options that ``order`` and ``map`` share: those for profiles, and those for windows."""

import argparse
import sys
from collections.abc import Callable

from hugealign.cli.arguments import add_page_size
from hugealign.errors import NumberFormatError, UsageError
from hugealign.io.numbers import decimal
from hugealign.io.units import parse_size, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.system.budget import Budget

ENTRIES_LIMIT = 1 << 16


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options for profiles, and those for windows."""
    add_reading(parser.add_argument)
    group = parser.add_argument_group("windows")
    add = group.add_argument
    add_page_size(add)
    which = group.add_mutually_exclusive_group()
    which.add_argument("--cpu", metavar="NAME", help="budget for this processor (default: this machine's)")
    which.add_argument("--itlb-2m", metavar="N", help="budget for N entries; 0: no huge windows")
    add("--reserve", default="1", metavar="N", help="entries to leave to others (default: 1)")
    add("--no-fill", action="store_true", help="order only functions that the profile saw")


def add_reading(add: Callable[..., object]) -> None:
    """Declare the options that say how profiles are read."""
    add("--type", metavar="FORMAT", help="the format of the profiles (default: detect it)")
    add("--force", action="store_true", help="go on even if most samples match nothing, or there are too few")
    add(
        "--max-unpacked",
        metavar="SIZE",
        help="give up on a packed profile that unpacks to more (default: 64M, and 128 times its own size)",
    )
    add_debuginfo(add)


def add_debuginfo(add: Callable[..., object]) -> None:
    """Declare the option for the places of debug files."""
    add(
        "--debuginfo",
        action="append",
        metavar="DIR",
        help="debug files, by build-id, with the names that strip removed; may be repeated (default: /usr/lib/debug, "
        "and the cache of debuginfod's clients)",
    )


def max_unpacked(args: argparse.Namespace) -> int | None:
    """Return the limit for unpacked profiles in bytes; None for the default.  Raises UsageError."""
    return None if args.max_unpacked is None else parse_size(args.max_unpacked, "--max-unpacked")


def reserve(args: argparse.Namespace) -> int:
    """Return the number of entries to leave to others.  Raises UsageError."""
    return _entries(args.reserve, "--reserve")


def budget(args: argparse.Namespace) -> "Budget":
    """Return the budget that the options ask for.  Raises UsageError."""
    from hugealign.system.budget import budget_of

    itlb_2m = None if args.itlb_2m is None else _entries(args.itlb_2m, "--itlb-2m")
    return budget_of(args.cpu, itlb_2m, reserve(args))


def _entries(text: str, option: str) -> int:
    try:
        return decimal(text, ENTRIES_LIMIT)
    except NumberFormatError:
        raise UsageError(f"{option}: not a number from 0 to {ENTRIES_LIMIT}") from None


def only_program(command: str, profiles: list[str]) -> str:
    """Return the only program that *profiles* name, and say so for *command*.  Raises UsageError without one."""
    from hugealign.profile.programs import programs

    found = programs(profiles)
    if len(found) != 1:
        known = f": {', '.join(map(printable, found[:3]))}{' ...' if len(found) > 3 else ''}" if found else ""
        example = printable(found[0]) if found else "./server"
        raise UsageError(f"{command}: which program ran{known}? give it with -b, as in: -b {example}")
    told = f"using {printable(found[0])}, the only program in the profile; use -b to choose another"
    print(f"hugealign: {command}: {told}", file=sys.stderr)
    return found[0]
