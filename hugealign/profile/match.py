"""Finding a profile's functions in a binary."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hugealign.elf.symbols import Functions
from hugealign.profile.model import Place, Profile
from hugealign.records import Record

#: What compilers append, after a dot and before numbers, to the name of a clone or a part; these differ between builds.
_CLONES = frozenset("constprop isra part cold lto_priv llvm localalias clone specialized __uniq __part".split())
_UNMATCHED_SHOWN = 5
_NUMBER_DIGITS = 9


class Build(Record):
    """The samples of a build."""

    build_id: str
    total: int
    hits: int
    """How many are in a function."""
    guessed: int
    """How many of the hits are by neighbours and callers (`neighbours`)."""
    trust: float
    """Their mean, 0 to 1."""

    JSON = "build_id total matched=hits guessed trust"


class Named(Record):
    """A function and its samples."""

    name: str
    samples: int

    JSON = "name samples"


@dataclass(slots=True)
class Matched:
    """A profile in terms of a binary's functions, which are named by their indices."""

    samples: dict[int, int] = field(default_factory=dict)
    """Those of every touched function."""
    arcs: dict[tuple[int, int, int | None], int] = field(default_factory=dict)
    total: int = 0
    hits: int = 0
    """How many of the total are in a function."""
    foreign: int = 0
    """Samples in other files, which are not in the total."""
    nameless: int = 0
    """How many of the hits are in functions without a name, which no linker places and *samples* lacks."""
    missing: list[tuple[str, int]] = field(default_factory=list)
    """The names with the most samples that were not found, at most five."""
    complete: bool = False
    """Whether nothing else ran: it is a full record, not samples."""
    builds: list[Build] = field(default_factory=list)
    """Of counts of a fleet, those of each build, most first; `unknown` without a build-id."""

    @property
    def not_found(self) -> tuple[Named, ...]:
        """The names with the most samples that were not found, at most five."""
        return tuple(Named(*pair) for pair in self.missing)

    @property
    def rate(self) -> float:
        """The share of samples that are in a function, 0 to 1."""
        return self.hits / self.total if self.total else 0.0


def placeable(matched: Matched, functions: Functions) -> Matched:
    """Return *matched* without the functions that have no name, whose samples become *nameless*."""
    names = functions.names
    samples = {index: count for index, count in matched.samples.items() if names[index]}
    if len(samples) == len(matched.samples):
        return matched
    arcs = {arc: count for arc, count in matched.arcs.items() if names[arc[0]] and names[arc[1]]}
    nameless = sum(matched.samples.values()) - sum(samples.values())
    return replace(matched, samples=samples, arcs=arcs, nameless=matched.nameless + nameless)


def match(profile: Profile, functions: Functions) -> Matched:
    """Find the functions of *profile* among *functions*."""
    matched = Matched(foreign=profile.foreign)
    names = Names(functions)
    missing: Counter[str] = Counter()
    samples = matched.samples
    for place, count in profile.samples.items():
        index = names.index(place)
        if index < 0:
            missing["(no function)" if isinstance(place, int) else place[0]] += count
        else:
            samples[index] = samples.get(index, 0) + count
    matched.total = sum(profile.samples.values())
    matched.hits = matched.total - missing.total()
    for (caller, callee, offset), count in profile.arcs.items():
        source, target = names.index(caller), names.index(callee)
        if 0 <= source != target >= 0:
            inside = offset if offset is not None and offset < functions.sizes[source] else None
            key = (source, target, inside)
            matched.arcs[key] = matched.arcs.get(key, 0) + count
    for build, places in profile.builds.items():
        of_build = sum(count for place, count in places.items() if names.index(place) >= 0)
        guessed, trust = profile.guessed.get(build, (0, 0.0))
        matched.builds.append(
            Build(build, sum(places.values()), of_build, guessed, trust / guessed if guessed else 0.0)
        )
    matched.builds.sort(key=lambda build: (-build.total, build.build_id))
    matched.missing = missing.most_common(_UNMATCHED_SHOWN)
    return matched


def indices(places: Iterable[Place], functions: Functions) -> list[int]:
    """Return the index of each of *places* among *functions*, -1 for one that is not there."""
    return [*map(Names(functions).index, places)]


