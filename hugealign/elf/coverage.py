"""How much of a file's text lies in whole windows.  Pure: from headers to numbers.

This runs after every laid-out link, so it imports nothing but our own light modules.
"""

from hugealign.elf.image import PAD_SECTIONS, SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS, Image, Section, Segment
from hugealign.elf.windows import BASE_PAGE, rodata_windows, whole_text, windows_holding
from hugealign.records import Record

#: Sections that hold nothing but our padding of read-only segments.
RODATA_PAD_SECTIONS = (".hugealign.rodata", "~hugealign.rodata")


class Coverage(Record):
    """How much of the text lies in whole windows: *huge* of *text* bytes; *pad* bytes of padding fill them.

    *windows* are those that hold code.
    """

    text: int
    huge: int
    windows: int
    pad: int


class RodataCoverage(Record):
    """How much of the read-only data lies in whole windows: *huge* of *size* bytes; *pad* bytes fill the *windows*."""

    size: int
    huge: int
    windows: int
    pad: int


def is_debug_file(image: "Image") -> bool:
    """Return whether *image* is that of a separate debug file, which describes code that it does not hold."""
    code = [s for s in image.sections if s.sh_flags & SHF_ALLOC and s.sh_flags & SHF_EXECINSTR and s.sh_size]
    return bool(code) and all(section.sh_type == SHT_NOBITS for section in code)


def pad_sections(image: "Image") -> "list[Section]":
    """Return the sections of *image* that claim to be our padding; a linked file has one."""
    return [s for s in image.sections if s.name in PAD_SECTIONS and s.sh_flags & SHF_ALLOC][:4]


def pad_range(image: "Image", segment: "Segment", pads: "list[Section] | None" = None) -> tuple[int, int]:
    """Return the addresses between which *segment* holds our padding; they are equal if it holds none."""
    start, end = segment.p_vaddr, segment.p_vaddr + segment.p_memsz
    for section in pad_sections(image) if pads is None else pads:
        if start < section.sh_addr and section.sh_addr + section.sh_size <= end:
            return section.sh_addr, section.sh_addr + section.sh_size
    return end, end


def coverage(image: "Image", page_size: int, alignment: int | None = None) -> Coverage:
    """Return the coverage of all text of *image* by whole windows of *page_size* bytes.

    *alignment* is the one that the loader gives the file, by default the largest p_align.
    """
    return total(coverages(image, page_size, alignment))


def total(parts: "list[Coverage]") -> Coverage:
    """Return the sum of *parts*."""
    if len(parts) == 1:  # a well-linked file has one text
        return parts[0]
    return Coverage(*(sum([getattr(part, name) for part in parts]) for name in ("text", "huge", "windows", "pad")))


def coverages(image: "Image", page_size: int, alignment: int | None = None) -> list[Coverage]:
    """Return the coverage of each of ``image.text_segments``."""
    runs = whole_text(image, page_size, alignment)
    rows = _counted(image, image.text_segments, runs, pad_sections(image))
    for segment, first, last in runs:
        rows[segment.index][2] += (
            sum(high - low for low, high in windows_holding(image.code, first, last, page_size)) // page_size
        )
    return [Coverage(*row) for row in rows.values()]


def code_size(image: "Image", start: int, end: int) -> int:
    """Return how many bytes of code *image* has between the addresses *start* and *end*."""
    return max(0, _code_below(image, end) - _code_below(image, start))


def text_size(image: "Image") -> int:
    """Return how many bytes of code the text of *image* has."""
    return sum([code_size(image, s.p_vaddr, s.p_vaddr + s.p_memsz) for s in image.text_segments])


def _code_below(image: "Image", address: int) -> int:
    from bisect import bisect_right

    starts, sums = image.code_sums
    at = bisect_right(starts, address) - 1
    return sums[at] + min(address - starts[at], sums[at + 1] - sums[at]) if at >= 0 else 0


def rodata_coverage(image: "Image", page_size: int) -> RodataCoverage:
    """Return the coverage of the read-only segments of *image*."""
    segments = image.rodata_segments
    pads = [s for s in image.sections if s.name in RODATA_PAD_SECTIONS and s.sh_flags & SHF_ALLOC][:4]
    # Most files are so small that no segment has a whole window, wherever it lies.
    large = any(s.p_filesz + 2 * BASE_PAGE >= page_size for s in segments)
    runs = rodata_windows(image, page_size) if large else []
    rows = _counted(image, segments, runs, pads)
    for segment, first, last in runs:
        rows[segment.index][2] += (last - first) // page_size
    return RodataCoverage(*(sum([row[at] for row in rows.values()]) for at in range(4)))


def _counted(
    image: "Image",
    segments: "tuple[Segment, ...]",
    runs: "list[tuple[Segment, int, int]]",
    pads: "list[Section]",
) -> dict[int, list[int]]:
    """Return for each of *segments*: bytes without padding, those in *runs* of whole windows, 0, padding."""
    rows = {}
    for segment in segments:
        first, last = pad_range(image, segment, pads)
        rows[segment.index] = [segment.p_memsz - (last - first), 0, 0, last - first]
    for one, first, last in runs:
        # A run of windows can be in several segments that the kernel joins.
        for segment in segments if len(segments) > 1 else [one]:
            start, end = segment.p_vaddr, segment.p_vaddr + segment.p_memsz
            if start < last and first < end:
                row = rows[segment.index]
                row[1] += _overlap(first, last, start, end) - _overlap(first, last, *pad_range(image, segment, pads))
    return rows


def _overlap(first: int, last: int, start: int, end: int) -> int:
    return max(0, min(last, end) - max(first, start))
