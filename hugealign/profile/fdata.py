r"""BOLT's fdata: branches between functions, or samples after ``no_lbr`` (bolt/include/bolt/Profile/DataReader.h).

``1 main 1bc 1 helper/2 0 0 20000``: kind, name and hexadecimal offset of the source, the same for the target, then
mispredictions and count.  Names escape spaces and backslashes with a backslash.  BOLT numbers local symbols: ``name/N``
or ``name/file.c/N``.
"""

import re

from hugealign.elf.symbols import Functions
from hugealign.profile.match import Names
from hugealign.profile.model import Flow, Malformed, Place, Profile, count_of, hex_of
from hugealign.profile.source import ProfileSource

_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
#: Without backtracking (`++`): with it, a line of 8 MiB took a gigabyte.
_WORD = re.compile(rb"((?:[^ \\]|\\.)++)(?: ++|\Z)", re.DOTALL)
_WORDS = 8  # at most, of a line
_UNKNOWN, _MEMORY = b"0", (b"3", b"4", b"5")


def read(source: ProfileSource, profile: Profile) -> None:
    """Add the branches or samples in *source* to *profile*."""
    sampled = False
    inside = _Inside(source.functions, profile.flow) if profile.flow is not None else None
    for number, line in enumerate(source.lines(), 1):
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
                _sample(words, profile, inside)
            else:
                _branch(words, profile, inside)
            profile.good += 1
        except (Malformed, ValueError, IndexError):
            profile.malformed(number)


def _words(line: bytes) -> list[bytes]:
    words: list[bytes] = []
    at = 0
    while len(words) <= _WORDS and (match := _WORD.match(line, at)):
        words.append(_ESCAPE.sub(rb"\1", match.group(1)))
        at = match.end()
    if at < len(line):
        raise Malformed
    return words


def _place(kind: bytes, name: bytes, profile: Profile) -> Place | None:
    """Return the place of a name, None if it is in another file."""
    if kind not in (b"0", b"1", b"2"):
        raise Malformed
    return None if kind == _UNKNOWN or name.endswith(b"@PLT") else profile.place(name)


class _Inside:
    """Adds to *flow* what lines say about offsets in *functions* that their names tell from all others."""

    def __init__(self, functions: Functions, flow: Flow) -> None:
        self.functions, self.flow = functions, flow
        self.names = Names(functions)
        self.known: dict[Place, int] = {}

    def address(self, place: Place | None, offset: int) -> int | None:
        if place is None:
            return None
        index = self.known.get(place)
        if index is None:
            index = self.known[place] = self.names.exactly(place)
        if index < 0 or offset >= self.functions.sizes[index]:
            return None
        return self.functions.starts[index] + offset

    def sample(self, place: Place | None, offset: int, count: int) -> int | None:
        """Add a sample; return its address."""
        address = self.address(place, offset)
        if address is not None:
            self.flow.run(address, address + 1, count)
        return address

    def branch(self, source: tuple[Place | None, int], target: tuple[Place | None, int], count: int) -> None:
        """Add a branch: perf2bolt writes one for each edge between blocks, fall-throughs included."""
        start, other = self.sample(*source, count), self.sample(*target, count)
        if start is not None and other is not None:
            self.flow.jump(start, other, count)


def _branch(words: list[bytes], profile: Profile, inside: _Inside | None) -> None:
    from_kind, from_name, from_offset, to_kind, to_name, to_offset, _, count = words
    weight, offset, entry = count_of(count), hex_of(from_offset), hex_of(to_offset)
    source, target = _place(from_kind, from_name, profile), _place(to_kind, to_name, profile)
    profile.branch(source, target, weight, offset, entry == 0)
    if inside is not None:
        inside.branch((source, offset), (target, entry), weight)


def _sample(words: list[bytes], profile: Profile, inside: _Inside | None) -> None:
    kind, name, offset, count = words
    at, place, weight = hex_of(offset), _place(kind, name, profile), count_of(count)
    profile.sample(place, weight)
    if inside is not None:
        inside.sample(place, at, weight)
