"""LLVM's profiles, read by ``llvm-profdata``.

Instrumentation profiles (.profraw, .profdata, their text form): local functions are ``file:name`` or, from IR
instrumentation, ``file;name``.  With the latter no counter belongs to the entry, since counters are on the edges
outside a spanning tree: the largest one stands for how much the function ran.

Sample profiles (AutoFDO's, binary or text): ``name:total:head`` begins a function.  Below it, indented by a space for
each level of inlining, come ``line: samples`` with the functions called from there, ``callee:count``.  Inlined code ran
as part of the outermost function.
"""

import re
from collections.abc import Callable, Iterable

from hugealign.profile import tools
from hugealign.profile.lines import lines as split
from hugealign.profile.model import Malformed, Place, Profile, ProfileError, count_of, meaningful
from hugealign.profile.source import ProfileSource

_FUNCTION = re.compile(rb"  (\S.*):\Z", re.DOTALL)
_SAMPLED = re.compile(rb"(\S.*):(\d+):\d+\Z", re.DOTALL)
_LINE = re.compile(rb" +\d+(?:\.\d+)?: \d+((?: +\S+:\d+)*)\s*\Z")
_INLINED = re.compile(rb" +\d+(?:\.\d+)?: \S.*:\d+\Z", re.DOTALL)
_COUNTS = re.compile(rb"    (?:Function count: (\d+)|Block counts: \[([\d, ]*)\])\Z")


def read_data(source: ProfileSource, profile: Profile) -> None:
    """Add a profile in any of its forms.  Raises ProfileError."""
    _with_any_version(["show", "--all-functions", "--counts", source.path], lambda lines: read(lines, profile))


def read_samples(source: ProfileSource, profile: Profile) -> None:
    """Add a sample profile.  Raises ProfileError."""
    words = ["merge", "--sample", "--text", "-o", "-", source.path]
    _with_any_version(words, lambda lines: _read_samples(lines, profile))


def _with_any_version(words: list[str], reader: Callable[[Iterable[bytes]], None]) -> None:
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
            if match := _FUNCTION.match(line):
                name = match.group(1)
            elif match := _COUNTS.match(line):
                entry, blocks = match.groups()
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
        file, separator, symbol = name.rpartition(mark)
        if separator:
            return file, symbol
    return b"", name


def _read_samples(lines: Iterable[bytes], profile: Profile) -> None:
    function: Place | None = None
    for number, line in enumerate(lines, 1):
        if not line or line.startswith((b"#", b" !")):
            continue
        try:
            if match := _SAMPLED.match(line):
                name, total = match.groups()
                function = profile.place(_innermost(name))
                profile.add(function, count_of(total))
            elif (match := _LINE.match(line)) and function is not None:
                for call in match.group(1).split():
                    callee, _, count = call.rpartition(b":")
                    profile.call(function, profile.place(callee), count_of(count))
            else:
                meaningful(line.startswith(b" ") and (b" !" in line or _INLINED.match(line)))
            profile.good += 1
        except Malformed:
            profile.malformed(number)


def _innermost(name: bytes) -> bytes:
    """Return the function of a context, ``[main:3 @ f:1 @ g]``."""
    return name[1:-1].rpartition(b" @ ")[2] if name.startswith(b"[") and name.endswith(b"]") else name
