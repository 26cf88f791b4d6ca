"""Which program headers to change so that text lies in whole windows.  Pure: integers in, integers out.

No address changes here, only in `hugealign.fixing.separation`: the boundaries between segments move (which bytes are
mapped with which protection) and, if a linker packed the file, the places of the contents in the file.  So relocations,
symbols, unwinding tables and debug information stay right.  Names and conditions are those of the System V ABI,
chapter 5 (program loading).
"""

import contextlib
from collections.abc import Collection, Iterator, Sequence

from hugealign import settings
from hugealign.diagnosis.refusal import RefusalError
from hugealign.diagnosis.values import Remedy
from hugealign.elf.coverage import text_size
from hugealign.elf.fixrecord import ALIGN, SHIFT, Piece, Step
from hugealign.elf.image import PT_LOAD, PT_PHDR, SHF_ALLOC, SHT_NOBITS, Image, Section, Segment
from hugealign.elf.windows import text_windows
from hugealign.fixing.moves import Span, laid_out, moved, pads_of, place
from hugealign.fixing.texts import JoinedText, bounded, covered, divisible, executable, texts_of
from hugealign.fixing.understood import PHENTSIZE, checked, end_of, file_end, refuse_appended
from hugealign.records import Record


class Edit(Record):
    """The change to a ``PT_LOAD`` segment; if a text absorbs it, it maps no address, and *start* is *end*."""

    old: Segment
    start: int
    end: int
    align: int

    JSON = "segment=old.index flags=old.flags before after"

    @property
    def before(self) -> "Range":
        """The addresses that it maps."""
        return Range(self.old.p_vaddr, self.old.p_vaddr + self.old.p_memsz, self.old.p_align)

    @property
    def after(self) -> "Range | None":
        """The addresses that it will map; None if it becomes part of the text."""
        return Range(self.start, self.end, self.align) if self.start < self.end else None


class Range(Record):
    """The addresses that a segment maps."""

    start: int
    end: int
    """The address behind the last byte."""
    align: int
    """Its p_align."""

    JSON = "start end align"


class Plan(Record):
    """What to change in a file."""

    page_size: int
    """Bytes of a window."""
    level: str
    """One of `align`, `shift`, `separate`."""
    segments: tuple[Segment, ...]
    """The new program headers."""
    pieces: tuple[Piece, ...]
    """What is copied; they cover all of the file, in order."""
    size: int
    """Bytes of the new file before anything is appended."""
    cuts: tuple[int, ...]
    """The addresses at which a section that reaches across has to be split."""
    pads: tuple[tuple[int, int], ...]
    """The ranges of addresses in the new text without bytes in the old file."""
    executable: int
    """How many bytes were only readable and become executable as well."""
    text: int
    """Bytes of text in the file as it was."""
    covered_before: int
    """How many of them are in whole windows."""
    covered: int
    windows_before: int
    """How many whole windows hold code."""
    windows: int
    edits: tuple[Edit, ...]
    """The PT_LOAD segments that change, none if there is nothing to do; other program headers only move in the file."""
    most: int
    """The windows that SHIFT gives the text, if those are more."""
    step: Step | None = None
    """How addresses move; None if none does."""
    dropped: tuple[int, int] = (0, 0)
    """If addresses move, the range of the old file that is left out."""

    JSON = (
        "level page_size text_bytes=text covered_bytes_before=covered_before covered_bytes=result.covered "
        "windows_before windows=result.windows executable_bytes=result.executable edits step=result.step moves"
    )

    @property
    def result(self) -> "Plan":
        """The plan, with the numbers of the file as it stays if there is nothing to do."""
        if self.edits:
            return self
        return self.changed(covered=self.covered_before, windows=self.windows_before, executable=0, step=None)

    @property
    def moves(self) -> tuple[Piece, ...]:
        """Contents that move in the file."""
        return tuple(piece for piece in self.pieces if piece.source != piece.target) if self.edits else ()


