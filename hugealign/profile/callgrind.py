"""Callgrind's output (valgrind manual, "Callgrind Format Specification"): exact instruction counts and calls."""

import os
import re
import shutil

from hugealign.profile.model import Malformed, Place, Profile, count_of
from hugealign.profile.source import ProfileSource

_COMPRESSED = re.compile(rb"\((\d+)\)(?: (.*))?\Z", re.DOTALL)
_FIELD = re.compile(rb"(fn|cfn|fl|fi|fe|cfi|cfl|ob|cob|calls|jump|jcnd|jfi|jfn)=\s*(.*)", re.DOTALL)
_COST = re.compile(rb"(?:[0-9+*-]|0x)")
_KIND = {b"cfn": b"fn", b"cob": b"ob", b"fi": b"fl", b"fe": b"fl", b"cfi": b"fl", b"cfl": b"fl"}
_CYCLE = re.compile(rb"'\d+\Z")  # --separate-recs


class _State:
    """The position in the file."""

    def __init__(self, profile: Profile, source: ProfileSource) -> None:
        self.profile = profile
        self.source = source
        self.names: dict[tuple[bytes, bytes], bytes] = {}
        self.object = self.callee_object = b""
        self.file = self.callee_file = b""
        self.function: Place | None = None
        self.callee: Place | None = None
        self.calls: int | None = None  # the next line of costs belongs to a call
        self.positions = 1

    def name(self, kind: bytes, text: bytes) -> bytes:
        """Return the name that *text* is or stands for; a name can get a number once, and come as that later."""
        match = _COMPRESSED.match(text)
        if not match:
            return text
        number, name = match.groups()
        key = (_KIND.get(kind, kind), number)
        if name:
            self.profile.room.take(len(name))
            self.names[key] = name
        if key not in self.names:
            raise Malformed
        return self.names[key]

    def place(self, name: bytes, where: bytes, file: bytes) -> Place | None:
        """Return the place of a function, None if it is in another file."""
        if where and not self.source.ours(where):
            return None
        return self.profile.place(_CYCLE.sub(b"", name), b"" if file == b"???" else file)


def read(source: ProfileSource, profile: Profile) -> None:
    """Add the costs and calls to *profile*."""
    state = _State(profile, source)
    for number, line in enumerate(source.lines(), 1):
        try:
            _line(line, state)
        except (Malformed, ValueError, IndexError):
            profile.malformed(number)


def _line(line: bytes, state: _State) -> None:
    profile = state.profile
    if not line or line.startswith(b"#"):
        return
    if line.startswith(b"positions:"):
        state.positions = max(1, len(line.split()) - 1)
    elif match := _FIELD.match(line):
        kind, text = match.groups()
        _field(kind, text, state)
    elif _COST.match(line):
        words = line.split()
        cost = count_of(words[state.positions]) if len(words) > state.positions else 0
        if state.calls is not None:
            if state.function is not None and state.callee is not None and state.callee != state.function:
                profile.call(state.function, state.callee, state.calls)
            state.calls = None
            state.callee_object = state.object
        elif state.function is not None:
            profile.add(state.function, cost)
        else:
            profile.foreign += cost
        profile.good += 1
    elif not re.match(rb"[a-zA-Z]+:", line):
        raise Malformed


def _field(kind: bytes, text: bytes, state: _State) -> None:
    if kind in (b"jump", b"jcnd", b"jfi", b"jfn"):
        return
    if kind == b"calls":
        state.calls = count_of(text.split()[0])
        return
    name = state.name(kind, text)
    if kind == b"ob":
        state.object = state.callee_object = name
    elif kind == b"cob":
        state.callee_object = name
    elif kind == b"fl":
        state.file = state.callee_file = name
    elif kind in (b"cfi", b"cfl"):
        state.callee_file = name
    elif kind == b"fn":
        state.function = state.place(name, state.object, state.file)
        state.callee_object, state.callee_file = state.object, state.file
    elif kind == b"cfn":
        state.callee = state.place(name, state.callee_object, state.callee_file)
        state.callee_file = state.file


def programs(head: bytes) -> list[str]:
    """Return the path of the program whose command a profile that begins with *head* names; none if it is not here."""
    for line in head.splitlines():
        if line.startswith(b"cmd: "):
            words = os.fsdecode(line[5:]).split()
            where = shutil.which(words[0]) if words else None
            return [os.path.abspath(where)] if where else []
    return []
