"""OpenTelemetry's profiles: ``opentelemetry/proto/profiles/v1development/profiles.proto``, of opentelemetry-proto 1.10.

Messages of the protocol (ExportProfilesServiceRequest) and stored ones (ProfilesData) have the same fields.  The
collector's file exporter writes several, each after its length in four bytes, big-endian.  Samples refer to entries in
the tables of a dictionary by number; the first entry of each table stands for none.

A host's profiler has the samples of all programs in one message, so names in other files do not count.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hugealign.profile import stacks as common
from hugealign.profile.model import Malformed, Profile, ProfileError, meaningful
from hugealign.profile.protobuf import fields, numbers, scalars, varint, whole
from hugealign.profile.source import ProfileSource
from hugealign.profile.stacks import Location, Mapped
from hugealign.units import printable

_LENGTH = 4  # bytes before each of several messages
_FRAMES = 1 << 16  # of a stack
_BINARY = re.compile(rb"[\0-\x08\x0e-\x1f]")
_NANOSECONDS = b"nanoseconds"
_BUILD_ID = b"process.executable.build_id.gnu"
#: The types of profiles that say what ran, best first: a scope may have one recording as several types.
_RAN = (b"samples", b"cpu", b"on_cpu", b"wall", b"")

_Span = tuple[int, int]  # where bytes begin and end


@dataclass(slots=True)
class _Dictionary:
    """The tables of a message in *data*."""

    data: bytes = b""
    raw_mappings: list[tuple[dict[int, int], list[int]]] = field(default_factory=list)  # fields, attributes
    locations: list[tuple[int, int, int]] = field(default_factory=list)  # mapping, address, function
    names: list[int] = field(default_factory=list)  # of functions: the number of the string
    strings: list[_Span] = field(default_factory=list)
    attributes: list[tuple[int, int, _Span]] = field(default_factory=list)  # key; value: number of a string, or bytes
    stacks: list[list[int]] = field(default_factory=list)

    def text(self, number: int) -> bytes:
        """Return the string *number*.  Raises IndexError."""
        begin, end = self.strings[number] if number else (0, 0)
        return self.data[begin:end]

    def mappings(self) -> dict[bytes, Mapped]:
        """Return the mappings, by number.  Raises IndexError."""
        build_ids = {
            number: self.text(index) if index else self.data[begin:end]
            for number, (key, index, (begin, end)) in enumerate(self.attributes)
            if self.text(key) == _BUILD_ID
        }
        found = {}
        for number, (some, attributes) in enumerate(self.raw_mappings):
            build_id = next((build_ids[one] for one in attributes if one in build_ids), b"")
            places = (some.get(one, 0) for one in (1, 2, 3))
            path = self.text(some.get(4, 0))
            if number:
                found[b"%d" % number] = Mapped(path, build_id.decode("ascii", "replace"), *places)
        return found


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
        raise ProfileError("is damaged or cut short") from None


def mapped(data: bytes) -> Iterator[Mapped]:
    """Yield the mappings in all messages of *data*.  Raises Malformed, IndexError."""
    for span in _messages(data):
        for tables in _inside(data, span, 2):
            yield from _dictionary(data, tables, Profile()).mappings().values()


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
    for found, _, at, end in fields(data, *span):
        if found == number:
            yield at, end


def _add(data: bytes, span: _Span, source: ProfileSource, profile: Profile) -> None:
    """Add one message.  Raises Malformed, IndexError, ProfileError."""
    known = _Dictionary()
    for tables in _inside(data, span, 2):
        known = _dictionary(data, tables, profile)
    seen: Counter[int] = Counter()
    for resource in _inside(data, span, 1):
        for scope in _inside(data, resource, 2):
            for one, nanoseconds in _chosen(known, [*_inside(data, scope, 2)], profile):
                _samples(data, one, nanoseconds, seen, profile)
    mappings = known.mappings()
    ours = {key for key, one in mappings.items() if _may_be_ours(one, source)}
    locations = {
        b"%d" % number: Location(address, b"%d" % mapping, known.text(known.names[function]) if function else b"")
        for number, (mapping, address, function) in enumerate(known.locations)
        if b"%d" % mapping in ours or not mappings
    }
    stacks: Counter[bytes] = Counter()
    for stack, count in seen.items():
        frames = b" ".join(b"%d" % one for one in known.stacks[stack])
        profile.room.take(len(frames))
        stacks[frames] += count
    common.add(stacks, locations, mappings, source, profile)


def _may_be_ours(one: Mapped, source: ProfileSource) -> bool:
    return source.functions.is_build(one.build_id) or source.ours(one.path) or not (one.path or one.build_id)


def _chosen(known: _Dictionary, profiles: Sequence[_Span], profile: Profile) -> Iterator[tuple[_Span, int]]:
    """Yield a scope's *profiles* that say what ran, each with the nanoseconds per sample if it counts those."""
    found = []
    for span in profiles:
        kind = unit = 0
        for one in _inside(known.data, span, 1):
            some = scalars(known.data, *one, most=2)
            kind, unit = some.get(1, 0), some.get(2, 0)
        period = scalars(known.data, *span, most=6).get(6, 0) if known.text(unit) == _NANOSECONDS else 0
        found.append((known.text(kind), span, period))
    best = next((kind for kind in _RAN if any(kind == one[0] for one in found)), None)
    for text, span, nanoseconds in found:
        if text == best:
            yield span, nanoseconds
        elif text not in _RAN:
            name = printable(text[:40].decode("utf-8", "replace"))
            note = f"what is of the type {name} does not say what ran: left out"
            if note not in profile.notes:
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


def _dictionary(data: bytes, span: _Span, profile: Profile) -> _Dictionary:
    """Return the tables of a message.  Raises Malformed, ProfileError."""
    known = _Dictionary(data)
    for number, _, at, end in fields(data, *span):
        profile.room.take()
        message = at, end
        if number == 1:
            known.raw_mappings.append((scalars(data, *message, most=4), _repeated(data, message, 5)))
        elif number == 2:
            known.locations.append(_location(data, message))
        elif number == 3:  # the system's name for it, which is the symbol's
            some = scalars(data, *message, most=2)
            known.names.append(some.get(2, 0) or some.get(1, 0))
        elif number == 5:
            known.strings.append(message)
        elif number == 6:
            known.attributes.append(_attribute(data, message))
        elif number == 7:
            known.stacks.append(_repeated(data, message, 1))
            profile.room.take(8 * len(known.stacks[-1]))
    return known


def _repeated(data: bytes, span: _Span, wanted: int) -> list[int]:
    found: list[int] = []
    for one in fields(data, *span):
        if one[0] == wanted:
            found += numbers(data, one)
            meaningful(len(found) <= _FRAMES)
    return found


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
