"""Notes of an ELF file: the build-id, and the note in which a link records its intent.

See System V ABI, chapter 5, "Note Section".  Our note (``.note.hugealign``, allocated, so it survives strip):
name ``hugealign``, type 1, aligned to 4 bytes, and as its description, in the byte order of the file

==========  =====  ==============================================================
version     u32    1; a reader ignores what it does not know
flags       u32    1: the link padded the text
page_size   u64    the window that the layout is for, in bytes
hot_start   u64    first address of the hot functions, as in p_vaddr
hot_end     u64    address behind them; equal to hot_start if there is no order
windows     u32    the budget: how many windows should be huge; 0 for all
functions   u32    how many hot functions the order has; 0 if there is none
length      u32    bytes of the profile id
profile     bytes  identifies the profile that gave the order, filled up to 4 bytes
threshold   u32    the bytes of tail up to which the link pads nothing; not in notes of hugealign 1.0
==========  =====  ==============================================================
"""

import struct
from collections.abc import Iterator

from hugealign.elf.image import NT_GNU_BUILD_ID, PT_NOTE, SHF_ALLOC, SHT_NOTE, Image, notes_in, read_or_nothing
from hugealign.records import Record

NAME, SECTION, VERSION = "hugealign", ".note.hugealign", 1
#: Where the description begins in the note, behind header and name, and its hot_start and hot_end.
DESCRIPTION, HOT_START, HOT_END = 24, 40, 48
_TYPE, _PADDED = 1, 1
_FIXED = "IIQQQIII"  # the description without the profile id
_PROFILE_LIMIT = 64
_SEGMENTS_LIMIT, _BYTES_LIMIT = 16, 1 << 16  # note segments, likewise sections, and bytes of one, that are read


class BuildNote(Record):
    """A link's intent."""

    page_size: int
    hot_start: int = 0
    hot_end: int = 0
    """Equal to *hot_start* without an order."""
    windows: int = 0
    """How many windows should be huge, 0 for all."""
    padded: bool = False
    profile: bytes = b""
    functions: int = 0
    """How many hot functions the order has."""
    threshold: int = 0
    """The bytes of a tail up to which the link pads nothing."""

    JSON = "page_size windows hot_start hot_end"

    def pack(self, little: bool = True, version: int = VERSION) -> bytes:
        """Return the whole note, header included, as the section holds it."""
        order = "<" if little else ">"
        flags = _PADDED * self.padded
        fields = (version, flags, self.page_size, self.hot_start, self.hot_end, self.windows, self.functions)
        filled = self.profile + b"\0" * (-len(self.profile) % 4)
        threshold = struct.pack(order + "I", self.threshold)
        desc = struct.pack(order + _FIXED, *fields, len(self.profile)) + filled + threshold
        name = NAME.encode() + b"\0"
        header = struct.pack(order + "III", len(name), len(desc), _TYPE)
        return header + b"".join(part + b"\0" * (-len(part) % 4) for part in (name, desc))


class Notes(Record):
    """The notes that matter here: *build_id* in hexadecimal, empty without one, and the link's own note."""

    build_id: str = ""
    build: BuildNote | None = None


def read_notes(fd: int, image: Image) -> Notes:
    """Return the notes of the file behind *fd*, whose headers are *image*; what cannot be read is left out."""
    build_id, build = "", None
    for name, kind, desc in _notes(fd, image):
        if (name, kind) == (b"GNU", NT_GNU_BUILD_ID) and not build_id:
            build_id = desc[:_PROFILE_LIMIT].hex()
        elif (name, kind) == (NAME.encode(), _TYPE) and build is None:
            build = _build_note(desc, image.order)
    return Notes(build_id, build)


def build_id_place(fd: int, image: Image) -> tuple[int, bytes]:
    """Return the offset in the file and the bytes of its build ID, found by its sections; 0 and nothing without one."""
    for section in image.sections:
        if section.sh_type == SHT_NOTE and section.sh_flags & SHF_ALLOC:
            data = read_or_nothing(fd, section.sh_offset, min(section.sh_size, _BYTES_LIMIT))
            for name, kind, start, end in notes_in(data, image.order, section.sh_addralign):
                if (name, kind) == (b"GNU", NT_GNU_BUILD_ID) and end <= len(data):
                    return section.sh_offset + start, data[start:end]
    return 0, b""


def _build_note(desc: bytes, order: str) -> BuildNote | None:
    layout = struct.Struct(order + _FIXED)
    if len(desc) < layout.size:
        return None
    version, flags, page_size, hot_start, hot_end, windows, functions, length = layout.unpack_from(desc)
    if version != VERSION or page_size & (page_size - 1) or not 1 << 12 <= page_size <= 1 << 30:
        return None
    profile = desc[layout.size : layout.size + min(length, _PROFILE_LIMIT)]
    behind = desc[layout.size + length + -length % 4 :][:4]
    threshold = int.from_bytes(behind, "little" if order == "<" else "big") if len(behind) == 4 else 0
    return BuildNote(page_size, hot_start, hot_end, windows, bool(flags & _PADDED), profile, functions, threshold)


def _notes(fd: int, image: Image) -> Iterator[tuple[bytes, int, bytes]]:
    segments = [(s.p_offset, s.p_filesz, s.p_align) for s in image.segments if s.p_type == PT_NOTE]
    # mold 1.10 puts notes of both alignments into one segment, which thus cannot be read to its end.
    sections = [(s.sh_offset, s.sh_size, s.sh_addralign) for s in image.sections if s.sh_type == SHT_NOTE]
    for offset, size, alignment in segments[:_SEGMENTS_LIMIT] + sections[:_SEGMENTS_LIMIT]:
        data = read_or_nothing(fd, offset, min(size, _BYTES_LIMIT))
        for name, kind, start, end in notes_in(data, image.order, alignment):
            yield name, kind, data[start:end]
