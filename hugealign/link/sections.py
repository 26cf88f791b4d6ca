"""Which sections of code the inputs of a link have: what an order can name, and what lies in one piece.

Names are taken from each object's table of section names alone, which is fast: twenty thousand sections in hundredths
of a second.  A name may be there that no section bears; then a linker is given a pattern that matches nothing.
"""

import os
import struct

from hugealign.link import estimate
from hugealign.link.ordering import PLAIN_PATH, Choices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from hugealign.link.command import Command

    Place = tuple[str, bytes, int, int]

ARCHIVE, MEMBER_HEADER = b"!<arch>\n", 60  # ar(5)
_SHDR, _LARGE = 64, 64 << 20
_SYM = struct.Struct("<IBBHQQ")
_SHT_SYMTAB, _STT_FUNCTIONS = b"\2\0\0\0", (2, 10)  # STT_FUNC, STT_GNU_IFUNC
_EHDR, _ET_REL = struct.Struct("<6s10xH22xQ12xHH"), 1  # magic, e_type, e_shoff, e_shnum, e_shstrndx
_SHT_PROGBITS, _SHF_EXECINSTR = 1, 4
_FIRST = 128  # section headers; GNU as puts one for each COMDAT group before that of .text
_START_FILES = ("crt", "Scrt", "rcrt", "gcrt", "Mcrt", "grcrt")
_SUFFIXES = tuple(b".c .cc .cpp .cxx .c++ .C .s .S .m .mm .f .f90 .d .rs".split())
#: What may begin the name of a function's own section; the second kind is that of its cold part if there is a first.
_PREFIXES = ((b".text.", b".text.hot.", b".text.startup.", b".text.exit."), (b".text.unlikely.", b".text.split."))


class Piece:
    """An object file that has code in ``.text`` itself: compiled without -ffunction-sections, or assembled.

    *path* is the object's, or the archive's if it is a *member*; *names* are the functions there that are sought.
    """

    __slots__ = ("member", "names", "path")

    def __init__(self, path: str, member: bytes, names: set[bytes]) -> None:
        self.path = path
        self.member = member
        self.names = names

    def __str__(self) -> str:
        """Return the name for a message."""
        return f"{self.path}({os.fsdecode(self.member)})" if self.member else self.path

    def pattern(self) -> bytes:
        """Return what matches it alone in a linker script, empty if its name means more than itself there.

        It is a pattern, because a script makes an input of a plain name.
        """
        name = os.fsencode(self.path)
        if (name + self.member).translate(None, PLAIN_PATH):
            return b""
        if self.member:
            name += b":" + self.member
        return name[:-1] + b"[" + name[-1:] + b"]"


class Sections:
    """What was found.

    *choices* are the sections of the functions sought; they are *complete* unless some cannot be known before the link
    (link-time optimisation, thin archives, linker scripts).
    *objects* are the names of the object files that have the function of a name from a source file, with its sections.
    """

    __slots__ = ("choices", "objects")

    def __init__(self, names: "Collection[bytes]") -> None:
        self.choices = Choices(names)
        self.objects: dict[tuple[bytes, bytes], list[tuple[bytes, bytes]]] = {}

    @property
    def complete(self) -> bool:
        """Whether the sections of all inputs are known."""
        return not self.choices.others


def find(command: "Command", names: "Collection[bytes]", local: "Collection[tuple[bytes, bytes]]" = ()) -> Sections:
    """Return which sections for the functions *names* the inputs of *command* have.

    *local* are those, name and source file, that are sought by object too.
    """
    found = Sections(names)
    sought: dict[bytes, list[bytes]] = {}
    for name, source in local:
        sought.setdefault(source.rpartition(b"/")[2], []).append(name)
    for path, fd in _opened(estimate.inputs(command)):
        try:
            for member, offset, size in objects(fd):
                table = _names(fd, offset, size)
                if table is None:
                    found.choices.others = True
                    continue
                found.choices.add(table)
                if sought:
                    _local(found, (member or os.fsencode(path)).rpartition(b"/")[2], table, sought)
        except (OSError, ValueError, OverflowError):
            found.choices.others = True
    found.objects = {
        (name, source): found.objects[name, base]
        for name, source in local
        if (name, base := source.rpartition(b"/")[2]) in found.objects
    }
    return found


