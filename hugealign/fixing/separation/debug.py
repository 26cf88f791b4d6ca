"""Debug information in a file: its sections are unpacked, searched, and packed again where addresses in them move."""

import io
import mmap
import os
import shutil
import struct
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import Protocol

from hugealign.diagnosis.refusal import RefusalError
from hugealign.diagnosis.values import Remedy
from hugealign.elf.constants import ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD, SHF_COMPRESSED
from hugealign.elf.fixrecord import Step, exactly, reader
from hugealign.elf.image import PT_TLS, SHF_ALLOC, Image, Section
from hugealign.elf.windows import align_up
from hugealign.elf.wordarrays import added
from hugealign.fixing.separation import dwarf, dwarf_tables
from hugealign.fixing.separation.places import Words, ascending
from hugealign.fixing.writing import add
from hugealign.io.descriptors import write_all
from hugealign.io.unpacking import (
    CHUNK,
    Budget,
    ByteSource,
    FileSource,
    LimitError,
    UnpackError,
    Zstd,
    spool,
    unnamed_file,
    zlib_stream,
)

#: Sections that hold addresses in forms of their own, which are not moved.
_OTHERS = (
    ".debug_",
    ".zdebug_",
    ".gdb_index",
    ".gnu_debugdata",
    ".stab",
    ".stack_sizes",
    ".llvm_bb_addr_map",
    ".pseudo_probe",
)
_CHDR = struct.Struct("<IIQQ")  # type, reserved, size, alignment
_GNU = struct.Struct(">4sQ")  # "ZLIB", size: the form of .zdebug_*
_WORD = struct.Struct("<Q")
_BLOCK = 1 << 20  # bytes that are looked at together


class Packer(Protocol):
    """What the compressors of `zlib` and `lzma` have in common."""

    def compress(self, data: bytes, /) -> bytes: ...  # noqa: D102
    def flush(self) -> bytes: ...  # noqa: D102


def is_debug(section: Section) -> bool:
    """Return whether *section* is debug information, or another section that `find_words` has to know.

    Raises RefusalError if it holds addresses that cannot be moved.
    """
    plain = _plain(section)
    if plain in dwarf.SECTIONS:
        return True
    if plain not in dwarf.WITHOUT and section.name.startswith(_OTHERS):
        raise RefusalError("fix.debug-inside", section=section.name)
    return False


def find_words(fd: int, image: Image, sections: Sequence[Section], step: Step, words: Words) -> None:
    """Add to *words* what changes in the debug *sections* of the file behind *fd*.

    Only addresses in the image count: those of dead code lie beyond it, or are 0.  Raises RefusalError,
    MalformedElfError, OSError.
    """
    opened = {_plain(section): _Opened(fd, section) for section in sections}
    tls = next((s.p_memsz for s in image.segments if s.p_type == PT_TLS), 0)
    if ".debug_addr" in opened and tls > step.start:  # offsets there could be taken for addresses
        raise RefusalError("fix.debug-inside", section=".debug_addr")
    try:
        places = dwarf.find_addresses({name: debug.contents for name, debug in opened.items()})
    except dwarf_tables.UnclearError as error:
        raise RefusalError("fix.debug-inside", section=error.section) from error
    last = max(s.p_vaddr + s.p_memsz for s in image.load_segments)
    for name, debug in opened.items():
        moving = _moving(debug.contents, ascending(places.pop(name)), step, last)
        for distance, offsets in moving.items():
            if debug.unpacked:
                add(debug.unpacked.fileno(), distance, offsets)
            else:
                words.add(distance, added(offsets, debug.contents.offset))
        if debug.unpacked and moving:
            words.replaced[debug.name] = packed(debug.unpacked, zlib.compressobj(1), debug.header)


