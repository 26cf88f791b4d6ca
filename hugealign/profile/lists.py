"""Lists of functions: an order file of hugealign, and symbols, one on a line, with ``#`` before comments."""

import re
from collections.abc import Iterable

from hugealign import orderfile
from hugealign.profile.model import Malformed, Profile, ProfileError, count_of

#: A symbol, as linkers know it: a word that begins with no digit, quote or bracket.
_SYMBOL = re.compile(rb"[A-Za-z_.$\\?~\x80-\xff][!-~\x80-\xff]*\Z")
_MOST = 4  # one line in 4 may be something else: assemblers allow anything between quotes


def looks_like(head: bytes) -> bool:
    """Return whether the lines of *head* are symbols, one on each."""
    lines = [line for line in head.splitlines() if line.strip() and not line.startswith(b"#")]
    other = sum(not _SYMBOL.match(line.rstrip()) for line in lines)
    return bool(lines) and other * _MOST <= len(lines)


def read_symbols(lines: Iterable[bytes], profile: Profile) -> None:
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


def read_order(lines: Iterable[bytes], profile: Profile) -> None:
    """Add the functions in *lines* to *profile*; fillers were never touched."""
    try:
        order = orderfile.parse(b"\n".join(_charged(lines, profile)))
    except orderfile.OrderFileError as error:
        raise ProfileError(str(error)) from None
    for number, entry in enumerate(order.entries, 1):
        if entry.kind != orderfile.FILL and entry.name:
            try:
                name, file = (word.encode("utf-8", "surrogateescape") for word in (entry.name, entry.file))
                profile.add(profile.place(name, file), count_of(b"%d" % entry.samples))
                profile.good += 1
            except (Malformed, UnicodeEncodeError):
                profile.malformed(number)


def _charged(lines: Iterable[bytes], profile: Profile) -> list[bytes]:
    kept = []
    for line in lines:
        profile.room.take(len(line))
        kept.append(line)
    return kept
