"""A list of symbols, one per line, with ``#`` before comments: all count the same."""

import re
from collections.abc import Iterable

from hugealign.profile.model import Malformed, Profile

#: A symbol, as linkers know it: a word that begins with no digit, quote or bracket.
_SYMBOL = re.compile(rb"[A-Za-z_.$\\?~\x80-\xff][!-~\x80-\xff]*\Z")
_MOST = 4  # one line in so many may be something else: assemblers allow anything between quotes


def looks_like(head: bytes) -> bool:
    """Return whether the lines of *head* are symbols, one on each."""
    lines = [line for line in head.splitlines() if line.strip() and not line.startswith(b"#")]
    other = sum(not _SYMBOL.match(line.rstrip()) for line in lines)
    return bool(lines) and other * _MOST <= len(lines)


def read(lines: Iterable[bytes], profile: Profile) -> None:
    """Add the symbols in *lines* to *profile*; of equal lines the first counts."""
    for number, line in enumerate(lines, 1):
        name = line.strip()
        if not name or name.startswith(b"#"):
            continue
        try:
            place = profile.place(name)
        except Malformed:
            profile.malformed(number)
            continue
        profile.good += 1
        if place not in profile.samples:
            profile.add(place, 1)
