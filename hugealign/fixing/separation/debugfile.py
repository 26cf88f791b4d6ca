"""Move a program's separate debug file along: a copy with the addresses, and the build ID, of the separated program."""

import lzma

from hugealign.diagnosis.refusal import RefusalError
from hugealign.diagnosis.values import Remedy
from hugealign.elf.coverage import is_debug_file
from hugealign.elf.fixrecord import Piece, Step, exactly, reader, recorded
from hugealign.elf.image import SHF_ALLOC, Image, Section, read_image
from hugealign.elf.objectfile import EHDR, PHDR, SHDR
from hugealign.elf.windows import align_up
from hugealign.errors import MalformedElfError, NotElfError
from hugealign.fixing import writing
from hugealign.fixing.output import Output
from hugealign.fixing.separation import debug
from hugealign.fixing.separation.debug import place_contents
from hugealign.fixing.separation.identity import Identity
from hugealign.fixing.separation.words import find_words_of_debug_file
from hugealign.io import replacing
from hugealign.io.regular import opened
from hugealign.io.unpacking import Budget, FileSource, unnamed_file, xz

#: The section of a program in which another ELF file is packed.
MINI_SECTION = ".gnu_debugdata"
_PRESET = 3  # of xz
_E_ENTRY, _E_SHOFF, _VADDR, _PADDR, _SH_ADDR = 4, 6, 3, 4, 3


def move_debug_file(path: str, program: str, output: str) -> str:
    """Write to *output* the debug file at *path*, moved to match the separated *program*; return the build ID of both.

    Raises RefusalError, HugealignError.
    """
    with opened(program) as fd:
        image = read_image(fd)
        record = recorded(reader(fd), image)
        if record is None or record.step is None:
            raise RefusalError("fix.no-record")
        step, program_id = record.step, Identity.of(fd, image, record.step).old
    with opened(path) as fd:
        image = read_image(fd)
        if not _is_usable(image):
            raise RefusalError("fix.no-debug-file")
        identity = Identity.of(fd, image, step)
        if not identity.old or identity.new != program_id:
            raise RefusalError("fix.other-debug-file", Remedy("original-debug-file"), build_id=identity.old.hex())
        made = _moved(fd, image, step, identity)
        with replacing.created(output, fd) as new:
            writing.compose(fd, new, made)
    return identity.new.hex()


def moved_inside(fd: int, section: Section, step: Step, program: Identity) -> memoryview:
    """Return the contents of the *section* of a *program* that holds a debug file, with its addresses moved by *step*.

    Fedora's programs have one with all their symbols, packed by xz: "MiniDebugInfo" in GDB's manual.  Raises
    RefusalError, OSError.
    """
    budget = Budget(section.sh_size)
    source = xz(FileSource(fd, section.sh_offset, section.sh_offset + section.sh_size), budget)
    with debug.unpack(source, budget, section.name) as file, unnamed_file() as new:
        try:
            image = read_image(file.fileno())
            if not _is_usable(image):
                raise RefusalError("fix.debug-inside", section=section.name)
            identity = Identity.of(file.fileno(), image, step)
            made = _moved(
                file.fileno(), image, step, identity if identity.old == program.old else Identity(0, b"", b"")
            )
            writing.compose(file.fileno(), new.fileno(), made)
        except (NotElfError, MalformedElfError) as error:
            raise RefusalError("fix.debug-inside", section=section.name) from error
        return debug.packed(new, lzma.LZMACompressor(preset=_PRESET))


def _is_usable(image: Image) -> bool:
    return is_debug_file(image) and bool(image.text_segments) and image.is64 and image.little


def _moved(fd: int, image: Image, step: Step, identity: Identity) -> Output:
    words = find_words_of_debug_file(fd, image, step)
    ehdr = list(EHDR.unpack(exactly(reader(fd), EHDR.size, 0)))
    segments = [
        list(header) for header in PHDR.iter_unpack(exactly(reader(fd), len(image.segments) * PHDR.size, ehdr[5]))
    ]
    for segment in segments:
        segment[_VADDR], segment[_PADDR] = step(segment[_VADDR]), step(segment[_PADDR])
    entries = [
        list(header) for header in SHDR.iter_unpack(exactly(reader(fd), len(image.sections) * SHDR.size, image.e_shoff))
    ]
    for entry, section in zip(entries, image.sections, strict=True):
        if section.sh_flags & SHF_ALLOC:
            entry[_SH_ADDR] = step(section.sh_addr)
    replaced, at = place_contents(entries, image, words, align_up(image.file_size, 8))
    ehdr[_E_ENTRY], ehdr[_E_SHOFF] = step(ehdr[_E_ENTRY]), at
    writes: tuple[tuple[int, bytes | memoryview], ...] = (
        (identity.at, identity.new),
        *replaced,
        (at, b"".join(SHDR.pack(*entry) for entry in entries)),
        (ehdr[5], b"".join(PHDR.pack(*segment) for segment in segments)),
        (0, EHDR.pack(*ehdr)),
    )
    pieces, size = (Piece(0, 0, image.file_size),), at + len(entries) * SHDR.size
    return Output(pieces, writes, size, tuple(words.places.items()))
