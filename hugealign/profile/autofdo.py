"""AutoFDO's text (``create_llvm_prof --format=text``, ``llvm-profdata merge --sample --text``, ``dump_gcov``).

``name:total:head`` (``name total:N head:N`` by dump_gcov) begins a function.  Below it, indented by one or two spaces
for each level of inlining, come ``line: samples`` with the functions called from there, ``callee:count``.  Inlined code
ran as part of the outermost function.
"""

import os
import re
from collections.abc import Iterable

from hugealign.profile import tools
from hugealign.profile.lines import lines as split
from hugealign.profile.model import Malformed, Place, Profile, count_of, meaningful
from hugealign.profile.profdata import with_any_version
from hugealign.profile.source import ProfileSource

_FUNCTION = re.compile(rb"(\S.*)(?::(\d+):| total:(\d+) head:)\d+\Z", re.DOTALL)
_LINE = re.compile(rb" +\d+(?:\.\d+)?: (\d+)((?: +\S+:\d+)*)\s*\Z")
_INLINED = re.compile(rb" +\d+(?:\.\d+)?: \S.*:\d+\Z", re.DOTALL)


def read_data(source: ProfileSource, profile: Profile) -> None:
    """Add LLVM's binary sample profile.  Raises ProfileError."""
    with_any_version(["merge", "--sample", "--text", "-o", "-", source.path], lambda lines: read(lines, profile))


def read_gcc(source: ProfileSource, profile: Profile) -> None:
    """Add GCC's sample profile (``create_gcov``, -fauto-profile).  Raises ProfileError."""
    with open(source.path, "rb") as file:
        version = int.from_bytes(file.read(8)[4:], "little")
    tool = tools.find("dump_gcov", package="autofdo")
    # Without the last option dump_gcov leaves out functions with less than some percent of the largest one.
    words = [tool, f"-gcov_version={version}", "-dump_cutoff_percent=0", os.path.realpath(source.path)]
    with tools.output(words) as stream:
        read(split(stream), profile)


def read(lines: Iterable[bytes], profile: Profile) -> None:
    """Add the samples in *lines* to *profile*."""
    function: Place | None = None
    for number, line in enumerate(lines, 1):
        if not line or line.startswith((b"#", b" !")):
            continue
        try:
            if found := _FUNCTION.match(line):
                name, total, total_of_dump = found.groups()
                function = profile.place(_innermost(name))
                profile.add(function, count_of(total or total_of_dump))
            elif (found := _LINE.match(line)) and function is not None:
                for call in found.group(2).split():
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
