"""Read the headers of an ELF file: both classes, both byte orders.

Names and layouts are those of the System V ABI, chapters 4 (object files) and 5 (program loading).  This runs
after every link, so it imports nothing but ``errno``, ``os``, ``struct`` and light modules of ours, and reads only the
headers, whatever the file's size.  Every number in the file is untrusted: each read is bounded by the file's length.
"""

import errno
import os
import struct

from hugealign.elf.machines import Machine, machine_of, name_of
from hugealign.errors import MalformedElfError, NotElfError
from hugealign.io.descriptors import file_at
from hugealign.records import Record, once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Literal

ELFMAG = b"\x7fELF"
ET_REL, ET_EXEC, ET_DYN, ET_CORE = 1, 2, 3, 4
EM_X86_64, EM_AARCH64 = 62, 183  # of what reads machine code; `machines` has the rows of all processors
PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE, PT_PHDR, PT_TLS = 1, 2, 3, 4, 6, 7
PT_GNU_STACK, PT_GNU_RELRO, PT_GNU_PROPERTY = 0x6474E551, 0x6474E552, 0x6474E553
PF_X, PF_W, PF_R = 1, 2, 4
SHT_NULL, SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_NOTE, SHT_NOBITS = 0, 1, 2, 3, 4, 7, 8
SHF_ALLOC, SHF_EXECINSTR, SHF_INFO_LINK, SHF_GNU_RETAIN, SHF_EXCLUDE = 2, 4, 0x40, 0x200000, 0x80000000
SHN_XINDEX = 0xFFFF
STT_FUNC, STT_GNU_IFUNC = 2, 10
NT_GNU_BUILD_ID, NT_GNU_PROPERTY_TYPE_0 = 3, 5
#: Sections that hold nothing but our padding; they count as room, not as text.
PAD_SECTIONS = (".hugealign.pad", "~hugealign.pad")
#: A section of what Go has compiled (cmd/link).
GO_SECTION = ".go.buildinfo"
_BASE_PAGE, _HUGE_PAGE = 4096, 2 << 20
DT_TEXTREL, DT_BIND_NOW, DT_FLAGS, DT_FLAGS_1 = 22, 24, 30, 0x6FFFFFFB
DF_TEXTREL, DF_BIND_NOW, DF_1_NOW, DF_1_PIE = 4, 8, 1, 0x08000000
DYNAMIC_LIMIT = 1 << 20  # bytes of the dynamic section that are read; real ones have less than a thousand
PN_XNUM = 0xFFFF
_NAMES_LIMIT = 1 << 24  # bytes of section names that are read; objects with a section per C++ function have megabytes
_NAME_LIMIT = 256  # bytes of one section name that are kept: more than in any that is looked for
_PROGRAM_HEADERS_LIMIT = 1 << 16  # load_elf_phdrs in fs/binfmt_elf.c: ENOEXEC beyond
_TABLE_LIMIT = 1 << 18  # headers in a table; linked files have tens, and a hostile one must not fill memory


class HeaderFormat:
    """Where the fields of the headers lie for one ELF class: struct formats without the byte order."""

    __slots__ = ("ehdr", "is64", "phdr", "phentsize", "shdr", "shentsize")

    def __init__(self, is64: bool) -> None:
        self.is64 = is64
        self.ehdr = "HHIQQQIHHHHHH" if is64 else "HHIIIIIHHHHHH"
        self.phdr = "IIQQQQQQ" if is64 else "IIIIIIII"
        self.shdr = "IIQQQQIIQQ" if is64 else "IIIIIIIIII"
        self.phentsize = struct.calcsize("<" + self.phdr)
        self.shentsize = struct.calcsize("<" + self.shdr)


_LAYOUTS = {1: HeaderFormat(is64=False), 2: HeaderFormat(is64=True)}  # by EI_CLASS


