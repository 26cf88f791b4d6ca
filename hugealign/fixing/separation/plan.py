"""Where a file breaks in two, how far its second part moves, and the new program headers.  Pure.

Before the text, linkers put what only the loader reads: notes, symbols, versions, relocations.  It goes by the program
headers and the dynamic section, not by distances.  So the text and all that follows it can move by one distance, which
brings the end of the code to the boundary of a window; traps fill the window before it.  GNU ld gives the headers a
segment of their own (-z separate-code).  Where they share one with constants (LLD, mold) or with the text, that segment
is split, and what lies between the program headers and the break moves a little for one more header.

See System V ABI, chapter 5 (program loading).
"""

from collections.abc import Iterator, Sequence

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf import constants as elf
from hugealign.elf.coverage import code_size, text_size
from hugealign.elf.fixrecord import SEPARATE, Piece, Step
from hugealign.elf.image import (
    EM_AARCH64,
    EM_X86_64,
    ET_EXEC,
    PF_W,
    PF_X,
    PT_DYNAMIC,
    PT_GNU_RELRO,
    PT_LOAD,
    PT_PHDR,
    PT_TLS,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHT_NOTE,
    SHT_RELA,
    SHT_STRTAB,
    Image,
    Section,
    Segment,
)
from hugealign.elf.windows import BASE_PAGE, align_down, align_up, text_windows
from hugealign.fixing.moves import moved
from hugealign.fixing.plan import Edit, Plan
from hugealign.fixing.understood import PHENTSIZE, checked, end_of, is_loaded, refuse_appended

_EHDR_SIZE = 64
_ADDRESS_LIMIT = 1 << 46  # beyond what Linux gives a program on any of these processors
_GROWTH_LIMIT = 1 << 28  # bytes of holes; twice a window if that is more
#: What only the loader reads, by type of section: symbols, strings, hash tables, notes, versions, relocations.
_LOADERS = {
    SHT_STRTAB, SHT_RELA, elf.SHT_HASH, SHT_NOTE, elf.SHT_REL, elf.SHT_DYNSYM, elf.SHT_RELR, elf.SHT_GNU_HASH,
    elf.SHT_GNU_VERDEF, elf.SHT_GNU_VERNEED, elf.SHT_GNU_VERSYM,
}  # fmt: skip


