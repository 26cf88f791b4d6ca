"""Which program headers to change so that text lies in whole windows.  Pure: integers in, integers out.

No address ever changes.  Only the boundaries between segments move (which bytes are mapped with which protection) and,
if a linker packed the file, the places of the contents in the file.  So relocations, symbols, unwinding tables and
debug information stay right.  Names and conditions are those of the System V ABI, chapter 5 (program loading).
"""

import contextlib
import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from hugealign import settings
from hugealign.diagnosis.refusal import RefusalError
from hugealign.diagnosis.values import Remedy
from hugealign.elf.coverage import text_size
from hugealign.elf.fixrecord import ALIGN, LEVELS, MERGE, SHIFT, Piece
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
    PT_LOAD,
    SHF_ALLOC,
    SHT_NOBITS,
    Image,
    Section,
    Segment,
)
from hugealign.elf.windows import (
    BASE_PAGE,
    align_down,
    align_up,
    drift,
    rodata_windows,
    text_windows,
    windows_holding,
)

PT_PHDR = 6
_SHT_PROGBITS, _SHT_RELA = 1, 4
#: Sections that may be cut in two, besides relocations: debuggers and profilers read all others as a whole.
_DIVISIBLE_NAMES = (".rodata", ".lrodata", ".gcc_except_table")
_PHENTSIZE, _SHENTSIZE = 56, 64
_LOADS_LIMIT = 64  # linkers make up to six
_ALIGN_LIMIT = 1 << 30  # bytes, of p_align
_ADDRESS_LIMIT = 1 << 56  # beyond any address space of Linux on these processors
_TAIL_ALIGNMENT = BASE_PAGE  # of the bytes behind the segments in the file: whole pages are copied faster


@dataclass(frozen=True, slots=True)
class JoinedText:
    """The segments *first* to *last* become one text from the address *low* to *high*, under the header of *at*."""

    first: int
    last: int
    at: int
    low: int
    high: int


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
class Edit:
    """The change to the ``PT_LOAD`` segment *old*: it maps the addresses from *start* to *end*, aligned to *align*.

    If a text absorbs it, it maps none; then *start* is *end*.
    """

    old: Segment
    start: int
    end: int
    align: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What to change.  *segments* are the new program headers.

    *pieces* cover the whole file, in order; *size* is that of the new file before anything is appended.  *cuts* are the
    addresses at which a section that reaches across has to be split; *pads* are the ranges of addresses in the new text
    that no byte of the old file fills.  *executable* is how many bytes were only readable and become executable as
    well.  *text* is the size of the present text in bytes: *covered_before* of them lie in whole windows now, *covered*
    will; *windows_before* and *windows* are counts of windows that hold code.  *edits* are the segments that change,
    none if there is nothing to do.  *most* is how many windows the default level gives the text, if that is more.
    *rodata* counts the windows of read-only data, before and after; None if nobody asked for them.
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
    edits: tuple[Edit, ...]
    most: int
    rodata: tuple[int, int] | None = None


def make_plan(
    image: Image, page_size: int, level: str = SHIFT, rodata: bool = False, min_text: int = settings.MIN_TEXT
) -> Plan:
    """Return the plan that makes as much text whole as *level* allows; without edits if there is nothing to do.

    Text of less than *min_text* bytes of code stays as it is.  With *rodata*, read-only segments also get the whole
    windows that lie in them.  Raises RefusalError.
    """
    loads = _checked(image, page_size)
    code = text_size(image)
    texts = _wanted(image, loads, page_size, level) if code >= min_text else []
    if code < min_text and not rodata:
        raise RefusalError("text.small", text=code, least=min_text)
    plan = _planned(image, loads, texts, page_size, level, rodata)
    if _moves_headers(image, plan):
        # Texts behind them can still be whole.
        headers = image.segments[0].header
        texts = [t for t in texts if loads[t.first].p_offset >= headers or _file_end(loads[t.first]) > headers]
        plan = _planned(image, loads, texts, page_size, level, rodata=False) if texts else plan
    if _moves_headers(image, plan):
        raise RefusalError("fix.headers-move")
    if torn := next(_torn(image, plan), None):
        room = loads[0].p_vaddr > page_size
        remedy = Remedy("patch-again") if room else None
        raise RefusalError("fix.section-torn", remedy, section=torn.name, page_size=page_size)
    if level == ALIGN and texts:
        with contextlib.suppress(RefusalError):
            shifted = make_plan(image, page_size, SHIFT, min_text=min_text)
            plan = replace(plan, most=max(plan.most, shifted.windows))
    return plan


