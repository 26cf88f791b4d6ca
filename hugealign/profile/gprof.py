"""gprof's output, made by ``gprof -b -p -q --no-demangle PROGRAM gmon.out``: a flat profile, then a call graph."""

import re
from collections.abc import Iterable

from hugealign.profile import tools
from hugealign.profile.lines import lines as split
from hugealign.profile.model import Malformed, Place, Profile, count_of
from hugealign.profile.source import ProfileSource

_CYCLE = rb"(?: <cycle \d{1,9}(?: as a whole)?>)?"
_FLAT = re.compile(rb"\s*[\d.]+\s+[\d.]+\s+(\d+)\.(\d\d)\s+(?:(\d+)\s+[\d.]+\s+[\d.]+\s+)?(\S.*)\Z", re.DOTALL)
_FUNCTION = re.compile(rb"\[\d+\]\s+[\d.]+\s+[\d.]+\s+[\d.]+\s+(?:\S+\s+)?(\S.*?)" + _CYCLE + rb" \[\d+\]\Z", re.DOTALL)
_OTHER = re.compile(rb"\s+[\d.]+\s+[\d.]+\s+(\d+)(?:/\d+)?\s+(\S.*?)" + _CYCLE + rb" \[\d+\]\Z", re.DOTALL)


def read_data(source: ProfileSource, profile: Profile) -> None:
    """Add a gmon.out.  Raises ProfileError."""
    gprof = tools.find("gprof", package="binutils")
    command = [gprof, "-b", "-p", "-q", "--no-demangle", source.binary, source.path]
    with tools.output(command) as stream:
        read(split(stream), profile)


def read(lines: Iterable[bytes], profile: Profile) -> None:
    """Add *lines* to *profile*: hundredths of seconds as samples, calls as arcs."""
    graph = False
    function: Place | None = None
    for number, line in enumerate(lines, 1):
        try:
            if b"Call graph" in line:
                graph = True
            elif graph:
                function = _graph(line, function, profile)
            elif found := _FLAT.match(line):
                seconds, hundredths, _, name = found.groups()
                profile.add(profile.place(name.strip()), count_of(seconds) * 100 + int(hundredths))
                profile.good += 1
        except Malformed:
            profile.malformed(number)


def _graph(line: bytes, function: Place | None, profile: Profile) -> Place | None:
    """Read a line of the call graph: callers come before the function itself; their calls come again under callees."""
    if line.startswith(b"---"):
        return None
    if found := _FUNCTION.match(line):
        return profile.place(found.group(1))
    if function is not None and (found := _OTHER.match(line)):
        callee = profile.place(found.group(2))
        if callee != function:
            profile.call(function, callee, count_of(found.group(1)))
        profile.good += 1
    return function
