"""One link in the order of a profile: the words for the linker, and the build note."""

import os
import struct

from hugealign import orderfile
from hugealign.elf import notes
from hugealign.elf.windows import text_windows
from hugealign.errors import HugealignError
from hugealign.io.descriptors import SecondProcess, using
from hugealign.link import linkers
from hugealign.link.order import dialects
from hugealign.link.order.inputs import Sections, UnsplitObject, find, in_one_piece, pieces, whole
from hugealign.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.elf.image import Image
    from hugealign.link.job import Job
    from hugealign.link.order.copies import Copies
    from hugealign.link.order.dialects import LinkOrder
    from hugealign.link.order.inputs import Place
    from hugealign.link.running import MemoryFiles

#: version, flags, page_size, hot_start, hot_end, windows: written in one piece when the link is done.
_SIGNED = "IIQQQI"
_SIGNED_SIZE = struct.calcsize("<" + _SIGNED)
#: Variables that sh/launch.sh sets to the list for the compiler, and to the power of two that it aligns functions to.
BLOCKS, ALIGNED = "_HUGEALIGN_BLOCKS", "_HUGEALIGN_ALIGNED"
_NAMED = 5  # objects, in a message
_LOCAL, _COMPARISONS = 500, 4_000_000  # functions in a script for lld, and the comparisons these cost: 0.1 s
_FEW = 100  # hot functions for each that may share its name; with more, finding all sections does not pay
_OTHERS = "use -fuse-ld=lld or -fuse-ld=bfd"
_MAKE = "hugealign order PROFILE -b PROGRAM -o FILE"


class Words(Record):
    """What the order adds to a link: options *before* all others, the user's *arguments*, *copies* of inputs if any.

    *sections* are those of the inputs, *pieces* the objects in one piece with hot functions, if these were needed.
    """

    before: list[str]
    arguments: list[str]
    sections: Sections | None = None
    pieces: list[UnsplitObject] | None = None
    copies: "Copies | None" = None