def objects(fd: int, with_names: bool = False) -> "Iterator[tuple[bytes, int, int]]":
    """Yield name, offset and size of each member of the archive *fd*; of another file, no name and all of it.

    With *with_names* the member that has the long names comes too.  Raises OSError, ValueError.
    """
    size = os.fstat(fd).st_size
    if os.pread(fd, 8, 0) != ARCHIVE:
        yield b"", 0, size
        return
    long_names, offset = b"", len(ARCHIVE)
    while offset + MEMBER_HEADER <= size:
        header = os.pread(fd, MEMBER_HEADER, offset)
        offset += MEMBER_HEADER
        member_size = int(header[48:58])
        if member_size < 0:
            raise ValueError
        name = header[:16].rstrip()
        if name == b"//":
            long_names = os.pread(fd, member_size, offset)
            if with_names:
                yield name, offset, member_size
        elif name not in (b"/", b"/SYM64/"):
            if name[:1] == b"/" and name[1:].isdigit():
                name = long_names[int(name[1:]) :].partition(b"\n")[0]
            yield name.rstrip(b"/"), offset, member_size
        offset += member_size + member_size % 2


def _names(fd: int, base: int, size: int) -> bytes | None:
    """Return the section names of the object at *base*, None if its functions' sections are yet to be made."""
    head = os.pread(fd, 64, base)
    if head[:6] != b"\x7fELF\x02\x01" or len(head) < 64 or head[16:18] != b"\x01\0":
        return b"" if head[:4] == b"\x7fELF" else None
    e_shoff, e_shstrndx = int.from_bytes(head[40:48], "little"), int.from_bytes(head[62:64], "little")
    if e_shstrndx == 0xFFFF:  # SHN_XINDEX (System V ABI, chapter 4): the number is in the first section header
        e_shstrndx = int.from_bytes(os.pread(fd, _SHDR, base + e_shoff)[40:44], "little")
    table = _contents(fd, base, size, os.pread(fd, _SHDR, base + e_shoff + e_shstrndx * _SHDR))
    return None if b".gnu.lto_" in table else table


def _contents(fd: int, base: int, size: int, header: bytes) -> bytes:
    """Return what is in the section with *header* of the object at *base*.  Raises ValueError if it cannot be there."""
    offset, length = int.from_bytes(header[24:32], "little"), int.from_bytes(header[32:40], "little")
    if offset + length > size or length > _LARGE:
        raise ValueError
    return os.pread(fd, length, base + offset)


def _local(found: Sections, base: bytes, table: bytes, sought: dict[bytes, list[bytes]]) -> None:
    stem = base.removesuffix(b".o")
    # a.o, a.c.o (CMake, Meson), prog-a.o (Automake) of a.c
    for source in {stem, stem.rpartition(b"_")[2], stem.rpartition(b"-")[2]}:
        for candidate in sought.keys() & {source, *(source + suffix for suffix in _SUFFIXES)}:
            for name in sought[candidate]:
                for prefixes in _PREFIXES:
                    if there := [prefix + name for prefix in prefixes if b"%b%b\0" % (prefix, name) in table]:
                        found.objects.setdefault((name, candidate), []).extend((base, section) for section in there)
                        break


def in_one_piece(command: "Command") -> "list[Place]":
    """Return where the objects of *command* are that have code in ``.text`` itself: path, member, offset, size.

    The C library's own start (``crt1.o``) does not count.
    """
    found = []
    for path, fd in _opened(path for path in estimate.inputs(command) if not _is_start(path)):
        try:
            for member, offset, size in objects(fd):
                if _headers(fd, offset, size)[1]:
                    found.append((path, member, offset, size))
        except (OSError, ValueError, OverflowError):
            continue
    return found


def pieces(places: "list[Place]", names: set[bytes]) -> list[Piece]:
    """Return the objects among those `in_one_piece` in which some of the functions *names* lie in ``.text``."""
    found: list[Piece] = []
    files: dict[str, list[Place]] = {}
    for place in places if names else ():
        files.setdefault(place[0], []).append(place)
    for path, fd in _opened(files):
        try:
            defined = _members_with(fd, names)
            for _, member, offset, size in files[path]:
                if defined is None or offset - MEMBER_HEADER in defined:
                    inside = names & _functions(fd, offset, size, *_headers(fd, offset, size))
                    found += [Piece(path, member, inside)] if inside else []
        except (OSError, ValueError, OverflowError):
            continue
    return found


