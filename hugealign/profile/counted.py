"""Counts of a fleet, read as a profile of one program: by address where the build is the same, else by name.

Those of other builds are of the same program if the file has the same name.  A function whose name is gone, as in a
stripped file or after it was renamed, is the one that has the same code without addresses, if there is just one.
"""

from collections import Counter

from hugealign.elf.code import digests
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
    codes = _Codes(source)
    for head, mine in found.items():
        build_id, module = counts.module_of(head)
        same = source.functions.is_build(build_id)
        profile.good += 1
        if same or module.removesuffix(_DEBUG) == name:
            places = profile.builds.setdefault(build_id or "unknown", {})
            _Section(source, profile, same, codes, places).add(mine)
        else:
            profile.foreign += counts.samples(mine)


class _Codes:
    """Finds functions of the program by what they do, where no two do the same."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.known: dict[bytes, int] | None = None

    def index(self, code: bytes) -> int:
        """Return the function with that digest, -1 if there is none, or several."""
        if self.known is None:
            functions = self.source.functions
            self.known = {}
            for index, digest in digests(self.source.binary, functions, range(len(functions))).items():
                self.known[digest] = -1 if digest in self.known else index
        return self.known.get(code, -1)


class _Section:
    """Adds one section, of this very build or not; *places* are the samples of that build alone."""

    def __init__(self, source: Source, profile: Profile, same: bool, codes: _Codes, places: dict[Place, int]) -> None:
        self.functions, self.profile, self.same = source.functions, profile, same
        self.codes, self.places = codes, places
        self.names: dict[int, Place] = {}  # of another build, by address

    def add(self, mine: dict[bytes, int]) -> None:
        """Add all keys: functions first, since they name what calls have by address."""
        profile, flow = self.profile, self.profile.flow
        calls = []
        often = Counter(key[-16:] for key in mine if key.startswith(b"f\t"))  # digests, where there are some
        for key, count in mine.items():
            kind, *words = key.split(b"\t")
            if kind == b"f":
                where, name, file, code = words
                place = self.function(where, name, file, code if often[code] == 1 else b"")
                profile.add(place, count)
                self.places[place] = self.places.get(place, 0) + count
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

    def function(self, where: bytes, name: bytes, file: bytes, code: bytes) -> Place:
        """Return the place of a function: by address in the same build, by name, or by what it does."""
        if self.same and where and (place := self.functions.at(_hex(where))) >= 0:
            return place
        found: Place = self._named(name or b"@" + where, file)
        if code and isinstance(found, tuple) and found[0] not in self.functions.by_name:
            at = self.codes.index(code)
            found = at if at >= 0 else found
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