def _torn(image: Image, plan: Plan) -> Iterator[Section]:
    """Yield the sections that begin in one segment and end in another, with *plan* in another part of the file."""
    starts = [s.p_vaddr for s in plan.segments if s.p_type == PT_LOAD]
    for section in image.sections:
        if section.sh_flags & SHF_ALLOC and section.sh_type != SHT_NOBITS:
            within = [at for at in starts if section.sh_addr < at < section.sh_addr + section.sh_size]
            kept = [at for at in within if not (divisible(section) and at in plan.cuts)]
            if any(place(plan.segments, at) != place(plan.segments, at - 1) + 1 for at in kept):
                yield section


def _moves_headers(image: Image, plan: Plan) -> bool:
    """Return whether the program headers would move in the file.

    Those at its beginning have to stay there: undoing and other tools look for them there.  For others, such as BOLT's,
    before commit 0da1d5002745 (5.18), Linux told programs the address of these by their place in the file, and QEMU
    still does.  That is right only if place and address differ by as much as they do at the beginning.
    """
    headers = image.segments[0].header
    return moved(plan.pieces, headers) != headers


def _planned(
    image: Image, loads: Sequence[Segment], texts: Sequence[JoinedText], page_size: int, level: str, rodata: bool
) -> Plan:
    """Return the plan that makes *texts* whole; otherwise as `make_plan`."""
    spans = _spans(loads, texts)
    data = _rodata(loads, spans, page_size) if rodata else set()
    if not texts and not data:
        others = (other for other in LEVELS[LEVELS.index(level) + 1 :] if _wanted(image, loads, page_size, other))
        higher = next(others, "")
        raise RefusalError("fix.no-window", Remedy("level") if higher else None, page_size=page_size, higher=higher)
    groups = _groups(loads, texts)
    targets = [segment.p_offset for segment in loads]
    packed = any((spans[i].start - spans[i].offset) % page_size for i in data)
    moves = packed or not all(_fits(loads, group, spans, page_size) for group in groups)
    if moves:
        targets = _targets(loads, groups, data, page_size)
        spans = [
            replace(s, offset=s.offset + t - old.p_offset) for s, t, old in zip(spans, targets, loads, strict=True)
        ]
    stops = [spans[t.at].offset + t.high - t.low for t in texts]
    pieces, size = _pieces(image, loads, targets, stops if moves else [])
    size = max([size, *stops])
    aligned = {t.at for t in texts} | data
    segments = _segments(image, loads, aligned, spans, pieces, page_size)
    new = image.changed(segments=segments, file_size=size)
    before, after = (text_windows(which, page_size) for which in (image, new))
    found = tuple(_windows(rodata_windows(which, page_size), page_size) for which in (image, new))
    gain = _windows(after, page_size) > _windows(before, page_size) or (rodata and found[1] > found[0])
    code = [segment for segment in loads if segment.p_flags & PF_X]
    ends = [(t.low, loads[t.first].p_vaddr) for t in texts] + [(t.high, _end(loads[t.last])) for t in texts]
    return Plan(
        page_size,
        level,
        segments,
        pieces,
        size,
        tuple(sorted(address for address, old in ends if address != old)),
        tuple(pad for t in texts for pad in _pads(loads, t.low, t.high)),
        sum(_overlap(s, t.low, t.high) for s in loads if s not in code for t in texts),
        sum(s.p_memsz for s in code),
        _covered(code, before),
        _covered(code, after),
        _windows(before, page_size),
        _windows(after, page_size),
        tuple(_edits(loads, aligned, spans, page_size)) if gain else (),
        _windows(after, page_size),
        (found[0], found[1]) if rodata else None,
    )


def end_of_contents(image: Image) -> int:
    """Return the file offset behind everything that the headers of *image* claim."""
    tables = [segment.header + _PHENTSIZE for segment in image.segments[-1:]]
    tables += [section.header + _SHENTSIZE for section in image.sections[-1:]]
    return max([0, *tables, *map(_file_end, image.segments), *map(_section_end, image.sections)])


