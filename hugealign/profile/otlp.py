"""OpenTelemetry's profiles: ``opentelemetry/proto/profiles/v1development/profiles.proto``, of opentelemetry-proto 1.10.

Messages of the protocol (ExportProfilesServiceRequest) and stored ones (ProfilesData) have the same fields.  The
collector's file exporter writes several, each after its length in four bytes, big-endian.  Samples refer to entries in
the tables of a dictionary by number; the first entry of each table stands for none.

A host's profiler has the samples of all programs in one message, so names in other files do not count.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hugealign.io.units import printable
from hugealign.profile import stacks as common
from hugealign.profile.model import Malformed, MemoryRoom, Profile, ProfileError, meaningful
from hugealign.profile.protobuf import fields, numbers, scalars, varint, whole
from hugealign.profile.source import ProfileSource
from hugealign.profile.stacks import Location, Mapped

_LENGTH = 4  # bytes before each of several messages
_FRAMES = 1 << 16  # of a stack
_BUILD_ID_LONGEST = 256  # characters
_NOTES = 10
_BINARY = re.compile(rb"[\0-\x08\x0e-\x1f]")
_NANOSECONDS = b"nanoseconds"
_BUILD_ID = b"process.executable.build_id.gnu"
#: The types of profiles that say what ran, best first: a scope may have one recording as several types.
_RAN = (b"samples", b"cpu", b"on_cpu", b"wall", b"")

_Span = tuple[int, int]  # where bytes begin and end


@dataclass(slots=True)
class _Dictionary:
    """The tables of a message in *data*, as the spans of their entries: each is read when something refers to it.

    *room* pays for what is kept.
    """

    data: bytes
    room: MemoryRoom
    mappings: list[_Span] = field(default_factory=list)
    locations: list[_Span] = field(default_factory=list)
    functions: list[_Span] = field(default_factory=list)
    strings: list[_Span] = field(default_factory=list)
    attributes: list[_Span] = field(default_factory=list)
    stacks: list[_Span] = field(default_factory=list)
    _texts: dict[int, bytes] = field(default_factory=dict)

    def text(self, number: int) -> bytes:
        """Return the string *number*.  Raises IndexError, ProfileError."""
        known = self._texts.get(number)
        if known is None:
            begin, end = self.strings[number] if number else (0, 0)
            self.room.take(end - begin)
            known = self._texts[number] = self.data[begin:end]
        return known

    def name(self, number: int) -> bytes:
        """Return the name of the function *number*: the system's, which is the symbol's, if there is one."""
        some = scalars(self.data, *self.functions[number], most=2) if number else {}
        return self.text(some.get(2, 0) or some.get(1, 0))

    def stack(self, number: int) -> bytes:
        """Return the numbers of the locations of a stack, as words.  Raises Malformed, IndexError."""
        return b" ".join(b"%d" % location for location in self._repeated(self.stacks[number], 1))

    def mapped(self) -> Iterator[tuple[int, Mapped]]:
        """Yield the mappings, with their numbers.  Raises Malformed, IndexError, ProfileError."""
        build_ids = dict(self._build_ids())
        for number, span in enumerate(self.mappings):
            some = scalars(self.data, *span, most=4)
            attributes = self._repeated(span, 5) if build_ids else ()
            build_id = next((build_ids[index] for index in attributes if index in build_ids), "")
            if number:
                yield number, Mapped(self.text(some.get(4, 0)), build_id, *(some.get(index, 0) for index in (1, 2, 3)))

    def _build_ids(self) -> Iterator[tuple[int, str]]:
        """Yield the attributes that are build-ids, by number."""
        for number, span in enumerate(self.attributes):
            key, index, (begin, end) = _attribute(self.data, span)
            if self.text(key) == _BUILD_ID:
                self.room.take(end - begin)
                value = self.text(index) if index else self.data[begin:end]
                yield number, value[:_BUILD_ID_LONGEST].decode("ascii", "replace")

    def _repeated(self, span: _Span, wanted: int) -> list[int]:
        values: list[int] = []
        for entry in fields(self.data, *span):
            if entry[0] == wanted:
                values += numbers(self.data, entry)
                meaningful(len(values) <= _FRAMES)
        return values


def looks_like(head: bytes) -> bool:
    """Whether *head* begins like OpenTelemetry's profiles, perhaps after a length."""
    return _begins(head) or (int.from_bytes(head[:_LENGTH]) > 1 and _begins(head[_LENGTH:]))


def _begins(head: bytes) -> bool:
    """Whether *head* begins with a resource's profiles or a dictionary that begins with one of its own fields.

    Go writes the fields of a message in reverse order.  No text has such bytes.
    """
    known = {0x0A: (0x0A, 0x12, 0x1A), 0x12: range(0x0A, 0x3B, 8)}.get(head[0]) if head else None
    if known is None or not _BINARY.search(head):
        return False
    try:
        size, at = varint(head, 1, len(head))
        inside, first = varint(head, at + 1, len(head))
    except Malformed:
        return False
    return size > 1 and head[at] in known and first + inside <= at + size


def read(source: ProfileSource, profile: Profile) -> None:
    """Add a profiler's export.  Raises ProfileError."""
    data = whole(source.stream)
    try:
        for span in _messages(data):
            _add(data, span, source, profile)
    except (Malformed, IndexError):
        raise ProfileError("is damaged or truncated") from None


