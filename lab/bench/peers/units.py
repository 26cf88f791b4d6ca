"""The files of a program, each compiled by itself: with clang's map of blocks, and divided by an order."""

import dataclasses
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab.bench.peers.program import LINKERS, Program, fingerprint, record, recorded
from tests.support import HUGEALIGN, environment


def units(
    directory: Path,
    prefix: str,
    files: list[Path],
    flags: tuple[str, ...],
    *compiler: str,
    reads: tuple[Path, ...] | None = None,
) -> tuple[str, ...]:
    """Compile *files* in *directory* with *flags* to objects whose paths there begin with *prefix*; return those paths.

    Objects made earlier from the same files, and the same other files that it *reads*, are kept; with None, none are.
    """
    made = [f"{prefix}{path.stem}.o" for path in files]
    (directory / f"{prefix}_").parent.mkdir(exist_ok=True)

    def make(path: Path, target: str) -> None:
        words = [*compiler, "-w", "-O2", "-fPIE", "-ffunction-sections", *flags, "-c", str(path), "-o", target]
        mark = fingerprint(words, (path, *(reads or ())))
        if reads is None or recorded(directory / target, mark) is None:
            subprocess.run(words, cwd=directory, check=True, env=environment())
            record(directory / target, mark)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(make, files, made))
    return tuple(made)


def variant(program: Program, word: str, files: list[Path], flags: tuple[str, ...]) -> Path:
    """Compile *files* with clang's map of blocks and link them with the libraries of *program*; return the path."""
    made = units(program.directory, f"{word}/", files, (*flags, "-fbasic-block-address-map"), "clang-19", reads=())
    libraries = [item for item in program.words if item.startswith("-l")]
    path = program.directory / f"variant.{word}"
    command = [program.driver, *LINKERS["bfd"], *made, *libraries, "-o", path.name]
    subprocess.run(command, cwd=program.directory, check=True, env=environment())
    return path


def divisible(program: Program, files: list[Path], flags: tuple[str, ...]) -> Program:
    """Return *program* with *files* before everything else that it links, compiled by clang with divisible blocks."""

    def divided(order: Path) -> tuple[str, ...]:
        # In a directory of their own: objects are told apart by name (docs/explanation/ordered-links.md).
        front = (str(HUGEALIGN), f"--profile={order}", "clang-19")
        return (*units(program.directory, "divided/", files, flags, *front, reads=(order,)), *program.words)

    words = units(program.directory, "", files, (*flags, "-fbasic-block-address-map"), "clang-19", reads=())
    return dataclasses.replace(program, words=(*words, *program.words), divided=divided)