class Segment:
    """One program header.  Offsets, addresses and sizes are bytes; *header* is its own file offset."""

    __slots__ = ("header", "index", "p_align", "p_filesz", "p_flags", "p_memsz", "p_offset", "p_type", "p_vaddr")

    def __init__(
        self,
        p_type: int,
        p_flags: int,
        p_offset: int,
        p_vaddr: int,
        p_filesz: int,
        p_memsz: int,
        p_align: int,
        index: int = 0,
        header: int = 0,
    ) -> None:
        self.p_type = p_type
        self.p_flags = p_flags
        self.p_offset = p_offset
        self.p_vaddr = p_vaddr
        self.p_filesz = p_filesz
        self.p_memsz = p_memsz
        self.p_align = p_align
        self.index = index
        self.header = header

    @property
    def flags(self) -> str:
        """The protection as readelf writes it: ``R-E``, ``RW-``."""
        bits = ((PF_R, "R"), (PF_W, "W"), (PF_X, "E"))
        return "".join(letter if self.p_flags & bit else "-" for bit, letter in bits)


class Section:
    """One section header.  *header* is its own file offset."""

    __slots__ = (
        "header",
        "name",
        "sh_addr",
        "sh_addralign",
        "sh_flags",
        "sh_info",
        "sh_link",
        "sh_offset",
        "sh_size",
        "sh_type",
    )

    def __init__(
        self,
        name: str,
        sh_type: int,
        sh_flags: int,
        sh_addr: int,
        sh_offset: int,
        sh_size: int,
        sh_link: int = 0,
        sh_info: int = 0,
        sh_addralign: int = 1,
        header: int = 0,
    ) -> None:
        self.name = name
        self.sh_type = sh_type
        self.sh_flags = sh_flags
        self.sh_addr = sh_addr
        self.sh_offset = sh_offset
        self.sh_size = sh_size
        self.sh_link = sh_link
        self.sh_info = sh_info
        self.sh_addralign = sh_addralign
        self.header = header


