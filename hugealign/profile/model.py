"""The model of every profile: which functions ran, how often, and who called whom."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from sys import getsizeof
from typing import TypeVar

from hugealign.errors import HugealignError, NumberFormatError
from hugealign.io.numbers import decimal, hexadecimal

#: A function as a profile knows it: its index in the binary if the profile has addresses of exactly that file
#: (NOWHERE: an address outside every function), else its name and its source file, empty if unknown.
Place = int | tuple[str, str]
NOWHERE = -1
_Key = TypeVar("_Key")
#: The remark about a profile whose addresses say nothing.
BY_NAME = "of another build, or without a build ID: functions are matched by name (see order --old-binary)"

_COUNT_LIMIT = (1 << 63) - 1  # a larger number is not a count
_FEW_DIGITS = 19  # numbers with fewer are always below that limit
_ADDRESS_LIMIT = (1 << 64) - 1
_ROOM = 512 << 20  # bytes of distinct names, calls and stacks; the largest programs need a fourth
_OTHERS, _OTHER_SHOWN = 3, 200  # other files that are remembered, and characters of a path
_KEPT = 256  # overhead of keeping one of them, in bytes
#: Why addresses are not those of the file.
ANOTHER_RAN = (
    "text was mapped from a place where this file has none; give the file that ran (-b), after `hugealign run --fix` "
    "the COPY of: hugealign fix FILE -o COPY"
)


class ProfileError(HugealignError):
    """A profile cannot be read; the message does not name the file."""


class MemoryRoom:
    """How many bytes a profile may make hugealign keep: a file of any size is read in bounded memory."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = _ROOM

    def take(self, size: int = 0, overhead: int = _KEPT) -> None:
        """Note that *size* more bytes are kept, and *overhead*.  Raises ProfileError if that is too much."""
        self.left -= size + overhead
        if self.left < 0:
            raise ProfileError(
                f"more than {_ROOM >> 20} MiB of different names, calls and stacks: not a profile of one program"
            )


class Malformed(ValueError):  # noqa: N818 - says what a line is
    """Raised for a line that is invalid in its format; the line is left out and counted."""


@dataclass(slots=True)
class Flow:
    """What ran inside functions, by addresses of the binary: the input for the order of their blocks.

    *runs* are pieces of code (first address, end) that ran through, with counts.

    *jumps* lead from an address in the last instruction before them to the first instruction after; *returns* come from
    another function to an address behind a call.  *complete*: code that is not here did not run.
    """

    complete: bool = False
    runs: dict[tuple[int, int], int] = field(default_factory=dict)
    jumps: dict[tuple[int, int], int] = field(default_factory=dict)
    returns: dict[int, int] = field(default_factory=dict)
    room: MemoryRoom = field(default_factory=MemoryRoom)

    def run(self, start: int, end: int, count: int) -> None:
        """Count a piece of code.  Raises ProfileError for too many distinct ones."""
        _count(self.runs, (start, end), count, self.room)

    def jump(self, source: int, target: int, count: int) -> None:
        """Count a jump.  Raises ProfileError for too many distinct ones."""
        _count(self.jumps, (source, target), count, self.room)

    def back(self, address: int, count: int) -> None:
        """Count returns to *address*.  Raises ProfileError for too many distinct ones."""
        _count(self.returns, address, count, self.room)


