"""Where the text of a program lies in its file: as its headers say, and as they said before `hugealign fix`.

A fix keeps addresses and the build-id, but moves text in the file; profiles tell an address by its place in the file.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice

from hugealign.elf.fixrecord import loaded_before, reader
from hugealign.elf.image import PF_X, Image, Segment, read_image
from hugealign.elf.machines import AARCH64
from hugealign.elf.notes import read_notes
from hugealign.elf.symbols import Functions
from hugealign.elf.windows import align_down, align_up
from hugealign.errors import HugealignError
from hugealign.io.descriptors import file_at

_FILES = 17  # whose headers are read: the names of others are a profile's

#: The PT_LOADs of a file.
Layout = Sequence[Segment]


def layouts(binary: str, functions: Functions, others: Iterable[str]) -> list[Layout]:
    """Return the layout of the file at *binary*, and those that the very build has or had at the paths *others*.

    What cannot be read has none.
    """
    result: list[Layout] = [functions.image.load_segments]
    for path in islice(dict.fromkeys((binary, *others)), _FILES):
        with suppress(OSError, ValueError, HugealignError):
            if os.path.isfile(path):
                with file_at(path) as fd:
                    image = read_image(fd)
                    if functions.is_build(read_notes(fd, image).build_id):
                        result += [image.load_segments, loaded_before(reader(fd), image)]
    return result


def texts(layout: Layout) -> list[Segment]:
    """Return the segments of text."""
    return [s for s in layout if s.p_flags & PF_X and s.p_memsz]


def pages(image: Image) -> Sequence[int]:
    """Return the sizes of pages that kernels for the processor of *image* have, the likeliest first."""
    return (image.machine or AARCH64).pages


def mapped(known: Sequence[Layout], size: int, offset: int, sizes: Sequence[int]) -> Layout | None:
    """Return which of the layouts *known* a kernel maps so: *size* bytes of text from *offset* in the file.

    *sizes* are those of pages.
    """
    whole = [layout for layout in known if all(s.p_filesz for s in texts(layout))]  # a debug file has no bytes of it
    pairs = ((layout, page) for page in sizes for layout in whole)
    return next((layout for layout, page in pairs if _maps(layout, size, offset, page)), None)


def is_part(places: Iterable[tuple[int, int]], size: int, offset: int, sizes: Sequence[int]) -> bool:
    """Return whether *size* bytes from *offset* in the file are in one of *places*, which begin and end in the file.

    Part of a segment can be mapped by itself, after madvise(2).
    """
    page = sizes[0] if (offset | size) % sizes[-1] else sizes[-1]
    return any(align_down(at, page) <= offset and offset + size <= align_up(end, page) for at, end in places)


def _maps(layout: Layout, size: int, offset: int, page: int) -> bool:
    return any(
        align_down(s.p_offset, page) == offset and size in (_pages(s, s, page), _all(layout, s, page))
        for s in texts(layout)
    )


def _all(layout: Layout, first: Segment, page: int) -> int:
    """Return how much is mapped for the *first* segment: it makes room for the others (elf_load in fs/binfmt_elf.c)."""
    return _pages(first, layout[-1], page) if first is layout[0] else 0


def _pages(first: Segment, last: Segment, page: int) -> int:
    """Return how many bytes of memory the segments take from *first* to *last*, in pages of a kernel."""
    return align_up(last.p_vaddr + last.p_memsz, page) - align_down(first.p_vaddr, page)


def place(segment: Segment, size: int, offset: int, sizes: Sequence[int]) -> int | None:
    """Return the file offset of a segment if the mapping of *size* bytes at *offset* can be its own, else None."""
    page = next((page for page in sizes if _pages(segment, segment, page) == size), 0)
    return offset + segment.p_vaddr % page if page else None
