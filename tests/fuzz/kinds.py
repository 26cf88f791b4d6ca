"""The kinds of input, and the commands that are run on them: a new kind is a row in `KINDS`."""

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import hugealign.cli
from tests.fuzz import archives, files, links, profiles, readers
from tests.fuzz import fix as fixes

SECONDS_PER_MEBIBYTE = 10.0  # docs/reference/verify.md
NAME, OUT = "x", "out"


def command(words: list[str]) -> int:
    """Run ``hugealign WORDS``, and return its status."""
    return hugealign.cli.main(words)


def _fix_and_back(words: list[str]) -> int:
    """Fix `NAME` into `OUT` by *words*; what was fixed must be the same after ``--undo``."""
    with mock.patch.dict(os.environ, HUGEALIGN_MIN_TEXT="0"):  # the files are small
        status = command(words)
    # Where there was nothing to do it is a copy, without a record.
    if status == 0 and os.path.exists(OUT) and Path(OUT).read_bytes() != Path(NAME).read_bytes():
        assert command(["fix", "--undo", "-o", "back", OUT]) == 0
        assert Path("back").read_bytes() == Path(NAME).read_bytes(), "undoing gives another file"
        os.unlink("back")
    return status


def _plan(words: list[str]) -> int:
    """Hold what `fix` writes at a level, or without one, against its plan."""
    fd = os.open(words[0], os.O_RDONLY)
    try:
        fixes.check(fd, words[1])
    finally:
        os.close(fd)
    return 0


def _counts(words: list[str]) -> int:
    """Run a command of counts; what it wrote must be read, and adds up to itself."""
    status = command(words)
    if os.path.exists(OUT) and words[0] == "profile":
        assert status == 0 or "--keep-going" in words, "an output in spite of an error"
        if command(["profile", "merge", OUT, "-o", "again"]) == 0:
            assert Path("again").read_bytes() == Path(OUT).read_bytes(), "merging one file changes it"
            os.unlink("again")
        else:
            raise AssertionError("what was written cannot be read")
        os.unlink(OUT)
    return status


def _order(words: list[str]) -> int:
    """Make an order and a map of a profile, and hold them against each other."""
    profiles.check(Path(words[0]), files.program()[1], *words[1:])
    return 0


@dataclass(frozen=True)
class Kind:
    """A kind of file, and what is done with it.

    *make* makes one.  Of *commands*, one is chosen; ``@`` stands for the file.  *statuses* are the documented ones;
    those of *silent* print nothing on standard output.  *beside* are files that lie there as well.  A command that ends
    with status 0 may leave `OUT`.  Without the module or program that it *needs*, all would be refused unread.

    *run* runs the words of a command and returns its status.  *rate* is seconds of processor time for each MiB of the
    file above `runner.SECONDS`, *temporary* bytes of temporary files: so many, and so many times the file.
    """

    make: Callable[[random.Random], bytes]
    commands: tuple[tuple[str, ...], ...]
    statuses: frozenset[int] = frozenset({0, 1, 2, 3})
    silent: frozenset[int] = frozenset({2})
    rate: float = SECONDS_PER_MEBIBYTE
    beside: Callable[[], dict[str, bytes]] = dict
    needs: str = ""
    run: Callable[[list[str]], int] = command
    temporary: tuple[int, int] = (64 << 20, 4)


