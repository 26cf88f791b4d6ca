"""BOLT's pre-aggregated profile (``perf2bolt -pa``): counted addresses, one event per line.

``B from to count mispredictions`` a branch; ``F`` and ``f start end count`` a range run through; ``T from start end
count`` both; ``S address count`` a sample; ``E event``, ``R`` and ``r`` as in bolt/lib/Profile/DataAggregator.cpp.
Addresses are hexadecimal, ``build-id:address`` with a build-id and ``X:address`` outside the program.
"""

from hugealign.elf.symbols import Functions
from hugealign.profile.model import NOWHERE, Flow, Malformed, Place, Profile, ProfileError, count_of, hex_of, meaningful
from hugealign.profile.source import ProfileSource

_OPERANDS = {b"B": 4, b"F": 3, b"f": 3, b"T": 4, b"S": 2, b"R": 4, b"r": 3}
_LONGEST = 1 << 16  # the longest plausible run without a branch, in bytes
_NO_ADDRESS = {b"-1", b"-2", b"-3"}


def read(source: ProfileSource, profile: Profile) -> None:
    """Add the events to *profile*.  Raises ProfileError if they are of another build."""
    for number, line in enumerate(source.lines(), 1):
        words = line.split(None, 5)
        if not words or words[0] in (b"E", b"#"):
            continue
        try:
            meaningful(len(words) == 1 + _OPERANDS.get(words[0], -1))
            _event(words, profile, source.functions)
            profile.good += 1
        except Malformed:
            profile.malformed(number)


def _event(words: list[bytes], profile: Profile, functions: Functions) -> None:
    kind = words[0]
    weight = count_of(words[3] if kind == b"B" else words[-1])
    source = _address(words[1], functions)
    place = _place(source, functions)
    profile.sample(place, weight)
    flow = profile.flow
    if kind == b"S":
        if flow is not None and source is not None:
            flow.run(source, source + 1, weight)
        return
    target = _address(words[2], functions)
    other = _place(target, functions)
    if flow is not None:
        end = _address(words[3], functions) if kind in (b"T", b"R") else None
        _inside(kind, source, target, end, weight, flow)
    if other is None:
        return
    profile.add(other)
    if kind in (b"B", b"T") and isinstance(place, int) and isinstance(other, int) and NOWHERE != place != other:
        entry = other != NOWHERE and functions.starts[other] == target
        if entry and source is not None:
            profile.call(place, other, weight, source - functions.starts[place])


def _inside(kind: bytes, source: int | None, target: int | None, end: int | None, weight: int, flow: Flow) -> None:
    """Add what a line says about the inside of functions: `T` is a branch from *source*, and a run from *target* on."""
    if kind in (b"B", b"T") and source is not None and target is not None:
        flow.jump(source, target, weight)
    if kind in (b"F", b"f", b"r"):
        source, target, end = None, source, target
    if target is not None and kind != b"B":
        if kind in (b"f", b"R", b"r"):
            flow.back(target, weight)
        if end is not None and target <= end < target + _LONGEST:
            flow.run(target, end + 1, weight)


def _address(word: bytes, functions: Functions) -> int | None:
    """Return the address, None for one in another file."""
    build_id, colon, address = word.rpartition(b":")
    if word in _NO_ADDRESS or build_id == b"X":
        return None
    if colon and functions.build_id and not functions.is_build(build_id.decode("ascii", "replace").lower()):
        if not build_id.isalnum():
            raise Malformed
        raise ProfileError("has addresses of another build; give the binary that it was recorded with")
    return hex_of(address)


def _place(address: int | None, functions: Functions) -> Place | None:
    return None if address is None else functions.at(address)