class Names:
    """Finds functions by name: exact, then as BOLT numbers locals, then without the suffixes of clones."""

    def __init__(self, functions: Functions) -> None:
        self.functions = functions
        self.stripped: dict[str, list[int]] | None = None
        self.hashes: dict[str, str] | None = None
        self.known: dict[Place, int] = {}  # of names that do not belong to exactly one function
        self.by_file: dict[int, dict[str, list[int]]] = {}  # by the identity of a list, which lives as long
        self.numbered: dict[int, list[int]] = {}  # likewise

    def index(self, place: Place) -> int:
        """Return the index of the function, -1 if there is none."""
        if isinstance(place, int):
            return place
        of_name = self.functions.by_name.get(place[0])
        if of_name is not None and len(of_name) == 1:
            return of_name[0]
        index = self.known.get(place)
        if index is None:
            index = self.known[place] = self._find(*place)
        return index

    def exactly(self, place: Place) -> int:
        """Return the index of the only function that can be meant, -1 if it is not there or several can be."""
        if isinstance(place, int):
            return place
        name, file = place
        found = self.functions.by_name.get(name, [])
        if not found and (numbered := _numbered(name)):
            name, file, ordinal = numbered[0], numbered[1] or file, numbered[2]
            found = self.functions.by_name.get(name, [])
            if len(found) > 1:
                found = self._of_file(found, file) if file else found
                found = self._in_order(found)[ordinal - 1 : ordinal] if found else []
        return found[0] if len(found) == 1 else -1

    def _find(self, name: str, file: str) -> int:
        by_name = self.functions.by_name
        if name in by_name:
            return self._choose(by_name[name], file, 0)
        if name.isdecimal():  # no symbol begins with a digit
            return self._hashed(name)
        ordinal = 0
        if numbered := _numbered(name):
            name, file, ordinal = numbered[0], numbered[1] or file, numbered[2]
            if name in by_name:
                return self._choose(by_name[name], file, ordinal)
        if self.stripped is None:
            self.stripped = {}
            for known, indices in by_name.items():
                if (base := without_suffixes(known)) != known:
                    self.stripped.setdefault(base, []).extend(indices)
        base = without_suffixes(name)
        candidates = by_name.get(base) or self.stripped.get(base)
        if base != name and _renamed(name):
            # Of two local functions of one name, take the other; only their numbers differ between builds.
            candidates = self.stripped.get(base) or candidates
        return self._choose(candidates, file, ordinal) if candidates else -1

    def _hashed(self, number: str) -> int:
        """Return the function whose name has the hash *number*; AutoFDO's profiles can have these alone.

        The name counts without the suffixes that the compiler appended (llvm/ProfileData/SampleProf.h).
        """
        if self.hashes is None:
            self.hashes = {}
            for names in (self.functions.by_name, dict.fromkeys(map(without_suffixes, self.functions.by_name))):
                for name in names:
                    self.hashes.setdefault(_hash(name), name)
        hashed = self.hashes.get(number)
        return -1 if hashed is None else self._find(hashed, "")

    def _choose(self, indices: list[int], file: str, ordinal: int) -> int:
        """Return one of several functions of the same name: by source file, else by BOLT's number, else the first."""
        if len(indices) > 1 and file:
            indices = self._of_file(indices, file) or indices
        numbered = self._in_order(indices) if ordinal else []
        return numbered[ordinal - 1] if 0 < ordinal <= len(numbered) else indices[0]

    def _of_file(self, indices: list[int], file: str) -> list[int]:
        """Return those of *indices* that are from the source *file*; empty if none is."""
        by_file = self.by_file.get(id(indices))
        if by_file is None:
            by_file = self.by_file[id(indices)] = {}
            for index in indices:
                by_file.setdefault(self.functions.files[index].rpartition("/")[2], []).append(index)
        return by_file.get(file.rpartition("/")[2], [])

    def _in_order(self, indices: list[int]) -> list[int]:
        """Return *indices* as BOLT numbers them: local functions, which have files, by address.

        `discoverFileObjects` in bolt/lib/Rewrite/RewriteInstance.cpp; the order may differ in another build.
        """
        if id(indices) not in self.numbered:
            local = [index for index in indices if self.functions.files[index]]
            self.numbered[id(indices)] = sorted(local or indices)
        return self.numbered[id(indices)]


def _hash(name: str) -> str:
    """Return the low 64 bits of the MD5 of *name*, as LLVM prints them (llvm/Support/MD5.h, MD5Hash)."""
    digest = hashlib.md5(os.fsencode(name), usedforsecurity=False).digest()
    return str(int.from_bytes(digest[:8], "little"))


def without_suffixes(name: str) -> str:
    """Return the original name of a clone, a part or a version: ``f`` of ``f.isra.0.cold``, ``f.5`` or ``f@V``."""
    if (at := name.find("@")) > 0:
        name = name[:at]
    words = name.split(".")
    end = len(words)
    while end > 1:
        last = end - 1
        while last > 1 and words[last].isdigit():
            last -= 1
        if words[last] not in _CLONES:
            break
        end = last
    if end > 1 and words[end - 1].isdigit():
        end -= 1
    return ".".join(words[:end]) or name


def _renamed(name: str) -> bool:
    """Whether this is ``f.5``: LLVM's link-time optimisation renames all but one of the local functions of one name."""
    function, _, number = name.rpartition(".")
    return number.isdigit() and function.rpartition(".")[2] not in _CLONES


def _numbered(name: str) -> tuple[str, str, int] | None:
    """Return name, file and number of ``name/3`` or ``name/file.c/3``, BOLT's names for local functions."""
    head, _, number = name.rpartition("/")
    if not head or not number.isascii() or not number.isdigit() or len(number) > _NUMBER_DIGITS:
        return None
    function, _, file = head.rpartition("/")
    return (function, file, int(number)) if function else (head, "", int(number))
