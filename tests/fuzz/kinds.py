"""The kinds of input, and the commands that are run on them: a new kind is a row in `KINDS`."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.fuzz import archives, files, readers

SECONDS_PER_MEBIBYTE = 10.0  # docs/verify.md
OUT = "out"


@dataclass(frozen=True)
class Kind:
    """A kind of file, and what is done with it.

    *make* makes one.  Of *commands*, one is chosen; ``@`` stands for the file.  *statuses* are the documented ones;
    those of *silent* print nothing on standard output.  *beside* are files that lie there as well.  A command that ends
    with status 0 may leave `OUT`.  Without the module that it *needs*, all would be refused unread.
    """

    make: Callable[[random.Random], bytes]
    commands: tuple[tuple[str, ...], ...]
    statuses: frozenset[int] = frozenset({0, 1, 2, 3})
    silent: frozenset[int] = frozenset({2})
    rate: float = SECONDS_PER_MEBIBYTE
    beside: Callable[[], dict[str, bytes]] = dict
    needs: str = ""


_VERIFY = (
    ("verify", "@"),
    ("verify", "-q", "@"),
    ("verify", "-v", "--kernels", "@"),
    ("verify", "--format=json", "@"),
    ("verify", "--format=sarif", "--strict", "@"),
    ("verify", "--format=github", "@"),
    ("verify", "--format=junit", "@"),
    ("verify", "--format=gcc", "--min-text=0", "@"),
    ("verify", "--max-unpacked=1M", "@"),
    ("verify", "-r", "."),
    ("verify", "@", "--", "@"),
)
_FIX = (
    ("fix", "--dry-run", "@"),
    ("fix", "--dry-run", "--format=json", "--level=merge", "@"),
    ("fix", "-o", OUT, "@"),
    ("fix", "-o", OUT, "--level=align", "@"),
    ("fix", "-o", OUT, "--undo", "@"),
    ("fix", "--report", "@"),
)
_PROFILE = (
    ("order", "@", "-b", "prog"),
    ("order", "@", "-b", "prog", "--force", "-o", OUT),
    ("order", "@", "folded", "-b", "prog", "--emit=json", "--force", "--format=json", "-o", OUT),
    ("map", "prog", "--profile", "@", "--force"),
    ("map", "prog", "--profile", "@", "--force", "--svg", OUT),
)
_ORDER = (
    ("order", "--diff", "@", "good.order"),
    ("order", "--diff", "good.order", "@"),
    ("order", "@", "-b", "prog"),
    ("map", "prog", "--order", "@"),
)
_OF_ELF = (
    ("warm", "--check", "@"),
    ("warm", "--check", "--libs", "@"),
    ("order", "folded", "-b", "@"),
    ("order", "folded", "-b", "@", "--force", "-o", OUT),
    ("map", "@", "--profile", "folded", "--force"),
)
KINDS: dict[str, Kind] = {name: Kind(make, _VERIFY) for name, make in archives.KINDS.items()} | {
    "elf": Kind(files.elf, _VERIFY),
    "elf-fix": Kind(files.elf, _FIX),
    "elf-others": Kind(files.elf, _OF_ELF, beside=files.beside),
    "profile": Kind(files.profile, _PROFILE, beside=files.beside),
    "order": Kind(files.order, _ORDER, beside=files.beside),
    **{
        name: Kind(make, words, beside=files.beside, needs="yaml" if name == "profile-prog.yaml" else "")
        for name, (make, words) in readers.KINDS.items()
    },
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
