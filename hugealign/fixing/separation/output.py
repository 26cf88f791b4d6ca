"""The contents of the separated file, and of the original: pieces, words that change by a distance, headers.

The new section headers go behind everything else; the old table stays where its piece goes, unused.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.fixrecord import Piece, Step, exactly, reader
from hugealign.elf.image import SHF_ALLOC, SHT_NOBITS, Image
from hugealign.elf.machines import MACHINES
from hugealign.elf.objectfile import EHDR, SHDR
from hugealign.elf.windows import align_up
from hugealign.elf.wordarrays import added
from hugealign.fixing.moves import moved, place
from hugealign.fixing.output import ALIGNMENT, Output, finished, old_headers
from hugealign.fixing.plan import Plan
from hugealign.fixing.separation.check import check
from hugealign.fixing.separation.crossings import refuse_crossings
from hugealign.fixing.separation.debug import place_contents
from hugealign.fixing.separation.debugfile import MINI_SECTION, moved_inside
from hugealign.fixing.separation.identity import Identity
from hugealign.fixing.separation.words import find_words

_GAP_LIMIT = 1 << 21


def separated(fd: int, image: Image, plan: Plan, step: Step) -> Output:
    """Return the file that *plan*, by which addresses move by *step*, makes of the one behind *fd*.

    Raises RefusalError, MalformedElfError, OSError.
    """
    words = find_words(fd, image, step)
    identity = Identity.of(fd, image, step)
    if inner := next((s for s in image.sections if s.name == MINI_SECTION and s.sh_size), None):
        words.replaced[MINI_SECTION] = moved_inside(fd, inner, step, identity)
    refuse_crossings(fd, image, step.start)
    old = old_headers(reader(fd), image, plan.pieces)
    ehdr = list(old.ehdr)
    if ehdr[5] != EHDR.size:
        raise RefusalError("fix.header-tables")
    ehdr[4] = step(ehdr[4])
    entries = _entries(image, plan, step, [list(entry) for entry in SHDR.iter_unpack(old.tables)])
    contents, at = place_contents(entries, image, words, align_up(plan.size, ALIGNMENT))
    changed = [*_dropped(fd, plan), *([identity] if identity.old else ())]
    replaced = tuple((start, former) for start, former, _ in changed)
    tail, headers = finished(plan, old, ehdr, entries, at, replaced, words.places)
    trap = MACHINES[image.e_machine].trap
    fills = [(place(plan.segments, low), high - low) for low, high in plan.pads]
    writes: list[tuple[int, bytes | memoryview]] = [
        (start, (trap * (size // len(trap) + 1))[:size]) for start, size in fills
    ]
    writes += [(moved(plan.pieces, start), new) for start, _, new in changed if new]
    writes += [*contents, (at, tail), (0, headers)]
    changes = tuple((d, _moved(plan.pieces, places)) for d, places in words.places.items())
    return Output(plan.pieces, tuple(writes), at + len(tail), changes, lambda before, after: check(before, after, step))


def _moved(pieces: tuple[Piece, ...], places: "array[int]") -> "array[int]":
    """Return where the ascending *places* of the old file are in the new one."""
    there = array("Q")
    for piece in pieces:
        first, last = bisect_left(places, piece.source), bisect_left(places, piece.source + piece.size)
        there += added(places[first:last], piece.target - piece.source)
    if len(there) != len(places):
        raise RefusalError("fix.address-tables")
    return there


def _entries(image: Image, plan: Plan, step: Step, table: list[list[int]]) -> list[list[int]]:
    for entry, section in zip(table, image.sections, strict=True):
        kept = moved(plan.pieces, section.sh_offset)
        if section.sh_flags & SHF_ALLOC:
            entry[3] = step(section.sh_addr)
            at = place(plan.segments, entry[3])
            if section.sh_type != SHT_NOBITS and section.sh_size and at != kept:
                raise RefusalError("fix.address-tables", address=f"{section.sh_addr:#x}")
            entry[4] = at if at >= 0 else kept
        elif section.sh_type:
            entry[4] = kept
    return table


def _dropped(fd: int, plan: Plan) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield what followed the text in the file, if not only zeros: its offset, the bytes, and nothing instead."""
    start, end = plan.dropped
    if end - start > _GAP_LIMIT:
        raise RefusalError("fix.grows", limit=_GAP_LIMIT)
    data = exactly(reader(fd), end - start, start)
    if data.strip(b"\0"):
        yield start, data, b""
