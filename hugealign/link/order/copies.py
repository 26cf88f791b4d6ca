"""Copies of object files in which the sections of ordered functions have other names: an order for mold.

mold takes no order, but puts output sections of code in the order of their names, and sections that it does not know
keep their names.  wild puts them in the order in which it reads them, so an object in front has them all, empty.
So the functions of an order go into output sections of their own.  One for each function would make tens of thousands,
so there are at most GROUPS for the functions that ran and GROUPS for the others.  These divide the order into parts, in
its order; within a part, functions lie as the inputs have them.  Inside a window, any order serves the instruction TLB
as well as another.

The copies are files without a name: nothing is left behind, however the link ends.  The originals are only read.
"""

import os

from hugealign.elf import relocatable
from hugealign.elf.image import SHF_EXECINSTR, SHT_PROGBITS, section_table
from hugealign.elf.relocatable import SHDR, UNREADABLE
from hugealign.io import ar
from hugealign.io.descriptors import file_at, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hugealign.link.command import Command

#: The prefix of the output sections' names: it sorts before ``.fini``, otherwise mold's first.
PREFIX = ".Hugealign."
_HOT, _REST = PREFIX + "hot.", PREFIX + "rest."
GROUPS = 64


def groups(hot: int, count: int) -> list[bytes]:
    """Return the output section for each function of an order of *count*; the first *hot* of these ran."""
    return [*_groups(_HOT, hot), *_groups(_REST, count - hot)]


def _groups(prefix: str, count: int) -> list[bytes]:
    sections = [f"{prefix}{number:02}".encode() for number in range(GROUPS)]
    share = max(count, GROUPS)
    return [sections[index * GROUPS // share] for index in range(count)]


def names() -> list[str]:
    """Return the names of all output sections that functions may get, in their intended order."""
    return [f"{prefix}{number:02}" for prefix in (_HOT, _REST) for number in range(GROUPS)]


def is_hot(section: str) -> bool:
    """Return whether *section* of a linked file holds functions that ran."""
    return section.startswith(_HOT)


class Copies:
    """The copies for one link, made in *directory*, or in memory if *directory* cannot have files without a name."""

    def __init__(self, directory: str) -> None:
        self.made: dict[str, str] = {}  # the copy's path, and the original's
        self._directory = directory

    def substitute(
        self, words: list[str], command: "Command", names: "Callable[[str, str], list[dict[bytes, bytes]]]"
    ) -> list[str]:
        """Return the linker's *words* with copies for the inputs that have sections to rename.

        *names* takes an input and the file name of the object, and returns tables from a section to its new name; the
        first table that has a section counts.
        """
        words = list(words)
        _allow_many_files()
        # --exclude-libs refers to archives by their names.
        archives = not any("exclude-libs" in word for word in words)
        for place, path in zip(command.places, command.inputs, strict=True):
            try:
                with file_at(path) as fd:
                    if copy := self._copy(fd, path, names, archives):
                        words[place] = copy
                        self.made[copy] = path
            except UNREADABLE:
                continue  # the linker places it as without an order, and reports what is wrong with it
        return words

    def _copy(
        self, fd: int, path: str, names: "Callable[[str, str], list[dict[bytes, bytes]]]", archives: bool
    ) -> str | None:
        """Return the path of a copy of the object or archive *fd* with sections renamed, None if it needs no copy.

        Raises OSError, and ValueError if it cannot be read.
        """
        members = list(ar.members(fd, with_names=True))
        edits = [
            _edits(fd, offset, size, names(path, os.fsdecode(name or os.fsencode(path)).rpartition("/")[2]))
            for name, offset, size in members
        ]
        whole = members[:1] == [(b"", 0, os.fstat(fd).st_size)]  # an object by itself
        if not any(edits) or not (whole or archives):
            return None
        target = _nameless(self._directory)
        try:
            at = 0 if whole else os.pwrite(target, ar.MAGIC, 0)
            for (_, offset, size), changes in zip(members, edits, strict=True):
                length = max([size, *(place + len(data) for place, data in changes)])
                if not whole:
                    header = os.pread(fd, ar.HEADER, offset - ar.HEADER)
                    at += os.pwrite(target, b"%b%-10d%b" % (header[:48], length, header[58:]), at)
                _fill(fd, target, offset, at, size)
                for place, data in changes:
                    write_all(target, data, at + place)
                at += length
                at += os.pwrite(target, b"\n", at) if length % 2 and not whole else 0
            os.set_inheritable(target, True)
        except BaseException:
            os.close(target)
            raise
        return f"/proc/self/fd/{target}"


def _allow_many_files() -> None:
    """Raise the limit of open files to its maximum, as mold does; copies beyond it are left out."""
    from resource import RLIMIT_NOFILE, getrlimit, setrlimit

    hard = getrlimit(RLIMIT_NOFILE)[1]
    try:
        setrlimit(RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        return


def _edits(fd: int, base: int, size: int, names: "Sequence[Mapping[bytes, bytes]]") -> list[tuple[int, bytes]]:
    """Return offsets and data to write in a copy of the object at *base*: names behind its end, headers in place."""
    header = relocatable.read_object(fd, base)
    if header is None:
        return []
    headers, order = bytearray(section_table(fd, header)), header.byte_order
    kind, flags = (4, 8) if order == "little" else (7, 15)  # the lowest bytes of sh_type and sh_flags
    code = [
        number
        for number, (of_kind, of_flags) in enumerate(zip(headers[kind::SHDR], headers[flags::SHDR], strict=False))
        if of_kind == SHT_PROGBITS and of_flags & SHF_EXECINSTR
    ]
    at = header.e_shstrndx * SHDR
    table = relocatable.contents(fd, base, size, relocatable.section(bytes(headers), header.e_shstrndx), order)
    added: dict[bytes, bytes] = {}
    more = b""
    for place in [number * SHDR for number in code]:
        name = int.from_bytes(headers[place : place + 4], order)
        section = table[name : table.find(b"\0", name)]
        for each in names:
            renamed = each.get(section)
            if renamed is not None:
                if renamed not in added:
                    added[renamed] = (len(table) + len(more)).to_bytes(4, order)
                    more += renamed + b"\0"
                headers[place : place + 4] = added[renamed]
                break
    if not added:
        return []
    headers[at + 24 : at + 40] = size.to_bytes(8, order) + (len(table) + len(more)).to_bytes(8, order)
    return [(size, table + more), (header.e_shoff, bytes(headers))]


def _nameless(directory: str) -> int:
    try:
        return os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:  # not every file system has it
        return os.memfd_create("object", os.MFD_CLOEXEC)


def _fill(source: int, target: int, start: int, place: int, size: int) -> None:
    """Copy *size* bytes from *start* of *source* to *place* of *target*."""
    done = 0
    while done < size:
        try:
            count = os.copy_file_range(source, target, size - done, start + done, place + done)
        except OSError:  # between file systems, and into memory
            os.lseek(target, place + done, os.SEEK_SET)
            count = os.sendfile(target, source, start + done, size - done)
        if count == 0:
            raise ValueError
        done += count
