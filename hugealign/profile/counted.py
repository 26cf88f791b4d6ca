"""Counts of a fleet, read as a profile of one program: by address for the same build, else by name.

Counts of another build belong to the program if the file has the same name.  A function whose name is gone, because the
file was stripped or the function renamed, is identified by its code without addresses, if only one function has the
same; otherwise by its neighbours and callers, with a measure of trust.
"""

from collections import Counter
from collections.abc import Iterable

from hugealign.code.calls import Calls
from hugealign.code.digests import digests
from hugealign.io.numbers import hexadecimal
from hugealign.profile import counts, neighbours
from hugealign.profile.match import without_suffixes
from hugealign.profile.model import NOWHERE, Place, Profile
from hugealign.profile.neighbours import Guess, Lost
from hugealign.profile.source import ProfileSource

_DEBUG = b".debug"


def read(source: ProfileSource, profile: Profile) -> None:
    """Add a counts file.  Raises ProfileError."""
    name = counts.text(source.name.decode("utf-8", "surrogateescape"))
    ours = _Ours(source)
    for head, lines in counts.sections(counts.whole(source.stream)):
        build_id, module = counts.module_of(head)
        same = source.functions.is_build(build_id)
        profile.good += 1
        if same or module.removesuffix(_DEBUG) == name:
            _Section(ours, profile, same, build_id or "unknown").add(counts.section(lines, profile.room))
        else:
            profile.foreign += counts.samples(lines)


class _Ours:
    """The functions of the program: by their code, where it is unique, by name, and with the calls among them."""

    def __init__(self, source: ProfileSource) -> None:
        self.functions = source.functions
        self.calls = Calls(source.binary, source.functions)
        self._binary = source.binary
        self._known: dict[bytes, int] | None = None

    def of_code(self, code: bytes) -> int:
        """Return the function whose code has this digest, -1 if none has, or several have."""
        if self._known is None:
            functions = self.functions
            self._known = {}
            for index, digest in digests(self._binary, functions, range(len(functions))).items():
                self._known[digest] = -1 if digest in self._known else index
        return self._known.get(code, -1)

    def named(self, name: str) -> int:
        """Return the function of this name, -1 if there is none, or several."""
        indices = self.functions.by_name.get(name, ())
        return indices[0] if len(indices) == 1 else -1


class _Section:
    """Adds one section, of the *same* build as the program or of another."""

    def __init__(self, ours: _Ours, profile: Profile, same: bool, build: str) -> None:
        self.ours, self.profile, self.same, self.build = ours, profile, same, build
        self.functions = ours.functions
        self.names: dict[int, Place] = {}  # of another build, by address
        self.lost: dict[int, Lost] = {}

    def add(self, mine: dict[bytes, int]) -> None:
        """Add all keys: functions first, since calls refer to them by address."""
        profile, flow = self.profile, self.profile.flow
        seen: list[tuple[Place, int, int]] = []  # the place, the address in another build or -1, the samples
        calls = []
        often = Counter(key[-16:] for key in mine if key.startswith(b"f\t"))  # digests, where there are some
        for key, count in mine.items():
            kind, *words = key.split(b"\t")
            if kind == b"f":
                where, name, file, code = words
                place = self.function(where, name, file, code if often[code] == 1 else b"")
                seen.append((place, _hex(where) if where and not self.same else -1, count))
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
        guesses = self.guesses([words for words, _ in calls]) if self.lost else {}
        places = profile.builds.setdefault(self.build, {})
        for place, address, count in seen:
            guess = guesses.get(address)
            known = place if guess is None else guess.index
            profile.add(known, count)
            places[known] = places.get(known, 0) + count
            if guess is not None:
                samples, trust = profile.guessed.get(self.build, (0, 0.0))
                profile.guessed[self.build] = samples + count, trust + guess.trust * count
        for (caller, caller_file, offset, callee, callee_file), count in calls:
            source, target = self.end(caller, caller_file), self.end(callee, callee_file)
            if source != target:
                profile.call(source, target, count, _hex(offset) if offset else None)

    def function(self, where: bytes, name: bytes, file: bytes, code: bytes) -> Place:
        """Return the place of a function: by address in the same build, by name, or by its code."""
        if self.same and where and (place := self.functions.at(_hex(where))) >= 0:
            return place
        identity: Place = self._named(name or b"@" + where, file)
        gone = isinstance(identity, tuple) and identity[0] not in self.functions.by_name
        if gone and code and (at := self.ours.of_code(code)) >= 0:
            identity, gone = at, False
        if where and not self.same:
            address = _hex(where)
            self.names[address] = identity
            if gone and isinstance(identity, tuple) and without_suffixes(identity[0]) not in self.functions.by_name:
                self.lost[address] = Lost(address, identity[1])
        return identity

    def guesses(self, calls: Iterable[list[bytes]]) -> dict[int, Guess]:
        """Return what functions without names probably are, by address, and note it for the ends of calls."""
        anchors = {at: index for at, place in self.names.items() if (index := self.index(place)) >= 0}
        for caller, _, _, callee, _ in calls:
            if caller.startswith(b"@") and callee.startswith(b"@"):
                source, target = _hex(caller[1:]), _hex(callee[1:])
                if source in self.lost and target in anchors:
                    self.lost[source].callees.add(anchors[target])
                elif target in self.lost and source in anchors:
                    self.lost[target].callers.add(anchors[source])
        guesses = neighbours.guesses(anchors, self.lost.values(), self.functions, self.ours.calls)
        self.names |= {address: guess.index for address, guess in guesses.items()}
        return guesses

    def index(self, place: Place) -> int:
        """Return the one function that *place* is, -1 if there is none."""
        return place if isinstance(place, int) else self.ours.named(place[0])

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
