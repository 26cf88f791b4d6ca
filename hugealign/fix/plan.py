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
    ET_CORE,
    ET_DYN,
    ET_EXEC,
    ET_REL,
    PF_R,
    PF_W,
    PF_X,
    SHF_ALLOC,
    SHT_NOBITS,
    Image,
    Section,
    Segment,
)
from hugealign.elf.windows import BASE_PAGE, align_down, align_up, drift, text_windows
from hugealign.errors import HugealignError
from hugealign.units import format_size

#: From the least invasive to the most.
ALIGN, SHIFT, MERGE = LEVELS = ("align", "shift", "merge")

PT_PHDR = 6
_SHT_PROGBITS, _SHT_RELA = 1, 4
#: What may be cut in two, besides relocations: debuggers and profilers read all other sections as a whole.
_DIVISIBLE_NAMES = (".rodata", ".lrodata", ".gcc_except_table")
_PHENTSIZE, _SHENTSIZE = 56, 64
_LOADS_LIMIT = 64  # linkers make up to six
_ALIGN_LIMIT = 1 << 30  # bytes, of p_align
_ADDRESS_LIMIT = 1 << 56  # beyond any address space of Linux on these processors
_TAIL_ALIGNMENT = BASE_PAGE  # of what follows the segments in the file: whole pages are copied faster


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
    *text* are the bytes of the text as it is, of which *covered* will lie in whole windows and *covered_before* do
    now; *windows* and *windows_before* are counts.  *steps* say all this in words.
    """

    page_size: int
    level: str
    segments: tuple[Segment, ...]
    pieces: tuple[Piece, ...]
    size: int
    cuts: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    executable: int
    text: int
    covered_before: int
    covered: int
    windows_before: int
    windows: int
    steps: tuple[str, ...]


def make_plan(image: Image, page_size: int, level: str = SHIFT) -> Plan:
    """Return the plan that makes as much text whole as *level* allows; without steps if nothing is to be done.

    Raises RefusalError.
    """
    loads = _checked(image, page_size)
    at = next(i for i, segment in enumerate(loads) if segment.p_flags & PF_X)
    low, high = _wanted(image, loads, at, page_size, level)
    if align_down(high, page_size) <= align_up(low, page_size):
        raise RefusalError(f"no whole window of {format_size(page_size)} can be made of its text")
    spans = _spans(loads, at, low, high)
    targets = [segment.p_offset for segment in loads]
    if not _fits(loads, at, spans, page_size):
        if level == ALIGN:
            raise RefusalError(f"its text is not congruent modulo {format_size(page_size)}; --level={SHIFT} moves it")
        targets = _targets(loads, at, spans, page_size)
        spans = [
            replace(s, offset=s.offset + t - old.p_offset) for s, t, old in zip(spans, targets, loads, strict=True)
        ]
        spans[at] = replace(spans[at], offset=targets[at] - (loads[at].p_vaddr - spans[at].start))
    pieces, size = _pieces(image, loads, targets)
    size = max(size, spans[at].offset + high - low)
    segments = _segments(image, loads, at, spans, pieces, page_size)
    new = Image(image.e_type, image.e_machine, segments, (), size)
    before, after = (text_windows(which, page_size) for which in (image, new))
    gain = _windows(after, page_size) > _windows(before, page_size)
    return Plan(
        page_size,
        level,
        segments,
        pieces,
        size,
        tuple(address for address, old in ((low, loads[at].p_vaddr), (high, _end(loads[at]))) if address != old),
        tuple(_pads(loads, low, high)),
        sum(max(0, min(high, _end(s)) - max(low, s.p_vaddr)) for i, s in enumerate(loads) if i != at),
        loads[at].p_memsz,
        _covered(loads[at], before),
        _covered(loads[at], after),
        _windows(before, page_size),
        _windows(after, page_size),
        tuple(_steps(loads, at, spans, page_size, pieces)) if gain else (),
    )


def end_of_contents(image: Image) -> int:
    """Return the file offset behind all that the headers of *image* claim."""
    tables = [segment.header + _PHENTSIZE for segment in image.segments[-1:]]
    tables += [section.header + _SHENTSIZE for section in image.sections[-1:]]
    return max([0, *tables, *map(_file_end, image.segments), *map(_section_end, image.sections)])


def _windows(runs: Sequence[tuple[Segment, int, int]], page_size: int) -> int:
    return sum((last - first) // page_size for _, first, last in runs)


def _covered(text: Segment, runs: Sequence[tuple[Segment, int, int]]) -> int:
    """Return how many bytes of *text* lie in *runs* of whole windows."""
    return sum(max(0, min(last, _end(text)) - max(first, text.p_vaddr)) for _, first, last in runs)


def _checked(image: Image, page_size: int) -> list[Segment]:
    """Return the ``PT_LOAD`` segments by address if the file is one that we understand in every respect."""
    if image.e_type not in (ET_EXEC, ET_DYN):
        kinds = {ET_REL: "an object file or a kernel module", ET_CORE: "a core file"}
        raise RefusalError(kinds.get(image.e_type, "neither a program nor a shared library"))
    if image.e_machine not in (EM_X86_64, EM_AARCH64) or not image.is64 or not image.little:
        raise RefusalError("neither x86-64 nor little-endian aarch64")
    loads = [s for s in image.load_segments if s.p_memsz]
    text = [s for s in loads if s in image.text_segments]
    if len(text) != 1:
        raise RefusalError("it has no text" if not text else "it has more than one executable segment")
    if text[0].p_flags & PF_W:
        raise RefusalError("its text is writable")
    if not text[0].p_flags & PF_R:
        raise RefusalError("its text is execute-only, which the data that would join it must not be")
    if text[0].p_filesz != text[0].p_memsz:
        raise RefusalError("its text is not wholly in the file")
    if len(loads) > _LOADS_LIMIT:
        raise RefusalError(f"it has {len(loads)} loadable segments")
    for segment in image.load_segments:
        _check_load(image, segment)
    for before, after in itertools.pairwise(loads):
        if _page_end(before) > align_down(after.p_vaddr, BASE_PAGE) or _file_end(before) > after.p_offset:
            raise RefusalError(f"LOAD {before.index} and LOAD {after.index} overlap, or are not in order")
    if drift(image) % page_size:
        raise RefusalError(f"its image base is no multiple of {format_size(page_size)}")
    end = end_of_contents(image)
    if end > image.file_size:
        raise RefusalError(f"it is truncated: {format_size(end - image.file_size)} are missing")
    if end < image.file_size:
        raise RefusalError(f"{format_size(image.file_size - end)} of data are appended to it; it may look for them")
    return loads


def _check_load(image: Image, segment: Segment) -> None:
    name, align = f"LOAD {segment.index}", segment.p_align
    if segment.p_filesz > segment.p_memsz or _file_end(segment) > image.file_size:
        raise RefusalError(f"{name} does not lie in the file")
    if _end(segment) > _ADDRESS_LIMIT:
        raise RefusalError(f"{name} lies outside of any address space")
    if align & (align - 1) or not BASE_PAGE <= align <= _ALIGN_LIMIT:
        raise RefusalError(f"the alignment of {name} is {align:#x}")
    if (segment.p_vaddr - segment.p_offset) % align:
        raise RefusalError(f"p_vaddr and p_offset of {name} differ modulo its alignment")


def _wanted(image: Image, loads: Sequence[Segment], at: int, page_size: int, level: str) -> tuple[int, int]:
    """Return from where to where the text segment shall reach."""
    text = loads[at]
    start, end = text.p_vaddr, _end(text)
    if level == ALIGN:
        return start, end
    first = last = at
    if level == MERGE:
        while first and _read_only(loads[first - 1]):
            first -= 1
        while last + 1 < len(loads) and _read_only(loads[last + 1]):
            last += 1
    low = align_down(loads[first].p_vaddr, page_size)
    high = align_up(_page_end(loads[last]), page_size)
    # What is writable stays out of the windows; so does what lies before the first byte of the image.
    limits = [align_up(align_down(loads[0].p_vaddr, BASE_PAGE), page_size)]
    limits += [align_up(_page_end(s), page_size) for s in loads[:at] if not _read_only(s)]
    low = min(start, max(low, *limits))
    limits = [align_down(s.p_vaddr, page_size) for s in loads[at + 1 :] if not _read_only(s)]
    high = max(end, min([high, *limits]))
    return _uncut(image, loads, low, high)


def _uncut(image: Image, loads: Sequence[Segment], low: int, high: int) -> tuple[int, int]:
    """Return *low* and *high*, moved apart until they cut no section that somebody reads as a whole."""
    whole = sorted(
        (section.sh_addr, section.sh_addr + section.sh_size)
        for section in image.sections
        if section.sh_flags & SHF_ALLOC and section.sh_type != SHT_NOBITS and not _divisible(section)
    )
    for begins, ends in reversed(whole):
        if begins < low < ends:
            for segment in loads:
                if segment.p_vaddr <= begins and ends <= _end(segment):
                    low = max(segment.p_vaddr, align_down(begins, segment.p_align))
    for begins, ends in whole:
        if begins < high < ends:
            for segment in loads:
                if segment.p_vaddr <= begins and ends <= _end(segment):
                    high = min(_end(segment), align_up(ends, segment.p_align))
    return low, high


def _divisible(section: Section) -> bool:
    return section.sh_type == _SHT_RELA or (
        section.sh_type == _SHT_PROGBITS and section.name.startswith(_DIVISIBLE_NAMES)
    )


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


def _fits(loads: Sequence[Segment], at: int, spans: Sequence[Span], page_size: int) -> bool:
    """Return whether the new text is where it must be in the file, with nothing but its own bytes there."""
    span = spans[at]
    group = _group(loads, at, span)
    before = max((_file_end(loads[i]) for i in range(group.start)), default=0)
    grows = span.end > _end(loads[at])
    after = loads[group.stop].p_offset if group.stop < len(loads) else 0
    return (
        span.bias % page_size == 0
        and all(loads[i].p_vaddr - loads[i].p_offset == span.bias for i in group)
        and span.offset >= before
        and (not grows or span.offset + span.end - span.start <= max(after, _file_end(loads[group.stop - 1])))
    )


def _targets(loads: Sequence[Segment], at: int, spans: Sequence[Span], page_size: int) -> list[int]:
    """Return new file offsets of the contents of each segment, so that the new text fits; as low as can be."""
    span = spans[at]
    group = _group(loads, at, span)
    targets: list[int] = []
    free, bias = loads[0].p_offset, 0  # what lies before the first segment stays
    for i, segment in enumerate(loads):
        if i == group.start:
            first = min(span.start, segment.p_vaddr)
            bias = first - (free + (first - free) % page_size)
            if segment.p_offset == 0:
                bias = segment.p_vaddr  # the headers stay at the beginning of the file
        target = segment.p_vaddr - bias if i in group else free + (segment.p_offset - free) % segment.p_align
        following = loads[i + 1].p_offset if i + 1 < len(loads) else _file_end(segment)
        if target < free or bias % page_size:
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
    return segment.p_flags & (PF_R | PF_W | PF_X) == PF_R and segment.p_filesz == segment.p_memsz


def _end(segment: Segment) -> int:
    return segment.p_vaddr + segment.p_memsz


def _page_end(segment: Segment) -> int:
    return align_up(_end(segment), BASE_PAGE)


def _file_end(segment: Segment) -> int:
    return segment.p_offset + segment.p_filesz


def _section_end(section: Section) -> int:
    return 0 if section.sh_type in (0, SHT_NOBITS) else section.sh_offset + section.sh_size
