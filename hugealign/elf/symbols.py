"""The functions of a linked file: from its symbol table, else from its unwind information and dynamic symbols.

See System V ABI, chapter 4, "Symbol Table".  Every number in the file is untrusted: `Contents` bounds what is read, and
the string table bounds the names.
"""

import os
import re
import struct
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter

from hugealign.diagnosis.refusal import DiagnosedError
from hugealign.elf.constants import EM_ARM, SHN_UNDEF, SHT_DYNSYM, STB_GLOBAL, STB_LOCAL, STT_FILE
from hugealign.elf.contents import Contents, filled
from hugealign.elf.frames import read_frames
from hugealign.elf.image import (
    ET_DYN,
    ET_EXEC,
    SHF_EXECINSTR,
    SHN_XINDEX,
    SHT_NOBITS,
    SHT_SYMTAB,
    STT_FUNC,
    STT_GNU_IFUNC,
    Image,
    Section,
    read_image,
)
from hugealign.elf.notes import read_notes
from hugealign.errors import HugealignError, MalformedElfError, cause
from hugealign.io.descriptors import file_at
from hugealign.io.units import printable

_NAMES_FACTOR = 4  # names may share their ends in the string table; beyond this they are meant to fill memory
_MOST = 1 << 22  # functions of one file; the largest programs have about a million
_MOST_COUNTED = 1 << 26  # bytes of a symbol table in which functions are counted

#: Sections whose contents the linker or the C library places.
_NOT_ORDERED = (".init", ".fini", ".plt", ".iplt")
_LEADING = (".init", ".plt", ".iplt")

_PERF_BUILD_ID = 40  # digits

#: Compilers give the part of a function that is not expected to run a symbol of this form.
COLD = re.compile(r"(.+)\.cold(?:\.\d+)?\Z", re.DOTALL)


@dataclass(slots=True)
class Functions:
    """The functions of one file in the order of their addresses.

    *starts* are addresses as in p_vaddr and *sizes* are bytes, without overlap: a symbol inside another function is
    another name of that function.  *names* are the symbols to give to a linker, empty if there is none; *files* are the
    source files of local ones, empty if unknown.  *by_name* has all names, with their functions in the order of the
    symbol table.  *text* and *lead* are bytes: of the text segments, and of the sections that linkers put before the
    first function (``.init``, ``.plt``).  *source* says where the functions were found.
    """

    starts: list[int]
    sizes: list[int]
    names: list[str]
    files: list[str]
    by_name: dict[str, list[int]]
    build_id: str = ""
    text: int = 0
    lead: int = 0
    source: str = ""
    image: Image = field(default_factory=lambda: Image(ET_EXEC, 0, (), (), 0))

    def __len__(self) -> int:
        return len(self.starts)

    def at(self, address: int) -> int:
        """Return the index of the function that contains *address*, or -1."""
        index = bisect_right(self.starts, address) - 1
        return index if index >= 0 and address < self.starts[index] + self.sizes[index] else -1

    def having(self, name: str) -> Sequence[int]:
        """Return the functions that have *name*: several if local ones share it."""
        return self.by_name.get(name, ())

    def is_build(self, build_id: str) -> bool:
        """Whether *build_id*, hexadecimal, is that of this file; perf before 5.12 makes all of them 20 bytes long."""
        ours = self.build_id
        return bool(ours) and build_id in (ours, ours[:_PERF_BUILD_ID].ljust(_PERF_BUILD_ID, "0"))

    def cold_part_of(self, index: int) -> str | None:
        """Return the name of the function whose cold part this is, None if it is not a cold part."""
        name = self.names[index]
        match = COLD.match(name) if ".cold" in name else None
        return match.group(1) if match else None


#: One candidate: address; minus its size, so the longest at an address sorts first; the rank of its name (global, weak,
#: local, none); name; source file.  Plain tuples, because a large program has a million.
_Symbol = tuple[int, int, int, str, str]
_GLOBAL, _WEAK, _LOCAL, _UNNAMED = range(4)


def read_functions(path: str | os.PathLike[str]) -> Functions:
    """Return the functions of the file at *path*.

    Raises NotElfError, MalformedElfError, OSError; HugealignError if it is not linked, or nothing shows its functions.
    """
    with file_at(path) as fd:
        image = read_image(fd)
        if image.e_type not in (ET_EXEC, ET_DYN):
            raise DiagnosedError("file.object")
        source, symbols = _all_symbols(image, fd)
        limit = max((s.p_vaddr + s.p_memsz for s in image.text_segments), default=0)
        ends = {s.sh_addr + s.sh_size for s in image.sections if s.sh_flags & SHF_EXECINSTR}
        functions = _placed(symbols, limit, {*(end for end in ends if end <= limit), limit})
        functions.source = source
        functions.image = image
        functions.build_id = read_notes(fd, image).build_id
    functions.text = sum(s.p_memsz for s in image.text_segments)
    functions.lead = sum(
        s.sh_size for s in image.sections if s.sh_flags & SHF_EXECINSTR and s.name.startswith(_LEADING)
    )
    if not functions.starts:
        raise DiagnosedError("file.no-functions")
    return functions


