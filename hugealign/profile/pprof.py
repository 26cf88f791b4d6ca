"""pprof's profiles: profile.proto (Go, Parca, Pyroscope), the output of ``go tool pprof -raw``, and gperftools' own.

Samples are values, each of a type, and locations, innermost first; locations have functions, and addresses in mappings,
which have build-ids.  gperftools writes no build-ids and no names, so a mapping of our file's name must do; ``go tool
pprof`` reads its format, of words.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from hugealign.profile import stacks as common
from hugealign.profile import tools
from hugealign.profile.lines import lines
from hugealign.profile.model import Malformed, MemoryRoom, Profile, ProfileError, count_of, hex_of, meaningful
from hugealign.profile.protobuf import fields, numbers, scalars, whole
from hugealign.profile.source import ProfileSource
from hugealign.profile.stacks import Location, Mapped
from hugealign.units import printable

_FRAMES = 1 << 16  # of a stack
_FIELDS = 15  # no message has a larger number
_TYPE_FIELD, _SAMPLE_FIELD, _MAPPING_FIELD, _LOCATION_FIELD, _FUNCTION_FIELD, _STRING_FIELD = range(1, 7)
_PERIOD_TYPE_FIELD, _PERIOD_FIELD = 11, 12
_PERIOD = re.compile(rb"(?:PeriodType: (\S+) (\S+)|Period: (\d+))\s*\Z")
_SAMPLE = re.compile(rb"\s+((?:\d+\s+)*\d+):((?: \d+)*)\s*\Z")
_LOCATION = re.compile(rb"\s*(\d+): 0x([0-9a-f]{1,16}) (?:M=(\d+) )?(.*)\Z", re.DOTALL)
_FUNCTION = re.compile(rb"(.*?) \S*:\d+(?::\d+)? s=\d+(?:\(inlined\))?\s*\Z", re.DOTALL)
_MAPPING = re.compile(
    rb"(\d+): 0x([0-9a-f]{1,16})/0x([0-9a-f]{1,16})/0x([0-9a-f]{1,16}) (.*?) ([0-9a-f]*) (?:\[.*\])?\Z"
)

#: Words in the names of types that do not say what ran: memory, waiting, what merely exists.  Any other type is taken
#: for time or events of the processor.
_NOT_RUN = frozenset(
    b"alloc allocations allocs block contention contentions delay exception exceptions goroutine goroutines heap inuse "
    b"live lock mutex object objects off offcpu space threadcreate".split()
)
_TYPE_SHOWN = 40  # characters

_Type = tuple[bytes, bytes]  # what is counted, and its unit


class _Values(NamedTuple):
    """Which of a sample's values counts: its *place* among them, and the *period* that one sample stands for."""

    place: int = 0
    period: int = 1

    def count(self, values: Sequence[int]) -> int:
        """Return how often a sample was seen.  Raises Malformed."""
        meaningful(len(values) > self.place)
        value = values[self.place]
        meaningful(value < 1 << 63)
        return max(1, (value + self.period // 2) // self.period) if value and self.period > 1 else value


def _chosen(types: Sequence[_Type], period_type: _Type, period: int) -> _Values:
    """Return what counts of values of these *types*: samples if they are counted, else time, in periods.

    Raises ProfileError if none says what ran.
    """
    ran = [at for at, (kind, unit) in enumerate(types) if unit != b"bytes" and not _words(kind) & _NOT_RUN]
    if types and not ran:
        names = ", ".join(printable(kind[:_TYPE_SHOWN].decode("utf-8", "replace")) for kind, _ in types[:3])
        raise ProfileError(f"does not say what ran, but: {names}; record the processor's time")
    place = next((at for at in ran if types[at][1] == b"count"), ran[0] if ran else 0)
    return _Values(place, period if types and types[place] == period_type and types[place][1] != b"count" else 1)


def _words(kind: bytes) -> set[bytes]:
    return set(re.split(rb"[^a-z]+", kind[: 2 * _TYPE_SHOWN].lower()))


def read_proto(source: ProfileSource, profile: Profile) -> None:
    """Add a profile.proto (github.com/google/pprof/blob/main/proto/profile.proto).  Raises ProfileError."""
    data = whole(source.stream)
    try:
        _proto(data, source, profile)
    except (Malformed, IndexError):
        raise ProfileError("is damaged or cut short") from None


def _proto(data: bytes, source: ProfileSource, profile: Profile) -> None:
    """Read the message *data*.  Raises Malformed, IndexError, ProfileError."""
    take = profile.room.take
    text, chosen = _texts(data, take)
    names: dict[int, int] = {}  # of functions: the number of the string
    stacks: dict[bytes, int] = {}
    found: dict[int, tuple[int, int, int]] = {}  # locations: address, mapping, function
    raw: list[dict[int, int]] = []
    for field in fields(data, 0, len(data)):
        number, _, at, end = field
        if number == _SAMPLE_FIELD:
            ids: list[int] = []
            values: list[int] = []
            for part in fields(data, at, end):
                if part[0] in (1, 2):
                    (ids if part[0] == 1 else values).extend(numbers(data, part))
                meaningful(len(ids) <= _FRAMES and len(values) <= _FRAMES)
            count = chosen.count(values)
            stack = b" ".join(b"%d" % one for one in ids)
            if stack not in stacks:
                take(len(stack))
            stacks[stack] = stacks.get(stack, 0) + count
            profile.good += 1
        elif number in (_MAPPING_FIELD, _FUNCTION_FIELD):
            take()
            some = scalars(data, at, end, _FIELDS)
            if number == _MAPPING_FIELD:
                raw.append(some)
            else:  # the system's name for it, which is the symbol's
                names[some.get(1, 0)] = some.get(3, 0) or some.get(2, 0)
        elif number == _LOCATION_FIELD:
            take()
            key, location = _location(data, at, end)
            found[key] = location

    mappings = {b"%d" % some.get(1, 0): _mapped(some, text) for some in raw}
    locations = {
        b"%d" % key: Location(address, b"%d" % mapping, text(names.get(function, 0)))
        for key, (address, mapping, function) in found.items()
    }
    common.add(stacks, locations, mappings, source, profile)


def _texts(data: bytes, take: Callable[[], None]) -> tuple[Callable[[int], bytes], _Values]:
    """Return the function from numbers to strings, and what counts: both can stand behind the samples.

    Raises Malformed, IndexError, ProfileError.
    """
    strings: list[tuple[int, int]] = []
    types: list[dict[int, int]] = []
    period_type: dict[int, int] = {}
    period = 1
    for number, value, at, end in fields(data, 0, len(data)):
        if number == _STRING_FIELD:
            take()
            strings.append((at, end))
        elif number == _TYPE_FIELD:
            take()
            types.append(scalars(data, at, end, _FIELDS))
        elif number == _PERIOD_TYPE_FIELD:
            period_type = scalars(data, at, end, _FIELDS)
        elif number == _PERIOD_FIELD:
            period = value
    text = partial(_text, data, strings)
    kinds = [(text(some.get(1, 0)), text(some.get(2, 0))) for some in (*types, period_type)]
    return text, _chosen(kinds[:-1], kinds[-1], period)


def mapped(data: bytes) -> Iterator[Mapped]:
    """Yield the mappings.  Raises Malformed, IndexError, ProfileError."""
    room = MemoryRoom()
    strings: list[tuple[int, int]] = []
    raw: list[dict[int, int]] = []
    for number, _, at, end in fields(data, 0, len(data)):
        if number in (_MAPPING_FIELD, _STRING_FIELD):
            room.take()
            if number == _STRING_FIELD:
                strings.append((at, end))
            else:
                raw.append(scalars(data, at, end, _FIELDS))
    for some in raw:
        yield _mapped(some, partial(_text, data, strings))


def _text(data: bytes, strings: Sequence[tuple[int, int]], number: int) -> bytes:
    at, end = strings[number] if number else (0, 0)
    return data[at:end]


def _mapped(some: Mapping[int, int], text: Callable[[int], bytes]) -> Mapped:
    numbers = (some.get(field, 0) for field in (2, 3, 4))
    return Mapped(text(some.get(5, 0)), _build_id(text(some.get(6, 0))), *numbers)


def _build_id(text: bytes) -> str:
    return text.decode("ascii", "replace")


def _location(data: bytes, at: int, end: int) -> tuple[int, tuple[int, int, int]]:
    """Return the number of a location, and its address, mapping and function."""
    some = {1: 0, 2: 0, 3: 0}
    function = 0
    for number, value, start, stop in fields(data, at, end):
        if number == 4:  # the last line is the function that the others were inlined into
            function = next((line[1] for line in fields(data, start, stop) if line[0] == 1), 0)
        elif number in some:
            some[number] = value
    return some[1], (some[3], some[2], function)


def read_data(source: ProfileSource, profile: Profile) -> None:
    """Add gperftools' profile.  Raises ProfileError."""
    try:
        go = tools.find("go", package="golang-go")
    except ProfileError:
        raise ProfileError("needs `go tool pprof`, and go is not installed (Debian: apt install golang-go)") from None
    with tools.output([go, "tool", "pprof", "-raw", "-symbolize=none", source.path]) as stream:
        _read(lines(stream), source, profile)


def read(source: ProfileSource, profile: Profile) -> None:
    """Add pprof's output."""
    _read(source.short_lines(), source, profile)


def _read(lines: Iterable[bytes], source: ProfileSource, profile: Profile) -> None:
    part = b""
    types: list[_Type] = []
    period_type, period = (b"", b""), 1
    chosen = _Values()
    stacks: dict[bytes, int] = {}
    locations: dict[bytes, Location] = {}
    mappings: dict[bytes, Mapped] = {}
    last = b""
    for number, line in enumerate(lines, 1):
        try:
            if line.rstrip(b":") in (b"Samples", b"Locations", b"Mappings"):
                part = line.rstrip(b":")
            elif not part and (found := _PERIOD.match(line)):
                kind, unit, number_of = found.groups()
                period_type, period = ((kind, unit), period) if kind else (period_type, count_of(number_of))
            elif part == b"Samples" and not types:
                words = line.replace(b"[dflt]", b"").split()
                types = [(kind, unit) for kind, _, unit in (word.rpartition(b"/") for word in words)]
                chosen = _chosen(types, period_type, period)
            elif part == b"Samples" and (found := _SAMPLE.match(line)):
                values, stack = found.groups()
                if stack not in stacks:
                    profile.room.take(len(stack))
                stacks[stack] = stacks.get(stack, 0) + chosen.count([*map(count_of, values.split())])
                profile.good += 1
            elif part == b"Locations" and (found := _LOCATION.match(line)):
                last, address, mapping, rest = found.groups()
                profile.room.take(len(line))
                locations[last] = Location(hex_of(address), mapping or b"", _name(rest))
            elif part == b"Locations" and last:
                # Further lines of a location are functions that its innermost one was inlined into.
                known = locations[last]
                locations[last] = known._replace(name=_name(line.strip()) or known.name)
            elif part == b"Mappings" and (found := _MAPPING.match(line)):
                key, start, limit, offset, path, build_id = found.groups()
                profile.room.take(len(line))
                mappings[key] = Mapped(path, _build_id(build_id), *map(hex_of, (start, limit, offset)))
        except Malformed:
            profile.malformed(number)
    common.add(stacks, locations, mappings, source, profile)


def _name(text: bytes) -> bytes:
    found = _FUNCTION.match(text)
    return found.group(1) if found else b""
