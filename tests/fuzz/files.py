"""Files that are no archives, for the fuzzing of commands: linked files, profiles, order files, baselines, mutated."""

import io
import json
import os
import random
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import hugealign.cli
from hugealign.elf.fixrecord import LEVELS, MAGIC
from hugealign.elf.symbols import Functions, read_functions
from hugealign.verification.configuration import KEYS
from tests.commands.profiles import build
from tests.fuzz import archives
from tests.fuzz import elf as linked
from tests.fuzz import fix as fixes
from tests.fuzz import profiles as samples

Chance = random.Random
_HEADS = ("", "", "", "[verify]\n", "[[verify.exceptions]]\n", "[verify.exceptions]\n", "[tool.hugealign.verify]\n")
_VALUES = (
    *('"2M"', '"error"', '["HA001"]', '["*"]', "true", "1", "-9223372036854775809", "1e999", '""', "[[]]", "{a.b = 1}"),
    *('"x"', r'"\u001b[31m"', '"/dev/zero"', f'"{"*a" * 500}"', "[" * 300, "1979-05-27", "'''\n'''"),
)
_CONFIGURED = tuple(
    f"{key} = {value}" for key in (*KEYS, "extend", "files", "reason", "fail_on", r'"\u0000"') for value in _VALUES
)


@cache
def _linked() -> dict[str, bytes]:
    return linked.corpus()


@cache
def _subjects(_: int, to_fix: bool) -> list[linked.Subject]:
    return linked.subjects(fixes.corpus() if to_fix else _linked())


def prepare() -> list[str]:
    """Make what all cases share; return the ELF files that the tools of this machine cannot make."""
    profiles()
    _report()
    _fixed()
    return sorted(linked.NAMES - _linked().keys())


def elf(chance: Chance) -> bytes:
    """Return a linked file with one to five pieces of damage."""
    return _damaged(chance, to_fix=False)


def elf_to_fix(chance: Chance) -> bytes:
    """Return a damaged file of 64 bits."""
    return _damaged(chance, to_fix=True)


def _damaged(chance: Chance, to_fix: bool) -> bytes:
    subject = chance.choice(_subjects(os.getpid(), to_fix))  # a process of its own mutates files of its own
    linked.Mutator(chance, subject).mutate()
    data = os.pread(subject.fd, os.fstat(subject.fd).st_size, 0)
    subject.restore()
    return data[: 4 << 20]


@cache
def program() -> tuple[dict[str, bytes], Functions]:
    """Return the program that the profiles are of and its objects, and its functions."""
    with tempfile.TemporaryDirectory(prefix="hugealign-fuzz-") as work:
        path = build(Path(work))
        names = (path.name, "main.o", "other.o")
        return {name: (Path(work) / name).read_bytes() for name in names}, read_functions(path)


@cache
def profiles() -> dict[str, bytes]:
    """Return a profile of each form."""
    return samples.corpus(program()[1])


def configuration(chance: Chance) -> bytes:
    """Return a configuration with keys, values and tables that are right, wrong, or not TOML at all."""
    lines = [chance.choice(_CONFIGURED) for _ in range(chance.randint(1, 12))]
    text = "\n".join(f"{chance.choice(_HEADS)}{line}" for line in lines).encode()
    if chance.random() < 0.3:  # a byte that does not belong there
        at = chance.randrange(len(text))
        text = text[:at] + bytes([chance.randrange(256)]) + text[at + chance.randint(0, 3) :]
    return text


def beside() -> dict[str, bytes]:
    """Return the program that the profiles are of, a profile, and an order of it."""
    made = profiles()
    return {"prog": program()[0]["prog"], "folded": made["folded"], "good.order": made["order"]}


def profile(chance: Chance) -> bytes:
    """Return a profile of any form, damaged."""
    made = profiles()
    one, other = (made[chance.choice(sorted(made))] for _ in range(2))
    return samples.mutate(one, other, chance)


def order(chance: Chance) -> bytes:
    """Return an order file, damaged; most of them below a first line that says so."""
    made = profiles()
    head, _, rest = made["order"].partition(b"\n") if chance.random() < 0.8 else (b"", b"", made["order"])
    return head + b"\n" * bool(head) + samples.mutate(rest, made["symbols"], chance)


@cache
def _fixed() -> tuple[bytes, ...]:
    """Fixed files, with the record that undoes it."""
    made = []
    with (
        tempfile.TemporaryDirectory(prefix="hugealign-fuzz-") as work,
        redirect_stdout(io.StringIO()),
        redirect_stderr(io.StringIO()),
    ):
        for name, data in fixes.corpus().items():
            (Path(work) / name).write_bytes(data)
            for level in LEVELS:
                words = ["fix", "--page-size=64K", f"--level={level}", "-o", f"{work}/out", f"{work}/{name}"]
                if hugealign.cli.main(words) == 0 and MAGIC in (data := Path(work, "out").read_bytes()):
                    made.append(data)
    return tuple(dict.fromkeys(made))


def fixed(chance: Chance) -> bytes:
    """Return a fixed file whose record is damaged, or what lies about it."""
    data = chance.choice(_fixed())
    at = data.rindex(MAGIC) + chance.choice((0, len(MAGIC)))
    end = data.index(b"}", at) + 1
    what = chance.random()
    if what < 0.1:
        return data
    if what < 0.7:
        record = samples.mutate(data[at:end], b"-1e400", chance)
        room = chance.choice((end - at, len(record)))
        return data[:at] + record.ljust(end - at)[:room] + data[end:]
    if what < 0.85:
        return archives.wounded(chance, data, 1.0)
    place = chance.randrange(at, len(data))
    return data[:place] + chance.randbytes(chance.choice((1, 2, 8))) + data[place + 1 :]


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