def count_functions(fd: int, image: Image, start: int, end: int) -> int | None:
    """Return how many addresses from *start* up to *end* begin a function; None without a readable symbol table.

    No names are read, which would cost most of the time.  Raises OSError and MalformedElfError.
    """
    table = next((s for s in image.sections if s.sh_type == SHT_SYMTAB), None)
    if table is None or table.sh_size > _MOST_COUNTED or not (image.is64 and image.little):
        return None
    addresses: set[int] = set()
    for _, part in filled(fd, table.sh_offset, table.sh_size, 24):
        words = memoryview(part)[: len(part) // 24 * 24].cast("Q")  # st_name, st_info, …; st_value; st_size
        for first, value in zip(words[::3], words[1::3], strict=True):
            if start <= value < end and first >> 32 & 15 in (STT_FUNC, STT_GNU_IFUNC):
                addresses.add(value)
    return len(addresses)


def functions_of(path: str) -> Functions:
    """Return the functions of the file at *path*.  Raises HugealignError, which names the file."""
    try:
        return read_functions(path)
    except (HugealignError, OSError, ValueError) as error:
        raise HugealignError(f"{printable(path)}: {cause(error)}") from None


def _all_symbols(image: Image, fd: int) -> tuple[str, list[_Symbol]]:
    tables = {kind: next((s for s in image.sections if s.sh_type == kind), None) for kind in (SHT_SYMTAB, SHT_DYNSYM)}
    if (table := tables[SHT_SYMTAB]) and (symbols := _symbols(image, fd, table)):
        return ".symtab", symbols
    table = tables[SHT_DYNSYM]
    dynamic = _symbols(image, fd, table) if table else []
    if frames := read_frames(image, fd):
        known = {symbol[0] for symbol in dynamic}
        unnamed = [(start, start - end, _UNNAMED, "", "") for start, end, _ in frames if start not in known]
        return ".eh_frame and .dynsym", dynamic + unnamed
    return ".dynsym", dynamic


def _symbols(image: Image, fd: int, table: Section) -> list[_Symbol]:
    """Return the functions in a symbol table, in its order."""
    layout = struct.Struct(image.order + ("IBBHQQ" if image.is64 else "IIIBBH"))
    if table.sh_link >= len(image.sections) or table.sh_offset + table.sh_size > image.file_size:
        raise MalformedElfError("symbol table")
    strings = image.sections[table.sh_link]
    if strings.sh_offset + strings.sh_size > image.file_size or strings.sh_type == SHT_NOBITS:
        raise MalformedElfError("string table")
    contents = Contents(fd, strings.sh_offset, strings.sh_size)
    blob = contents.data
    executable = {
        index
        for index, s in enumerate(image.sections)
        if s.sh_flags & SHF_EXECINSTR and not s.name.startswith(_NOT_ORDERED)
    }
    clear = ~1 if image.e_machine == EM_ARM else ~0  # bit 0 of a Thumb function says that it is one
    names: dict[int, str] = {}
    left = _NAMES_FACTOR * contents.filled + 1
    symbols: list[_Symbol] = []
    file_at = 0
    parts = filled(fd, table.sh_offset, table.sh_size, layout.size)  # an empty entry
    for row in chain.from_iterable(layout.iter_unpack(part) for _, part in parts):
        if image.is64:
            name_at, info, _, section, value, size = row
        else:
            name_at, value, size, info, _, section = row
        kind, bind = info & 15, info >> 4
        if kind == STT_FILE:
            file_at = name_at
            continue
        if kind not in (STT_FUNC, STT_GNU_IFUNC) or section == SHN_UNDEF:
            continue
        if section not in executable and section != SHN_XINDEX:
            continue
        for at in (name_at, file_at) if bind == STB_LOCAL else (name_at,):
            if at not in names:
                end = blob.find(b"\0", at)
                raw = blob[at : end if end >= 0 else None]
                left -= len(raw)
                if left < 0:
                    raise MalformedElfError("string table")
                names[at] = raw.decode("utf-8", "surrogateescape")
        if name := names[name_at]:
            if bind == STB_LOCAL:
                symbols.append((value & clear, -size, _LOCAL, name, names[file_at]))
            else:
                symbols.append((value & clear, -size, _GLOBAL if bind == STB_GLOBAL else _WEAK, name, ""))
        if len(symbols) > _MOST:
            raise MalformedElfError("symbol table")
    return symbols


def _placed(symbols: list[_Symbol], limit: int, ends: set[int]) -> Functions:
    """Return the functions without overlap, sorted; one without a size extends to the next, or to one of *ends*.

    None extends beyond *limit*, the end of the text.  Behind the last one there may be a pad, in a section of its own.
    """
    functions = Functions([], [], [], [], {})
    starts, sizes, names, files = functions.starts, functions.sizes, functions.names, functions.files
    best = _UNNAMED
    last = end = -1
    # By address and size; among equals the first in the table stays first.  Sorting twice by a number takes half the
    # time of sorting by pairs.
    ordered = sorted(symbols, key=itemgetter(1))
    ordered.sort(key=itemgetter(0))
    for start, minus_size, rank, name, file in ordered:
        if start < end or start == last:
            if start == last and rank < best:
                names[-1], files[-1], best = name, file, rank
            continue
        if starts and not sizes[-1]:
            sizes[-1] = start - last
        size = -minus_size
        if limit and size > limit - start:
            size = min(size, max(limit - start, 1))
        starts.append(start)
        sizes.append(size)
        names.append(name)
        files.append(file)
        best, last, end = rank, start, start + size
    if starts and not sizes[-1]:
        sizes[-1] = min((end - starts[-1] for end in ends if end > starts[-1]), default=1)
    by_name = functions.by_name
    place = dict(zip(starts, range(len(starts)), strict=True))
    for start, _, _, name, _ in symbols:
        if name:
            index = place.get(start, -1)
            if index < 0:  # another name inside a function
                index = bisect_right(starts, start) - 1
            indices = by_name.get(name)
            if indices is None:
                by_name[name] = [index]
            elif index not in indices[-8:]:  # aliases in many files; the same function twice does no harm
                indices.append(index)
    return functions
