"""pprof's profiles: profile.proto, as Go, Parca and Pyroscope write it.

Samples are values, each of a type, and locations, innermost first; locations have functions, and addresses in mappings,
which have build-ids.  Where there are neither build-ids nor names, a mapping of our file's name must do.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hugealign.io.units import printable
from hugealign.profile import stacks as common
from hugealign.profile.model import Malformed, MemoryRoom, Profile, ProfileError, meaningful
from hugealign.profile.protobuf import fields, numbers, scalars, whole
from hugealign.profile.source import ProfileSource
from hugealign.profile.stacks import Location, Mapped

_FRAMES = 1 << 16  # of a stack
_BUILD_ID_LONGEST = 256  # characters
_FIELDS = 15  # no message has a larger number
_TYPE_FIELD, _SAMPLE_FIELD, _MAPPING_FIELD, _LOCATION_FIELD, _FUNCTION_FIELD, _STRING_FIELD = range(1, 7)
_PERIOD_TYPE_FIELD, _PERIOD_FIELD = 11, 12

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
        raise ProfileError("is damaged or truncated") from None


def _proto(data: bytes, source: ProfileSource, profile: Profile) -> None:
    """Read the message *data*.  Raises Malformed, IndexError, ProfileError."""
    take = profile.room.take
    texts, chosen = _texts(data, profile.room)
    names: dict[int, int] = {}  # of functions: the number of the string
    stacks: dict[bytes, int] = {}
    spans: list[tuple[int, int]] = []  # of locations, whose functions can stand behind them
    mappings: dict[bytes, Mapped] = {}
    for number, _, at, end in fields(data, 0, len(data)):
        if number == _SAMPLE_FIELD:
            ids: list[int] = []
            values: list[int] = []
            for part in fields(data, at, end):
                if part[0] in (1, 2):
                    (ids if part[0] == 1 else values).extend(numbers(data, part))
                meaningful(len(ids) <= _FRAMES and len(values) <= _FRAMES)
            count = chosen.count(values)
            stack = b" ".join(b"%d" % location for location in ids)
            if stack not in stacks:
                take(len(stack))
            stacks[stack] = stacks.get(stack, 0) + count
            profile.good += 1
        elif number == _MAPPING_FIELD:
            take()
            key, mapping = _mapped(scalars(data, at, end, _FIELDS), texts)
            mappings[key] = mapping
        elif number == _FUNCTION_FIELD:  # the system's name for it, which is the symbol's
            take()
            some = scalars(data, at, end, _FIELDS)
            names[some.get(1, 0)] = some.get(3, 0) or some.get(2, 0)
        elif number == _LOCATION_FIELD:
            take()
            spans.append((at, end))
    locations = {}
    for span in spans:
        take()
        number, address, mapped_in, function = _location(data, *span)
        locations[b"%d" % number] = Location(address, b"%d" % mapped_in, texts.text(names.get(function, 0)))
    common.add(stacks, locations, mappings, source, profile)


class _Texts:
    """The strings of the message *data*, at *spans*; *room* pays for those that are read, each once."""

    def __init__(self, data: bytes, room: MemoryRoom) -> None:
        self.data, self.room = data, room
        self.spans: list[tuple[int, int]] = []
        self._known: dict[int, bytes] = {}
        self._build_ids: dict[int, str] = {}

    def text(self, number: int) -> bytes:
        """Return the string *number*.  Raises IndexError, ProfileError."""
        known = self._known.get(number)
        if known is None:
            at, end = self.spans[number] if number else (0, 0)
            self.room.take(end - at)
            known = self._known[number] = self.data[at:end]
        return known

    def build_id(self, number: int) -> str:
        """Return the string *number* as a build-id.  Raises IndexError, ProfileError."""
        known = self._build_ids.get(number)
        if known is None:
            known = self._build_ids[number] = _decoded(self.text(number))
        return known


def _decoded(build_id: bytes) -> str:
    return build_id[:_BUILD_ID_LONGEST].decode("ascii", "replace")


def _texts(data: bytes, room: MemoryRoom) -> tuple[_Texts, _Values]:
    """Return the strings, and what counts: both can stand behind the samples.

    Raises Malformed, IndexError, ProfileError.
    """
    texts = _Texts(data, room)
    types: list[tuple[int, int]] = []
    period_type = 0, 0
    period = 1
    for number, value, at, end in fields(data, 0, len(data)):
        if number == _STRING_FIELD:
            room.take()
            texts.spans.append((at, end))
        elif number in (_TYPE_FIELD, _PERIOD_TYPE_FIELD):
            room.take()
            some = scalars(data, at, end, _FIELDS)
            kind = some.get(1, 0), some.get(2, 0)
            if number == _TYPE_FIELD:
                types.append(kind)
            else:
                period_type = kind
        elif number == _PERIOD_FIELD:
            period = value
    kinds = [(texts.text(kind), texts.text(unit)) for kind, unit in (*types, period_type)]
    return texts, _chosen(kinds[:-1], kinds[-1], period)


def mapped(data: bytes) -> Iterator[Mapped]:
    """Yield the mappings.  Raises Malformed, IndexError, ProfileError."""
    texts = _Texts(data, MemoryRoom())
    spans: list[tuple[int, int]] = []
    for number, _, at, end in fields(data, 0, len(data)):
        if number in (_MAPPING_FIELD, _STRING_FIELD):
            texts.room.take()
            (texts.spans if number == _STRING_FIELD else spans).append((at, end))
    for span in spans:
        yield _mapped(scalars(data, *span, _FIELDS), texts)[1]


def _mapped(some: Mapping[int, int], texts: _Texts) -> tuple[bytes, Mapped]:
    """Return the number of a mapping, and the mapping."""
    places = (some.get(field, 0) for field in (2, 3, 4))
    return b"%d" % some.get(1, 0), Mapped(texts.text(some.get(5, 0)), texts.build_id(some.get(6, 0)), *places)


def _location(data: bytes, at: int, end: int) -> tuple[int, int, int, int]:
    """Return the number of a location, and its address, mapping and function."""
    some = {1: 0, 2: 0, 3: 0}
    function = 0
    for number, value, start, stop in fields(data, at, end):
        if number == 4:  # the last line is the function that the others were inlined into
            function = next((line[1] for line in fields(data, start, stop) if line[0] == 1), 0)
        elif number in some:
            some[number] = value
    return some[1], some[3], some[2], function
