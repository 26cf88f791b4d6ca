"""Files that are not archives, for the fuzzing of commands: linked files, profiles, order files, baselines, mutated."""

import io
import json
import os
import random
import subprocess
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import hugealign.cli
from hugealign.elf.fixrecord import LEVELS, MAGIC
from hugealign.elf.image import read_file
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
    data = os.pread(subject.fd, 4 << 20, 0)  # what was written far away makes it gigabytes of nothing
    subject.restore()
    return data


#: main of two blocks and hot of one, and what follows: clang's map of them.
_WITH_BLOCKS = """\
.text
.globl main, hot, _start
.type main, @function
main: nop
nop
ret
.size main, . - main
.type hot, @function
hot: ret
.size hot, . - hot
_start: ret
.section .llvm_bb_addr_map, "", @{kind:#x}
{map}
"""
#: By version: of an old kind of section, then with calls, with hashes, with parts and what the compiler thought.
_MAPS = (
    (0x6FFF4C08, ".quad main\n.byte 2, 0,1,8, 1,2,1\n.quad hot\n.byte 1, 0,1,1"),
    (0x6FFF4C0A, ".byte 1,0\n.quad main\n.byte 2, 0,1,8, 0,2,1\n"),
    (0x6FFF4C0A, ".byte 2,0\n.quad main\n.byte 2, 0,0,1,8, 7,0,2,1\n.byte 2,0\n.quad hot\n.byte 1, 0,0,1,1"),
    (0x6FFF4C0A, ".byte 3,0x20\n.quad main\n.byte 2, 0,0,1,1,0,8, 7,0,0,2,1\n"),
    (0x6FFF4C0A, ".byte 4,0x40\n.quad main\n.byte 2, 0,0,1,8\n.quad 9\n.byte 7,0,2,1\n.quad 8\n"),
    (0x6FFF4C0A, ".byte 2,0x0f,2\n.quad main\n.byte 1, 0,0,1,8\n.quad main+1\n.byte 1, 7,0,2,1, 5,9,1,7,3,9,0\n"),
)


@cache
def _with_blocks() -> tuple[tuple[bytes, int, int], ...]:
    """Return linked programs, each with where its map of blocks begins and ends."""
    made = []
    with tempfile.TemporaryDirectory(prefix="hugealign-fuzz-") as work:
        for kind, text in _MAPS:
            (Path(work) / "a.s").write_text(_WITH_BLOCKS.format(kind=kind, map=text))
            words = ["cc", "-nostdlib", "-static", "-no-pie", "a.s", "-o", "a"]
            subprocess.run(words, cwd=work, check=True, capture_output=True)
            path = Path(work) / "a"
            section = next(s for s in read_file(path).sections if s.name == ".llvm_bb_addr_map")
            made.append((path.read_bytes(), section.sh_offset, section.sh_offset + section.sh_size))
    return tuple(made)


def blocks(chance: Chance) -> bytes:
    """Return a program whose map of blocks is damaged."""
    data, begin, end = chance.choice(_with_blocks())
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(begin, end)
        changed[at] = chance.choice((0, 1, 2, 3, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    return bytes(changed)


def beside_blocks() -> dict[str, bytes]:
    """Return the profiles for such programs, by name and by address."""
    return {"folded": b"main;hot 70000\nmain 90000\n", "spots": b" 7 e:  401000 0x401002/0x401000/P/-/-/0\n" * 1000}


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
    return {
        "prog": program()[0]["prog"],
        "folded": made["folded"],
        "good.order": made["order"],
        "good.counts": made["counts"],
    }


def profile(chance: Chance) -> bytes:
    """Return a profile of any form, damaged."""
    made = profiles()
    one, other = (chance.choice(sorted(made)) for _ in range(2))
    return counts(chance) if one == "counts" else damaged(one, other, chance)


def damaged(form: str, other: str, chance: Chance) -> bytes:
    """Return the profile of *form*, damaged, with pieces of the *other*; most of a binary one stays as it was."""
    made = profiles()
    if form in samples.BINARY and chance.random() < 0.8:  # of what is damaged as text is, little is read to its end
        return archives.wounded(chance, made[form], 0.95)
    return samples.mutate(made[form], made[other], chance)


def counts(chance: Chance) -> bytes:
    """Return counts of a host, right, wrong or damaged."""
    made = samples.counted(program()[1], chance)
    return made if chance.random() < 0.8 else samples.mutate(made, profiles()["counts"], chance)


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
        mock.patch.dict(os.environ, HUGEALIGN_MIN_TEXT="0"),  # the files are small
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
        hugealign.cli.main(["verify", "--min-text=0", "--json", "-o", file.name, "/bin/true"])
        return Path(file.name).read_bytes()


def baseline(chance: Chance) -> bytes:
    """Return a report of `verify`, damaged, or with values of other types."""
    if chance.random() < 0.5:
        return samples.mutate(_report(), b'{"files": [null, -1, "x"]}', chance)
    document = json.loads(_report())
    odd: Any = chance.choice((None, -1, 1e999, "x", [], {}, [[]], "\x1b[31m\n", {"a": 1}, True))
    (document if chance.random() < 0.5 else document["files"][0])[
        chance.choice(("schema", "files", "path", "diagnoses", "accepted", "page_size"))
    ] = odd
    return json.dumps(document).encode()
