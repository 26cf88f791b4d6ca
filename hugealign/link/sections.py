"""Which sections of code the inputs of a link have: what an order can name.

Names are taken from each object's table of section names alone, which is fast: twenty thousand sections in hundredths
of a second.  A name may be there that no section bears; then a linker is given a pattern that matches nothing.
"""

import os

from hugealign.link import estimate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from hugealign.link.command import Command

_ARCHIVE, _MEMBER_HEADER = b"!<arch>\n", 60  # ar(5)
_SHDR, _LARGE = 64, 64 << 20
_START_FILES = ("crt", "Scrt", "rcrt", "gcrt", "Mcrt", "grcrt")
_SUFFIXES = tuple(b".c .cc .cpp .cxx .c++ .C .s .S .m .mm .f .f90 .d .rs".split())
_PREFIXES = (b".text.", b".text.hot.", b".text.startup.", b".text.exit.", b".text.unlikely.", b".text.split.")


class Sections:
    """What was found.

    *names* are the section names of the objects; they are *complete* unless some cannot be known before the link
    (link-time optimisation, thin archives, linker scripts).
    *objects* are the names of the object files that have the function of a name from a source file.
    """

    __slots__ = ("complete", "names", "objects")

    def __init__(self) -> None:
        self.names: set[bytes] = set()
        self.complete = True
        self.objects: dict[tuple[bytes, bytes], list[bytes]] = {}


def find(command: "Command", local: "Collection[tuple[bytes, bytes]]") -> Sections:
    """Return what the inputs of *command* have; *local* are the functions, name and source file, sought by object."""
    found = Sections()
    sought: dict[bytes, list[bytes]] = {}
    for name, source in local:
        sought.setdefault(source.rpartition(b"/")[2], []).append(name)
    for path in estimate.inputs(command):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError):
            continue
        try:
            _file(fd, path, found, sought)
        except (OSError, ValueError, OverflowError):
            found.complete = False
        finally:
            os.close(fd)
    found.objects = {
        (name, source): found.objects[name, base]
        for name, source in local
        if (name, base := source.rpartition(b"/")[2]) in found.objects
    }
    return found


def _file(fd: int, path: str, found: Sections, sought: dict[bytes, list[bytes]]) -> None:
    size = os.fstat(fd).st_size
    magic = os.pread(fd, 8, 0)
    if magic != _ARCHIVE:
        _add(found, os.fsencode(path), _names(fd, 0, size), sought)
        return
    long_names, offset = b"", len(_ARCHIVE)
    while offset + _MEMBER_HEADER <= size:
        header = os.pread(fd, _MEMBER_HEADER, offset)
        offset += _MEMBER_HEADER
        member_size = int(header[48:58])
        if member_size < 0:
            raise ValueError
        name = header[:16].rstrip()
        if name == b"//":
            long_names = os.pread(fd, member_size, offset)
        elif name not in (b"/", b"/SYM64/"):
            if name[:1] == b"/" and name[1:].isdigit():
                name = long_names[int(name[1:]) :].partition(b"\n")[0]
            _add(found, name.rstrip(b"/"), _names(fd, offset, member_size), sought)
        offset += member_size + member_size % 2


def whole(command: "Command") -> tuple[list[str], int]:
    """Return the objects of *command*, outside of archives, without -ffunction-sections, and how many there are.

    Those have code in the section ``.text`` itself.  The C library's own start (``crt1.o``) does not count.
    """
    found, count = [], 0
    for path in command.inputs:
        if path.endswith(".o") and not path.rpartition("/")[2].startswith(_START_FILES):
            count += 1
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            except (OSError, ValueError):
                continue
            try:
                found += [path] if _plain_text(fd) else []
            except (OSError, ValueError, OverflowError):
                continue
            finally:
                os.close(fd)
    return found, count


def _plain_text(fd: int) -> bool:
    head = os.pread(fd, 64, 0)
    if head[:6] != b"\x7fELF\x02\x01" or len(head) < 64:
        return False
    e_shoff, e_shnum = int.from_bytes(head[40:48], "little"), int.from_bytes(head[60:62], "little")
    headers = os.pread(fd, e_shnum * _SHDR, e_shoff)
    e_shstrndx = int.from_bytes(head[62:64], "little") * _SHDR
    offset, length = (int.from_bytes(headers[e_shstrndx + at : e_shstrndx + at + 8], "little") for at in (24, 32))
    names = os.pread(fd, min(length, _LARGE), offset)
    for at in range(0, len(headers), _SHDR):
        name = int.from_bytes(headers[at : at + 4], "little")
        if names[name : name + 6] == b".text\0" and any(headers[at + 32 : at + 40]):
            return True
    return False


def _names(fd: int, base: int, size: int) -> set[bytes] | None:
    """Return the section names of the object at *base*, None if its functions' sections are yet to be made."""
    head = os.pread(fd, 64, base)
    if head[:6] != b"\x7fELF\x02\x01" or len(head) < 64 or head[16:18] != b"\x01\0":
        return set() if head[:4] == b"\x7fELF" else None
    e_shoff, e_shstrndx = int.from_bytes(head[40:48], "little"), int.from_bytes(head[62:64], "little")
    if e_shstrndx == 0xFFFF:  # SHN_XINDEX (System V ABI, chapter 4): the number is in the first section header
        e_shstrndx = int.from_bytes(os.pread(fd, _SHDR, base + e_shoff)[40:44], "little")
    entry = os.pread(fd, _SHDR, base + e_shoff + e_shstrndx * _SHDR)
    offset, length = int.from_bytes(entry[24:32], "little"), int.from_bytes(entry[32:40], "little")
    if offset + length > size or length > _LARGE:
        raise ValueError
    table = os.pread(fd, length, base + offset)
    if b".gnu.lto_" in table:
        return None
    # Assemblers let the name of a section be the end of the name of its relocations.
    return {name.removeprefix(b".rela") for name in table.split(b"\0")}


def _add(found: Sections, path: bytes, names: set[bytes] | None, sought: dict[bytes, list[bytes]]) -> None:
    if names is None:
        found.complete = False
        return
    found.names |= names
    if not sought:
        return
    base = path.rpartition(b"/")[2]
    stem = base.removesuffix(b".o")
    # a.o, a.c.o (CMake, Meson), prog-a.o (Automake) of a.c
    for source in {stem, stem.rpartition(b"_")[2], stem.rpartition(b"-")[2]}:
        for candidate in sought.keys() & {source, *(source + suffix for suffix in _SUFFIXES)}:
            for name in sought[candidate]:
                if any(prefix + name in names for prefix in _PREFIXES):
                    found.objects.setdefault((name, candidate), []).append(base)
