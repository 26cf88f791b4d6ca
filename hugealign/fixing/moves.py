"""Where the contents of a fixed file go: as low in the file as they fit, in few pieces.  Pure."""

from collections.abc import Iterator, Sequence

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.fixrecord import Piece
from hugealign.elf.image import PT_LOAD, Image, Segment
from hugealign.elf.windows import BASE_PAGE, align_down
from hugealign.fixing.texts import JoinedText
from hugealign.fixing.understood import end_of, file_end, overlap, page_end
from hugealign.records import Record

_TAIL_ALIGNMENT = BASE_PAGE  # of the bytes behind the segments in the file: whole pages are copied faster


class Span(Record):
    """Addresses from *start* to *end*, with what the file gives them: *offset* is the file offset of *start*."""

    start: int
    end: int
    offset: int

    @property
    def bias(self) -> int:
        """Address minus file offset, the same for all of its bytes."""
        return self.start - self.offset


def spans_of(loads: Sequence[Segment], texts: Sequence[JoinedText]) -> list[Span]:
    """Return what each segment will map, at its present place in the file; nothing if a text absorbs it."""
    spans = []
    for i, segment in enumerate(loads):
        start, end = segment.p_vaddr, end_of(segment)
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


def laid_out(
    image: Image, loads: Sequence[Segment], texts: Sequence[JoinedText], page_size: int
) -> tuple[list[Span], tuple[Piece, ...], int]:
    """Return what each segment maps, how the contents move so that *texts* fit, and the size of the new file.

    Raises RefusalError if there is no room.
    """
    spans = spans_of(loads, texts)
    groups = _groups(loads, texts)
    targets = [segment.p_offset for segment in loads]
    moves = not all(_fits(loads, group, spans, page_size) for group in groups)
    if moves:
        targets = _targets(loads, groups, page_size)
        spans = [s.changed(offset=s.offset + t - old.p_offset) for s, t, old in zip(spans, targets, loads, strict=True)]
    stops = [spans[t.at].offset + t.high - t.low for t in texts]
    pieces, size = _pieces(image, loads, targets, stops if moves else [])
    return spans, pieces, max([size, *stops])


def _groups(loads: Sequence[Segment], texts: Sequence[JoinedText]) -> list[tuple[range, list[JoinedText]]]:
    """Return groups of texts and the segments that they take bytes from: the file has each group in one piece."""
    groups: list[tuple[range, list[JoinedText]]] = []
    for text in texts:
        touched = [i for i, s in enumerate(loads) if i == text.at or overlap(s, text.low, text.high)]
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
    before = max((file_end(loads[i]) for i in range(members.start)), default=0)
    grows = last.end > end_of(loads[texts[-1].last])
    after = loads[members.stop].p_offset if members.stop < len(loads) else 0
    return (
        first.bias % page_size == 0
        and all(loads[i].p_vaddr - loads[i].p_offset == first.bias for i in members)
        and first.offset >= before
        and (not grows or last.offset + last.end - last.start <= max(after, file_end(loads[members.stop - 1])))
    )


def _targets(loads: Sequence[Segment], groups: Sequence[tuple[range, list[JoinedText]]], page_size: int) -> list[int]:
    """Return new file offsets for the contents of each segment, as low as possible, with which the new texts fit."""
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
        following = loads[i + 1].p_offset if i + 1 < len(loads) else file_end(segment)
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
    starts = [*(segment.p_offset for segment in loads), file_end(loads[-1])]
    places = [*targets, 0]
    last = max([targets[-1] + loads[-1].p_filesz, *texts])
    places[-1] = last + (starts[-1] - last) % _TAIL_ALIGNMENT
    if starts[0]:
        starts, places = [0, *starts], [0, *places]
    sizes = [end - start for start, end in zip(starts, [*starts[1:], image.file_size], strict=True)]
    merged: list[Piece] = []
    for source, target, size in zip(starts, places, sizes, strict=True):
        if merged and target - source == merged[-1].target - merged[-1].source:
            merged[-1] = merged[-1].changed(size=merged[-1].size + size)
        elif size:
            merged.append(Piece(source, target, size))
    return tuple(merged), merged[-1].target + merged[-1].size


def moved(pieces: Sequence[Piece], offset: int) -> int:
    """Return where the byte at *offset* is in the new file; the end of the file moves with its last byte."""
    piece = next((p for p in pieces if p.source <= offset < p.source + p.size), pieces[-1])
    return offset + piece.target - piece.source


def pads_of(loads: Sequence[Segment], low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of whole pages between *low* and *high* that no segment has mapped so far."""
    free = low
    for segment in loads:
        if segment.p_vaddr < high and end_of(segment) > low:
            start = align_down(segment.p_vaddr, BASE_PAGE)
            if free < start:
                yield free, start
            free = page_end(segment)
    if free < high:
        yield free, high


def place(segments: Sequence[Segment], address: int) -> int:
    """Return where the byte at *address* is in the file that *segments* describe, -1 if no segment maps it."""
    for segment in segments:
        if segment.p_type == PT_LOAD and segment.p_vaddr <= address < end_of(segment):
            return segment.p_offset + address - segment.p_vaddr
    return -1