class Image(Record):
    """The headers of one ELF file.

    *static_pie*: it says that it is a program (DF_1_PIE), though no interpreter loads it.  That is looked up only where
    it matters for its place in memory: if its first ``PT_LOAD`` is not at address 0, or its alignment is between a page
    and a huge one.
    """

    e_type: int
    e_machine: int
    segments: tuple[Segment, ...]
    sections: tuple[Section, ...]
    file_size: int
    is64: bool = True
    little: bool = True
    e_shoff: int = 0
    e_entry: int = 0
    static_pie: bool = False

    @property
    def order(self) -> str:
        """The byte order as `struct` writes it."""
        return "<" if self.little else ">"

    def first_segment(self, p_type: int) -> "Segment | None":
        """Return the first segment of that type, the only one that loaders look at; None if there is none."""
        return next((segment for segment in self.segments if segment.p_type == p_type), None)

    @once
    def machine(self) -> "Machine | None":
        """The row of its processor, None if it has none."""
        return machine_of(self.e_machine, self.is64, self.little)

    @property
    def base_page(self) -> str:
        """The size of its small pages, for people."""
        return f"{self.machine.pages[0] >> 10 if self.machine else 4} KiB"

    @property
    def processor(self) -> str:
        """The name of its processor, also of one without a row."""
        return name_of(self.e_machine, self.is64, self.little)

    @once
    def load_alignment(self) -> int:
        """The alignment that the loader gives the file, in bytes: the largest of its ``PT_LOAD`` segments.

        See ``maximum_alignment`` in fs/binfmt_elf.c, which skips values that are not powers of two; glibc since 2.35
        does the same (``p_align_max`` in elf/dl-load.c).
        """
        return max((s.p_align for s in self.load_segments if s.p_align & (s.p_align - 1) == 0), default=0)

    @property
    def fixed(self) -> bool:
        """Whether the addresses in the file are those in memory: no randomisation moves ET_EXEC."""
        return self.e_type == ET_EXEC

    @once
    def interpreted(self) -> bool:
        """Whether it names an interpreter, which the kernel loads beside it."""
        return self.first_segment(PT_INTERP) is not None

    @property
    def by_kernel(self) -> bool:
        """Whether the kernel places it, not the dynamic linker."""
        return self.fixed or self.interpreted or self.static_pie

    @once
    def code(self) -> tuple[tuple[int, int], ...]:
        """The ranges of addresses that hold code, ascending and apart: executable sections without our padding.

        Those of the text segments if the file has no such section.
        """
        ranges = [
            (s.sh_addr, s.sh_addr + s.sh_size)
            for s in self.sections
            if s.sh_flags & (SHF_ALLOC | SHF_EXECINSTR) == SHF_ALLOC | SHF_EXECINSTR
            and s.sh_size
            and s.sh_type != SHT_NOBITS
            and s.name not in PAD_SECTIONS
        ] or [(s.p_vaddr, s.p_vaddr + s.p_memsz) for s in self.text_segments]
        merged: list[tuple[int, int]] = []
        for start, end in sorted(ranges):
            if merged and start <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((start, end))
        return tuple(merged)

    @once
    def code_sums(self) -> tuple[list[int], list[int]]:
        """Where each range of `code` begins, and the bytes of code before each, and in the end of all."""
        sums = [0]
        for start, end in self.code:
            sums.append(sums[-1] + end - start)
        return [start for start, _ in self.code], sums

    @once
    def load_segments(self) -> tuple[Segment, ...]:
        """The segments that the kernel maps."""
        return tuple(s for s in self.segments if s.p_type == PT_LOAD)

    @once
    def text_segments(self) -> tuple[Segment, ...]:
        """The executable segments that the kernel maps; one in a well-linked file."""
        return tuple(s for s in self.segments if s.p_type == PT_LOAD and s.p_flags & PF_X)

    @once
    def coverages(self) -> "dict[tuple[int, int | None], tuple[Any, ...]]":
        """What `hugealign.elf.coverage` has computed of it, by its arguments: several rules need the same."""
        return {}

    @once
    def rodata_segments(self) -> tuple[Segment, ...]:
        """The segments that the kernel maps read-only: headers, constants, unwinding tables; RELRO is writable."""
        return tuple(s for s in self.segments if s.p_type == PT_LOAD and s.p_flags & (PF_R | PF_W | PF_X) == PF_R)


class ElfHeader:
    """What the ELF header at *base* of a file says, with the counts that did not fit there.

    *order* is that of its bytes, as `struct` writes it.
    """

    __slots__ = (
        "base",
        "e_entry",
        "e_flags",
        "e_machine",
        "e_phnum",
        "e_phoff",
        "e_shnum",
        "e_shoff",
        "e_shstrndx",
        "e_type",
        "layout",
        "order",
    )

    def __init__(self, base: int, layout: HeaderFormat, order: str, fields: "tuple[int, ...]") -> None:
        self.base = base
        self.layout = layout
        self.order = order
        self.e_type, self.e_machine, _, self.e_entry, self.e_phoff, self.e_shoff = fields[:6]
        self.e_flags = fields[6]
        self.e_phnum, _, self.e_shnum, self.e_shstrndx = fields[9:]

    @property
    def byte_order(self) -> "Literal['little', 'big']":
        """The byte order as `int.from_bytes` takes it."""
        return "little" if self.order == "<" else "big"

    @property
    def for_link(self) -> bool:
        """Whether it is an object for the links that hugealign lays out: ET_REL, 64-bit."""
        return self.e_type == ET_REL and self.layout.is64