def mapped(data: bytes) -> Iterator[Mapped]:
    """Yield the mappings in all messages of *data*.  Raises Malformed, IndexError, ProfileError."""
    room = MemoryRoom()
    for span in _messages(data):
        for tables in _inside(data, span, 2):
            yield from (mapping for _, mapping in _dictionary(data, tables, room).mapped())


def _messages(data: bytes) -> Iterator[_Span]:
    """Yield the span of each message.  Raises Malformed."""
    if _begins(data):
        yield 0, len(data)
        return
    at = 0
    while at < len(data):
        start = at + _LENGTH
        at = start + int.from_bytes(data[at:start])
        meaningful(start < at <= len(data))
        yield start, at


def _inside(data: bytes, span: _Span, number: int) -> Iterator[_Span]:
    """Yield the spans of the messages in the field *number* of the message at *span*."""
    for field_number, _, at, end in fields(data, *span):
        if field_number == number:
            yield at, end


def _add(data: bytes, span: _Span, source: ProfileSource, profile: Profile) -> None:
    """Add one message.  Raises Malformed, IndexError, ProfileError."""
    known = _Dictionary(data, profile.room)
    for tables in _inside(data, span, 2):
        known = _dictionary(data, tables, profile.room)
    seen: Counter[int] = Counter()
    for resource in _inside(data, span, 1):
        for scope in _inside(data, resource, 2):
            for profile_span, nanoseconds in _chosen(known, _inside(data, scope, 2), profile):
                _samples(data, profile_span, nanoseconds, seen, profile)
    mappings = {}
    for number, mapped_file in known.mapped():
        profile.room.take()
        mappings[b"%d" % number] = mapped_file
    ours = {key for key, file in mappings.items() if _may_be_ours(file, source)}
    locations = {}
    for number, place in enumerate(known.locations):
        mapping, address, function = _location(data, place)
        key = b"%d" % mapping
        if key in ours or not mappings:
            profile.room.take()
            locations[b"%d" % number] = Location(address, key, known.name(function))
    stacks: Counter[bytes] = Counter()
    for stack, count in seen.items():
        frames = known.stack(stack)
        profile.room.take(len(frames))
        stacks[frames] += count
    common.add(stacks, locations, mappings, source, profile)


def _may_be_ours(mapping: Mapped, source: ProfileSource) -> bool:
    return (
        source.functions.is_build(mapping.build_id)
        or source.ours(mapping.path)
        or not (mapping.path or mapping.build_id)
    )


def _chosen(known: _Dictionary, profiles: Iterable[_Span], profile: Profile) -> Iterator[tuple[_Span, int]]:
    """Yield a scope's *profiles* that say what ran, each with the nanoseconds per sample if it counts those."""
    candidates = []
    for span in profiles:
        profile.room.take()
        kind = unit = 0
        for type_span in _inside(known.data, span, 1):
            some = scalars(known.data, *type_span, most=2)
            kind, unit = some.get(1, 0), some.get(2, 0)
        period = scalars(known.data, *span, most=6).get(6, 0) if known.text(unit) == _NANOSECONDS else 0
        candidates.append((known.text(kind), span, period))
    best = next((kind for kind in _RAN if any(kind == candidate[0] for candidate in candidates)), None)
    for text, span, nanoseconds in candidates:
        if text == best:
            yield span, nanoseconds
        elif text not in _RAN:
            name = printable(text[:40].decode("utf-8", "replace"))
            note = f"what is of the type {name} does not say what ran: left out"
            if len(profile.notes) < _NOTES and note not in profile.notes:
                profile.notes.append(note)


def _samples(data: bytes, span: _Span, nanoseconds: int, seen: Counter[int], profile: Profile) -> None:
    """Count the samples of a profile by their stacks."""
    for sample in _inside(data, span, 2):
        stack = times = 0
        values: list[int] = []
        for part in fields(data, *sample):
            number, value, at, end = part
            if number == 1:
                stack = value
            elif number == 4:
                values += numbers(data, part)
                meaningful(len(values) <= _FRAMES)
            elif number == 5:
                times += (end - at) // 8
        count = sum(values) if values else times
        if nanoseconds > 1 and values:
            count = max(1, (count + nanoseconds // 2) // nanoseconds)
        meaningful(count < 1 << 63)
        if stack not in seen:
            profile.room.take()
        seen[stack] += count
        profile.good += 1


def _dictionary(data: bytes, span: _Span, room: MemoryRoom) -> _Dictionary:
    """Return the tables of a message.  Raises Malformed, ProfileError."""
    known = _Dictionary(data, room)
    tables = {
        1: known.mappings, 2: known.locations, 3: known.functions, 5: known.strings, 6: known.attributes,
        7: known.stacks,
    }  # fmt: skip
    for number, _, at, end in fields(data, *span):
        if number in tables:
            room.take()
            tables[number].append((at, end))
    return known


def _location(data: bytes, span: _Span) -> tuple[int, int, int]:
    some = scalars(data, *span, most=2)
    function = 0
    for line in _inside(data, span, 3):  # the last is the function that the others were inlined into
        function = scalars(data, *line, most=1).get(1, 0)
    return some.get(1, 0), some.get(2, 0), function


def _attribute(data: bytes, span: _Span) -> tuple[int, int, _Span]:
    """Return the number of the key, and the value: the number of a string, or the span of one."""
    key, index, value = 0, 0, (0, 0)
    for number, short, at, end in fields(data, *span):
        if number == 1:
            key = short
        elif number == 2:
            for kind, short_value, begin, stop in fields(data, at, end):
                if kind == 8:
                    index = short_value
                elif kind == 1:
                    value = begin, stop
    return key, index, value
