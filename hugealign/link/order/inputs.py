"""The code sections of a link's inputs: the ones that an order can name, and the ones in one piece.

Names come from each object's table of section names alone, which is fast: twenty thousand sections in hundredths of a
second.  The table may contain a name that no section has; then a linker gets a pattern that matches nothing.
"""

import os

from hugealign.elf import relocatable
from hugealign.elf.image import ELFMAG, SHF_EXECINSTR, SHT_PROGBITS, section_table
from hugealign.elf.relocatable import SHDR, UNREADABLE, opened
from hugealign.io import ar
from hugealign.link import estimate
from hugealign.link.order.dialects import PLAIN_PATH, Choices
from hugealign.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from hugealign.link.command import Command
    from hugealign.link.order.dialects import LinkOrder

    Place = tuple[str, bytes, int, int]

_FIRST = 128  # section headers; GNU as puts one for each COMDAT group before that of .text
_START_FILES = ("crt", "Scrt", "rcrt", "gcrt", "Mcrt", "grcrt")
_SUFFIXES = tuple(b".c .cc .cpp .cxx .c++ .C .s .S .m .mm .f .f90 .d .rs".split())
#: Prefixes of a function's own section; the second kind holds its cold part if it also has a section of the first.
_PREFIXES = ((b".text.", b".text.hot.", b".text.startup.", b".text.exit."), (b".text.unlikely.", b".text.split."))


class UnsplitObject(Record):
    """An object file that has code in ``.text`` itself: compiled without -ffunction-sections, or assembled.

    *path* is the object's, or the archive's if it is a *member*; *names* are the wanted functions that it has.
    """

    path: str
    member: bytes
    names: set[bytes]

    def __str__(self) -> str:
        """Return the name for a message."""
        return f"{self.path}({os.fsdecode(self.member)})" if self.member else self.path

    def pattern(self) -> bytes:
        """Return a pattern that matches only this object in a linker script, empty if its name has special characters.

        It must be a pattern, because a script makes an input of a plain name.
        """
        name = os.fsencode(self.path)
        if (name + self.member).translate(None, PLAIN_PATH):
            return b""
        if self.member:
            name += b":" + self.member
        return name[:-1] + b"[" + name[-1:] + b"]"


class Sections:
    """The sections that `find` found.

    *choices* are the sections of the wanted functions; they are *complete* unless some cannot be known before the link
    (link-time optimisation, thin archives, linker scripts).
    *objects* maps a function's name and source file to the names of the object files that have it, with its sections.
    """

    def __init__(
        self,
        names: "Collection[bytes]",
        local: "Collection[bytes]" = (),
        requested: "Callable[[bytes], object] | None" = None,
    ) -> None:
        self.choices = Choices(names, local=local, requested=requested)
        self.objects: dict[tuple[bytes, bytes], list[tuple[bytes, bytes]]] = {}

    @property
    def complete(self) -> bool:
        """Whether the sections of all inputs are known."""
        return not self.choices.others

    def apart(self, order: "LinkOrder") -> set[bytes]:
        """Return the names that hot functions of *order*, all with known objects, share with other functions."""
        hot: dict[bytes, int] = {}
        unknown = set()
        for index in [index for index in order.sources if index < order.hot]:
            name = order.names[index]
            hot[name] = hot.get(name, 0) + 1
            places = self.objects.get((name, order.sources[index]), ()) if self.choices.of(name) else ()
            if not places or any(file.translate(None, PLAIN_PATH) for file, _ in places):
                unknown.add(name)
        return {name for name, count in hot.items() if self.choices.copies.get(name, 0) > count} - unknown


def find(command: "Command", names: "Collection[bytes]", local: "Collection[tuple[bytes, bytes]]" = ()) -> Sections:
    """Return the sections that the inputs of *command* have for the functions *names*.

    *local* are the functions, by name and source file, to look for by object too.
    """
    sections = Sections(names, [name for name, _ in local], command.requested_sections())
    sought: dict[bytes, list[bytes]] = {}
    for name, source in local:
        sought.setdefault(source.rpartition(b"/")[2], []).append(name)
    for path, fd in opened(estimate.inputs(command)):
        try:
            for member, offset, size in ar.members(fd):
                table = _names(fd, offset, size)
                if table is None:
                    sections.choices.others = True
                    continue
                sections.choices.add(table)
                if sought:
                    _local(sections, (member or os.fsencode(path)).rpartition(b"/")[2], table, sought)
        except UNREADABLE:
            sections.choices.others = True
    sections.objects = {
        (name, source): sections.objects[name, base]
        for name, source in local
        if (name, base := source.rpartition(b"/")[2]) in sections.objects
    }
    return sections


