"""Files that are no archives, for the fuzzing of commands: linked files, profiles, order files, baselines, mutated."""

import io
import json
import os
import random
import tempfile
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import hugealign.cli
from hugealign.elf.symbols import read_functions
from tests.commands.profiles import build
from tests.fuzz import elf as linked
from tests.fuzz import profiles as samples

Chance = random.Random


@cache
def _linked() -> dict[str, bytes]:
    return linked.corpus()


@cache
def _subjects(_: int) -> list[linked.Subject]:
    return linked.subjects(_linked())


def prepare() -> list[str]:
    """Make what all cases share; return the ELF files that the tools of this machine cannot make."""
    _profiles()
    _report()
    return sorted(linked.NAMES - _linked().keys())


def elf(chance: Chance) -> bytes:
    """Return a linked file with one to five pieces of damage."""
    subject = chance.choice(_subjects(os.getpid()))  # a process of its own mutates files of its own
    linked.Mutator(chance, subject).mutate()
    data = os.pread(subject.fd, os.fstat(subject.fd).st_size, 0)
    subject.restore()
    return data[: 4 << 20]


@cache
def _profiles() -> tuple[bytes, dict[str, bytes]]:
    with tempfile.TemporaryDirectory(prefix="hugealign-fuzz-") as work:
        program = build(Path(work))
        return program.read_bytes(), samples.corpus(read_functions(program))


def beside() -> dict[str, bytes]:
    """Return the program that the profiles are of, a profile, and an order of it."""
    program, made = _profiles()
    return {"prog": program, "folded": made["folded"], "good.order": made["order"]}


def profile(chance: Chance) -> bytes:
    """Return a profile of any form, damaged."""
    made = _profiles()[1]
    one, other = (made[chance.choice(sorted(made))] for _ in range(2))
    return samples.mutate(one, other, chance)


def order(chance: Chance) -> bytes:
    """Return an order file, damaged."""
    made = _profiles()[1]
    return samples.mutate(made["order"], made["symbols"], chance)


@cache
def _report() -> bytes:
    out = io.StringIO()
    with redirect_stdout(out), tempfile.NamedTemporaryFile(suffix=".json") as file:
        hugealign.cli.main(["verify", "--min-text=0", "--format=json", "-o", file.name, "/bin/true"])
        return Path(file.name).read_bytes()


def baseline(chance: Chance) -> bytes:
    """Return a report of `verify`, damaged, or with values of other types."""
    if chance.random() < 0.5:
        return samples.mutate(_report(), b'{"files": [null, -1, "x"]}', chance)
    document = json.loads(_report())
    odd: Any = chance.choice((None, -1, 1e999, "x", [], {}, [[]], "\x1b[31m\n", {"a": 1}, True))
    (document if chance.random() < 0.5 else document["files"][0])[
        chance.choice(("schema", "files", "path", "findings", "accepted", "page_size"))
    ] = odd
    return json.dumps(document).encode()