def place_contents(
    entries: list[list[int]], image: Image, words: Words, at: int
) -> tuple[list[tuple[int, memoryview]], int]:
    """Place the new contents of packed sections from offset *at* on, and update their headers *entries*.

    Return the writes, and the offset behind the last one.
    """
    writes: list[tuple[int, memoryview]] = []
    for entry, section in zip(entries, image.sections, strict=False):
        if section.name in words.replaced and not section.sh_flags & SHF_ALLOC:
            data = words.replaced[section.name]
            entry[4:6] = at, len(data)
            writes.append((at, data))
            at = align_up(at + len(data), 8)
    return writes, at


def unpack(source: ByteSource, budget: Budget, section: str) -> io.FileIO:
    """Return an unnamed file of what *source*, the contents of a *section*, unpacks to.

    Raises RefusalError, OSError.
    """
    file = unnamed_file()
    try:
        spool(source, file.fileno(), budget)
    except (UnpackError, LimitError) as error:
        raise RefusalError("fix.debug-inside", section=section) from error
    return file


def packed(file: io.FileIO, packer: Packer, header: bytes = b"") -> memoryview:
    """Return the contents of *file* packed, behind a *header*.  They stay in an unnamed file of their own."""
    made, size = unnamed_file(), len(header)
    write_all(made.fileno(), header)
    file.seek(0)
    while data := file.read(CHUNK):
        out = packer.compress(data)
        write_all(made.fileno(), out, size)
        size += len(out)
    out = packer.flush()
    write_all(made.fileno(), out, size)
    return memoryview(mmap.mmap(made.fileno(), size + len(out), access=mmap.ACCESS_READ))


class _Opened:
    """A section: its *contents*, and if they are *unpacked*, where, and the *header* of the same packed by zlib."""

    def __init__(self, fd: int, section: Section) -> None:
        self.name, self.header = section.name, b""
        self.unpacked: io.FileIO | None = None
        start, end = section.sh_offset, section.sh_offset + section.sh_size
        if section.sh_flags & SHF_COMPRESSED:
            form = _CHDR
            kind, reserved, size, alignment = form.unpack(exactly(reader(fd), form.size, start))
            self.header = form.pack(ELFCOMPRESS_ZLIB, reserved, size, alignment)
        elif section.name.startswith(".zdebug_"):
            form = _GNU
            self.header = exactly(reader(fd), form.size, start)
            magic, size = form.unpack(self.header)
            kind = ELFCOMPRESS_ZLIB if magic == b"ZLIB" else 0
        else:
            self.contents = dwarf_tables.Contents(fd, start, section.sh_size)
            return
        source, budget = FileSource(fd, start + form.size, end), Budget(section.sh_size)
        if kind == ELFCOMPRESS_ZSTD and not shutil.which("zstd"):
            raise RefusalError("fix.no-zstd", Remedy("install-zstd"), section=section.name)
        if kind not in (ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD):
            raise RefusalError("fix.debug-inside", section=section.name)
        self.unpacked = unpack(
            Zstd(source, budget) if kind == ELFCOMPRESS_ZSTD else zlib_stream(source, budget), budget, self.name
        )
        if os.fstat(self.unpacked.fileno()).st_size != size:
            raise RefusalError("fix.debug-inside", section=section.name)
        self.contents = dwarf_tables.Contents(self.unpacked.fileno(), 0, size)


def _plain(section: Section) -> str:
    return section.name.replace(".zdebug_", ".debug_", 1)


def _moving(contents: dwarf_tables.Contents, places: "array[int]", step: Step, last: int) -> dict[int, "array[int]"]:
    """Return the ascending *places* whose words change, by distance.  Raises RefusalError if two overlap."""
    moving: dict[int, array[int]] = {}
    distance, get, before, i = step.distance, _WORD.unpack_from, -8, 0
    while i < len(places):
        low = places[i]
        stop = bisect_left(places, low + _BLOCK, i)
        block = contents.read(low, places[stop - 1] + 8 - low)
        for place in places[i:stop]:
            (value,) = get(block, place - low)
            if value <= last and (moved := distance(value)):
                if place - before < 8:
                    raise RefusalError("fix.address-tables")
                moving.setdefault(moved, array("Q")).append(place)
                before = place
        i = stop
    return moving
