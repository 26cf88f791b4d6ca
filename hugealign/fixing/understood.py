"""What a file must be so that `fix` may edit its headers, and where the parts of such a file end.  Pure."""

import itertools

from hugealign.diagnosis.refusal import RefusalError
from hugealign.diagnosis.values import Remedy
from hugealign.elf.image import (
    ET_CORE,
    ET_DYN,
    ET_EXEC,
    ET_REL,
    PF_R,
    PF_W,
    PF_X,
    SHT_NOBITS,
    SHT_NULL,
    Image,
    Section,
    Segment,
)
from hugealign.elf.windows import BASE_PAGE, align_down, align_up, load_bias

PHENTSIZE, _SHENTSIZE = 56, 64
_LOADS_LIMIT = 64  # linkers make up to six
_ALIGN_LIMIT = 1 << 30  # bytes, of p_align
_ADDRESS_LIMIT = 1 << 56  # beyond any address space of Linux on these processors


def checked(image: Image, page_size: int) -> list[Segment]:
    """Return the ``PT_LOAD`` segments by address if the file is one that we understand in every respect."""
    if image.e_type not in (ET_EXEC, ET_DYN):
        raise RefusalError({ET_REL: "file.object", ET_CORE: "file.core"}.get(image.e_type, "file.no-program"))
    if image.machine is None or image.machine.big:  # `output` writes headers of 64 bits, little-endian
        raise RefusalError("fix.other-processor", processor=image.processor)
    loads = [s for s in image.load_segments if s.p_memsz]
    text = [s for s in loads if s in image.text_segments]
    if not text:
        raise RefusalError("text.none")
    if any(segment.p_flags & PF_W for segment in text):
        raise RefusalError("text.writable")
    if not all(segment.p_flags & PF_R for segment in text):
        raise RefusalError("text.execute-only")
    if any(segment.p_filesz != segment.p_memsz for segment in text):
        raise RefusalError("text.not-in-file")
    if len(loads) > _LOADS_LIMIT:
        raise RefusalError("fix.many-segments", segments=len(loads))
    for segment in image.load_segments:
        _check_load(image, segment)
    for before, after in itertools.pairwise(loads):
        if page_end(before) > align_down(after.p_vaddr, BASE_PAGE):
            raise RefusalError("fix.segments-overlap", first=before.index, second=after.index)
        if file_end(before) > after.p_offset:
            raise RefusalError("fix.segments-order", first=before.index, second=after.index)
    if load_bias(image) % page_size or (not image.fixed and image.load_segments[0].p_vaddr % BASE_PAGE):
        raise RefusalError("fix.image-base", page_size=page_size)
    end = end_of_contents(image)
    if end > image.file_size:
        raise RefusalError("file.truncated", missing=end - image.file_size)
    return loads


def refuse_appended(image: Image) -> None:
    """Raise RefusalError for a program that may look for what lies behind it, at a distance from the file's end."""
    appended = image.file_size - end_of_contents(image)
    if appended > 0:
        raise RefusalError("file.appended", Remedy("make-again"), appended=appended)


def _check_load(image: Image, segment: Segment) -> None:
    index, align = segment.index, segment.p_align
    if segment.p_filesz > segment.p_memsz or file_end(segment) > image.file_size:
        raise RefusalError("fix.segment-outside-file", segment=index)
    if end_of(segment) > _ADDRESS_LIMIT:
        raise RefusalError("fix.segment-outside-memory", segment=index)
    if align & (align - 1) or not BASE_PAGE <= align <= _ALIGN_LIMIT:
        raise RefusalError("fix.segment-alignment", segment=index, alignment=f"{align:#x}")
    if (segment.p_vaddr - segment.p_offset) % align:
        raise RefusalError("fix.segment-shifted", segment=index)


def end_of_contents(image: Image) -> int:
    """Return the file offset behind everything that the headers of *image* claim."""
    tables = [segment.header + PHENTSIZE for segment in image.segments[-1:]]
    tables += [section.header + _SHENTSIZE for section in image.sections[-1:]]
    return max([0, *tables, *map(file_end, image.segments), *map(_section_end, image.sections)])


def overlap(segment: Segment, start: int, end: int) -> int:
    """Return how many bytes of *segment* lie between the addresses *start* and *end*."""
    return max(0, min(end, end_of(segment)) - max(start, segment.p_vaddr))


def is_loaded(segment: Segment, image: Image) -> bool:
    """Return whether the loader puts the contents of *segment* at its address."""
    return any(
        load.p_vaddr - load.p_offset == segment.p_vaddr - segment.p_offset
        and load.p_vaddr <= segment.p_vaddr < load.p_vaddr + load.p_filesz
        for load in image.load_segments
    )


def is_read_only(segment: Segment) -> bool:
    """Return whether *segment* can only be read, and is wholly in the file."""
    return segment.p_flags & (PF_R | PF_W | PF_X) == PF_R and segment.p_filesz == segment.p_memsz


def end_of(segment: Segment) -> int:
    """Return the address behind the last byte of *segment* in memory."""
    return segment.p_vaddr + segment.p_memsz


def page_end(segment: Segment) -> int:
    """Return the address behind the last page of *segment*."""
    return align_up(end_of(segment), BASE_PAGE)


def file_end(segment: Segment) -> int:
    """Return the file offset behind *segment*."""
    return segment.p_offset + segment.p_filesz


def _section_end(section: Section) -> int:
    return 0 if section.sh_type in (SHT_NULL, SHT_NOBITS) else section.sh_offset + section.sh_size
