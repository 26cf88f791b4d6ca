"""Counts of a fleet, read as a profile of one program: by address where the build is the same, else by name.

Those of other builds are of the same program if the file has the same name.
"""

from hugealign.numbers import hexadecimal
from hugealign.profile import counts
from hugealign.profile.counts import Counts
from hugealign.profile.model import NOWHERE, Place, Profile
from hugealign.profile.source import Source

_DEBUG = b".debug"


def read(source: Source, profile: Profile) -> None:
    """Add a counts file.  Raises ProfileError."""
    add(counts.parse(counts.whole(source.stream)), source, profile)


def add(found: Counts, source: Source, profile: Profile) -> None:
    """Add what was counted."""
    name = counts.text(source.name.decode("utf-8", "surrogateescape")).removesuffix(_DEBUG)
    for head, mine in found.items():
        build_id, module = counts.module_of(head)
        same = source.functions.is_build(build_id)
        profile.good += 1
        if same or module.removesuffix(_DEBUG) == name:
            _Section(source, profile, same).add(mine)
        else:
            profile.foreign += counts.samples(mine)


class _Section:
    """Adds one section, of this very build or not."""

    def __init__(self, source: Source, profile: Profile, same: bool) -> None:
        self.functions, self.profile, self.same = source.functions, profile, same
        self.names: dict[int, Place] = {}  # of another build, by address

    def add(self, mine: dict[bytes, int]) -> None:
        """Add all keys: functions first, since they name what calls have by address."""
        profile, flow = self.profile, self.profile.flow
        calls = []
        for key, count in mine.items():
            kind, *words = key.split(b"\t")
            if kind == b"f":
                profile.add(self.function(*words[:3]), count)
            elif kind == b"c":
                calls.append((words, count))
            elif kind == counts.OUTSIDE:
                profile.add(NOWHERE, count)
            elif kind == counts.FOREIGN:
                profile.foreign += count
            elif flow is not None and self.same and len(kind) == 1:
                first, last = _hex(words[0]), _hex(words[-1])
                if kind == b"r":
                    flow.run(first, last, count)
                elif kind == b"j":
                    flow.jump(first, last, count)
                else:
                    flow.back(first, count)
        for (caller, caller_file, offset, callee, callee_file), count in calls:
            source, target = self.end(caller, caller_file), self.end(callee, callee_file)
            if source != target:
                profile.call(source, target, count, _hex(offset) if offset else None)

    def function(self, where: bytes, name: bytes, file: bytes) -> Place:
        """Return the place of a function."""
        place = NOWHERE
        if self.same and where:
            place = self.functions.at(_hex(where))
            if place >= 0:
                return place
        found = self._named(name or b"@" + where, file)
        if where:
            self.names[_hex(where)] = found
        return found

    def end(self, name: bytes, file: bytes) -> Place:
        """Return the place of one end of a call."""
        if not name.startswith(b"@"):
            return self._named(name, file)
        address = _hex(name[1:])
        if self.same and (place := self.functions.at(address)) >= 0:
            return place
        return self.names.get(address, NOWHERE)

    def _named(self, name: bytes, file: bytes) -> Place:
        plain = counts.name_of(name).encode("utf-8", "surrogateescape")
        return self.profile.place(plain, counts.name_of(file).encode("utf-8", "surrogateescape"))


def _hex(text: bytes) -> int:
    return hexadecimal(text, (1 << 64) - 1)
