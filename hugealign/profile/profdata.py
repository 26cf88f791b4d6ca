"""LLVM's instrumentation profile (.profraw, .profdata, its text form), read by ``llvm-profdata show``.

Local functions are ``file:name`` or, from IR instrumentation, ``file;name``.  With the latter no counter belongs to the
entry, since counters are on the edges outside a spanning tree: the largest one stands for how much the function ran.
"""

import re
from collections.abc import Callable, Iterable

from hugealign.profile import tools
from hugealign.profile.lines import lines as split
from hugealign.profile.model import Malformed, Profile, ProfileError, count_of
from hugealign.profile.source import ProfileSource

_FUNCTION = re.compile(rb"  (\S.*):\Z", re.DOTALL)
_COUNTS = re.compile(rb"    (?:Function count: (\d+)|Block counts: \[([\d, ]*)\])\Z")


def read_data(source: ProfileSource, profile: Profile) -> None:
    """Add a profile in any of its forms.  Raises ProfileError."""
    with_any_version(["show", "--all-functions", "--counts", source.path], lambda lines: read(lines, profile))


def with_any_version(words: list[str], reader: Callable[[Iterable[bytes]], None]) -> None:
    """Read the output of ``llvm-profdata`` with *words*, from the first installed version that succeeds.

    Each version reads only the formats of its time, and fails before it prints anything.  Raises ProfileError.
    """
    for tool in tools.versions("llvm-profdata", package="llvm"):
        try:
            with tools.output([tool, *words]) as stream:
                reader(split(stream))
        except ProfileError as error:
            failure = error
        else:
            return
    raise failure


def read(lines: Iterable[bytes], profile: Profile) -> None:
    """Add the output of ``llvm-profdata show --all-functions --counts`` to *profile*."""
    name = b""
    for number, line in enumerate(lines, 1):
        try:
            if found := _FUNCTION.match(line):
                name = found.group(1)
            elif found := _COUNTS.match(line):
                entry, blocks = found.groups()
                numbers = [count_of(word) for word in (entry or blocks).replace(b",", b" ").split()]
                profile.good += 1
                if any(numbers):
                    file, symbol = _split(name)
                    profile.add(profile.place(symbol, file), max(numbers))
        except Malformed:
            profile.malformed(number)


def _split(name: bytes) -> tuple[bytes, bytes]:
    """Return file and name.  Only demangled C++ names contain colons, and these are not demangled."""
    for mark in (b";", b":"):
        file, found, symbol = name.rpartition(mark)
        if found:
            return file, symbol
    return b"", name
