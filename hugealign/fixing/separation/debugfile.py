"""Move a program's separate debug file along: a copy with the addresses, and the build ID, of the separated program."""

import os
import struct

from hugealign.diagnosis.refusal import RefusalError
from hugealign.diagnosis.values import Remedy
from hugealign.elf.coverage import is_debug_file
from hugealign.elf.fixrecord import SECTION, Piece, contents, reader
from hugealign.elf.image import SHF_ALLOC, Image, read_image
from hugealign.elf.windows import align_up
from hugealign.errors import TRUNCATED, MalformedElfError
from hugealign.fixing import writing
from hugealign.fixing.output import Output
from hugealign.fixing.plan import Step
from hugealign.fixing.separation.output import build_id, new_build_id, replace_contents
from hugealign.fixing.separation.record import unpack
from hugealign.fixing.separation.words import find_words_of_debug_file
from hugealign.io import replacing
from hugealign.io.regular import opened

_EHDR, _PHDR, _SHDR = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQQQ"), struct.Struct("<IIQQQQIIQQ")
_E_ENTRY, _E_SHOFF, _VADDR, _PADDR, _SH_ADDR = 4, 6, 3, 4, 3


def move_debug_file(path: str, program: str, output: str) -> str:
    """Write the debug file at *path* to *output* as that of the separated *program*; return the build ID of both.

    Raises RefusalError, HugealignError.
    """
    with opened(program) as fd:
        image = read_image(fd)
        record = contents(reader(fd), image, SECTION)
        if record is None:
            raise RefusalError("fix.no-record")
        step, (_, identity) = unpack(record).step, build_id(fd, image)
    with opened(path) as fd:
        image = read_image(fd)
        if not is_debug_file(image) or not image.text_segments or not image.is64 or not image.little:
            raise RefusalError("fix.no-debug-file")
        at, old = build_id(fd, image)
        if not old or new_build_id(old, step) != identity:
            raise RefusalError("fix.other-debug-file", Remedy("original-debug-file"), build_id=old.hex())
        made = _moved(fd, image, step, (at, identity))
        with replacing.created(output, fd) as new:
            writing.compose(fd, new, made)
    return identity.hex()


def _moved(fd: int, image: Image, step: Step, identity: tuple[int, bytes]) -> Output:
    words = find_words_of_debug_file(fd, image, step)
    ehdr = list(_EHDR.unpack(_read(fd, _EHDR.size, 0)))
    segments = [list(one) for one in _PHDR.iter_unpack(_read(fd, len(image.segments) * _PHDR.size, ehdr[5]))]
    for segment in segments:
        segment[_VADDR], segment[_PADDR] = step(segment[_VADDR]), step(segment[_PADDR])
    entries = [list(one) for one in _SHDR.iter_unpack(_read(fd, len(image.sections) * _SHDR.size, image.e_shoff))]
    for entry, section in zip(entries, image.sections, strict=True):
        if section.sh_flags & SHF_ALLOC:
            entry[_SH_ADDR] = step(section.sh_addr)
    at = align_up(image.file_size, 8)
    appended = replace_contents(entries, image, words, at)
    ehdr[_E_ENTRY], ehdr[_E_SHOFF] = step(ehdr[_E_ENTRY]), at + len(appended)
    appended += b"".join(_SHDR.pack(*entry) for entry in entries)
    writes = (
        identity,
        (at, appended),
        (ehdr[5], b"".join(_PHDR.pack(*segment) for segment in segments)),
        (0, _EHDR.pack(*ehdr)),
    )
    pieces, size = (Piece(0, 0, image.file_size),), at + len(appended)
    return Output(pieces, writes, size, tuple(words.places.items()))


def _read(fd: int, size: int, offset: int) -> bytes:
    data = os.pread(fd, size, offset)
    if len(data) != size:
        raise MalformedElfError(code=TRUNCATED)
    return data
