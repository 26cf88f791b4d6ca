"""What the tests of build systems share: a program with enough text, and what must be true of a build."""

import re
import subprocess
from pathlib import Path
from typing import Any

from tests.link.bulk import FUNCTIONS, MAIN, bulk_source
from tests.support import HUGEALIGN, Elf, run

Settings = dict[str, Any]  # variables of the environment; Any, since mypy checks ** against every parameter

EVEN_IF_SMALL: Settings = {"HUGEALIGN_MIN_TEXT": "0"}


def rust_host() -> str:
    """The triple that rustc builds for by itself."""
    return next(line for line in run("rustc", "-vV").stdout.splitlines() if line.startswith("host: ")).split()[1]


def linker_features() -> list[str]:
    """The words that make rustc 1.90 and newer look for a linker as gcc does; older ones do not know them."""
    version = run("rustc", "--version", check=True).stdout.split()[1]
    return ["-Clinker-features=-lld"] if tuple(map(int, version.split(".")[:2])) >= (1, 90) else []


def write(directory: Path, files: dict[str, str]) -> Path:
    """Write *files*, by their names in *directory*, and return the directory."""
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


def program(directory: Path, functions: int = FUNCTIONS) -> Path:
    """Write ``main.c`` and ``bulk.s``, a program of 2.9 MiB of text."""
    return write(directory, {"main.c": MAIN.replace("3000", str(functions)), "bulk.s": bulk_source(functions)})


def quiet(*argv: object, cwd: Path, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run a part of a build: it succeeds, and hugealign says nothing."""
    done = run(*argv, cwd=cwd, check=True, **settings)
    assert "hugealign:" not in done.stdout + done.stderr, done.stdout + done.stderr
    return done


def laid_out(path: Path, exact: bool = True) -> None:
    """Assert that the text of *path* is whole windows; unless it is a library it must also run."""
    assert Elf(path).faults(exact=exact) == [], path
    if not re.search(r"\.(so|node)\b", path.name):
        done = run(path)
        assert (done.returncode, done.stderr) == (0, "")


def shims() -> str:
    """The directory of the linker shims, as the tool tells it."""
    return run(HUGEALIGN, "path", "shims", check=True).stdout.rstrip("\n")
