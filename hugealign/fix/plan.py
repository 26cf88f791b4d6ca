"""Which program headers to change so that text lies in whole windows.  Pure: integers in, integers out.

No address changes, ever: what moves are the boundaries between segments (which bytes are mapped with which protection)
and, where a linker packed the file, the places of the contents in the file.  So relocations, symbols, unwinding tables
and debug information stay right.  Names and conditions are those of the System V ABI, chapter 5 (program loading).
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hugealign.elf.image import (
    EM_AARCH64,
    EM_X86_64,
    ET_DYN,
    ET_EXEC,
    PF_W,
    PF_X,
    SHF_ALLOC,
    SHT_NOBITS,
    Image,
    Section,
    Segment,
)
from hugealign.elf.windows import BASE_PAGE, align_down, align_up, drift
from hugealign.errors import HugealignError
from hugealign.units import format_size

#: From the least invasive to the most.
ALIGN, SHIFT, MERGE = LEVELS = ("align", "shift", "merge")

PT_PHDR = 6
#: The types of sections that may be cut in two: nobody but the program itself reads them.
_DIVISIBLE = SHT_PROGBITS, SHT_RELA, SHT_X86_64_UNWIND = 1, 4, 0x70000001
_PHENTSIZE, _SHENTSIZE = 56, 64
_TAIL_ALIGNMENT = 64  # of what follows the segments in the file: symbols, debug information


class RefusalError(HugealignError):
    """The file cannot be changed safely, or there is nothing to gain; the message says why."""

    exit_status = 1


@dataclass(frozen=True, slots=True)
class Span:
    """Addresses from *start* to *end*, with what the file gives them: *offset* is the file offset of *start*."""

    start: int
    end: int
    offset: int

    @property
    def bias(self) -> int:
        """Address minus file offset, the same for all of its bytes."""
        return self.start - self.offset


@dataclass(frozen=True, slots=True)
class Piece:
    """*size* bytes at *source* in the file as it is, at *target* in the new one."""

    source: int
    target: int
    size: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What to change.  *segments* are the new program headers, *spans* the new ``PT_LOAD`` ones by their index in it.

    *pieces* cover the whole file, in order; *size* is that of the new file before anything is appended.  *cuts* are the
    addresses at which a section that reaches across has to be split; *pads* are the addresses in the new text that no
    byte of the old file fills.  *executable* are the bytes that were only readable and become executable as well.
    *steps* say all this in words.
    """

    page_size: int
    level: str
    segments: tuple[Segment, ...]
    pieces: tuple[Piece, ...]
    size: int
    cuts: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    executable: int
    steps: tuple[str, ...]

    @property
    def moves(self) -> bool:
        """Whether contents move in the file."""
        return any(piece.source != piece.target for piece in self.pieces)


def make_plan(image: Image, page_size: int, level: str = SHIFT) -> Plan:
    """Return the plan that makes as much text whole as *level* allows; without steps if nothing is to be done.

    Raises RefusalError.
    """
    loads = _checked(image)
    at = next(i for i, segment in enumerate(loads) if segment.p_flags & PF_X)
    grid = _Grid(page_size, drift(image))
    low, high = _wanted(image, loads, at, grid, level)
    if grid.down(high) <= grid.up(low):
        raise RefusalError(f"no whole window of {format_size(page_size)} can be made of its text")
    spans = _spans(loads, at, low, high)
    targets = [segment.p_offset for segment in loads]
    if not _fits(loads, at, spans, grid):
        if level == ALIGN:
            raise RefusalError(f"its text is not congruent modulo {format_size(page_size)}; --level={SHIFT} moves it")
        targets = _targets(loads, at, spans, grid)
        spans = [
            replace(s, offset=s.offset + t - old.p_offset) for s, t, old in zip(spans, targets, loads, strict=True)
        ]
        spans[at] = replace(spans[at], offset=targets[at] - (loads[at].p_vaddr - spans[at].start))
    pieces, size = _pieces(image, loads, targets)
    segments = _segments(image, loads, at, spans, pieces, page_size)
    return Plan(
        page_size,
        level,
        segments,
        pieces,
        max(size, spans[at].offset + high - low),
        tuple(address for address, old in ((low, loads[at].p_vaddr), (high, _end(loads[at]))) if address != old),
        tuple(_pads(loads, low, high)),
        sum(max(0, min(high, _end(s)) - max(low, s.p_vaddr)) for i, s in enumerate(loads) if i != at),
        tuple(_steps(loads, at, spans, page_size, pieces)),
    )


