"""Where processes that perf sampled have mapped the binary, and which of its functions is at an address there."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hugealign.elf import textplaces
from hugealign.elf.image import Segment
from hugealign.elf.symbols import Functions
from hugealign.elf.textplaces import Layout
from hugealign.elf.windows import BASE_PAGE, align_down, align_up
from hugealign.profile.model import MemoryRoom

_SPACE = 512  # bytes that a process takes, without its mappings
_MAP = 384  # bytes that one mapping of a process takes, as it is and as text
FOREIGN = -2


@dataclass(slots=True)
class Space:
    """One process: where the binary is mapped, and what frames mean there."""

    maps: list[tuple[int, int, int]] = field(default_factory=list)  # start, end, offset in the file
    text: list[tuple[int, int, int]] = field(default_factory=list)  # start, end, difference to an address of the file
    leaves: dict[bytes, tuple[int, int]] = field(default_factory=dict)  # by frame: function, offset in it
    callers: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    above: set[bytes] = field(default_factory=set)  # frames still to be looked at
    frames: int = 0  # bytes of the leaves and the callers

    def move(self, maps: list[tuple[int, int, int]], segments: list[tuple[int, int, int]]) -> None:
        """Note that the binary, with text *segments* (start, end, shift), is now mapped at *maps*."""
        self.maps = maps
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
        """Learn where in its file the text is of which *size* bytes from *offset* on are mapped for execution.

        Return whether that is another place than before.
        """
        pages = textplaces.pages(self.functions.image)
        layout = textplaces.mapped(self.layouts, size, offset, pages)
        if layout is not None:
            placed = [(s, s.p_offset) for s in textplaces.texts(layout)]
            same = [*self.texts] == placed
            self.unplaced = []
            self._lay(placed)
            return not same
        for s in self.unplaced:
            at = textplaces.place(s, size, offset, pages)
            if at is not None:
                self.unplaced.remove(s)
                self._lay([(segment, at if segment is s else place) for segment, place in self.texts])
                return True
        # Part of a segment can be mapped by itself, after madvise(2).
        page = pages[0] if (offset | size) % pages[-1] else pages[-1]
        parts = (
            align_down(at, page) <= offset and offset + size <= align_up(end, page) for at, end, _ in self.segments
        )
        self.strange |= not any(parts)
        return False

    def at_address(self, address: int, space: Space) -> tuple[int, int]:
        """Return the function at *address* (or NOWHERE, FOREIGN), and the offset in it."""
        for start, end, shift in space.text:
            if start <= address < end:
                return self._at(address + shift)
        return self.at_offset(
            next((address - start + at for start, end, at in space.maps if start <= address < end), address)
        )

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
    """The processes that mapped the binary; all others share *unmoved*: a machine has millions of processes a day."""

    def __init__(self, program: Program, room: MemoryRoom) -> None:
        self.program, self.room = program, room
        self.moved: dict[bytes, Space] = {}
        self.unmoved = Space()
        self.unmoved.move(program.fixed, program.segments)
        self.frames = 0  # bytes of the known ones, of all processes

    def of(self, pid: bytes) -> Space:
        """Return the process."""
        return self.moved.get(pid, self.unmoved)

    def move(self, pid: bytes, maps: list[tuple[int, int, int]]) -> None:
        """Note where the binary is mapped now."""
        space = self.moved.get(pid)
        if space is None:
            self.room.take(_SPACE)
            space = self.moved[pid] = Space()
        self.frames -= space.frames
        before = space.size
        space.move(maps, self.program.segments)
        self.room.take(space.size - before, 0)

    def place(self, size: int, offset: int) -> None:
        """Note that code of the binary is mapped so; see `Program.place`."""
        if self.program.place(size, offset):
            self.frames -= self.unmoved.frames
            self.unmoved.move(self.program.fixed, self.program.segments)
