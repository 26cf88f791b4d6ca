"""``perf script`` with symbols, as it comes by default: functions are told by their names.

For a flat sample one line, ``comm pid time: period event: address symbol+0x1 (file)``; for a call chain a line without
an address and then a line for each frame, innermost first; an empty line ends it.  ``brstacksym`` adds branches,
``from+0x1/to+0x0/P/-/-/0``.
"""

import re
from collections.abc import Callable, Iterable
from typing import BinaryIO

from hugealign.profile.lines import counted
from hugealign.profile.model import Malformed, Place, Profile, meaningful

_ADDRESS = re.compile(rb":\s+[0-9a-f]{1,16} ")
_OFFSET = re.compile(rb"(.*)\+0x([0-9a-f]{1,15})\Z", re.DOTALL)
_BRANCH = re.compile(rb"(\S+)\+0x([0-9a-f]{1,15})/(\S+)\+0x([0-9a-f]{1,15})/[PM-]/")
_KNOWN_LIMIT, _KNOWN_LENGTH = 500_000, 512  # frames that are kept, and bytes of one

_Frame = tuple[Place | None, int | None]  # None for a frame of another file; the offset in the function if known


class Reader:
    """Adds samples to a profile.  *ours* tells whether the path of a file is that of the binary."""

    def __init__(self, profile: Profile, ours: Callable[[bytes], bool]) -> None:
        self.profile = profile
        self.ours = ours
        self.known: dict[bytes, _Frame] = {}
        self.demangled = 0

    def read(self, lines: Iterable[bytes]) -> None:
        """Read all *lines*."""
        self._lines(lines, 1)
        self._done()

    def read_counted(self, stream: BinaryIO) -> None:
        """Read all of *stream*, made without what differs in each sample: equal ones are read once."""
        for batch in counted(stream):
            for sample, count in batch.items():
                self._lines(sample.split(b"\n"), count)
        self.profile.first_bad = 0  # it is not known where the line was
        self._done()

    def _done(self) -> None:
        if self.demangled:
            self.profile.notes.append("has demangled names, which no symbol has: use perf script --no-demangle")

    def _lines(self, lines: Iterable[bytes], weight: int) -> None:
        """Read *lines*, each of which stands for *weight* of them."""
        stack: list[_Frame] = []
        for number, line in enumerate(lines, 1):
            try:
                if line.startswith(b"\t"):
                    address, space, frame = line[1:].lstrip().partition(b" ")
                    meaningful(space and address.isalnum())
                    stack.append(self._frame(frame))
                elif not line or line.isspace():
                    self._sample(stack, weight)
                    stack = []
                elif b"PERF_RECORD_" in line or line.startswith(b"#"):
                    continue
                elif frame := _flat(line):
                    self._sample(stack, weight)
                    stack = []
                    self._sample([self._frame(frame)], weight)
                    self._branches(line, weight)
                elif line.rstrip().endswith(b":"):
                    self._sample(stack, weight)
                    stack = []
                else:
                    meaningful(self._branches(line, weight))
            except Malformed:
                self.profile.malformed(number)
        self._sample(stack, weight)

    def _frame(self, text: bytes) -> _Frame:
        """Return the frame of ``symbol+0x1 (file)``."""
        frame = self.known.get(text)
        if frame is None:
            whole = text.removesuffix(b")").removesuffix(b" (deleted)")
            name, space, path = whole.rpartition(b" (")
            if not space:
                raise Malformed
            offset = None
            if found := _OFFSET.match(name):
                name, offset = found.group(1), int(found.group(2), 16)
            frame = (None, None)
            if self.ours(path):
                self.demangled += b"::" in name
                frame = (self.profile.place(name), offset)
            if len(self.known) < _KNOWN_LIMIT and len(text) < _KNOWN_LENGTH:
                self.known[text] = frame
        return frame

    def _sample(self, stack: list[_Frame], weight: int) -> None:
        if not stack:
            return
        profile = self.profile
        profile.good += weight
        leaf = stack[0][0]
        if leaf is None:
            profile.foreign += weight
        else:
            profile.add(leaf, weight)
        for place, _ in stack[1:]:
            if place is not None:
                profile.add(place)
        if len(stack) > 1:
            caller, offset = stack[1]
            if leaf is not None and caller is not None and caller != leaf:
                profile.call(caller, leaf, weight, offset)

    def _branches(self, line: bytes, weight: int) -> bool:
        """Add the branches in *line*; return whether there are any."""
        profile = self.profile
        found = False
        for word in line.split() if b"+0x" in line and b"/" in line else ():
            if branch := _BRANCH.match(word):
                found = True
                source, offset, target, entry = branch.groups()
                caller, callee = profile.place(source), profile.place(target)
                profile.add(caller, weight)
                profile.add(callee)
                profile.good += weight
                if int(entry, 16) == 0 and caller != callee:
                    profile.call(caller, callee, weight, int(offset, 16))
        return found


def _flat(line: bytes) -> bytes:
    """Return ``symbol+0x1 (file)`` of the line of a flat sample, else nothing."""
    address = None
    for address in _ADDRESS.finditer(line):  # noqa: B007 - the last one: a command's name may look like it, too
        pass
    if address is None:
        return b""
    frame = line[address.end() : line.rfind(b")") + 1]
    return frame if b" (" in frame else b""
