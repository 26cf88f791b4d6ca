"""AutoFDO's text (``create_llvm_prof --format=text``, ``llvm-profdata merge --sample --text``, ``dump_gcov``).

``name:total:head`` (``name total:N head:N`` by dump_gcov) begins a function.  Below it, indented by one or two spaces
for each level of inlining, come ``line: samples`` with the functions called from there, ``callee:count``.  Inlined code
ran as part of the outermost function.  Behind them can come attributes of the function, such as the checksum of its
control flow: then the numbers of lines are those of pseudo-probes (``-fpseudo-probe-for-profiling``).
"""

import re
from collections.abc import Iterable

from hugealign.io.units import counted
from hugealign.profile import linecounts, tools
from hugealign.profile.linecounts import LineCounts
from hugealign.profile.lines import lines as split
from hugealign.profile.model import Malformed, Place, Profile, ProfileError, count_of, meaningful
from hugealign.profile.profdata import with_any_version
from hugealign.profile.source import ProfileSource

_FUNCTION = re.compile(rb"(\S.*)(?::(\d+):| total:(\d+) head:)\d+\Z", re.DOTALL)
_LINE = re.compile(rb"( +)(\d+)(?:\.(\d+))?: (\d+)((?: +\S+:\d+)*)\s*\Z")
_INLINED = re.compile(rb"( +)(\d+)(?:\.(\d+))?: (\S.*):\d+\Z", re.DOTALL)


def read_data(source: ProfileSource, profile: Profile) -> None:
    """Add LLVM's binary sample profile.  Raises ProfileError."""
    words = ["merge", "--sample", "--text", "-o", "-", source.path]
    with_any_version(words, lambda lines: _read(lines, source, profile))


def read_gcc(source: ProfileSource, profile: Profile) -> None:
    """Add GCC's sample profile (``create_gcov``, -fauto-profile).  Raises ProfileError."""
    with open(source.path, "rb") as file:
        version = int.from_bytes(file.read(8)[4:], "little")
    tool = tools.find("dump_gcov", package="autofdo")
    # Without the last option dump_gcov leaves out functions with less than some percent of the largest one.
    words = [tool, f"-gcov_version={version}", "-dump_cutoff_percent=0", source.path]
    with tools.output(words) as stream:
        read(split(stream), profile)


def read_text(source: ProfileSource, profile: Profile) -> None:
    """Add LLVM's text."""
    _read(source.short_lines(), source, profile)


def _read(lines: Iterable[bytes], source: ProfileSource, profile: Profile) -> None:
    if profile.flow is None:
        read(lines, profile)
        return
    counts = LineCounts(profile.room)
    read(lines, profile, counts)
    if counts.left_out:
        kept = counted(counts.left_out, "function")
        profile.notes.append(f"{kept} kept whole: counts of pseudo-probes, contexts or GCC's lines tell no blocks")
    try:
        linecounts.place(counts.functions, source, profile.flow)
    except ProfileError as error:
        profile.notes.append(f"{error}; functions stay whole")


def read(lines: Iterable[bytes], profile: Profile, counts: LineCounts | None = None) -> None:
    """Add the samples in *lines* to *profile*, and those of each line to *counts*."""
    function: Place | None = None
    for number, line in enumerate(lines, 1):
        if counts is not None and line.lstrip(b" ").startswith(b"!CFGChecksum:"):
            counts.leave_out()
        if not line or line.startswith((b"#", b" !")):
            continue
        try:
            if found := _FUNCTION.match(line):
                name, total, total_of_dump = found.groups()
                function = profile.place(_innermost(name))
                profile.add(function, count_of(total or total_of_dump))
                if counts is not None:
                    # The contexts of one function are not told apart, and GCC does not divide functions by lines.
                    unknown = name.startswith(b"[") or total_of_dump
                    counts.begin("" if unknown else name.decode("utf-8", "surrogateescape"))
            elif (found := _LINE.match(line)) and function is not None:
                indent, *spot, samples, calls = found.groups()
                if counts is not None:
                    counts.line(len(indent), _spot(*spot), count_of(samples))
                for call in calls.split():
                    callee, _, count = call.rpartition(b":")
                    profile.call(function, profile.place(callee), count_of(count))
            else:
                found = _INLINED.match(line)
                meaningful(line.startswith(b" ") and (b" !" in line or found))
                if found and counts is not None:
                    indent, *spot, callee = found.groups()
                    counts.call(len(indent), _spot(*spot), callee.decode("utf-8", "surrogateescape"))
            profile.good += 1
        except Malformed:
            profile.malformed(number)


def _spot(line: bytes, discriminator: bytes | None) -> tuple[int, int]:
    return count_of(line), count_of(discriminator or b"0")


def _innermost(name: bytes) -> bytes:
    """Return the function of a context, ``[main:3 @ f:1 @ g]``."""
    return name[1:-1].rpartition(b" @ ")[2] if name.startswith(b"[") and name.endswith(b"]") else name
