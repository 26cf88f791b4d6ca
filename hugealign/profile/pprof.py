"""pprof's profiles (Go, Parca, Pyroscope, gperftools), read by ``go tool pprof -raw``.

Its output: samples as values and location numbers, innermost first; the locations with their functions; the mappings
with their build-ids.  gperftools writes no build-ids and no names, so that a mapping of our file's name must do.
"""

import re
from collections.abc import Iterable

from hugealign.elf.symbols import Functions
from hugealign.profile import tools
from hugealign.profile.lines import lines
from hugealign.profile.model import Malformed, Place, Profile, ProfileError, count_of, hex_of
from hugealign.profile.source import Source

_SAMPLE = re.compile(rb"\s+((?:\d+\s+)*\d+):((?: \d+)*)\s*\Z")
_LOCATION = re.compile(rb"\s*(\d+): 0x([0-9a-f]{1,16}) (?:M=(\d+) )?(.*)\Z", re.DOTALL)
_FUNCTION = re.compile(rb"(.*?) \S*:\d+(?::\d+)? s=\d+(?:\(inlined\))?\s*\Z", re.DOTALL)
_MAPPING = re.compile(
    rb"(\d+): 0x([0-9a-f]{1,16})/0x([0-9a-f]{1,16})/0x([0-9a-f]{1,16}) (.*?) ([0-9a-f]*) (?:\[.*\])?\Z"
)


def read_data(source: Source, profile: Profile) -> None:
    """Add a profile.proto.  Raises ProfileError."""
    try:
        go = tools.find("go", package="golang-go")
    except ProfileError:
        raise ProfileError("needs `go tool pprof`, and go is not installed (Debian: apt install golang-go)") from None
    with tools.output([go, "tool", "pprof", "-raw", "-symbolize=none", source.path]) as stream:
        _read(lines(stream), source, profile)


def read(source: Source, profile: Profile) -> None:
    """Add what pprof printed."""
    _read(source.short_lines(), source, profile)


def _read(lines: Iterable[bytes], source: Source, profile: Profile) -> None:
    functions = source.functions
    part = b""
    stacks: dict[bytes, int] = {}
    locations: dict[bytes, tuple[int, bytes, bytes]] = {}  # address, mapping, function's name
    mappings: dict[bytes, int] = {}  # those of the very binary: what to add to an address
    likely: dict[bytes, int] = {}  # those of a file of its name, of which the build is not known
    last = b""
    for number, line in enumerate(lines, 1):
        try:
            if line.rstrip(b":") in (b"Samples", b"Locations", b"Mappings"):
                part = line.rstrip(b":")
            elif part == b"Samples" and (found := _SAMPLE.match(line)):
                values, stack = found.groups()
                if stack not in stacks:
                    profile.room.take(len(stack))
                stacks[stack] = stacks.get(stack, 0) + count_of(values.split()[0])
                profile.good += 1
            elif part == b"Locations" and (found := _LOCATION.match(line)):
                last, address, mapping, rest = found.groups()
                profile.room.take(len(line))
                locations[last] = (hex_of(address), mapping or b"", _name(rest))
            elif part == b"Locations" and last:
                # Further lines of a location are those that its innermost function was inlined into.
                locations[last] = (*locations[last][:2], _name(line.strip()) or locations[last][2])
            elif part == b"Mappings" and (found := _MAPPING.match(line)):
                key, start, _, offset, path, build_id = found.groups()
                known = mappings if build_id else likely
                if functions.is_build(build_id.decode()) if build_id else source.ours(path):
                    profile.room.take(len(key))
                    known[key] = _shift(int(start, 16), int(offset, 16), functions)
        except Malformed:
            profile.malformed(number)
    _add(stacks, locations, (mappings, likely), profile, functions)


def _name(text: bytes) -> bytes:
    found = _FUNCTION.match(text)
    return found.group(1) if found else b""


def _shift(start: int, offset: int, functions: Functions) -> int:
    """Return what makes an address of the process one of the file."""
    for s in functions.image.text_segments:
        if s.p_offset - 4096 < offset < s.p_offset + s.p_filesz:
            return s.p_vaddr - s.p_offset + offset - start
    return -start if start and not functions.image.fixed else 0


def _add(
    stacks: dict[bytes, int],
    locations: dict[bytes, tuple[int, bytes, bytes]],
    mappings: tuple[dict[bytes, int], dict[bytes, int]],
    profile: Profile,
    functions: Functions,
) -> None:
    sure, likely = mappings
    places: dict[bytes, Place | None] = {}
    for key, (address, mapping, name) in locations.items():
        if mapping in sure or (mapping in likely and not name):
            places[key] = functions.at(address + (sure if mapping in sure else likely)[mapping])
        else:
            places[key] = profile.place(name) if name else None
    for stack, count in stacks.items():
        profile.chain([places.get(key) for key in stack.split()], count)
