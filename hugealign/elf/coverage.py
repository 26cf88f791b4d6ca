"""How much of the text of a file lies in whole windows.  Pure: from headers to numbers.

The link asks this after every laid-out link, so nothing but our own light modules is imported here.
"""

from hugealign.elf.image import SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS, Image, Section, Segment
from hugealign.elf.windows import BASE_PAGE, rodata_windows, text_windows

#: Sections that hold nothing but our padding; they count as room, not as text.
PAD_SECTIONS = (".hugealign.pad", "~hugealign.pad")
#: The same for segments that are only readable.
RODATA_PAD_SECTIONS = (".hugealign.rodata", "~hugealign.rodata")


class Coverage:
    """How much of the text lies in whole windows: *huge* of *text* bytes; *pad* bytes of padding fill the *windows*."""

    __slots__ = ("huge", "pad", "text", "windows")

    def __init__(self, text: int, huge: int, windows: int, pad: int) -> None:
        self.text = text
        self.huge = huge
        self.windows = windows
        self.pad = pad


class RodataCoverage:
    """How much of what is only read lies in whole windows: *huge* of *size* bytes; *pad* bytes fill the *windows*."""

    __slots__ = ("huge", "pad", "size", "windows")

    def __init__(self, size: int, huge: int, windows: int, pad: int) -> None:
        self.size = size
        self.huge = huge
        self.windows = windows
        self.pad = pad


def is_debug_file(image: "Image") -> bool:
    """Return whether *image* is of a separate debug file: it describes code that it does not hold."""
    code = [s for s in image.sections if s.sh_flags & SHF_ALLOC and s.sh_flags & SHF_EXECINSTR and s.sh_size]
    return bool(code) and all(section.sh_type == SHT_NOBITS for section in code)


def pad_sections(image: "Image") -> "list[Section]":
    """Return the sections of *image* that claim to be our padding; a linked file has one."""
    return [s for s in image.sections if s.name in PAD_SECTIONS and s.sh_flags & SHF_ALLOC][:4]


def pad_range(image: "Image", segment: "Segment", pads: "list[Section] | None" = None) -> tuple[int, int]:
    """Return the addresses between which *segment* holds our padding; equal where it holds none."""
    start, end = segment.p_vaddr, segment.p_vaddr + segment.p_memsz
    for section in pad_sections(image) if pads is None else pads:
        if start < section.sh_addr and section.sh_addr + section.sh_size <= end:
            return section.sh_addr, section.sh_addr + section.sh_size
    return end, end


def coverage(image: "Image", page_size: int, alignment: int | None = None) -> Coverage:
    """Return the coverage of all text of *image* by whole windows of *page_size* bytes.

    *alignment* is what the loader gives the file, by default the largest p_align.
    """
    return total(coverages(image, page_size, alignment))


def total(parts: "list[Coverage]") -> Coverage:
    """Return the sum of *parts*."""
    found = Coverage(0, 0, 0, 0)
    for part in parts:
        found.text += part.text
        found.huge += part.huge
        found.windows += part.windows
        found.pad += part.pad
    return found


def coverages(image: "Image", page_size: int, alignment: int | None = None) -> list[Coverage]:
    """Return the coverage of each of ``image.text_segments``."""
    pads = pad_sections(image)
    parts = {}
    for segment in image.text_segments:
        pad_first, pad_last = pad_range(image, segment, pads)
        parts[segment.index] = Coverage(segment.p_memsz - (pad_last - pad_first), 0, 0, pad_last - pad_first)
    for segment, first, last in text_windows(image, page_size, alignment):
        start, end = segment.p_vaddr, segment.p_vaddr + segment.p_memsz
        part = parts[segment.index]
        part.windows += (last - first) // page_size
        part.huge += _overlap(first, last, start, end) - _overlap(first, last, *pad_range(image, segment, pads))
    return list(parts.values())


def rodata_coverage(image: "Image", page_size: int) -> RodataCoverage:
    """Return the coverage of the segments of *image* that are only readable."""
    segments = image.rodata_segments
    pads = [s for s in image.sections if s.name in RODATA_PAD_SECTIONS and s.sh_flags & SHF_ALLOC][:4]
    ranges = {s.index: pad_range(image, s, pads) for s in segments}
    pad = sum(last - first for first, last in ranges.values())
    total = RodataCoverage(sum(s.p_memsz for s in segments) - pad, 0, 0, pad)
    if all(s.p_filesz + 2 * BASE_PAGE < page_size for s in segments):
        return total  # most files: none has a whole window, wherever it lies
    for segment, first, last in rodata_windows(image, page_size):
        total.windows += (last - first) // page_size
        total.huge += _overlap(first, last, segment.p_vaddr, segment.p_vaddr + segment.p_memsz)
        total.huge -= _overlap(first, last, *ranges[segment.index])
    return total


def _overlap(first: int, last: int, start: int, end: int) -> int:
    return max(0, min(last, end) - max(first, start))