def make_plan(
    image: Image,
    page_size: int,
    level: str = SHIFT,
    min_text: int = settings.MIN_TEXT,
    max_executable: int | None = None,
) -> Plan:
    """Return the plan that makes as much text whole as *level* allows; without edits if there is nothing to do.

    Text of less than *min_text* bytes of code stays as it is.  No more than *max_executable* bytes of data become
    executable, by default what `bounded` says.  Raises RefusalError.
    """
    loads = checked(image, page_size)
    code = text_size(image)
    if code < min_text:
        raise RefusalError("text.small", text=code, least=min_text)
    refuse_appended(image)
    possible = texts_of(image, loads, page_size, level)
    texts = bounded(image, loads, possible, page_size, max_executable)
    if possible and not texts:
        data = executable(loads, possible)
        raise RefusalError("fix.no-window", Remedy("more-executable"), page_size=page_size, data=data)
    plan = _planned(image, loads, texts, page_size, level)
    if _moves_headers(image, plan):
        # Texts behind the headers can still have whole windows.
        headers = image.segments[0].header
        texts = [t for t in possible if loads[t.first].p_offset >= headers or file_end(loads[t.first]) > headers]
        texts = bounded(image, loads, texts, page_size, max_executable)
        plan = _planned(image, loads, texts, page_size, level) if texts else plan
    if _moves_headers(image, plan):
        raise RefusalError("fix.headers-move")
    if torn := next(_torn(image, plan), None):
        room = loads[0].p_vaddr > page_size
        remedy = Remedy("patch-again") if room else None
        raise RefusalError("fix.section-torn", remedy, section=torn.name, page_size=page_size)
    if level == ALIGN and texts:
        with contextlib.suppress(RefusalError):
            shifted = make_plan(image, page_size, SHIFT, min_text)
            plan = plan.changed(most=max(plan.most, shifted.windows))
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
    Linux before commit 0da1d5002745 (5.18) and QEMU compute the address that programs receive from their place in the
    file.  That is right only if place and address differ by as much as they do at the beginning.
    """
    headers = image.segments[0].header
    return moved(plan.pieces, headers) != headers


def _planned(image: Image, loads: Sequence[Segment], texts: Sequence[JoinedText], page_size: int, level: str) -> Plan:
    """Return the plan that makes *texts* whole; otherwise as `make_plan`."""
    if not texts:
        raise RefusalError("fix.no-window", page_size=page_size)
    spans, pieces, size = laid_out(image, loads, texts, page_size)
    aligned = {t.at for t in texts}
    segments = _segments(image, loads, aligned, spans, pieces, page_size)
    new = image.changed(segments=segments, file_size=size)
    before, after = ([(low, high) for _, low, high in text_windows(which, page_size)] for which in (image, new))
    windows_before, windows = (sum(high - low for low, high in runs) // page_size for runs in (before, after))
    ends = [(t.low, loads[t.first].p_vaddr) for t in texts] + [(t.high, end_of(loads[t.last])) for t in texts]
    return Plan(
        page_size,
        level,
        segments,
        pieces,
        size,
        cuts=tuple(sorted(address for address, old in ends if address != old)),
        pads=tuple(pad for t in texts for pad in pads_of(loads, t.low, t.high)),
        executable=executable(loads, texts),
        text=sum(s.p_memsz for s in image.text_segments),
        covered_before=covered(image, before),
        covered=covered(image, after),
        windows_before=windows_before,
        windows=windows,
        edits=tuple(_edits(loads, aligned, spans, page_size)) if windows > windows_before else (),
        most=windows,
    )


def _segments(
    image: Image,
    loads: Sequence[Segment],
    aligned: Collection[int],
    spans: Sequence[Span],
    pieces: Sequence[Piece],
    page_size: int,
) -> tuple[Segment, ...]:
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
            filesz = memsz = count * PHENTSIZE
        header = moved(pieces, image.segments[0].header) + len(segments) * PHENTSIZE
        segments.append(Segment(old.p_type, old.p_flags, offset, start, filesz, memsz, align, len(segments), header))
    return tuple(segments)


def _edits(loads: Sequence[Segment], aligned: Collection[int], spans: Sequence[Span], page_size: int) -> Iterator[Edit]:
    for i, (old, span) in enumerate(zip(loads, spans, strict=True)):
        align = max(old.p_align, page_size) if i in aligned else old.p_align
        if (span.start, span.end, align) != (old.p_vaddr, end_of(old), old.p_align):
            yield Edit(old, span.start, span.end, align)
