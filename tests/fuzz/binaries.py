"""Profiles that only a tool can read (.gcda, LLVM's binary forms), damaged, for the fuzzing of commands.

The tool is not ours, and may fail as it likes; what `order` makes of that is.
"""

import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from tests.commands.profiles import SAMPLES
from tests.fuzz import archives, files

Chance = random.Random
Words = tuple[tuple[str, ...], ...]


@cache
def _made(name: str) -> dict[str, bytes]:
    """Return the profile, and what must lie beside it."""
    with tempfile.TemporaryDirectory(prefix="hugealign-fuzz-") as work:
        commands, kept = _MAKE[name]
        for command in commands:
            subprocess.run(command, cwd=work, check=True, capture_output=True)
        return {ours: (Path(work) / theirs).read_bytes() for ours, theirs in kept.items()}


def _sources() -> list[str]:
    return [str(SAMPLES / "main.c"), str(SAMPLES / "other.c")]


_MAKE: dict[str, tuple[list[list[str]], dict[str, str]]] = {
    "gcda": (
        [["gcc", "-O1", "--coverage", "-c", _sources()[0], "-o", "main.o"], ["gcc", "-c", _sources()[1]],
         ["gcc", "--coverage", "main.o", "other.o", "-o", "prog"], ["./prog", "2000"]],
        {"x": "main.gcda", "x.gcno": "main.gcno"},
    ),
    "llvm-sample": (
        [["llvm-profdata-19", "merge", "--sample", str(SAMPLES / "autofdo.txt"), "-o", "x"]],
        {"x": "x"},
    ),
    "llvm-raw": (
        [["clang-19", "-O1", "-fprofile-instr-generate", *_sources(), "-o", "prog"],
         ["env", "LLVM_PROFILE_FILE=x", "./prog", "2000"]],
        {"x": "x"},
    ),
}  # fmt: skip


def _profile(name: str, chance: Chance) -> bytes:
    return archives.wounded(chance, _made(name)["x"], 0.95)


def _beside(name: str) -> dict[str, bytes]:
    return {other: data for other, data in _made(name).items() if other != "x"} | files.beside()


def _with_notes(run: Callable[[list[str]], int], words: list[str]) -> int:
    """Run the command on a name that gcov finds the notes by."""
    shutil.copy("x", "x.gcda")
    try:
        return run(words)
    finally:
        Path("x.gcda").unlink()


def _orders(name: str, binary: str = "prog") -> Words:
    return (("order", name, "-b", binary, "--force"), ("map", binary, "--profile", name))


#: kind -> what makes a file, the commands, what lies beside it, the tool without which all is refused, and how it runs.
KINDS = {
    "profile-gcda": ("gcov", _orders("x.gcda")),
    "profile-llvm-sample": ("llvm-profdata-19", _orders("@")),
    "profile-llvm-raw": ("clang-19", _orders("@")),
}


def make(kind: str) -> Callable[[Chance], bytes]:
    """Return what makes a file of *kind*."""
    return partial(_profile, kind.partition("-")[2])


def beside(kind: str) -> Callable[[], dict[str, bytes]]:
    """Return what gives the files beside one of *kind*."""
    return partial(_beside, kind.partition("-")[2])


def runs(kind: str, run: Callable[[list[str]], int]) -> Callable[[list[str]], int]:
    """Return how a command of *kind* runs."""
    return partial(_with_notes, run) if kind == "profile-gcda" else run
