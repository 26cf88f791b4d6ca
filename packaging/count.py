"""Print how large the project is: lines of product, laboratory and tests; commands, options, small modules."""

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from hugealign import cli  # noqa: E402 - the checkout's

_PRODUCT, _LABORATORY, _TESTS = ("hugealign", "bin"), ("lab/src", "lab/bench"), ("tests", "lab/tests")
_SMALL = 40  # lines of a module


def files(places: tuple[str, ...], kinds: tuple[str, ...]) -> list[Path]:
    """Return the tracked files below *places* with these suffixes, no symbolic links among them."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", *places], check=True, capture_output=True, text=True)
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.suffix in kinds and path.is_file() and not path.is_symlink()]


def lines(paths: list[Path]) -> int:
    """Return the lines of *paths* together."""
    return sum(path.read_bytes().count(b"\n") for path in paths)


def options(parser: argparse.ArgumentParser) -> int:
    """Return the number of options of *parser* and of its subcommands, without --help."""
    count = 0
    for action in parser._actions:  # noqa: SLF001 - argparse offers no other list
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            count += sum(map(options, set(action.choices.values())))
        elif action.option_strings and not isinstance(action, argparse._HelpAction):  # noqa: SLF001
            count += 1
    return count


code = (".py", ".sh", ".c", "")
modules = files(("hugealign",), (".py",))
rows = {
    "product: lines of Python, sh and C": lines(files(_PRODUCT, code)),
    "laboratory: lines": lines(files(_LABORATORY, code)),
    "tests: lines of Python, sh and C": lines(files(_TESTS, code)),
    "commands": len(cli.COMMANDS),
    "options": sum(options(cli.command_parser(name)) for name in cli.COMMANDS),
    f"modules of at most {_SMALL} lines": sum(
        lines([path]) <= _SMALL for path in modules if path.name != "__init__.py"
    ),
    "modules of over 500 lines": sum(lines([path]) > 500 for path in modules),
}
for what, count in rows.items():
    print(f"{count:>7,}  {what}")
