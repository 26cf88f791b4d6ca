"""One link with the order of a profile: the words for the linker, and the note of the build."""

import os
import struct

from hugealign.elf import buildnote
from hugealign.elf.windows import text_windows
from hugealign.link import linkers, ordering
from hugealign.link.beside import Beside
from hugealign.link.sections import Piece, Sections, find, in_one_piece, pieces, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hugealign.elf.image import Image
    from hugealign.link.command import Command
    from hugealign.link.renamed import Copies
    from hugealign.link.sections import Place

#: version, flags, page_size, hot_start, hot_end, windows: what is written when the link is done, in one piece.
_SIGNED = struct.Struct("<IIQQQI")
_NAMED = 5  # objects, in a message
_OTHERS = "use -fuse-ld=lld or -fuse-ld=bfd"


class Ordered:
    """The *order* of a profile, for one *linker* and *command*; *objects* in one piece are placed if so asked.

    *real* is the linker's path.
    """

    def __init__(
        self, order: ordering.Order, linker: linkers.Linker, command: "Command", objects: bool = False, real: str = ""
    ) -> None:
        self.order = order
        self.linker = linker
        self.command = command
        self.objects = objects
        self.real = real
        self.copies: Copies | None = None
        self.whole: list[Place] | None = None
        self._options: list[str] = []
        self._found: Sections | None = None
        self._pieces: list[Piece] | None = None

    def options(self, machine: int, memory_file: "Callable[[str, bytes], str]") -> list[str]:
        """Return the linker's options for the order, which *memory_file* (name, contents) makes a path of."""
        form = self.linker.order_form(machine)
        assert form is not None  # noqa: S101 - else there would be no Ordered
        if form != linkers.COPIES and not self._options:  # gold links twice
            plugin = self._plugin()
            if plugin:
                form = linkers.SCRIPT  # the plugin's sections keep their names, while ThinLTO's symbols change
            self._options = self.linker.order_words(form, memory_file("order", self._text(form))) + plugin
        return self._options

    def _plugin(self) -> list[str]:
        """Return the option for the pass plugin that was built for this very lld, if code is yet to be made."""
        if self.linker.name != "lld":
            return []
        from hugealign.link import plugins

        plugin = plugins.find(self.real)
        return [f"--load-pass-plugin={plugin}"] if plugin and not self.found().complete else []

    def arguments(
        self, given: list[str], words: list[str], machine: int, memory_file: "Callable[[str, bytes], str]"
    ) -> list[str]:
        """Return the user's arguments: as *given*, or *words*, which are the same expanded, with copies for inputs."""
        if self.linker.order_form(machine) != linkers.COPIES:
            return given
        words = self._with_copies(words)
        if all(word[:1] != "@" for word in given):
            return words
        return ["@" + memory_file("words", "\n".join(map(_quoted, words)).encode("utf-8", "surrogateescape"))]

    def _with_copies(self, words: list[str]) -> list[str]:
        from hugealign.link.renamed import Copies, group

        self.copies = Copies(os.path.dirname(self.command.output) or ".")
        order, choices, objects = self.order, self.choices(), self.found().objects
        anywhere: dict[bytes, bytes] = {}
        by_name: dict[str, dict[bytes, bytes]] = {}
        by_path: dict[str, dict[bytes, bytes]] = {}
        strange = choices.strange(order.names)
        for index, name in enumerate(order.names):
            section = group(index, order.hot, len(order.names))
            own = choices.of(name) if name in strange else [b".text." + name]
            places = objects.get((name, order.sources[index]), ()) if own and index in order.sources else ()
            for file, source_section in places:
                by_name.setdefault(os.fsdecode(file), {}).setdefault(source_section, section)
            for source_section in () if places else own:
                anywhere.setdefault(source_section, section)
        for name, pieces_with_it in (self._placed_whole() if self.objects else {}).items():
            for piece in pieces_with_it:
                by_path[piece.path] = {b".text": group(order.names.index(name), order.hot, len(order.names))}

        def names(path: str, base: str) -> list[dict[bytes, bytes]]:
            return [by_path.get(path, {}), by_name.get(base, {}), anywhere]

        return self.copies.substitute(words, self.command, names)

    def _text(self, form: str) -> bytes:
        if form == linkers.SYMBOLS:
            among = self.pieces_with(set(self.order.names[self.order.hot :]))
            return ordering.symbols(self.order, set().union(*(piece.names for piece in among)))
        choices = self.choices()
        if form == linkers.SECTIONS:
            return ordering.sections(self.order, choices)
        placed = self._placed_whole() if self.objects else {}
        patterns = {name: [piece.pattern() for piece in found] for name, found in placed.items()}
        return ordering.script(self.order, choices, self.found().objects, patterns)

    def found(self) -> Sections:
        """Return what sections the inputs have."""
        if self._found is None:
            self._found = find(self.command, self.order.names, self.order.local())
        return self._found

    def choices(self) -> ordering.Choices:
        """Return the sections that the functions may be in."""
        return self.found().choices

    def pieces(self) -> list[Piece]:
        """Return the objects in one piece that have hot functions."""
        if self._pieces is None:
            hot, choices = self.order.names[: self.order.hot], self.choices()
            self._pieces = self.pieces_with({name for name in choices.strange(hot) if not choices.of(name)})
        return self._pieces

    def pieces_with(self, names: set[bytes]) -> list[Piece]:
        """Return the objects in one piece that have some of *names*."""
        if self.whole is None and names:
            self.whole = in_one_piece(self.command)
        return pieces(self.whole or [], names)

    def _placed_whole(self) -> dict[bytes, list[Piece]]:
        """Return the objects in one piece that can be placed, each by the first of its functions in the order."""
        rank = {name: number for number, name in reversed(list(enumerate(self.order.names)))}
        placed: dict[bytes, list[Piece]] = {}
        for piece in self.pieces():
            if self._can_place(piece):
                placed.setdefault(min(piece.names, key=rank.__getitem__), []).append(piece)
        return placed

    def _can_place(self, piece: Piece) -> bool:
        return not piece.member if self.copies else bool(piece.pattern())

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
            if self.copies:
                from hugealign.link.renamed import is_hot

                hot = [s for s in image.sections if is_hot(s.name)]
                start = min((s.sh_addr for s in hot), default=0)
                end = max((s.sh_addr + s.sh_size for s in hot), default=0)
            end = max(start, end)
            # Other programs of the build get the same profile: with none of its functions, or fewer windows.
            there = sum(last - first for _, first, last in text_windows(image, page_size)) // page_size
            windows = min(budget, there) if start < end else 0
            os.pwrite(fd, _SIGNED.pack(buildnote.VERSION, flags, page_size, start, end, windows), offset)
        finally:
            os.close(fd)
        return start, end

    def complaint(self, machine: int) -> str | None:
        """Return what to say of hot functions that stay where they are because their objects are in one piece."""
        form = self.linker.order_form(machine)
        if form == linkers.SYMBOLS:
            return None  # lld moves the whole piece
        if self.copies and not self.copies.made and not self.found().complete:
            return f"linked without an order, which {self.linker.name} cannot make of link-time optimisation; {_OTHERS}"
        places = self.objects and form != linkers.SECTIONS
        left = [piece for piece in self.pieces() if not (places and self._can_place(piece))]
        if not left:
            return None
        functions = len(set().union(*(piece.names for piece in left)))
        what = (
            f"{functions} hot function{'s' * (functions > 1)} not placed, in {len(left)} object{'s' * (len(left) > 1)}"
        )
        offer = ", or have such objects placed whole: HUGEALIGN_ORDER_OBJECTS=1"
        if places:
            offer = ""  # which has names that a script cannot say
        elif form == linkers.SECTIONS:
            offer = ", or use -fuse-ld=bfd and HUGEALIGN_ORDER_OBJECTS=1, which places such objects whole"
        return (
            f"{what} without -ffunction-sections: {_some([str(piece) for piece in left])}"
            f"; compile again with hugealign and the profile{offer}"
        )

    def summary(self) -> str:
        """Return what became of the order, for HUGEALIGN_DEBUG."""
        names = self.order.names
        if self.found().complete:
            missing = sum(not self.choices().of(name) for name in names)
            placed = f"{missing} of {len(names)} functions are in no section of their own"
        else:
            placed = "the sections of some inputs are not known before the link"
        objects, count = whole(self.command)
        return f"order: {placed}; {len(objects)} of {count} objects without -ffunction-sections: {_some(objects)}"


def read(path: str, linker: linkers.Linker, command: "Command", machine: int, objects: bool, real: str) -> Ordered:
    """Return the order in the file at *path*, for `Ordered` of the rest.  Raises HugealignError, which names the file.

    LLD waits for the order, and if that has functions that did not run, for what lies in one piece (`symbols`).
    """
    data = ordering.load(path)

    def look() -> "tuple[bytes, list[Place] | None]":
        return ordering.identity(data), in_one_piece(command) if b"\tkind=" in data else None

    long = len(data) > ordering.LONG and linker.order_form(machine) == linkers.SYMBOLS
    beside = Beside(look) if long else None
    try:
        ordered = Ordered(ordering.parse(data, path), linker, command, objects, real)
    finally:
        identity, whole = beside.result() if beside else (ordering.identity(data), None)
    ordered.order.identity, ordered.whole = identity, whole
    return ordered


def _quoted(word: str) -> str:
    """Return *word* as it is written in a response file."""
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _some(paths: list[str]) -> str:
    return ", ".join(paths[:_NAMED]) + (", …" if len(paths) > _NAMED else "") if paths else "none"