def _windows(runs: Sequence[tuple[Segment, int, int]], page_size: int) -> int:
    return sum((last - first) // page_size for _, first, last in runs)


def _covered(code: Sequence[Segment], runs: Sequence[tuple[Segment, int, int]]) -> int:
    """Return how many bytes of *code* lie in *runs* of whole windows."""
    return sum(_overlap(segment, first, last) for _, first, last in runs for segment in code)


def _overlap(segment: Segment, start: int, end: int) -> int:
    return max(0, min(end, _end(segment)) - max(start, segment.p_vaddr))


def _checked(image: Image, page_size: int) -> list[Segment]:
    """Return the ``PT_LOAD`` segments by address if the file is one that we understand in every respect."""
    if image.e_type not in (ET_EXEC, ET_DYN):
        raise RefusalError({ET_REL: "file.object", ET_CORE: "file.core"}.get(image.e_type, "file.no-program"))
    if image.e_machine not in (EM_X86_64, EM_AARCH64) or not image.is64 or not image.little:
        raise RefusalError("fix.other-processor")
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
        if _page_end(before) > align_down(after.p_vaddr, BASE_PAGE) or _file_end(before) > after.p_offset:
            raise RefusalError("fix.segments-overlap", first=before.index, second=after.index)
    if drift(image) % page_size or (not image.fixed and image.load_segments[0].p_vaddr % BASE_PAGE):
        raise RefusalError("fix.image-base", page_size=page_size)
    end = end_of_contents(image)
    if end > image.file_size:
        raise RefusalError("file.truncated", missing=end - image.file_size)
    if end < image.file_size:
        raise RefusalError("file.appended", appended=image.file_size - end)
    return loads


def _check_load(image: Image, segment: Segment) -> None:
    index, align = segment.index, segment.p_align
    if segment.p_filesz > segment.p_memsz or _file_end(segment) > image.file_size:
        raise RefusalError("fix.segment-outside-file", segment=index)
    if _end(segment) > _ADDRESS_LIMIT:
        raise RefusalError("fix.segment-outside-memory", segment=index)
    if align & (align - 1) or not BASE_PAGE <= align <= _ALIGN_LIMIT:
        raise RefusalError("fix.segment-alignment", segment=index, alignment=f"{align:#x}")
    if (segment.p_vaddr - segment.p_offset) % align:
        raise RefusalError("fix.segment-shifted", segment=index)


def _wanted(image: Image, loads: Sequence[Segment], page_size: int, level: str) -> list[JoinedText]:
    """Return the texts that get whole windows of code, by address."""
    texts: list[JoinedText] = []
    for run in _runs(loads, 1 if level == ALIGN else page_size):
        low, high = loads[run[0]].p_vaddr, _end(loads[run[-1]])
        if level != ALIGN:
            low, high = _range(image, loads, run, page_size, level)
        # Read-only data between two texts go to the first; no section that must not be cut reaches across its end.  No
        # two texts share a page, of which the kernel would map the last.
        low = max(low, align_up(texts[-1].high, BASE_PAGE) if texts else low)
        first = align_up(align_down(low, BASE_PAGE), page_size)
        last = align_down(align_up(high, BASE_PAGE), page_size)
        if last > first and windows_holding(image.code, first, last, page_size):
            at = max((i for i in run if loads[i].p_flags & PF_X), key=lambda i: loads[i].p_memsz)
            texts.append(JoinedText(run[0], run[-1], at, low, high))
    return texts


def _rodata(loads: Sequence[Segment], spans: Sequence[Span], page_size: int) -> set[int]:
    """Return the read-only segments that have whole windows, or get them if contents may move in the file."""
    return {
        i
        for i, (segment, span) in enumerate(zip(loads, spans, strict=True))
        if _read_only(segment)
        and align_down(align_up(span.end, BASE_PAGE), page_size)
        > align_up(align_down(span.start, BASE_PAGE), page_size)
    }


def _runs(loads: Sequence[Segment], page_size: int) -> Iterator[range]:
    """Yield runs of segments that become one text: executable ones in one window, with read-only ones between them."""
    run = range(0)
    for i in _texts(loads):
        between = all(_read_only(s) for s in loads[run.stop : i])
        if run and between and _page_end(loads[run[-1]]) > align_down(loads[i].p_vaddr, page_size):
            run = range(run.start, i + 1)
        else:
            if run:
                yield run
            run = range(i, i + 1)
    yield run


def _range(image: Image, loads: Sequence[Segment], run: range, page_size: int, level: str) -> tuple[int, int]:
    """Return where the text made of *run* will begin and end."""
    first, last = run[0], run[-1]
    start, end = loads[first].p_vaddr, _end(loads[last])
    if level == MERGE:
        while first and _read_only(loads[first - 1]):
            first -= 1
        while last + 1 < len(loads) and _read_only(loads[last + 1]):
            last += 1
    code = windows_holding(image.code, start, end, 1)
    if not code:
        return start, end
    low, high = align_down(code[0][0], page_size), align_up(align_up(code[-1][1], BASE_PAGE), page_size)
    if level == MERGE:
        low, high = align_down(loads[first].p_vaddr, page_size), align_up(_page_end(loads[last]), page_size)
    # Writable segments and other texts stay out of the windows; so do addresses before the first byte of the image.
    limits = [align_up(align_down(loads[0].p_vaddr, BASE_PAGE), page_size)]
    limits += [align_up(_page_end(s), page_size) for s in loads[: run.start] if not _read_only(s)]
    low = min(start, max(low, *limits))
    limits = [align_down(s.p_vaddr, page_size) for s in loads[run.stop :] if not _read_only(s)]
    high = max(end, min([high, *limits]))
    outer_low, outer_high = _uncut(image, loads, low, high)
    # Around a section that must not be cut, nothing writable and no window of mere data becomes executable: rather a
    # part of a window of the text stays on small pages.
    others = [s for s in loads if not s.p_flags & PF_X and not _read_only(s)]
    if any(_overlap(s, outer_low, start) for s in others) or (level != MERGE and align_up(outer_low, page_size) < low):
        outer_low = start
    if any(_overlap(s, end, outer_high) for s in others) or (
        level != MERGE and align_down(outer_high, page_size) > high
    ):
        outer_high = end
    return outer_low, outer_high


def _uncut(image: Image, loads: Sequence[Segment], low: int, high: int) -> tuple[int, int]:
    """Return *low* and *high*, moved apart until they cut no section that tools read as a whole.

    A section that already lies in two segments is not cut where one ends and the other begins.
    """
    edges = {segment.p_vaddr for segment in loads}
    whole = sorted(
        (section.sh_addr, section.sh_addr + section.sh_size)
        for section in image.sections
        if section.sh_flags & SHF_ALLOC and section.sh_type != SHT_NOBITS and not divisible(section)
    )
    for begins, ends in reversed(whole):
        if begins < low < ends and low not in edges:
            for segment in loads:
                if segment.p_vaddr <= begins < _end(segment):
                    low = max(segment.p_vaddr, align_down(begins, segment.p_align))
    for begins, ends in whole:
        if begins < high < ends and high not in edges:
            for segment in loads:
                if segment.p_vaddr < ends <= _end(segment):
                    high = min(_end(segment), align_up(ends, segment.p_align))
    return low, high


def divisible(section: Section) -> bool:
    """Return whether *section* may be cut in two: readers need no such section as a whole."""
    return section.sh_type == _SHT_RELA or (
        section.sh_type == _SHT_PROGBITS and section.name.startswith(_DIVISIBLE_NAMES)
    )


def _spans(loads: Sequence[Segment], texts: Sequence[JoinedText]) -> list[Span]:
    """Return what each segment will map, at its present place in the file; nothing if a text absorbs it."""
    spans = []
    for i, segment in enumerate(loads):
        start, end = segment.p_vaddr, _end(segment)
        for text in texts:
            if text.at == i:
                start, end = text.low, text.high
                break
            if text.low <= start:
                start = max(start, min(end, text.high))
            else:
                end = min(end, text.low)
        spans.append(Span(start, end, segment.p_offset + start - segment.p_vaddr))
    return spans


def _groups(loads: Sequence[Segment], texts: Sequence[JoinedText]) -> list[tuple[range, list[JoinedText]]]:
    """Return groups of segments that texts take bytes from, with the texts: each must be in one piece in the file."""
    groups: list[tuple[range, list[JoinedText]]] = []
    for text in texts:
        touched = [i for i, s in enumerate(loads) if i == text.at or _overlap(s, text.low, text.high)]
        if groups and groups[-1][0].stop > touched[0]:
            group, members = groups.pop()
            groups.append((range(group.start, touched[-1] + 1), [*members, text]))
        else:
            groups.append((range(touched[0], touched[-1] + 1), [text]))
    return groups


def _fits(
    loads: Sequence[Segment], group: tuple[range, list[JoinedText]], spans: Sequence[Span], page_size: int
) -> bool:
    """Return whether the new texts already lie where they must in the file, with nothing but their own bytes there."""
    members, texts = group
    first, last = spans[texts[0].at], spans[texts[-1].at]
    before = max((_file_end(loads[i]) for i in range(members.start)), default=0)
    grows = last.end > _end(loads[texts[-1].last])
    after = loads[members.stop].p_offset if members.stop < len(loads) else 0
    return (
        first.bias % page_size == 0
        and all(loads[i].p_vaddr - loads[i].p_offset == first.bias for i in members)
        and first.offset >= before
        and (not grows or last.offset + last.end - last.start <= max(after, _file_end(loads[members.stop - 1])))
    )


def _targets(
    loads: Sequence[Segment], groups: Sequence[tuple[range, list[JoinedText]]], data: Collection[int], page_size: int
) -> list[int]:
    """Return new file offsets for the contents of each segment, as low as possible, with which the new texts fit.

    The segments *data* become congruent modulo the window.
    """
    targets: list[int] = []
    free, bias = loads[0].p_offset, 0  # bytes before the first segment stay
    for i, segment in enumerate(loads):
        members, texts = next((g for g in groups if i in g[0]), (range(0), []))
        if members and i == members[0]:
            first = min(texts[0].low, segment.p_vaddr)
            bias = first - (free + (first - free) % page_size)
            if segment.p_offset == 0:
                bias = segment.p_vaddr  # the headers stay at the beginning of the file
        target = segment.p_vaddr - bias if members else free + (segment.p_offset - free) % segment.p_align
        if i in data and not members:
            target = free + (segment.p_vaddr - free) % max(page_size, segment.p_align)
        following = loads[i + 1].p_offset if i + 1 < len(loads) else _file_end(segment)
        if target < free or bias % page_size:
            raise RefusalError("fix.no-room")
        targets.append(target)
        free = target + following - segment.p_offset
        if members and i == members[-1]:
            free = max(free, texts[-1].high - bias)
    return targets


def _pieces(
    image: Image, loads: Sequence[Segment], targets: Sequence[int], texts: Sequence[int]
) -> tuple[tuple[Piece, ...], int]:
    """Return how the contents of the file move, and the size of the new file; *texts* are where texts end in it."""
    starts = [*(segment.p_offset for segment in loads), _file_end(loads[-1])]
    places = [*targets, 0]
    last = max([targets[-1] + loads[-1].p_filesz, *texts])
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
    """Return where the byte at *offset* is in the new file; the end of the file moves with its last byte."""
    piece = next((p for p in pieces if p.source <= offset < p.source + p.size), pieces[-1])
    return offset + piece.target - piece.source


def _segments(
    image: Image,
    loads: Sequence[Segment],
    aligned: Collection[int],
    spans: Sequence[Span],
    pieces: Sequence[Piece],
    page_size: int,
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
            filesz = memsz if place in aligned else old.p_filesz - (old.p_memsz - memsz)
            align = max(align, page_size) if place in aligned else align
        elif old.p_filesz:
            offset = moved(pieces, offset)
        if old.p_type == PT_PHDR:
            filesz = memsz = count * _PHENTSIZE
        header = moved(pieces, image.segments[0].header) + len(segments) * _PHENTSIZE
        segments.append(Segment(old.p_type, old.p_flags, offset, start, filesz, memsz, align, len(segments), header))
    return tuple(segments)


def _edits(loads: Sequence[Segment], aligned: Collection[int], spans: Sequence[Span], page_size: int) -> Iterator[Edit]:
    for i, (old, span) in enumerate(zip(loads, spans, strict=True)):
        align = max(old.p_align, page_size) if i in aligned else old.p_align
        if (span.start, span.end, align) != (old.p_vaddr, _end(old), old.p_align):
            yield Edit(old, span.start, span.end, align)


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


def place(segments: Sequence[Segment], address: int) -> int:
    """Return where the byte at *address* is in the file that *segments* describe, -1 if no segment maps it."""
    for segment in segments:
        if segment.p_type == PT_LOAD and segment.p_vaddr <= address < _end(segment):
            return segment.p_offset + address - segment.p_vaddr
    return -1


def _texts(loads: Sequence[Segment]) -> list[int]:
    return [i for i, segment in enumerate(loads) if segment.p_flags & PF_X]


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