def _names(fd: int, base: int, size: int) -> bytes | None:
    """Return the section names of the object at *base*, None if its functions' sections do not exist yet."""
    table = relocatable.section_names(fd, base, size)
    if table is None:  # a shared object, whose sections do not matter; anything else may turn into code
        return b"" if os.pread(fd, 4, base) == ELFMAG else None
    return None if b".gnu.lto_" in table else table


def _local(sections: Sections, base: bytes, table: bytes, sought: dict[bytes, list[bytes]]) -> None:
    stem = base.removesuffix(b".o")
    # a.c becomes a.o, a.c.o (CMake, Meson) or prog-a.o (Automake); rustc's crate-HASH.crate.HASH-cgu.0.rcgu.o comes
    # from the unit named behind the first dot
    unit = stem.removesuffix(b".rcgu").partition(b".")[2]
    for source in {stem, stem.rpartition(b"_")[2], stem.rpartition(b"-")[2], unit}:
        for candidate in sought.keys() & {source, *(source + suffix for suffix in _SUFFIXES)}:
            for name in sought[candidate]:
                for prefixes in _PREFIXES:
                    if there := [prefix + name for prefix in prefixes if b"%b%b\0" % (prefix, name) in table]:
                        sections.objects.setdefault((name, candidate), []).extend((base, section) for section in there)
                        break


def in_one_piece(command: "Command") -> "list[Place]":
    """Return the objects of *command* that have code in ``.text`` itself: path, member, offset, size.

    The C library's start files (``crt1.o``) do not count.
    """
    objects = []
    for path, fd in opened(path for path in estimate.inputs(command) if not _is_start(path)):
        try:
            for member, offset, size in ar.members(fd):
                if _headers(fd, offset, size)[1]:
                    objects.append((path, member, offset, size))
        except UNREADABLE:
            continue
    return objects


def pieces(places: "list[Place]", names: set[bytes]) -> list[UnsplitObject]:
    """Return the objects among *places* (`in_one_piece`) that have some of the functions *names* in ``.text``."""
    unsplit: list[UnsplitObject] = []
    files: dict[str, list[Place]] = {}
    for place in places if names else ():
        files.setdefault(place[0], []).append(place)
    for path, fd in opened(files):
        try:
            defined = ar.members_that_define(fd, names)
            for _, member, offset, size in files[path]:
                if defined is None or offset - ar.HEADER in defined:
                    inside = names & relocatable.functions_in(fd, offset, size, *_headers(fd, offset, size))
                    unsplit += [UnsplitObject(path, member, inside)] if inside else []
        except UNREADABLE:
            continue
    return unsplit


def whole(command: "Command") -> tuple[list[str], int]:
    """Return the objects of *command* outside archives that are in one piece, and how many objects there are.

    The C library's start files (``crt1.o``) do not count.
    """
    paths = [path for path in command.inputs if path.endswith(".o") and not _is_start(path)]
    result = []
    for path, fd in opened(paths):
        try:
            result += [path] if _headers(fd, 0, os.fstat(fd).st_size)[1] else []
        except UNREADABLE:
            continue
    return result, len(paths)


def _is_start(path: str) -> bool:
    return path.rpartition("/")[2].startswith(_START_FILES)


def _headers(fd: int, base: int, size: int) -> tuple[bytes, int]:
    """Return the section headers of the object at *base*, and the number of ``.text`` if anything is in it, else 0.

    Assemblers create ``.text`` before all other code sections, even if it stays empty.
    """
    header = relocatable.read_object(fd, base)
    if header is None:
        return b"", 0
    big = header.order == ">"
    for count in (min(_FIRST, header.e_shnum), header.e_shnum):
        headers = section_table(fd, header, count)
        kinds = headers[7 if big else 4 :: SHDR]  # the lowest bytes of sh_type
        number, text = 0, b""
        while (number := kinds.find(SHT_PROGBITS, number + 1)) >= 0:
            text = relocatable.section(headers, number)
            if text[15 if big else 8] & SHF_EXECINSTR:
                break
        if number < 0:
            continue
        if text[32:40] == bytes(8):  # the usual case: no more has to be read
            return headers, 0
        if count == header.e_shnum:
            order = header.byte_order
            start = int.from_bytes(text[:4], order)
            names = relocatable.contents(fd, base, size, relocatable.section(headers, header.e_shstrndx), order)
            return headers, number if names[start : start + 6] == b".text\0" else 0
    return b"", 0