def make_separation(image: Image, page_size: int, min_text: int) -> Plan:
    """Return the plan that gives the code of *image* the most windows; without edits if it has them already.

    Text of less than *min_text* bytes of code stays as it is.  Raises RefusalError.
    """
    loads = _checked(image, page_size)
    code = text_size(image)
    if code < min_text:
        raise RefusalError("text.small", text=code, least=min_text)
    refuse_appended(image)
    text = next(i for i, s in enumerate(loads) if s.p_flags & PF_X)
    start, index = _break(image, loads, text)
    split = start > loads[index].p_vaddr
    alignment = _alignment(image, loads, page_size)
    behind = image.segments[0].header + PHENTSIZE * len(image.segments)
    # A multiple of the alignment of all that moves by it.
    room = align_up(PHENTSIZE, max([8, *(s.sh_addralign for s in _between(image, 0, start))])) if split else 0
    if split and (room > BASE_PAGE or loads[0].p_vaddr or image.segments[0].header != _EHDR_SIZE):
        raise RefusalError("fix.header-tables")
    end, stretched = _end_of_code(image, loads, text, alignment)
    delta = -end % page_size
    # The two parts share no page of memory; in front of the text, traps fill the window.
    filled = text == index
    first = align_up(start + room if split else end_of(loads[index - 1]), alignment)
    while align_down(align_down(start, alignment) + delta, page_size if filled else alignment) < first:
        delta += page_size
    step = Step(start, delta, behind, room)
    _refuse_growth(loads, step, page_size)
    alignments = [max(s.p_align, page_size) if i == text else s.p_align for i, s in enumerate(loads)]
    offsets = _offsets(loads, (text, index, start), step, alignments)
    last = max(end_of(loads[text]), end) if stretched else end_of(loads[text])
    pieces, dropped = _pieces(image, loads, (text, index, start), offsets, step, last)
    segments, pads = _segments(image, loads, (text, index, split), step, (end, stretched), page_size, offsets, pieces)
    size = max(pieces[-1].target + pieces[-1].size, *(s.p_offset + s.p_filesz for s in segments))
    new = _moved(image, segments, step, size)
    before, after = text_windows(image, page_size), text_windows(new, page_size)
    windows_before, windows = (sum((b - a) // page_size for _, a, b in runs) for runs in (before, after))
    if not max(windows, windows_before):
        raise RefusalError("fix.no-window", page_size=page_size)
    return Plan(
        page_size,
        SEPARATE,
        segments,
        pieces,
        size,
        cuts=(),
        pads=pads,
        executable=0,
        text=code,
        covered_before=sum(code_size(image, a, b) for _, a, b in before),
        covered=sum(code_size(new, a, b) for _, a, b in after),
        windows_before=windows_before,
        windows=windows,
        edits=tuple(_edits(loads, segments, step)) if windows > windows_before else (),
        most=windows,
        step=step,
        dropped=dropped,
    )


def _edits(loads: Sequence[Segment], segments: Sequence[Segment], step: Step) -> Iterator[Edit]:
    """Yield what becomes of the segments that move; for a split segment, of its second part."""
    for old in loads:
        at = step(end_of(old) - 1)
        new = next(s for s in segments if s.p_type == PT_LOAD and s.p_vaddr <= at < end_of(s))
        if (new.p_vaddr, new.p_memsz, new.p_align) != (old.p_vaddr, old.p_memsz, old.p_align):
            yield Edit(old, new.p_vaddr, end_of(new), new.p_align)


def _checked(image: Image, page_size: int) -> list[Segment]:
    """Return the ``PT_LOAD`` segments by address if the file is one that can be separated, as far as headers show."""
    if image.e_type == ET_EXEC:
        raise RefusalError("fix.fixed-address")
    loads = checked(image, page_size)
    if image.e_machine not in (EM_X86_64, EM_AARCH64):  # whose code and relocations `words` and `crossings` read
        raise RefusalError("fix.not-separated", processor=image.processor)
    text = [i for i, s in enumerate(loads) if s.p_flags & PF_X]
    if len(text) > 1:
        raise RefusalError("fix.several-texts", segments=len(text))
    if any(s.p_flags & PF_W for s in loads[: text[0]]):
        raise RefusalError("fix.writable-first")
    if image.first_segment(PT_DYNAMIC) is None:
        raise RefusalError("fix.no-dynamic")
    return loads


def _alignment(image: Image, loads: Sequence[Segment], page_size: int) -> int:
    """Return the number of which the distance must be a multiple: every alignment that a reader may rely on."""
    alignments = [s.p_align for s in image.segments if s.p_type in (PT_LOAD, PT_TLS)]
    alignments += [s.sh_addralign for s in image.sections if s.sh_flags & SHF_ALLOC]
    if odd := next((a for a in alignments if a & (a - 1) or a > page_size), 0):
        raise RefusalError("fix.segment-alignment", segment=loads[0].index, alignment=f"{odd:#x}")
    if loads[0].p_offset or loads[0].p_vaddr % page_size:
        raise RefusalError("fix.image-base", page_size=page_size)
    return max(BASE_PAGE, *alignments)


def _break(image: Image, loads: Sequence[Segment], text: int) -> tuple[int, int]:
    """Return the first address that moves, and the index of its segment.

    The first section that something besides the loader reads begins there.
    """
    for section in sorted(_between(image, 0, end_of(loads[text])), key=lambda s: (s.sh_addr, s.sh_size)):
        if section.sh_type in _LOADERS or section.name == ".interp" or not section.sh_size:
            continue
        index = next((i for i, s in enumerate(loads) if s.p_vaddr <= section.sh_addr < end_of(s)), -1)
        if not 0 <= index <= text:
            break
        # With separate code, what the text segment holds before its first section also moves.
        whole = index > 0 and not any(
            loads[index].p_vaddr <= s.sh_addr < section.sh_addr for s in image.sections if s.sh_flags & SHF_ALLOC
        )
        return loads[index].p_vaddr if whole else section.sh_addr, index
    raise RefusalError("text.none")


def _between(image: Image, start: int, end: int) -> list[Section]:
    return [s for s in image.sections if s.sh_flags & SHF_ALLOC and start <= s.sh_addr < end]


def _end_of_code(image: Image, loads: Sequence[Segment], text: int, alignment: int) -> tuple[int, bool]:
    """Return the address that becomes the boundary of a window, and whether the text has to be stretched to it."""
    segment = loads[text]
    code = max(
        (
            s.sh_addr + s.sh_size
            for s in _between(image, segment.p_vaddr, end_of(segment))
            if s.sh_flags & SHF_EXECINSTR
        ),
        default=end_of(segment),
    )
    end = align_up(code, alignment)
    if end < end_of(segment):
        return end, False  # data follow in the same segment
    following = align_down(loads[text + 1].p_vaddr, BASE_PAGE) if text + 1 < len(loads) else end
    if end > following:
        return align_down(code, alignment), False
    return end, True


def _refuse_growth(loads: Sequence[Segment], step: Step, page_size: int) -> None:
    """Raise RefusalError if a file that gives contents the offsets of their addresses would grow beyond reason."""
    last = max((s for s in loads if s.p_filesz), key=lambda s: s.p_vaddr)
    size = step(last.p_vaddr) - loads[0].p_vaddr + loads[0].p_offset - last.p_offset
    limit = max(_GROWTH_LIMIT, 4 * page_size)
    if size > limit:
        raise RefusalError("fix.grows", limit=limit)
    if step(max(map(end_of, loads))) > _ADDRESS_LIMIT:
        raise RefusalError("fix.segment-outside-memory", segment=last.index)


def _offsets(loads: Sequence[Segment], where: tuple[int, int, int], step: Step, alignments: Sequence[int]) -> list[int]:
    """Return where the contents of each segment go in the file; for a split segment, those of its second part.

    It is where their address says, or as far behind that as the file has more between two segments than memory:
    patchelf adds segments behind symbol tables and debug information.
    """
    text, index, start = where
    base = loads[0].p_vaddr - loads[0].p_offset
    offsets: list[int] = []
    later = free = 0
    for i, load in enumerate(loads):
        address = start if i == index else load.p_vaddr
        at = step(address) - base
        if load.p_filesz:
            later = align_up(max(later, free - step(load.p_vaddr) + base), alignments[i])
            stop = next((s.p_offset for s in loads[i + 1 :] if s.p_filesz and i != text), load.p_offset + load.p_filesz)
            free = at + later + stop - (load.p_offset + address - load.p_vaddr) + step.room * (i == 0 < index)
        offsets.append(at + later)
    return offsets


def _segments(
    image: Image,
    loads: Sequence[Segment],
    where: tuple[int, int, bool],
    step: Step,
    boundary: tuple[int, bool],
    page_size: int,
    offsets: Sequence[int],
    pieces: Sequence[Piece],
) -> tuple[tuple[Segment, ...], tuple[tuple[int, int], ...]]:
    """Return the new program headers, and the ranges of addresses that traps fill."""
    text, index, split = where
    end, stretched = boundary
    by_index = {load.index: i for i, load in enumerate(loads)}
    made: list[Segment] = []
    pads: list[tuple[int, int]] = []

    def add(old: Segment, offset: int, start: int, size: int, memory: int, align: int, flags: int) -> None:
        header = _EHDR_SIZE + len(made) * PHENTSIZE
        made.append(Segment(old.p_type, flags, offset, start, size, memory, align, len(made), header))

    def offset_of(old: Segment) -> int:
        """Return where the contents of *old* go, by their address as long as the loader puts them there."""
        if not old.p_memsz or (old.p_filesz and old.p_type != PT_GNU_RELRO and not is_loaded(old, image)):
            return moved(pieces, old.p_offset) if old.p_filesz else old.p_offset
        i = max((i for i, load in enumerate(loads) if load.p_vaddr <= old.p_vaddr), default=0)
        first = step.start if i == index and split else loads[i].p_vaddr
        return offsets[i] + step(old.p_vaddr) - step(first)

    def add_load(old: Segment, i: int, start: int) -> None:
        """Add the segment *old* from its old address *start* on."""
        new, size, memory = step(start), old.p_vaddr + old.p_filesz - start, end_of(old) - start
        align, offset = old.p_align, offsets[i]
        if i == text:
            align = max(align, page_size)
            low, high = new, new + size
            if i == index:
                low = align_down(new, page_size)
                pads.append((low, new))
            if stretched and step(end) > high:
                pads.append((high, step(end)))
                high = step(end)
            offset -= new - low
            new, size, memory = low, high - low, high - low
        add(old, offset, new, size, memory, align, old.p_flags)

    for old in image.segments:
        i = by_index.get(old.index, -1)
        if i < 0:
            size, memory = old.p_filesz, old.p_memsz
            if old.p_type == PT_PHDR:
                size = memory = PHENTSIZE * (len(image.segments) + split)
            add(old, offset_of(old), step(old.p_vaddr), size, memory, old.p_align, old.p_flags)
        elif i == index and split:
            size = step.start + step.room - old.p_vaddr
            add(old, old.p_offset, old.p_vaddr, size, size, old.p_align, old.p_flags & ~PF_X)
            add_load(old, i, step.start)
        elif i < index:
            size, memory = old.p_filesz + step.room, old.p_memsz + step.room
            add(old, offsets[i], step(old.p_vaddr), size, memory, old.p_align, old.p_flags)
        else:
            add_load(old, i, old.p_vaddr)
    return tuple(made), tuple((low, high) for low, high in pads if low < high)


def _pieces(
    image: Image, loads: Sequence[Segment], where: tuple[int, int, int], offsets: Sequence[int], step: Step, last: int
) -> tuple[tuple[Piece, ...], tuple[int, int]]:
    """Return where the parts of the file go: each segment, with what follows it in the file, to its place in *offsets*.

    Traps take the place of what follows the text in its last page: the second value is that range of offsets.  *last*
    is where the text then ends.
    """
    text, index, start = where
    cuts: list[tuple[int, int]] = [(0, 0)]  # offset in the old file, in the new one
    for i, load in enumerate(loads):
        if load.p_filesz:
            skipped = start - load.p_vaddr if i == index else 0
            if skipped and load.p_offset:
                cuts.append((load.p_offset, offsets[i] - (step(start) - step(load.p_vaddr))))
            cuts.append((load.p_offset + skipped, offsets[i]))
    if step.room:
        cuts.append((step.behind, step.behind + step.room))
    text_end = loads[text].p_offset + loads[text].p_filesz
    following = min((at for at, _ in cuts if at >= text_end), default=-1)
    if following < 0:
        following = text_end
        stop = offsets[text] + last - (start if text == index else loads[text].p_vaddr)
        cuts.append((text_end, align_up(stop, BASE_PAGE) + text_end % BASE_PAGE))
    cuts = sorted(dict.fromkeys(cuts))
    ends = [cut for cut, _ in cuts[1:]] + [image.file_size]
    parts = [(at, to, min(end, text_end) if at < text_end else end) for (at, to), end in zip(cuts, ends, strict=True)]
    return tuple(Piece(at, to, end - at) for at, to, end in parts if end > at), (text_end, following)


def _moved(image: Image, segments: tuple[Segment, ...], step: Step, size: int) -> Image:
    """Return the headers of the new file that decide about windows."""
    sections = tuple(
        Section(s.name, s.sh_type, s.sh_flags, step(s.sh_addr), 0, s.sh_size) if s.sh_flags & SHF_ALLOC else s
        for s in image.sections
    )
    return image.changed(segments=segments, sections=sections, file_size=size)