@dataclass(frozen=True, slots=True)
class _Grid:
    """The windows, as addresses of the file: multiples of *size*, less what the loader adds."""

    size: int
    drift: int

    def down(self, address: int) -> int:
        return align_down(address + self.drift, self.size) - self.drift

    def up(self, address: int) -> int:
        return align_up(address + self.drift, self.size) - self.drift

    def congruent(self, bias: int) -> bool:
        return (bias + self.drift) % self.size == 0


def _checked(image: Image) -> list[Segment]:
    """Return the ``PT_LOAD`` segments by address if the file is one that we understand in every respect."""
    if image.e_type not in (ET_EXEC, ET_DYN):
        raise RefusalError("neither a program nor a shared library")
    if image.e_machine not in (EM_X86_64, EM_AARCH64) or not image.is64 or not image.little:
        raise RefusalError("neither x86-64 nor little-endian aarch64")
    loads = [s for s in image.load_segments if s.p_memsz]
    text = [s for s in loads if s in image.text_segments]
    if len(text) != 1:
        raise RefusalError("no text" if not text else "more than one executable segment")
    if text[0].p_flags & PF_W:
        raise RefusalError("its text is writable")
    if text[0].p_filesz != text[0].p_memsz:
        raise RefusalError("its text segment is not wholly in the file")
    for segment in loads:
        if segment.p_filesz > segment.p_memsz or segment.p_offset + segment.p_filesz > image.file_size:
            raise RefusalError(f"LOAD {segment.index} does not lie in the file")
        if (segment.p_vaddr - segment.p_offset) % BASE_PAGE:
            raise RefusalError(f"p_vaddr and p_offset of LOAD {segment.index} differ modulo the page")
    for before, after in itertools.pairwise(loads):
        if _page_end(before) > align_down(after.p_vaddr, BASE_PAGE) or _file_end(before) > after.p_offset:
            raise RefusalError(f"LOAD {before.index} and LOAD {after.index} overlap, or are not in order")
    table_end = image.sections[-1].header + _SHENTSIZE if image.sections else 0
    claimed = max([table_end, *map(_file_end, image.segments), *map(_section_end, image.sections)])
    if claimed < image.file_size:
        raise RefusalError(f"{format_size(image.file_size - claimed)} of data are appended to it; it may look for them")
    return loads


def _wanted(image: Image, loads: Sequence[Segment], at: int, grid: _Grid, level: str) -> tuple[int, int]:
    """Return from where to where the text segment shall reach."""
    text = loads[at]
    start, end = text.p_vaddr, text.p_vaddr + text.p_memsz
    if level == ALIGN:
        return start, end
    first = last = at
    if level == MERGE:
        while first and _read_only(loads[first - 1]):
            first -= 1
        while last + 1 < len(loads) and _read_only(loads[last + 1]):
            last += 1
    low, high = grid.down(loads[first].p_vaddr), grid.up(_page_end(loads[last]))
    # What is writable stays out of the windows; so does what lies before the first byte of the image.
    limits = [grid.up(align_down(loads[0].p_vaddr, BASE_PAGE))]
    limits += [grid.up(_page_end(s)) for s in loads[:at] if not _read_only(s)]
    low = min(start, max(low, *limits))
    limits = [grid.down(align_down(s.p_vaddr, BASE_PAGE)) for s in loads[at + 1 :] if not _read_only(s)]
    high = max(end, min([high, *limits]))
    # A section that tools read as a whole must not be cut: the text takes in all of its segment instead.
    for section in image.sections:
        begins, ends = section.sh_addr, section.sh_addr + section.sh_size
        if not section.sh_flags & SHF_ALLOC or section.sh_type in (SHT_NOBITS, *_DIVISIBLE):
            continue
        for segment in loads:
            if segment.p_vaddr <= begins and ends <= _end(segment):
                low = segment.p_vaddr if begins < low < ends else low
                high = _end(segment) if begins < high < ends else high
    return low, high


