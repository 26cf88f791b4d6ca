"""Folded stacks, as flame graphs are made of: ``main;work;helper 42``, outermost frame first."""

from collections.abc import Iterable

from hugealign.profile.model import Malformed, Place, Profile, count_of, meaningful

#: What stackcollapse-perf.pl puts behind a name: inlined, kernel, just compiled.  An inlined frame is no call.
_INLINED, _ELSEWHERE = b"_[i]", (b"_[k]", b"_[j]")


def read(lines: Iterable[bytes], profile: Profile) -> None:
    """Add what *lines* say to *profile*.  Every frame counts as touched, the innermost as the one sampled."""
    for number, line in enumerate(lines, 1):
        if not line or line.startswith(b"#"):
            continue
        try:
            stack, space, last = line.rstrip().rpartition(b" ")
            meaningful(space)
            weight = count_of(last)
            frames = [_place(frame, profile) for frame in stack.split(b";") if not frame.endswith(_INLINED)]
        except Malformed:
            profile.malformed(number)
            continue
        profile.good += 1
        for place in frames:
            if place is not None:
                profile.add(place)
        leaf = frames[-1] if frames else None
        if leaf is None:
            profile.foreign += weight
            continue
        profile.add(leaf, weight)
        if len(frames) > 1 and (caller := frames[-2]) is not None and caller != leaf:
            profile.call(caller, leaf, weight)


def _place(frame: bytes, profile: Profile) -> Place | None:
    """Return None for a frame in no file of ours: the kernel, an unknown one, ``[libc.so.6]``."""
    if frame.endswith(_ELSEWHERE) or (frame.startswith(b"[") and frame.endswith(b"]")):
        return None
    return profile.place(frame)