class OrderedLink(Record):
    """The *order* of a profile, in the *form* that the *linker* of the *job* takes.

    *in_one_piece* are the inputs with code in ``.text`` itself, if these have been looked up already.
    """

    order: "LinkOrder"
    form: str
    linker: linkers.Linker
    job: "Job"
    in_one_piece: "list[Place] | None" = None

    def words(self, memory: "MemoryFiles") -> Words:
        """Return the words for the linker; the files that it reads go into *memory*."""
        form, plugin, blocks = self.form, self._plugin(), self._blocks()
        users = bool(self.job.command.sections)
        wait = form != linkers.SYMBOLS or plugin or users  # else lld need not wait for them
        sections = self._sections() if wait else None
        options: list[str] = []
        if plugin and sections and not sections.complete:
            # The plugin's sections keep their names, while ThinLTO's symbols change.
            form, options = linkers.SCRIPT, [f"--load-pass-plugin={plugin}"]
        pieces = None
        if form == linkers.SYMBOLS or sections is None:
            where = self._where_local(sections)
            apart = where.apart(self.order) if where else set()
            kept = self._kept(sections) if sections and users else set()
            if where and apart:
                most = _COMPARISONS // max(1, where.choices.count)
                text, apart = dialects.script_of_front(self.order, where.choices, where.objects, apart, most)
                options += ["-T", memory.file("local", text, self.job.settings.profile)]
            text = self._symbols(apart | kept)
        elif form == linkers.SECTIONS:
            text = dialects.sections(self.order, sections.choices)
        else:
            pieces = self._pieces(sections) if self.job.settings.order_objects else None
            placed = self._placed_whole(pieces or [])
            if form == linkers.COPIES:
                return self._copies(memory, sections, pieces, placed)
            patterns = {name: [piece.pattern() for piece in parts] for name, parts in placed.items()}
            text = dialects.script(self.order, sections.choices, sections.objects, patterns)
        path = memory.file("order", text, self.job.settings.profile)
        return Words([*self.linker.order_words(form, path), *options, *blocks], self.job.arguments, sections, pieces)

    def _plugin(self) -> str:
        """Return the pass plugin built for exactly this lld, for code yet to be generated; empty if there is none."""
        if self.linker.name != "lld" or os.environ.get(BLOCKS):
            return ""
        from hugealign.wrapper import plugin_list as listed

        return listed.find(self.job.real) or ""

    def _blocks(self) -> list[str]:
        """Return lld's options for blocks in link-time optimisation, as the launcher gives them to clang."""
        path, option, align = os.environ.get(BLOCKS, ""), "--lto-basic-block-sections=", "-align-all-functions="
        if not path or self.linker.name != "lld":
            return []
        power, words = os.environ.get(ALIGNED, ""), self.job.words
        options = [] if any(option[2:] in word for word in words) else [option + path]
        if options and power and not any(align in word for word in words):
            options += ["-mllvm", align + power]
        return options

    def _copies(
        self,
        memory: "MemoryFiles",
        sections: Sections,
        pieces: list[UnsplitObject] | None,
        placed: dict[bytes, list[UnsplitObject]],
    ) -> Words:
        """Return the user's words with copies for inputs; in a file in memory if the user had response files."""
        from hugealign.link.order.copies import Copies, groups

        command = self.job.command
        copies = Copies(os.path.dirname(command.output) or ".")
        order, choices, objects = self.order, sections.choices, sections.objects
        anywhere: dict[bytes, bytes] = {}
        by_name: dict[str, dict[bytes, bytes]] = {}
        by_path: dict[str, dict[bytes, bytes]] = {}
        strange = choices.strange(order.names)
        placed_in = groups(order.hot, len(order.names))
        for index, (name, section) in enumerate(zip(order.names, placed_in, strict=True)):
            if name not in strange and index not in order.sources:  # most of them, by the ten thousand
                anywhere.setdefault(b".text." + name, section)
                continue
            own = choices.of(name) if name in strange else [b".text." + name]
            places = objects.get((name, order.sources[index]), ()) if own and index in order.sources else ()
            for file, source_section in places:
                by_name.setdefault(os.fsdecode(file), {}).setdefault(source_section, section)
            for source_section in () if places else own:
                anywhere.setdefault(source_section, section)
        for name, pieces_with_it in placed.items():
            for piece in pieces_with_it:
                by_path[piece.path] = {b".text": placed_in[order.names.index(name)]}

        def names(path: str, base: str) -> list[dict[bytes, bytes]]:
            return [table for table in (by_path.get(path), by_name.get(base), anywhere) if table]

        words = copies.substitute(self.job.words, command, names)
        if any(word[:1] == "@" for word in self.job.arguments):
            text = "\n".join(map(_quoted, words)).encode("utf-8", "surrogateescape")
            words = ["@" + memory.file("words", text, self.job.settings.profile)]
        return Words([], words, sections, pieces, copies)

    def _symbols(self, apart: set[bytes]) -> bytes:
        among = self._pieces_with(set(self.order.names[self.order.hot :]))
        return dialects.symbols(self.order, apart.union(*(piece.names for piece in among)), apart)

    def _kept(self, sections: Sections) -> set[bytes]:
        """Return the functions that may be in a section that a script of the user requests.

        lld would sort them by its list within the section of the script, whose order the user may rely on.
        """
        of = sections.choices.of
        return {name for name in self.order.names if not (sections.complete and of(name))}

    def _where_local(self, sections: Sections | None) -> Sections | None:
        """Return the *sections* of the inputs if some hot functions, but not many, may share their names with others.

        For a name in its list lld places all local functions that have it.  So the few that ran get a script; lld
        compares each of its statements with each section, in 20 ns.  If they are next to none of the hot functions, lld
        may place them all.
        """
        count = sum(index < self.order.hot for index in self.order.sources)
        if not self.order.hot < count * _FEW or count > _LOCAL:
            return None
        sections = sections or self._sections()
        return sections if sections.complete and count * sections.choices.count <= _COMPARISONS else None

    def _sections(self) -> Sections:
        return find(self.job.command, self.order.names, self.order.local())

    def _pieces(self, sections: Sections) -> list[UnsplitObject]:
        """Return the objects in one piece that have hot functions."""
        hot, choices = self.order.names[: self.order.hot], sections.choices
        return self._pieces_with({name for name in choices.strange(hot) if not choices.of(name)})

    def _pieces_with(self, names: set[bytes]) -> list[UnsplitObject]:
        if not names:
            return []
        return pieces(in_one_piece(self.job.command) if self.in_one_piece is None else self.in_one_piece, names)

    def _placed_whole(self, objects: list[UnsplitObject]) -> dict[bytes, list[UnsplitObject]]:
        """Return the *objects* that can be placed, each under its first function in the order."""
        placed: dict[bytes, list[UnsplitObject]] = {}
        rank = {name: number for number, name in reversed(list(enumerate(self.order.names)))} if objects else {}
        for piece in objects:
            if self._can_place(piece):
                placed.setdefault(min(piece.names, key=rank.__getitem__), []).append(piece)
        return placed

    def _can_place(self, piece: UnsplitObject) -> bool:
        if self.form == linkers.COPIES:
            return not piece.member
        requested = self.job.command.requested_sections()
        return bool(piece.pattern()) and not (requested and requested(b".text"))

    def note(self) -> bytes:
        """Return the note for the link: its version is 0, which no reader accepts, until `sign` completes it."""
        size, threshold, order = self.job.settings.page_size, self.job.settings.pad_threshold, self.order
        note = notes.BuildNote(size, 0, 0, order.windows, True, order.identity, order.hot, threshold)
        return note.pack(not self.job.machine.big, version=0)

    def sign(self, image: "Image") -> tuple[int, int] | None:
        """Complete the note in the linked file; return the addresses of the hot functions, None without a note."""
        section = next((s for s in image.sections if s.name == notes.SECTION), None)
        if section is None or section.sh_size < notes.DESCRIPTION + _SIGNED_SIZE:
            return None
        signed = struct.Struct(image.order + _SIGNED)
        with using(os.open(self.job.command.output, os.O_RDWR | os.O_CLOEXEC)) as fd:
            offset = section.sh_offset + notes.DESCRIPTION
            try:
                version, flags, page_size, *distances, budget = signed.unpack(os.pread(fd, signed.size, offset))
            except (struct.error, OverflowError):
                return None  # the section is not where its header says
            if version or page_size != self.job.settings.page_size:
                return None  # the note of an input
            start, end = (
                (section.sh_addr + place + distance) % (1 << 64)
                for place, distance in zip((notes.HOT_START, notes.HOT_END), distances, strict=True)
            )
            if self.form == linkers.COPIES:
                from hugealign.link.order.copies import is_hot

                hot = [s for s in image.sections if is_hot(s.name)]
                start = min((s.sh_addr for s in hot), default=0)
                end = max((s.sh_addr + s.sh_size for s in hot), default=0)
            end = max(start, end)
            # Other programs of the build get the same profile, but may have none of its functions, or fewer windows.
            there = sum(last - first for _, first, last in text_windows(image, page_size)) // page_size
            windows = min(budget, there) if start < end else 0
            os.pwrite(fd, signed.pack(notes.VERSION, flags, page_size, start, end, windows), offset)
        return start, end

    def placed(self, hot: tuple[int, int]) -> str:
        """Return how many hot functions the linked file has between the addresses *hot*, by its symbols."""
        from hugealign.elf.symbols import read_functions  # slow, and for HUGEALIGN_DEBUG alone

        names = [name.decode("utf-8", "surrogateescape") for name in self.order.names[: self.order.hot]]
        try:
            functions = read_functions(self.job.output)
        except (HugealignError, OSError) as error:
            return f"order: no telling which of {len(names)} hot functions were placed: {error}"
        count = sum(any(hot[0] <= functions.starts[at] < hot[1] for at in functions.having(name)) for name in names)
        return f"order: {count} of {len(names)} hot functions placed"

    def nothing(self, hot: tuple[int, int] | None) -> str | None:
        """Return the warning that not one function lies between the addresses *hot*, where the order has some.

        Other programs of a build get the same order, and need not have its functions: it must be of this program.
        """
        program = os.fsencode(os.path.basename(self.job.output))
        if hot is None or hot[0] < hot[1] or not self.order.hot or self.order.binary != program:
            return None
        what = f"none of the {self.order.hot} hot functions of the order was placed, which is of a program of this name"
        return f"{what}; compile with -ffunction-sections, or make an order of this build: {_MAKE}"

    def complaint(self, words: Words) -> str | None:
        """Return the warning about hot functions that stay where they are because their objects are in one piece."""
        if self.form == linkers.SYMBOLS or words.sections is None:
            return None  # lld moves the whole piece
        if words.copies and not words.copies.made and not words.sections.complete:
            return f"linked without an order, which {self.linker.name} cannot make of link-time optimisation; {_OTHERS}"
        places = self.job.settings.order_objects and self.form != linkers.SECTIONS
        pieces = self._pieces(words.sections) if words.pieces is None else words.pieces
        # The plugin leaves fill among the other functions of its object.
        ran = self.order.ran() if pieces else set()
        left = [piece for piece in pieces if piece.names & ran and not (places and self._can_place(piece))]
        if not left:
            return None
        functions = len(ran & set().union(*(piece.names for piece in left)))
        what = (
            f"{functions} hot function{'s' * (functions > 1)} not placed, in {len(left)} object{'s' * (len(left) > 1)}"
        )
        offer = ", or have such objects placed whole: HUGEALIGN_ORDER_OBJECTS=1"
        if places:
            offer = ""  # their names are such that a script cannot express them
        elif self.form == linkers.SECTIONS:
            offer = ", or use -fuse-ld=bfd and HUGEALIGN_ORDER_OBJECTS=1, which places such objects whole"
        return (
            f"{what} without -ffunction-sections: {_some([str(piece) for piece in left])}"
            f"; compile with that option, as hugealign does where HUGEALIGN_PROFILE is set{offer}"
        )

    def summary(self, words: Words) -> str:
        """Return how much of the order was placed, for HUGEALIGN_DEBUG."""
        names = self.order.names
        sections = words.sections or self._sections()
        if sections.complete:
            missing = sum(not sections.choices.of(name) for name in names)
            placed = f"{missing} of {len(names)} functions are in no section of their own"
        else:
            placed = "the sections of some inputs are not known before the link"
        objects, count = whole(self.job.command)
        return f"order: {placed}; {len(objects)} of {count} objects without -ffunction-sections: {_some(objects)}"


def read(form: str, linker: linkers.Linker, job: "Job") -> OrderedLink:
    """Return the order that the settings of *job* name, for its link.  Raises HugealignError, which names the file.

    lld waits for the order and, if that has functions that did not run, for the objects in one piece (`symbols`).
    """
    path = job.settings.profile
    data = orderfile.contents(path)

    def look() -> "tuple[bytes, list[Place] | None]":
        return dialects.identity(data), in_one_piece(job.command) if b"\tkind=" in data else None

    if len(data) <= dialects.LONG or form != linkers.SYMBOLS:
        return OrderedLink(dialects.parse(data, path, dialects.identity(data)), form, linker, job)
    second = SecondProcess(look)
    try:
        order = dialects.parse(data, path)
    finally:
        identity, there = second.result(look)
    return OrderedLink(order.changed(identity=identity), form, linker, job, there)


def _quoted(word: str) -> str:
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _some(paths: list[str]) -> str:
    return ", ".join(paths[:_NAMED]) + (", …" if len(paths) > _NAMED else "") if paths else "none"
