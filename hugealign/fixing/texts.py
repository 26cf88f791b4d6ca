"""Which addresses the text of a fixed file has: whole windows, and no section cut that tools read as a whole.  Pure."""

from collections.abc import Iterable, Iterator, Sequence

from hugealign.elf.fixrecord import ALIGN
from hugealign.elf.image import PF_X, SHF_ALLOC, SHT_NOBITS, SHT_PROGBITS, SHT_RELA, Image, Section, Segment
from hugealign.elf.windows import BASE_PAGE, align_down, align_up, text_windows, windows_holding
from hugealign.fixing.understood import end_of, is_read_only, overlap, page_end
from hugealign.records import Record

#: Sections that may be cut in two, besides relocations: debuggers and profilers read all others as a whole.
_DIVISIBLE_NAMES = (".rodata", ".lrodata", ".gcc_except_table")
_SHARE = 4  # bytes of text gained for each byte of data that may become executable


class JoinedText(Record):
    """The segments *first* to *last* become one text from the address *low* to *high*, under the header of *at*."""

    first: int
    last: int
    at: int
    low: int
    high: int


def texts_of(image: Image, loads: Sequence[Segment], page_size: int, level: str) -> list[JoinedText]:
    """Return the texts that get whole windows of code, by address."""
    texts: list[JoinedText] = []
    for run in _runs(loads, 1 if level == ALIGN else page_size):
        low, high = loads[run[0]].p_vaddr, end_of(loads[run[-1]])
        if level != ALIGN:
            low, high = _range(image, loads, run, page_size)
        # Read-only data between two texts go to the first; no section that must not be cut reaches across its end.  No
        # two texts share a page, of which the kernel would map the last.
        low = max(low, align_up(texts[-1].high, BASE_PAGE) if texts else low)
        at = max((i for i in run if loads[i].p_flags & PF_X), key=lambda i: loads[i].p_memsz)
        text = JoinedText(run[0], run[-1], at, low, high)
        if _windows(image, text, page_size):
            texts.append(text)
    return texts


def bounded(
    image: Image, loads: Sequence[Segment], texts: Sequence[JoinedText], page_size: int, limit: int | None
) -> list[JoinedText]:
    """Return *texts* with as many moved boundaries as make no more than *limit* bytes of data executable.

    None stands for a quarter of the text that the windows gain.  The boundaries that cost the most data for the text
    that they gain stay where they are.
    """
    kept, now = list(texts), covered(image, [(low, high) for _, low, high in text_windows(image, page_size)])
    while True:
        price, gain = executable(loads, kept), _gain(image, kept, page_size) - now
        if price <= (gain // _SHARE if limit is None else limit):
            return kept
        fewer = [
            [
                *kept[:i],
                *(candidate for candidate in (text.changed(**side),) if _windows(image, candidate, page_size)),
                *kept[i + 1 :],
            ]
            for i, text in enumerate(kept)
            for side in ({"low": loads[text.first].p_vaddr}, {"high": end_of(loads[text.last])})
        ]
        saved = [
            (price - executable(loads, candidate), gain - _gain(image, candidate, page_size) + now, candidate)
            for candidate in fewer
        ]
        if not any(less > 0 for less, _, _ in saved):
            return texts_of(image, loads, page_size, ALIGN)
        _, _, kept = max(saved, key=lambda candidate: candidate[0] / max(1, candidate[1]))


def _windows(image: Image, text: JoinedText, page_size: int) -> list[tuple[int, int]]:
    """Return the runs of whole windows of *text* that hold code."""
    first, last = (
        align_up(align_down(text.low, BASE_PAGE), page_size),
        align_down(align_up(text.high, BASE_PAGE), page_size),
    )
    return windows_holding(image.code, first, last, page_size) if last > first else []


def _gain(image: Image, texts: Sequence[JoinedText], page_size: int) -> int:
    return covered(image, [run for text in texts for run in _windows(image, text, page_size)])


def covered(image: Image, runs: Iterable[tuple[int, int]]) -> int:
    """Return how many bytes of the text of *image* lie in *runs* of whole windows."""
    return sum(overlap(segment, low, high) for low, high in runs for segment in image.text_segments)


def executable(loads: Sequence[Segment], texts: Sequence[JoinedText]) -> int:
    """Return how many bytes in *texts* are not executable now."""
    return sum(overlap(s, t.low, t.high) for s in loads if not s.p_flags & PF_X for t in texts)


def _runs(loads: Sequence[Segment], page_size: int) -> Iterator[range]:
    """Yield runs of segments that become one text: executable ones in one window, with read-only ones between them."""
    run = range(0)
    for i in (i for i, segment in enumerate(loads) if segment.p_flags & PF_X):
        between = all(is_read_only(s) for s in loads[run.stop : i])
        if run and between and page_end(loads[run[-1]]) > align_down(loads[i].p_vaddr, page_size):
            run = range(run.start, i + 1)
        else:
            if run:
                yield run
            run = range(i, i + 1)
    yield run


def _range(image: Image, loads: Sequence[Segment], run: range, page_size: int) -> tuple[int, int]:
    """Return where the text made of *run* will begin and end."""
    start, end = loads[run[0]].p_vaddr, end_of(loads[run[-1]])
    code = windows_holding(image.code, start, end, 1)
    if not code:
        return start, end
    low, high = align_down(code[0][0], page_size), align_up(align_up(code[-1][1], BASE_PAGE), page_size)
    # Writable segments and other texts stay out of the windows; so do addresses before the first byte of the image.
    limits = [align_up(align_down(loads[0].p_vaddr, BASE_PAGE), page_size)]
    limits += [align_up(page_end(s), page_size) for s in loads[: run.start] if not is_read_only(s)]
    low = min(start, max(low, *limits))
    limits = [align_down(s.p_vaddr, page_size) for s in loads[run.stop :] if not is_read_only(s)]
    high = max(end, min([high, *limits]))
    outer_low, outer_high = _uncut(image, loads, low, high)
    # A boundary around a section that must not be cut never takes in writable data or a window of data alone: rather,
    # a part of a window of the text stays on small pages.
    others = [s for s in loads if not s.p_flags & PF_X and not is_read_only(s)]
    if any(overlap(s, outer_low, start) for s in others) or align_up(outer_low, page_size) < low:
        outer_low = start
    if any(overlap(s, end, outer_high) for s in others) or align_down(outer_high, page_size) > high:
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
                if segment.p_vaddr <= begins < end_of(segment):
                    low = max(segment.p_vaddr, align_down(begins, segment.p_align))
    for begins, ends in whole:
        if begins < high < ends and high not in edges:
            for segment in loads:
                if segment.p_vaddr < ends <= end_of(segment):
                    high = min(end_of(segment), align_up(ends, segment.p_align))
    return low, high


def divisible(section: Section) -> bool:
    """Return whether *section* may be cut in two, since no tool needs it as a whole."""
    return section.sh_type == SHT_RELA or (
        section.sh_type == SHT_PROGBITS and section.name.startswith(_DIVISIBLE_NAMES)
    )
