"""A profile's functions found in a binary."""

from collections import Counter
from dataclasses import dataclass, field

from hugealign.elf.symbols import Functions
from hugealign.profile.model import Place, Profile

#: What compilers append, after a dot and before numbers, to the name of a clone or a part; builds differ in these.
_CLONES = frozenset("constprop isra part cold lto_priv llvm localalias clone specialized __uniq __part".split())
_UNMATCHED_SHOWN = 5
_NUMBER_DIGITS = 9


@dataclass(slots=True)
class Matched:
    """A profile in terms of a binary's functions, which are named by their indices.

    *samples* has every touched function; *total* samples, of which *found* are in a function; *foreign* ones lie in
    other files and count for neither.  *missing* are the names with most samples that were not found.
    """

    samples: dict[int, int] = field(default_factory=dict)
    arcs: dict[tuple[int, int, int | None], int] = field(default_factory=dict)
    total: int = 0
    found: int = 0
    foreign: int = 0
    missing: list[tuple[str, int]] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """The share of samples that were found, 0 to 1."""
        return self.found / self.total if self.total else 0.0


def match(profile: Profile, functions: Functions) -> Matched:
    """Find the functions of *profile* among *functions*."""
    matched = Matched(foreign=profile.foreign)
    names = _Names(functions)
    found: dict[Place, int | None] = {}
    missing: Counter[str] = Counter()
    for place, count in profile.samples.items():
        index = place if isinstance(place, int) else names.find(*place)
        index = None if index is None or index < 0 else index
        found[place] = index
        matched.total += count
        if index is None:
            missing["(no function)" if isinstance(place, int) else place[0]] += count
        else:
            matched.found += count
            matched.samples[index] = matched.samples.get(index, 0) + count
    for (caller, callee, offset), count in profile.arcs.items():
        source, target = found.get(caller), found.get(callee)
        if source is not None and target is not None and source != target:
            inside = offset if offset is not None and offset < functions.sizes[source] else None
            key = (source, target, inside)
            matched.arcs[key] = matched.arcs.get(key, 0) + count
    matched.missing = missing.most_common(_UNMATCHED_SHOWN)
    return matched


class _Names:
    """Finds functions by name: exact, then as BOLT numbers locals, then without the suffixes of clones."""

    def __init__(self, functions: Functions) -> None:
        self.functions = functions
        self.stripped: dict[str, list[int]] | None = None

    def find(self, name: str, file: str) -> int | None:
        """Return the index of the function, or None."""
        by_name = self.functions.by_name
        if name in by_name:
            return self._choose(by_name[name], file, 0)
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
        found = by_name.get(base) or self.stripped.get(base)
        return self._choose(found, file, ordinal) if found else None

    def _choose(self, indices: list[int], file: str, ordinal: int) -> int:
        """Return one of several of the same name: by source file, else by number, else the first.

        BOLT numbers locals in the order of the symbol table, which another build may have changed.
        """
        if len(indices) > 1 and file:
            name = file.rpartition("/")[2]
            of_file = [index for index in indices if self.functions.files[index].rpartition("/")[2] == name]
            indices = of_file or indices
        return indices[ordinal - 1] if 0 < ordinal <= len(indices) else indices[0]


def without_suffixes(name: str) -> str:
    """Return the name that a clone, a part or a symbol version was made of: ``f`` of ``f.isra.0.cold`` or ``f@V``."""
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
    return ".".join(words[:end]) or name


def _numbered(name: str) -> tuple[str, str, int] | None:
    """Return name, file and number of ``name/3`` or ``name/file.c/3``, as BOLT calls locals."""
    head, _, number = name.rpartition("/")
    if not head or not number.isascii() or not number.isdigit() or len(number) > _NUMBER_DIGITS:
        return None
    function, _, file = head.rpartition("/")
    return (function, file, int(number)) if function else (head, "", int(number))