def read_header(fd: int, base: int = 0) -> ElfHeader:
    """Read the ELF header at *base* of the file behind *fd*, where a member of an archive may begin.

    Raises NotElfError, MalformedElfError, OSError.
    """
    ident = _read(fd, base, 64, "ELF header", short_is_fine=True)
    if ident[:4] != ELFMAG:
        raise NotElfError("not an ELF file", "file.not-elf")
    if len(ident) < 52 or ident[4] not in (1, 2) or ident[5] not in (1, 2) or len(ident) < 52 + 12 * (ident[4] == 2):
        raise MalformedElfError("e_ident")
    layout = _LAYOUTS[ident[4]]
    order = "<" if ident[5] == 1 else ">"
    fields = struct.unpack_from(order + layout.ehdr, ident, 16)
    header = ElfHeader(base, layout, order, fields)
    e_phentsize, e_shentsize = fields[8], fields[10]
    if header.e_shoff and e_shentsize != layout.shentsize:
        raise MalformedElfError("e_shentsize")
    if header.e_phnum and e_phentsize != layout.phentsize:
        raise MalformedElfError("e_phentsize")
    if header.e_shoff and (header.e_phnum == PN_XNUM or not header.e_shnum or header.e_shstrndx == SHN_XINDEX):
        # System V ABI, chapter 4: counts that do not fit are kept in the first section header.
        data = _read(fd, base + header.e_shoff, layout.shentsize, "first section header")
        first = struct.unpack(order + layout.shdr, data)
        header.e_shnum = header.e_shnum or first[5]
        header.e_phnum = first[7] if header.e_phnum == PN_XNUM else header.e_phnum
        header.e_shstrndx = first[6] if header.e_shstrndx == SHN_XINDEX else header.e_shstrndx
    if max(header.e_phnum, header.e_shnum) > _TABLE_LIMIT:
        raise MalformedElfError("e_phnum" if header.e_phnum > _TABLE_LIMIT else "e_shnum")
    return header


def read_image(fd: int) -> Image:
    """Read the headers of the file behind *fd*, which stays open and is not moved.

    Raises NotElfError, MalformedElfError, OSError.
    """
    file_size = os.fstat(fd).st_size
    header = read_header(fd)
    e_type, layout, order, e_phnum = header.e_type, header.layout, header.order, header.e_phnum
    size = e_phnum * layout.phentsize
    if header.e_shnum * layout.shentsize > file_size:
        raise MalformedElfError("e_shnum")
    if size > file_size or (e_type in (ET_EXEC, ET_DYN) and size > _PROGRAM_HEADERS_LIMIT):
        raise MalformedElfError("e_phnum")
    table = _read(fd, header.e_phoff, size, "program header table") if size else b""
    segments = segments_of(table, order, layout, header.e_phoff)
    sections = _sections(fd, header) if header.e_shoff else ()
    offset, entry = header.e_shoff, header.e_entry
    image = Image(e_type, header.e_machine, segments, sections, file_size, layout.is64, order == "<", offset, entry)
    if e_type != ET_DYN or not image.load_segments or image.interpreted:
        return image
    if image.load_segments[0].p_vaddr or _BASE_PAGE < image.load_alignment < _HUGE_PAGE:
        flags_1 = dict(reversed(dynamic_entries(fd, image))).get(DT_FLAGS_1, 0)
        return image.changed(static_pie=bool(flags_1 & DF_1_PIE))
    return image


def dynamic_entries(fd: int, image: Image) -> list[tuple[int, int]]:
    """Return the tags and values of the dynamic section (System V ABI, chapter 5), as far as it can be read."""
    segment = image.first_segment(PT_DYNAMIC)
    if segment is None:
        return []
    entry = struct.Struct(image.order + ("qQ" if image.is64 else "iI"))
    table = read_or_nothing(fd, segment.p_offset, min(segment.p_filesz, DYNAMIC_LIMIT))
    entries: list[tuple[int, int]] = []
    for tag, value in entry.iter_unpack(table[: len(table) - len(table) % entry.size]):
        if tag == 0:
            break
        entries.append((tag, value))
    return entries


