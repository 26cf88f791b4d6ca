"""``hugealign path``: print the path of a part on one line, for use in ``$(…)``."""

import argparse
import os

from hugealign.io.resources import PACKAGE, directory


def _parts() -> dict[str, tuple[str, str]]:
    return {
        "toolchain": (os.path.join(directory("cmake"), "hugealign-toolchain.cmake"), "the CMake toolchain file"),
        "cmake": (directory("cmake"), "the directory of CMake files"),
        "ldscripts": (directory("ld-scripts"), "the linker scripts"),
        "shims": (os.path.join(PACKAGE, "libexec"), "the linker shims, for the compiler's -B"),
    }


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the argument."""
    parts = _parts()
    known = "; ".join(f"{part}: {what}" for part, (_, what) in parts.items())
    parser.add_argument("part", metavar="PART", choices=list(parts), help=known)


def run(args: argparse.Namespace) -> int:
    """Print the path; return 3 if the part is missing from this installation."""
    path = _parts()[args.part][0]
    print(path)
    return 0 if os.path.exists(path) else 3
