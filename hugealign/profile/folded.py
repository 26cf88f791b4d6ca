"""Folded stacks, the input of flame graphs: ``main;work;helper 42``, outermost frame first."""

from collections.abc import Iterable

from hugealign.profile.model import Malformed, Place, Profile, count_of

#: What stackcollapse-perf.pl appends to a name: inlined, kernel, just-in-time compiled.  An inlined frame is not a
#: call.
_INLINED, _ELSEWHERE = b"_[i]", (b"_[k]", b"_[j]")
_NO_CALL: Place = -2  # an inlined frame


def read(lines: Iterable[bytes], profile: Profile) -> None:
    """Add the stacks in *lines* to *profile*.  Every frame counts as touched, the innermost as sampled."""
    known: dict[bytes, Place] = {}  # most frames recur
    samples = profile.samples
    for number, line in enumerate(lines, 1):
        if not line or line.startswith(b"#"):
            continue
        stack, _, last = line.rstrip().rpartition(b" ")
        try:
            weight = count_of(last)
            frames = [known.get(frame) or _place(frame, profile, known) for frame in stack.split(b";")]
        except Malformed:
            profile.malformed(number)
            continue
        profile.good += 1
        if _NO_CALL in frames:
            frames = [place for place in frames if place != _NO_CALL]
        leaf = frames.pop() if frames else None
        for place in frames:
            if place is not None and place not in samples:
                samples[place] = 0
        if leaf is None:
            profile.foreign += weight
            continue
        samples[leaf] = samples.get(leaf, 0) + weight
        if frames and (caller := frames[-1]) is not None and caller != leaf:
            profile.call(caller, leaf, weight)


def _place(frame: bytes, profile: Profile, known: dict[bytes, Place]) -> Place | None:
    """Return the place of a frame, None if it is in another file: the kernel, an unknown one, ``[libc.so.6]``."""
    if frame.endswith(b"]"):
        if frame.endswith(_INLINED):
            return _NO_CALL
        if frame.endswith(_ELSEWHERE) or frame.startswith(b"["):
            return None
    place = known[frame] = profile.place(frame)
    return place