def _spans(loads: Sequence[Segment], at: int, low: int, high: int) -> list[Span]:
    """Return what each segment shall map, empty for one that the text takes in, at its present place in the file."""
    spans = []
    for i, segment in enumerate(loads):
        start, end = segment.p_vaddr, _end(segment)
        if i < at:
            end = max(start, min(end, low))
        elif i > at:
            start = min(end, max(start, high))
        else:
            start, end = low, high
        spans.append(Span(start, end, segment.p_offset + start - segment.p_vaddr))
    return spans


def _group(loads: Sequence[Segment], at: int, span: Span) -> range:
    """Return the segments that the new text, *span*, takes bytes from: they must be of one piece with it."""
    touched = [i for i, s in enumerate(loads) if i == at or (s.p_vaddr < span.end and _end(s) > span.start)]
    return range(touched[0], touched[-1] + 1)


def _fits(loads: Sequence[Segment], at: int, spans: Sequence[Span], grid: _Grid) -> bool:
    """Return whether the new text is where it must be in the file, with nothing but its own bytes there."""
    span = spans[at]
    group = _group(loads, at, span)
    before = max((_file_end(loads[i]) for i in range(group.start)), default=0)
    grows = span.end > _end(loads[at])
    after = loads[group.stop].p_offset if group.stop < len(loads) else 0
    return (
        grid.congruent(span.bias)
        and all(loads[i].p_vaddr - loads[i].p_offset == span.bias for i in group)
        and span.offset >= before
        and (not grows or span.offset + span.end - span.start <= max(after, _file_end(loads[group.stop - 1])))
    )


def _targets(loads: Sequence[Segment], at: int, spans: Sequence[Span], grid: _Grid) -> list[int]:
    """Return new file offsets of the contents of each segment, so that the new text fits; as low as can be."""
    span = spans[at]
    group = _group(loads, at, span)
    targets: list[int] = []
    free = bias = 0
    for i, segment in enumerate(loads):
        if i == group.start:
            first = min(span.start, segment.p_vaddr)
            bias = first - (free + (first + grid.drift - free) % grid.size)
            if segment.p_offset == 0:
                bias = segment.p_vaddr  # the headers stay at the beginning of the file
        if i in group:
            target = segment.p_vaddr - bias
        else:
            target = free + (segment.p_offset - free) % max(segment.p_align, BASE_PAGE)
        following = loads[i + 1].p_offset if i + 1 < len(loads) else _file_end(segment)
        if target < free or not grid.congruent(bias):
            raise RefusalError("there is no room in the file for its text to be congruent")
        targets.append(target)
        free = target + following - segment.p_offset
        if i == group.stop - 1:
            free = max(free, span.end - bias)
    return targets


def _pieces(image: Image, loads: Sequence[Segment], targets: Sequence[int]) -> tuple[tuple[Piece, ...], int]:
    """Return how the contents of the file move, and the size of the new file."""
    starts = [*(segment.p_offset for segment in loads), _file_end(loads[-1])]
    places = [*targets, 0]
    last = targets[-1] + loads[-1].p_filesz
    places[-1] = last + (starts[-1] - last) % _TAIL_ALIGNMENT
    if starts[0]:
        starts, places = [0, *starts], [0, *places]
    sizes = [end - start for start, end in zip(starts, [*starts[1:], image.file_size], strict=True)]
    merged: list[Piece] = []
    for source, target, size in zip(starts, places, sizes, strict=True):
        if merged and target - source == merged[-1].target - merged[-1].source:
            merged[-1] = replace(merged[-1], size=merged[-1].size + size)
        elif size:
            merged.append(Piece(source, target, size))
    return tuple(merged), merged[-1].target + merged[-1].size


