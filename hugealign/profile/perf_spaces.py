"""Where processes that perf sampled have mapped the binary, and which of its functions is at an address there."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hugealign.elf import textplaces
from hugealign.elf.image import Segment
from hugealign.elf.symbols import Functions
from hugealign.elf.textplaces import Layout
from hugealign.elf.windows import BASE_PAGE, align_down
from hugealign.profile.model import MemoryRoom

_SPACE = 512  # bytes that a process takes, without its mappings
_PID = 128  # bytes that a process takes if only its number is kept
_MAP = 384  # bytes that one mapping of a process takes, as it is and as text
FOREIGN = -2
#: The offset in the file of text that was mapped from where the file has none of it.
ELSEWHERE = 1 << 63


@dataclass(slots=True)
class Space:
    """One process: where the binary is mapped, and what frames mean there."""

    maps: list[tuple[int, int, int]] = field(default_factory=list)  # start, end, offset in the file
    text: list[tuple[int, int, int]] = field(default_factory=list)  # start, end, difference to an address of the file
    leaves: dict[bytes, tuple[int, int]] = field(default_factory=dict)  # by frame: function, offset in it
    callers: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    above: set[bytes] = field(default_factory=set)  # frames still to be looked at
    strange: bool = False  # whether text was mapped from elsewhere
    mapped: bool = False  # whether an event says that it is
    frames: int = 0  # bytes of the leaves and the callers

    def move(self, maps: list[tuple[int, int, int]], segments: list[tuple[int, int, int]]) -> None:
        """Note that the binary, with text *segments* (start, end, shift), is now mapped at *maps*."""
        self.maps = maps
        self.strange = any(at == ELSEWHERE for _, _, at in maps)
        self.text = [
            (begin - at + max(at, first), begin - at + min(at + end - begin, last), at - begin + shift)
            for begin, end, at in maps
            for first, last, shift in segments
            if max(at, first) < min(at + end - begin, last)
        ]
        self.leaves.clear()
        self.callers.clear()
        self.frames = 0

    @property
    def size(self) -> int:
        """The bytes that the mappings take."""
        return _MAP * (len(self.maps) + len(self.text))


class Program:
    """The text of the binary: finds the function at an address of a process, or at an offset in the file."""

    def __init__(self, functions: Functions, layouts: Sequence[Layout] = ()) -> None:
        self.functions = functions
        self.layouts = layouts
        # A debug file does not say where in the program's file a segment is; until a mapping tells, as GNU ld puts it.
        image = functions.image
        base = align_down(image.load_segments[0].p_vaddr, BASE_PAGE) if image.load_segments else 0
        self.unplaced = [s for s in image.text_segments if not s.p_filesz]
        self.strange = False  # whether text was mapped from a place where none of them is
        self._lay([(s, s.p_offset if s.p_filesz else s.p_vaddr - base) for s in image.text_segments])

    def _lay(self, texts: Sequence[tuple[Segment, int]]) -> None:
        """Take the segments of text to lie in the file where *texts* says."""
        self.texts = texts
        self.segments = sorted((at, at + s.p_memsz, s.p_vaddr - at) for s, at in texts)
        # A program that is not moved needs no known mapping.
        self.fixed = [(s.p_vaddr, s.p_vaddr + s.p_memsz, at) for s, at in texts if self.functions.image.fixed]

    def place(self, size: int, offset: int) -> bool:
        """Learn where the program's text lies in its file from a mapping of *size* bytes of code at *offset*.

        Return whether it can be there: a copy with other addresses may have run under the program's name.
        """
        pages = textplaces.pages(self.functions.image)
        layout = textplaces.mapped(self.layouts, size, offset, pages)
        if layout is not None:
            self.unplaced = []
            self._lay([(s, s.p_offset) for s in textplaces.texts(layout)])
            return True
        for s in self.unplaced:
            at = textplaces.place(s, size, offset, pages)
            if at is not None:
                self.unplaced.remove(s)
                self._lay([(segment, at if segment is s else place) for segment, place in self.texts])
                return True
        places = ((at, end) for at, end, _ in self.segments)
        fits = bool(self.unplaced) or textplaces.is_part(places, size, offset, pages)
        self.strange |= not fits
        return fits

    def at_address(self, address: int, space: Space) -> tuple[int, int]:
        """Return the function at *address* (or NOWHERE, FOREIGN), and the offset in it."""
        for start, end, shift in space.text:
            if start <= address < end:
                return self._at(address + shift)
        return FOREIGN, 0

    def at_either(self, number: int, space: Space) -> tuple[int, int]:
        """Return the same for an address, or for an offset in the file where the binary is not mapped."""
        for start, end, _ in space.maps:
            if start <= number < end:
                return self.at_address(number, space)
        return self.at_offset(number)

    def at_offset(self, offset: int) -> tuple[int, int]:
        """Return the same for an offset in the file."""
        for start, end, shift in self.segments:
            if start <= offset < end:
                return self._at(offset + shift)
        return FOREIGN, 0

    def _at(self, vaddr: int) -> tuple[int, int]:
        function = self.functions.at(vaddr)
        return function, vaddr - self.functions.starts[function] if function >= 0 else 0


class Processes:
    """The processes that mapped the binary; all others share *unmoved*: a machine has millions of processes a day.

    Of a binary at fixed addresses, those that execute other programs share *nowhere*: Python's can be at the same ones.
    """

    def __init__(self, program: Program, room: MemoryRoom) -> None:
        self.program, self.room = program, room
        self.moved: dict[bytes, Space] = {}
        self.nowhere = Space()
        self.unmoved = Space()
        self.unmoved.move(program.fixed, program.segments)
        self.frames = 0  # bytes of the known ones, of all processes

    def of(self, pid: bytes) -> Space:
        """Return the process."""
        return self.moved.get(pid, self.unmoved)

    def move(self, pid: bytes, maps: list[tuple[int, int, int]], *, mapped: bool) -> None:
        """Note where the binary is now; *mapped*: an event says so."""
        space = self.moved.get(pid)
        if space is None or space is self.nowhere:
            self.room.take(_SPACE)
            space = self.moved[pid] = Space()
        self.frames -= space.frames
        before = space.size
        space.move(maps, self.program.segments)
        space.mapped = mapped
        self.room.take(space.size - before, 0)

    def elsewhere(self, pid: bytes) -> None:
        """Note that a process executes another file, unless it has mapped the binary."""
        space = self.of(pid)
        if self.program.fixed and not space.mapped and space is not self.nowhere:
            self.room.take(_PID, 0)
            self.moved[pid] = self.nowhere

    def fork(self, parent: bytes, child: bytes) -> None:
        """Note that *child* has the mappings of *parent*."""
        space = self.of(parent)
        if space is self.nowhere:
            self.elsewhere(child)
        else:
            self.move(child, list(space.maps), mapped=space.mapped)

    def place(self, size: int, offset: int) -> bool:
        """Note that code of the binary is mapped so, and return whether it can be; see `Program.place`."""
        before = self.program.segments
        fits = self.program.place(size, offset)
        if self.program.segments != before:
            self.frames -= self.unmoved.frames
            self.unmoved.move(self.program.fixed, self.program.segments)
        return fits
