"""``perf script`` with symbols, its default output: functions are identified by name.

A flat sample is one line, ``comm pid time: period event: address symbol+0x1 (file)``.  A call chain is a line without
an address, then a line for each frame, innermost first, and an empty line.  ``brstacksym`` adds branches,
``from+0x1/to+0x0/P/-/-/0``, or with ``dso`` ``from+0x1(file)/to+0x0(file)/P/-/-/0`` (a space before ``(file)`` in newer
versions); the first follows the sample's own file directly.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import BinaryIO

from hugealign.profile.lines import counted
from hugealign.profile.model import Malformed, Place, Profile, meaningful
from hugealign.profile.source import ProfileSource

_ADDRESS = re.compile(rb":\s+[0-9a-f]{1,16} ")
#: A name, and its file: behind an offset, else where a path begins; both can have parentheses of their own.
_NAMED = re.compile(rb"(.*?\+0x[0-9a-f]{1,15}|.*?(?= \([/\[])|.*) \((.*)\Z", re.DOTALL)
_OFFSET = re.compile(rb"(.*)\+0x([0-9a-f]{1,15})\Z", re.DOTALL)
#: The end of a branch: predicted, in a transaction, aborted, cycles; since perf 6.14 N if not taken, then its kind.
_FLAGS = re.compile(rb"/[PM-]N?/[X-]/[A-]/\d{1,9}(?:/\S{0,64})?(?:\s|\Z)")
#: The text before the name of a file, and its parenthesis.
_FILE = re.compile(rb"(?:\[unknown\]|\+0x[0-9a-f]{1,15}) ?\(")
#: Bytes of the frames whose meaning is kept, of one of them, and the overhead of one.
_KNOWN_LIMIT, _KNOWN_LENGTH, _KEPT = 64 << 20, 512, 256

_Frame = tuple[Place | None, int | None]  # None for a frame of another file; the offset in the function if known


def read(source: ProfileSource, profile: Profile) -> None:
    """Add perf's output."""
    TextReader(profile, source.ours).read(source.short_lines())


class TextReader:
    """Adds samples to a profile.  *ours* tells whether a path is the binary's."""

    def __init__(self, profile: Profile, ours: Callable[[bytes], bool]) -> None:
        self.profile = profile
        self.ours = ours
        self.known: dict[bytes, _Frame] = {}
        self.known_size = 0
        self.demangled = 0

    def read(self, lines: Iterable[bytes]) -> None:
        """Read all *lines*."""
        self._lines(lines, 1)
        self._done()

    def read_counted(self, stream: BinaryIO) -> None:
        """Read all of *stream*, which lacks the fields that differ in each sample: equal samples are read once."""
        for batch in counted(stream):
            for sample, count in batch.items():
                self._lines(sample.split(b"\n"), count)
        self.profile.first_bad = 0  # the number of the line is not known
        self._done()

    def _done(self) -> None:
        if self.demangled:
            self.profile.notes.append("has demangled names, which no symbol has: use perf script --no-demangle")

    def _lines(self, lines: Iterable[bytes], weight: int) -> None:
        """Read *lines*, each of which counts *weight* times."""
        stack: list[_Frame] = []
        for number, line in enumerate(lines, 1):
            try:
                if line.endswith(b" (inlined)"):  # part of the function in the frame below it
                    continue
                if line.startswith(b"\t"):
                    address, space, frame = line[1:].lstrip().partition(b" ")
                    meaningful(space and address.isalnum())
                    stack.append(self._frame(frame))
                elif not line or line.isspace():
                    self._sample(stack, weight)
                    stack = []
                elif b"PERF_RECORD_" in line or line.startswith(b"#"):
                    continue
                else:
                    line, branches = _apart(line)  # noqa: PLW2901 - the rest of it
                    if frame := _flat(line):
                        self._sample(stack, weight)
                        stack = []
                        self._sample([self._frame(frame)], weight)
                    elif line.rstrip().endswith(b":"):
                        self._sample(stack, weight)
                        stack = []
                    else:
                        meaningful(branches)
                    for branch in branches:
                        self._branch(branch, weight)
            except Malformed:
                self.profile.malformed(number)
        self._sample(stack, weight)

    def _frame(self, text: bytes) -> _Frame:
        """Return the frame of ``symbol+0x1 (file)``."""
        frame = self.known.get(text)
        if frame is None:
            whole = text.removesuffix(b")").removesuffix(b" (deleted)")
            match = _NAMED.match(whole)
            if not match:
                raise Malformed
            name, path = match.groups()
            name, offset = _symbol(name)
            frame = (None, None)
            if self.ours(path):
                self.demangled += b"::" in name
                frame = (self.profile.place(name), offset)
            else:
                self.profile.other_file(path)
            if self.known_size < _KNOWN_LIMIT and len(text) < _KNOWN_LENGTH:
                self.known_size += len(text) + _KEPT
                self.known[text] = frame
        return frame

    def _sample(self, stack: list[_Frame], weight: int) -> None:
        if not stack:
            return
        self.profile.good += weight
        self.profile.chain([place for place, _ in stack], weight, stack[1][1] if len(stack) > 1 else None)

    def _branch(self, text: bytes, weight: int) -> None:
        """Add the branch ``symbol+0x1(file)/symbol+0x0(file)``, with both files or none."""
        files = _files(text)
        if len(files) == 2:
            first, second = files
            path, _, target = text[first.end() : second.end() - 1].rpartition(b")/")
            caller, offset = self._end(text[: first.end() - 1], path)
            callee, entry = self._end(target, text[second.end() :].removesuffix(b")"))
        else:
            source, _, target = text.rpartition(b" ")[2].partition(b"/")
            (caller, offset), (callee, entry) = self._end(source), self._end(target)
        self.profile.good += weight
        self.profile.branch(caller, callee, weight, offset, entry == 0)

    def _end(self, symbol: bytes, path: bytes | None = None) -> _Frame:
        """Return the source or target of a branch: the last word of *symbol*."""
        if path is not None and not self.ours(path):
            return None, None
        name, offset = _symbol(symbol.rstrip().rpartition(b" ")[2])
        return self.profile.place(name), offset


def _symbol(text: bytes) -> tuple[bytes, int | None]:
    """Return the name in ``symbol+0x1``, and the offset if there is one."""
    match = _OFFSET.match(text)
    return (match.group(1), int(match.group(2), 16)) if match else (text, None)


def _apart(line: bytes) -> tuple[bytes, list[bytes]]:
    """Return the line of a sample without its branches, and the branches."""
    *branches, _ = _FLAGS.split(line.replace(b" (deleted)", b""))
    if not branches:
        return line, []
    first = branches[0]
    files = _files(first)
    end = first.rfind(b")", 0, files[0].start() if len(files) == 2 else len(first)) + 1
    return first[:end], [first[end:], *branches[1:]]


def _files(text: bytes) -> list[re.Match[bytes]]:
    """Return the texts before the files of the last branch in *text*: two, unless it has no files."""
    return [*deque(_FILE.finditer(text), maxlen=2)]


def _flat(line: bytes) -> bytes:
    """Return ``symbol+0x1 (file)`` of the line of a flat sample, empty for other lines."""
    address = None
    for address in _ADDRESS.finditer(line):  # noqa: B007 - the last one: a command's name may look like one too
        pass
    if address is None:
        return b""
    frame = line[address.end() : line.rfind(b")") + 1]
    return frame if b" (" in frame else b""
