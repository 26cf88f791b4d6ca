"""One link with the order of a profile: the words for the linker, and the note of the build."""

import os
import struct

from hugealign.elf import buildnote
from hugealign.elf.windows import text_windows
from hugealign.link import linkers, ordering
from hugealign.link.sections import Sections, find, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hugealign.elf.image import Image
    from hugealign.link.command import Command

#: version, flags, page_size, hot_start, hot_end, windows: what is written when the link is done, in one piece.
_SIGNED = struct.Struct("<IIQQQI")
_NAMED = 5  # objects, in a message


class Ordered:
    """The *order* of a profile, for one *linker* and *command*."""

    def __init__(self, order: ordering.Order, linker: linkers.Linker, command: "Command") -> None:
        self.order = order
        self.linker = linker
        self.command = command
        self._found: Sections | None = None

    def words(self, machine: int, memory_file: "Callable[[str, bytes], str]") -> list[str]:
        """Return the linker's options for the order, which *memory_file* (name, contents) makes a path of."""
        form = self.linker.order_form(machine)
        if form == linkers.SYMBOLS:
            data = ordering.symbols(self.order)
        elif form == linkers.SECTIONS:
            data = ordering.sections(self.order, self.choices())
        else:
            data = ordering.script(self.order, self.choices(), self.found().objects, self.linker.hot_place)
        assert form is not None  # noqa: S101 - else there would be no Ordered
        return self.linker.order_words(form, memory_file("order", data))

    def found(self) -> Sections:
        """Return what sections the inputs have."""
        if self._found is None:
            self._found = find(self.command, {entry for entry in self.order.names if entry[1]})
        return self._found

    def choices(self) -> ordering.Choices:
        """Return the sections that the functions may be in."""
        return ordering.Choices(self.found().names, others=not self.found().complete)

    def note(self, page_size: int) -> bytes:
        """Return the note for the link: of version 0, which no reader takes for one, until `sign` completes it."""
        fields = (0, buildnote.PADDED, page_size, 0, 0, self.order.windows)
        return buildnote.pack(fields, self.order.identity)

    def sign(self, path: str, image: "Image") -> tuple[int, int] | None:
        """Complete the note in the linked file; return the addresses of the hot functions, None without a note."""
        section = next((s for s in image.sections if s.name == buildnote.SECTION), None)
        if section is None or section.sh_size < buildnote.DESCRIPTION + _SIGNED.size:
            return None
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            offset = section.sh_offset + buildnote.DESCRIPTION
            version, flags, page_size, *distances, budget = _SIGNED.unpack(os.pread(fd, _SIGNED.size, offset))
            if version:
                return None  # not ours: an input has brought one along
            start, end = (
                (section.sh_addr + place + distance) % (1 << 64)
                for place, distance in zip((buildnote.HOT_START, buildnote.HOT_END), distances, strict=True)
            )
            end = max(start, end)
            # Other programs of the build get the same profile: with none of its functions, or fewer windows.
            there = sum(last - first for _, first, last in text_windows(image, page_size)) // page_size
            windows = min(budget, there) if start < end else 0
            os.pwrite(fd, _SIGNED.pack(buildnote.VERSION, flags, page_size, start, end, windows), offset)
        finally:
            os.close(fd)
        return start, end

    def complaint(self) -> str | None:
        """Return what to say of a link in which no function was placed, if its objects are the reason."""
        found, count = whole(self.command)
        if 2 * len(found) <= count:
            return None
        return f"no function could be ordered: compiled without -ffunction-sections: {_some(found)}"

    def summary(self) -> str:
        """Return what became of the order, for HUGEALIGN_DEBUG."""
        choices, names = self.choices(), self.order.names
        if self.found().complete:
            missing = sum(not choices.of(name) for name, _ in names)
            placed = f"{missing} of {len(names)} functions are in no section of their own"
        else:
            placed = "the sections of some inputs are not known before the link"
        objects, count = whole(self.command)
        return f"order: {placed}; {len(objects)} of {count} objects without -ffunction-sections: {_some(objects)}"


def _some(paths: list[str]) -> str:
    return ", ".join(paths[:_NAMED]) + (", …" if len(paths) > _NAMED else "") if paths else "none"