def notes_in(data: bytes, order: str, alignment: int) -> "Iterator[tuple[bytes, int, int, int]]":
    """Yield name and type of each note in *data*, and where its description begins and ends, perhaps behind *data*.

    *data* is aligned to *alignment* bytes.
    """
    step = 8 if alignment == 8 else 4  # gABI, "Note Section": so are the entries of a segment that is aligned to 8
    at = 0
    while at + 12 <= len(data):
        name_size, size, kind = struct.unpack_from(order + "III", data, at)
        name = at + 12
        start = name + name_size
        start += -start % step
        at = start + size
        yield data[name : name + name_size].rstrip(b"\0"), kind, start, at
        at += -at % step


def type_of(head: bytes) -> int:
    """Return e_type of the ELF file that begins with *head*; 0 if it is cut off before that."""
    return int.from_bytes(head[16:18], "big" if head[5:6] == b"\2" else "little")


def read_file(path: "str | bytes | os.PathLike[str]") -> Image:
    """Read the headers of the file at *path*.  Raises NotElfError, MalformedElfError, OSError."""
    with file_at(path) as fd:
        return read_image(fd)


def _read(fd: int, offset: int, size: int, what: str, short_is_fine: bool = False) -> bytes:
    try:
        data = os.pread(fd, size, offset)
    except OverflowError as error:  # no file is that long
        raise MalformedElfError(what) from error
    except OSError as error:
        if error.errno == errno.ESPIPE:
            raise NotElfError("not a regular file", "file.special") from error
        if error.errno in (errno.EINVAL, errno.EOVERFLOW) and offset:  # nor that (rw_verify_area in fs/read_write.c)
            raise MalformedElfError(what) from error
        raise
    if len(data) < size and not short_is_fine:
        raise MalformedElfError(what)
    return data


def read_or_nothing(fd: int, offset: int, size: int) -> bytes:
    """Return up to *size* bytes at *offset* of the file behind *fd*; none if they cannot be read."""
    try:
        return os.pread(fd, size, offset)
    except (OSError, OverflowError):
        return b""


def segments_of(table: bytes, order: str, layout: HeaderFormat, offset: int) -> tuple[Segment, ...]:
    """Return the segments in a whole *table* of program headers, which is at *offset* in its file."""
    segments = []
    for index, fields in enumerate(struct.iter_unpack(order + layout.phdr, table)):
        if layout.is64:
            p_type, p_flags, p_offset, p_vaddr, _, p_filesz, p_memsz, p_align = fields
        else:
            p_type, p_offset, p_vaddr, _, p_filesz, p_memsz, p_flags, p_align = fields
        header = offset + index * layout.phentsize
        segments.append(Segment(p_type, p_flags, p_offset, p_vaddr, p_filesz, p_memsz, p_align, index, header))
    return tuple(segments)


def section_table(fd: int, header: ElfHeader, count: int | None = None) -> bytes:
    """Return the first *count* section headers, by default all.  Raises MalformedElfError, OSError."""
    size = (header.e_shnum if count is None else count) * header.layout.shentsize
    return _read(fd, header.base + header.e_shoff, size, "section header table")


def _sections(fd: int, header: ElfHeader) -> tuple[Section, ...]:
    size, offset = header.layout.shentsize, header.e_shoff
    headers = list(struct.iter_unpack(header.order + header.layout.shdr, section_table(fd, header)))
    names = b""
    if header.e_shstrndx < len(headers):
        names_offset, names_size = headers[header.e_shstrndx][4:6]
        names = _read(fd, names_offset, min(names_size, _NAMES_LIMIT), "section names", short_is_fine=True)
    sections = []
    for index, fields in enumerate(headers):
        sh_name, sh_type, sh_flags, sh_addr, sh_offset, sh_size, sh_link, sh_info, sh_addralign, _ = fields
        end = names.find(b"\0", sh_name, sh_name + _NAME_LIMIT)
        name = names[sh_name : end if end >= 0 else sh_name + _NAME_LIMIT].decode("utf-8", "backslashreplace")
        at = offset + index * size
        section = Section(name, sh_type, sh_flags, sh_addr, sh_offset, sh_size, sh_link, sh_info, sh_addralign, at)
        sections.append(section)
    return tuple(sections)
