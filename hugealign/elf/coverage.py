"""How much of a file's text lies in whole windows.  Pure: from headers to numbers.

This runs after every laid-out link, so it imports nothing but our own light modules.
"""

from hugealign.elf.image import PAD_SECTIONS, SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS, Image, Section, Segment
from hugealign.elf.windows import whole_text, windows_holding
from hugealign.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Coverage(Record):
    """How much of the text is in whole windows."""

    text: int
    """Bytes of text, without padding."""
    huge: int
    """Bytes of text in whole windows."""
    windows: int
    """How many whole windows hold code."""
    pad: int
    """Bytes of padding that fill windows."""

    JSON = "text_bytes=text huge_bytes=huge windows pad_bytes=pad"


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


def coverage(image: "Image", page_size: int) -> Coverage:
    """Return the coverage of all text of *image* by whole windows of *page_size* bytes."""
    return total(coverages(image, page_size))


def total(parts: "Sequence[Coverage]") -> Coverage:
    """Return the sum of *parts*."""
    if len(parts) == 1:  # a well-linked file has one text
        return parts[0]
    return Coverage(*(sum([getattr(part, name) for part in parts]) for name in ("text", "huge", "windows", "pad")))


def coverages(image: "Image", page_size: int, alignment: int | None = None) -> tuple[Coverage, ...]:
    """Return the coverage of each of ``image.text_segments`` by whole windows of *page_size* bytes.

    *alignment* is the one that the loader gives the file, by default the largest p_align.
    """
    known: tuple[Coverage, ...] | None = image.coverages.get((page_size, alignment))
    if known is not None:
        return known
    segments, pads = image.text_segments, pad_sections(image)
    rows = {}
    for segment in segments:
        first, last = pad_range(image, segment, pads)
        rows[segment.index] = [segment.p_memsz - (last - first), 0, 0, last - first]
    for load, first, last in whole_text(image, page_size, alignment):
        held = windows_holding(image.code, first, last, page_size)
        rows[load.index][2] += sum(high - low for low, high in held) // page_size
        # A run of windows can be in several segments that the kernel joins.
        for segment in segments if len(segments) > 1 else [load]:
            start, end = segment.p_vaddr, segment.p_vaddr + segment.p_memsz
            if start < last and first < end:
                row, pad = rows[segment.index], pad_range(image, segment, pads)
                whole = _overlap(first, last, start, end) - _overlap(first, last, *pad)
                huge = sum(_overlap(*w, start, end) - _overlap(*w, *pad) for w in _between(held, start, end))
                row[0] -= whole - huge  # windows without code: BOLT leaves one before its text, and wild pads so
                row[1] += huge
    made = image.coverages[page_size, alignment] = tuple([Coverage(*row) for row in rows.values()])
    return made


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


def _between(runs: "list[tuple[int, int]]", start: int, end: int) -> "list[tuple[int, int]]":
    """Return those of the ascending *runs* that reach between *start* and *end*."""
    from bisect import bisect_left

    return runs[bisect_left(runs, start, key=lambda run: run[1]) : bisect_left(runs, end, key=lambda run: run[0])]


def _overlap(first: int, last: int, start: int, end: int) -> int:
    return max(0, min(last, end) - max(first, start))