def _members_with(fd: int, names: set[bytes]) -> set[int] | None:
    """Return where the members of an archive begin that its index has *names* of; None if there is no index."""
    head = os.pread(fd, len(ARCHIVE) + MEMBER_HEADER, 0)
    if not head.startswith(ARCHIVE + b"/ "):
        return None
    data = os.pread(fd, min(int(head[56:66]), _LARGE), len(head))
    end = 4 + 4 * int.from_bytes(data[:4], "big")
    listed = data[end:].split(b"\0")
    places = [int.from_bytes(data[at : at + 4], "big") for at in range(4, min(end, len(data)), 4)]
    return {place for place, name in zip(places, listed, strict=False) if name in names}


def whole(command: "Command") -> tuple[list[str], int]:
    """Return the objects of *command*, outside of archives, that are in one piece, and how many objects there are.

    The C library's own start (``crt1.o``) does not count.
    """
    paths = [path for path in command.inputs if path.endswith(".o") and not _is_start(path)]
    found = []
    for path, fd in _opened(paths):
        try:
            found += [path] if _headers(fd, 0, os.fstat(fd).st_size)[1] else []
        except (OSError, ValueError, OverflowError):
            continue
    return found, len(paths)


def _opened(paths: "Iterable[str]") -> "Iterator[tuple[str, int]]":
    """Yield those of *paths* that can be opened, with a descriptor that is good until the next."""
    for path in paths:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError):
            continue
        try:
            yield path, fd
        finally:
            os.close(fd)


def _is_start(path: str) -> bool:
    return path.rpartition("/")[2].startswith(_START_FILES)


def _headers(fd: int, base: int, size: int) -> tuple[bytes, int]:
    """Return the section headers of the object at *base*, and the number of ``.text`` if anything is in it, else 0.

    Assemblers make ``.text`` before all other sections of code, whether anything comes to be in it or not.
    """
    head = os.pread(fd, _EHDR.size, base)
    if len(head) < _EHDR.size:
        return b"", 0
    magic, e_type, e_shoff, e_shnum, e_shstrndx = _EHDR.unpack(head)
    if magic != b"\x7fELF\x02\x01" or e_type != _ET_REL:
        return b"", 0
    for count in (min(_FIRST, e_shnum), e_shnum):
        headers = os.pread(fd, count * _SHDR, base + e_shoff)
        kinds = headers[4::_SHDR]  # the lowest bytes of sh_type
        number, header = 0, b""
        while (number := kinds.find(_SHT_PROGBITS, number + 1)) >= 0:
            header = _header(headers, number)
            if header[8] & _SHF_EXECINSTR:
                break
        if number < 0:
            continue
        if header[32:40] == bytes(8):  # the usual one, of which no more has to be read
            return headers, 0
        if count == e_shnum:
            start = int.from_bytes(header[:4], "little")
            name = _contents(fd, base, size, _header(headers, e_shstrndx))[start : start + 6]
            return headers, number if name == b".text\0" else 0
    return b"", 0


def _header(headers: bytes, number: int) -> bytes:
    header = headers[number * _SHDR : (number + 1) * _SHDR]
    if len(header) < _SHDR:
        raise ValueError
    return header


def _functions(fd: int, base: int, size: int, headers: bytes, text: int) -> set[bytes]:
    """Return the functions in the section *text* of the object at *base*."""
    for at in range(0, len(headers), _SHDR):
        if headers[at + 4 : at + 8] == _SHT_SYMTAB:
            symtab = headers[at : at + _SHDR]
            strings = _contents(fd, base, size, _header(headers, int.from_bytes(symtab[40:44], "little")))
            symbols = _contents(fd, base, size, symtab)
            symbols = symbols[: len(symbols) - len(symbols) % _SYM.size]
            return {
                strings[name : strings.find(b"\0", name)]
                for name, info, _, section, _, _ in _SYM.iter_unpack(symbols)
                if section == text and info & 15 in _STT_FUNCTIONS
            }
    return set()