def moved(pieces: Sequence[Piece], offset: int) -> int:
    """Return where in the new file the byte at *offset* is; the end of the file moves with its last byte."""
    piece = next((p for p in pieces if p.source <= offset < p.source + p.size), pieces[-1])
    return offset + piece.target - piece.source


def _segments(
    image: Image, loads: Sequence[Segment], at: int, spans: Sequence[Span], pieces: Sequence[Piece], page_size: int
) -> tuple[Segment, ...]:
    """Return the new program headers."""
    places = {segment.index: i for i, segment in enumerate(loads)}
    count = len(image.segments) - sum(span.start == span.end for span in spans)
    segments: list[Segment] = []
    for old in image.segments:
        place = places.get(old.index)
        start, offset, filesz, memsz, align = old.p_vaddr, old.p_offset, old.p_filesz, old.p_memsz, old.p_align
        if place is not None:
            span = spans[place]
            if span.start == span.end:
                continue
            start, offset = span.start, span.offset
            memsz = span.end - span.start
            filesz = memsz if place == at else old.p_filesz - (old.p_memsz - memsz)
            align = max(align, page_size) if place == at else align
        elif old.p_filesz:
            offset = moved(pieces, offset)
        if old.p_type == PT_PHDR:
            filesz = memsz = count * _PHENTSIZE
        header = image.segments[0].header + len(segments) * _PHENTSIZE
        segments.append(Segment(old.p_type, old.p_flags, offset, start, filesz, memsz, align, len(segments), header))
    return tuple(segments)


def _steps(
    loads: Sequence[Segment], at: int, spans: Sequence[Span], page_size: int, pieces: Sequence[Piece]
) -> list[str]:
    steps = []
    for i, (old, span) in enumerate(zip(loads, spans, strict=True)):
        name = f"LOAD {old.index} ({old.flags})"
        if span.start == span.end:
            steps.append(f"{name} becomes part of the text")
        elif (span.start, span.end) != (old.p_vaddr, _end(old)):
            steps.append(f"{name}: {old.p_vaddr:#x}-{_end(old):#x} becomes {span.start:#x}-{span.end:#x}")
        if i == at and old.p_align < page_size:
            steps.append(f"{name}: p_align {format_size(old.p_align)} becomes {format_size(page_size)}")
    steps += [
        f"{format_size(piece.size)} at {piece.source:#x} of the file move to {piece.target:#x}"
        for piece in pieces
        if piece.source != piece.target
    ]
    return steps


def _pads(loads: Sequence[Segment], low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of whole pages between *low* and *high* that no segment has mapped so far."""
    free = low
    for segment in loads:
        if segment.p_vaddr < high and _end(segment) > low:
            start = align_down(segment.p_vaddr, BASE_PAGE)
            if free < start:
                yield free, start
            free = _page_end(segment)
    if free < high:
        yield free, high


def _read_only(segment: Segment) -> bool:
    return not segment.p_flags & PF_W and segment.p_filesz == segment.p_memsz


def _end(segment: Segment) -> int:
    return segment.p_vaddr + segment.p_memsz


def _page_end(segment: Segment) -> int:
    return align_up(_end(segment), BASE_PAGE)


def _file_end(segment: Segment) -> int:
    return segment.p_offset + segment.p_filesz


def _section_end(section: Section) -> int:
    return 0 if section.sh_type in (0, SHT_NOBITS) else section.sh_offset + section.sh_size