_VERIFY = (
    ("verify", "@"),
    ("verify", "-q", "@"),
    ("verify", "-v", "--kernels", "@"),
    ("verify", "--json", "@"),
    ("verify", "--format=sarif", "--fail-on=warning", "@"),
    ("verify", "--format=github", "@"),
    ("verify", "--format=junit", "@"),
    ("verify", "--format=gcc", "--min-text=0", "@"),
    ("verify", "--max-unpacked=1M", "@"),
    ("verify", "-r", "."),
    ("diff", "@", "@"),
)
_FIX = (
    ("fix", "--dry-run", "@"),
    ("fix", "--dry-run", "--json", "--max-executable=1M", "@"),
    ("fix", "-o", OUT, "@"),
    ("fix", "-o", OUT, "--level=align", "@"),
    ("fix", "-o", OUT, "--level=shift", "--max-executable=1G", "--page-size=64K", "@"),
    ("fix", "-o", OUT, "--level=separate", "--page-size=64K", "@"),
    ("fix", "-o", OUT, "--page-size=64K", "@"),
    ("fix", "--dry-run", "--json", "--page-size=64K", "@"),
)
_FIX_AGAIN = (
    ("fix", "--undo", "-o", OUT, "@"),
    ("fix", "--undo", "--json", "-o", OUT, "@"),
    ("fix", "-o", OUT, "--level=separate", "--page-size=64K", "@"),
    ("fix", "--dry-run", "--page-size=64K", "@"),
    ("verify", "@"),
)
_PROFILE = (
    ("order", "@", "-b", "prog"),
    ("order", "@", "-b", "prog", "--force", "--cpu=zen3", "-o", OUT),
    ("order", "@", "folded", "-b", "prog", "--force", "--json", "--windows=2", "-o", OUT),
    ("map", "@", "-b", "prog"),
    ("profile", "reduce", "@", "folded", "-b", "prog", "-o", OUT),
    ("draw-map", "@", "-b", "prog", "-o", OUT),
)
_COUNTS = (
    ("profile", "merge", "@", "-o", OUT),
    ("profile", "merge", "@", "good.counts", "-o", OUT),
    ("profile", "merge", "--keep-going", "good.counts", "@", "--cap=7", "--weight=x=3", "-o", OUT),
    ("profile", "merge", "--keep-going", "--cap=3", "good.counts", "good.counts", "@", "-o", OUT),
    ("profile", "reduce", "@", "-b", "prog", "--blocks", "-o", OUT),
    ("order", "@", "-b", "prog", "--force", "--cpu=skylake", "-o", OUT),
)
_MADE = (("@",), *(("@", form) for form in profiles.WITHOUT_TOOLS))
_ORDER = (
    ("diff", "@", "good.order"),
    ("diff", "good.order", "@"),
    ("order", "@", "-b", "prog", "--windows=7"),
    ("map", "folded", "-b", "prog", "--order", "@"),
)
_BLOCKS = (
    ("order", "--blocks", "folded", "-b", "@", "--force", "-o", OUT),
    ("order", "--blocks", "spots", "-b", "@", "--force", "--cpu=zen3", "-o", OUT),
    ("order", "--blocks", "spots", "-b", "@", "--force", "--windows=1", "-o", OUT),
)
_OF_ELF = (
    ("warm", "--check", "@"),
    ("warm", "--check", "--libs", "@"),
    ("warm", "--check", "--json", "@"),
    ("warm", "--undo", "@"),
    ("order", "folded", "-b", "@"),
    ("order", "folded", "-b", "@", "--force", "--cpu=skylake", "-o", OUT),
    ("map", "folded", "-b", "@"),
)
_UNPACKED = 65 << 20, 128  # docs/reference/verify.md, docs/reference/profiles.md: the budget of a packed file
KINDS: dict[str, Kind] = {name: Kind(make, _VERIFY, temporary=_UNPACKED) for name, make in archives.KINDS.items()} | {
    "elf": Kind(files.elf, _VERIFY),
    "elf-fix": Kind(files.elf_to_fix, _FIX, run=_fix_and_back),
    "elf-plan": Kind(files.elf_to_fix, tuple(("@", level) for level in fixes.WAYS), run=_plan),
    "elf-fixed": Kind(files.fixed, _FIX_AGAIN),
    "elf-others": Kind(files.elf, _OF_ELF, beside=files.beside),
    "blocks": Kind(files.blocks, _BLOCKS, beside=files.beside_blocks),
    "profile": Kind(files.profile, _PROFILE, beside=files.beside, temporary=_UNPACKED),
    "profile-made": Kind(files.profile, _MADE, run=_order, beside=files.beside),
    "counts": Kind(files.counts, _COUNTS, beside=files.beside, run=_counts, temporary=_UNPACKED),
    "order": Kind(files.order, _ORDER, beside=files.beside),
    **{
        name: Kind(
            make,
            words,
            beside=files.beside,
            temporary=_UNPACKED,
            needs="yaml" if name == "profile-prog.yaml" else "",
        )
        for name, (make, words) in readers.KINDS.items()
    },
    **{
        name: Kind(make, words, links.STATUSES, beside=links.beside, run=run)
        for name, (make, words, run) in links.KINDS.items()
    },
    "configuration": Kind(files.configuration, (("verify", "--config", "@", "/bin/true"),)),
    "baseline": Kind(files.baseline, (("verify", "--baseline", "@", "/bin/true"),)),
}


@dataclass
class Case:
    """One command line on one file."""

    kind: str
    command: tuple[str, ...]
    data: bytes


def case(kind: str, seed: int, number: int) -> Case:
    """Return the case of that *number*: always the same."""
    chance = random.Random(f"{kind}/{seed}/{number}")
    return Case(kind, chance.choice(KINDS[kind].commands), KINDS[kind].make(chance))
