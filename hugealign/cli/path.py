"""``hugealign path``: one line with the place of a part, for use in ``$(…)``."""

import argparse
import os

from hugealign.resources import PACKAGE, directory


def _paths() -> dict[str, str]:
    return {
        "toolchain": os.path.join(directory("cmake"), "hugealign-toolchain.cmake"),
        "cmake": directory("cmake"),
        "ldscripts": directory("ld-scripts"),
        "shims": os.path.join(PACKAGE, "libexec"),
    }


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--toolchain", action="store_const", dest="part", const="toolchain", help="CMake toolchain file")
    group.add_argument("--cmake", action="store_const", dest="part", const="cmake", help="directory of CMake files")
    group.add_argument("--ldscripts", action="store_const", dest="part", const="ldscripts", help="linker scripts")
    group.add_argument("--shims", action="store_const", dest="part", const="shims", help="linker shims, for -B")


def run(args: argparse.Namespace) -> int:
    """Print the path; status 3 if the part is missing from this installation."""
    path = _paths()[args.part]
    print(path)
    return 0 if os.path.exists(path) else 3
