r"""BOLT's fdata: branches between functions, or samples after ``no_lbr`` (bolt/include/bolt/Profile/DataReader.h).

``1 main 1bc 1 helper/2 0 0 20000``: kind, name and hexadecimal offset of the source, the same of the target, then
mispredictions and count.  Names escape spaces and backslashes with a backslash.  BOLT numbers local symbols: ``name/N``
or ``name/file.c/N``.
"""

import re
from collections.abc import Iterable

from hugealign.profile.model import Malformed, Place, Profile, count_of, hex_of

_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
#: Without backtracking (`++`), of which a line of 8 MiB took a gigabyte.
_WORD = re.compile(rb"((?:[^ \\]|\\.)++)(?: ++|\Z)", re.DOTALL)
_WORDS = 8  # of a line at most
_UNKNOWN, _MEMORY = b"0", (b"3", b"4", b"5")


def read(lines: Iterable[bytes], profile: Profile) -> None:
    """Add what *lines* say to *profile*."""
    sampled = False
    for number, line in enumerate(lines, 1):
        if not line or line == b"boltedcollection":
            continue
        if number == 1 and line.split(b" ")[0] == b"no_lbr":
            sampled = True
            continue
        try:
            words = line.split(None, _WORDS) if b"\\" not in line else _words(line)
            if words[0] in _MEMORY:
                continue
            if sampled:
                _sample(words, profile)
            else:
                _branch(words, profile)
            profile.good += 1
        except (Malformed, ValueError, IndexError):
            profile.malformed(number)


def _words(line: bytes) -> list[bytes]:
    words: list[bytes] = []
    at = 0
    while len(words) <= _WORDS and (found := _WORD.match(line, at)):
        words.append(_ESCAPE.sub(rb"\1", found.group(1)))
        at = found.end()
    if at < len(line):
        raise Malformed
    return words


def _place(kind: bytes, name: bytes, profile: Profile) -> Place | None:
    """Return None for what lies in another file."""
    if kind not in (b"0", b"1", b"2"):
        raise Malformed
    return None if kind == _UNKNOWN or name.endswith(b"@PLT") else profile.place(name)


def _branch(words: list[bytes], profile: Profile) -> None:
    from_kind, from_name, from_offset, to_kind, to_name, to_offset, _, count = words
    weight, offset, entry = count_of(count), hex_of(from_offset), hex_of(to_offset)
    source, target = _place(from_kind, from_name, profile), _place(to_kind, to_name, profile)
    profile.branch(source, target, weight, offset, entry == 0)


def _sample(words: list[bytes], profile: Profile) -> None:
    kind, name, offset, count = words
    hex_of(offset)
    profile.sample(_place(kind, name, profile), count_of(count))