@dataclass(slots=True)
class Profile:
    """The sum of one or more profiles.

    *samples* has every function that ran, in any frame, with the samples or executions inside it; *arcs* counts the
    calls between two functions, by the offset in the caller in bytes (None: not known).  *foreign* samples lie in other
    files (libraries, the kernel).  *bad* lines could not be read; *first_bad* is the number of the first.  *flow*, if
    there is one, records what ran inside functions.  *others* are
    some of the files that are not the program's.  *builds* has the samples of each build if a profile has several;
    *guessed* has the samples in functions that are only probably the same, and their number times the trust in that.
    """

    samples: dict[Place, int] = field(default_factory=dict)
    arcs: dict[tuple[Place, Place, int | None], int] = field(default_factory=dict)
    foreign: int = 0
    good: int = 0
    bad: int = 0
    first_bad: int = 0
    notes: list[str] = field(default_factory=list)
    room: MemoryRoom = field(default_factory=MemoryRoom)
    flow: Flow | None = None
    builds: dict[str, dict[Place, int]] = field(default_factory=dict)
    guessed: dict[str, tuple[int, float]] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    _places: dict[bytes, Place] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.flow is not None:
            self.room = self.flow.room  # one bound for all that is kept

    def following(self) -> "Profile":
        """Return the profile to add the next file to: this sum, with the counts of that file's lines reset."""
        return Profile(
            self.samples, self.arcs, self.foreign, room=self.room, flow=self.flow, builds=self.builds,
            guessed=self.guessed, others=self.others, _places=self._places,
        )  # fmt: skip

    def add(self, place: Place, count: int = 0) -> None:
        """Count *count* samples in *place*; 0 means only touched."""
        self.samples[place] = self.samples.get(place, 0) + count

    def sample(self, place: Place | None, count: int) -> None:
        """Count *count* samples in *place*; None stands for another file."""
        if place is None:
            self.foreign += count
        else:
            self.add(place, count)

    def branch(self, source: Place | None, target: Place | None, count: int, offset: int | None, entry: bool) -> None:
        """Count a branch out of *source* at *offset*; it is a call if its target is the *entry* of another function.

        Within one function it is recursion or just a loop.
        """
        self.sample(source, count)
        if target is not None:
            self.add(target)
            if entry and source is not None and source != target:
                self.call(source, target, count, offset)

    def chain(self, frames: Sequence[Place | None], count: int, offset: int | None = None) -> None:
        """Count a sample with its callers, innermost first; *offset* is the offset of the call in the first caller."""
        leaf = frames[0] if frames else None
        self.sample(leaf, count)
        for place in frames[1:]:
            if place is not None:
                self.add(place)
        caller = frames[1] if len(frames) > 1 else None
        if leaf is not None and caller is not None and caller != leaf:
            self.call(caller, leaf, count, offset)

    def call(self, caller: Place, callee: Place, count: int, offset: int | None = None) -> None:
        """Count *count* calls, and both ends as touched.  Raises ProfileError for too many distinct ones."""
        _count(self.arcs, (caller, callee, offset), count, self.room)
        self.samples.setdefault(caller, 0)
        self.samples.setdefault(callee, 0)

    def place(self, name: bytes, file: bytes = b"") -> Place:
        """Return the place of a name.  Raises Malformed for an empty one, ProfileError for too many."""
        key = name + b"\0" + file if file else name
        place = self._places.get(key)
        if place is None:
            if not name:
                raise Malformed
            text = name.decode("utf-8", "surrogateescape")
            place = (text, file.decode("utf-8", "surrogateescape") if file else "")
            self.room.take(len(key) + sum(map(getsizeof, place)))  # one wide character makes all of a text wide
            self._places[key] = place
        return place

    def other_file(self, path: bytes) -> None:
        """Remember that code of the file at *path* ran or was mapped, unless it is a library or not a file."""
        if len(self.others) < _OTHERS and path.startswith(b"/") and b".so" not in path and not path.startswith(b"//"):
            name = path[:_OTHER_SHOWN].decode("utf-8", "surrogateescape")
            if name not in self.others:
                self.others.append(name)

    def malformed(self, number: int) -> None:
        """Note that line *number* could not be read."""
        self.bad += 1
        self.first_bad = self.first_bad or number


def _count(counts: dict[_Key, int], key: _Key, count: int, room: MemoryRoom) -> None:
    """Add *count* to that of *key*; a new one takes *room*.  Raises ProfileError for too many."""
    known = counts.get(key)
    if known is None:
        room.take()
    counts[key] = (known or 0) + count


def meaningful(condition: object) -> None:
    """Raise Malformed unless *condition* holds."""
    if not condition:
        raise Malformed


def count_of(text: bytes) -> int:
    """Return the number *text*: decimal digits, below 2**63.  Raises Malformed."""
    if len(text) < _FEW_DIGITS and text.isdigit():  # of bytes, ASCII digits alone; `decimal` takes twice the time
        return int(text)
    try:
        return decimal(text, _COUNT_LIMIT)
    except NumberFormatError:
        raise Malformed from None


def hex_of(text: bytes) -> int:
    """Return the number *text*: hexadecimal digits, with or without 0x, below 2**64.  Raises Malformed."""
    try:
        return hexadecimal(text[2:] if text[:2] in (b"0x", b"0X") else text, _ADDRESS_LIMIT)
    except NumberFormatError:
        raise Malformed from None
