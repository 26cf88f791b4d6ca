"""Where a file breaks and how far it moves, on tables of segments and sections as the linkers lay them out."""

import itertools
from typing import Any

import pytest

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.image import Image, Section, Segment
from hugealign.fixing.moves import moved, place
from hugealign.fixing.plan import Plan
from hugealign.fixing.separation.plan import make_separation

M, K = 2 << 20, 1 << 10
R, RX, RW = 4, 5, 6
ALLOC, CODE = 2, 6
DYNSYM, PROGBITS = 11, 1


def image(
    loads: list[tuple[int, int, int, int]], sections: list[tuple[str, int, int, int, int]], align: int = 4096
) -> Image:
    """Return a library of *loads* (flags, address, offset, size) and *sections* (name, type, flags, address, size)."""
    rows = [(1, flags, offset, at, size, size, align) for flags, at, offset, size in loads]
    dynamic = loads[-1]
    rows.append((2, RW, dynamic[2], dynamic[1], 64, 64, 8))
    segments = tuple(Segment(*row, index=i, header=64 + 56 * i) for i, row in enumerate(rows))
    result = []
    for name, kind, flags, at, size in sections:
        offset = next(o + at - a for _, a, o, length in loads if a <= at < a + length)
        result.append(Section(name, kind, flags, at, offset, size))
    end = max(offset + size for _, _, offset, size in loads)
    return Image(3, 62, segments, tuple(result), end)


#: The layouts: loads, sections, alignment; then what moves from where, how far, the room, and the new text.
LAYOUTS = {
    "separate code": (
        [(R, 0, 0, 0x5000), (RX, 0x6000, 0x6000, M), (R, 0x206000, 0x206000, M), (RW, 0x407000, 0x406000, 0x1000)],
        [(".dynsym", DYNSYM, ALLOC, 0x1000, 0x100), (".text", PROGBITS, CODE, 0x6000, M)],
        4096,
        (0x6000, M * 2 - 0x206000, 0, (M, 2 * M), 1),
    ),
    "no room before the text": (
        [(R, 0, 0, 0x5000), (RX, 0x6000, 0x6000, M - 0x6000), (RW, M + 0x1000, M, 0x1000)],
        [(".dynsym", DYNSYM, ALLOC, 0x1000, 0x100), (".text", PROGBITS, CODE, 0x6000, M - 0x6000)],
        4096,
        (0x6000, M, 0, (M, 2 * M), 1),
    ),
    "headers with the text": (
        [(RX, 0, 0, 2 * M), (RW, 2 * M + 0x1000, 2 * M, 0x1000)],
        [
            (".dynsym", DYNSYM, ALLOC, 0x1000, 0x100),
            (".text", PROGBITS, CODE, 0x1800, M),
            (".rodata", PROGBITS, ALLOC, 0x300000, 0x1000),
        ],
        4096,
        (0x1800, 3 * M - 0x202000, 56, (M, 5 * M - 0x202000), 2),
    ),
    "constants before the text": (
        [(R, 0, 0, 0x9000), (RX, 0xA000, 0x9000, 2 * M), (RW, 2 * M + 0xB000, 2 * M + 0x9000, 0x1000)],
        [
            (".dynsym", DYNSYM, ALLOC, 0x1000, 0x100),
            (".rodata", PROGBITS, ALLOC, 0x1810, 0x1000),
            (".text", PROGBITS, CODE, 0xA000, 2 * M),
        ],
        4096,
        (0x1810, M - 0xA000, 56, (M, 3 * M), 2),
    ),
    "pages of 64 KiB": (
        [(R, 0, 0, 0x5000), (RX, 0x10000, 0x10000, M), (RW, 0x230000, 0x220000, 0x1000)],
        [(".dynsym", DYNSYM, ALLOC, 0x1000, 0x100), (".text", PROGBITS, CODE, 0x10000, M - 0x100)],
        0x10000,
        (0x10000, 2 * M - 0x210000, 0, (M, 2 * M), 1),
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layout(name: str) -> None:
    loads, sections, align, (start, delta, room, text, windows) = LAYOUTS[name]
    old = image(loads, sections, align)
    plan = make_separation(old, M, 0)
    assert plan.step
    assert (plan.step.start, plan.step.delta, plan.step.room) == (start, delta, room)
    (new,) = (s for s in plan.segments if s.p_type == 1 and s.p_flags & 1)
    assert (new.p_vaddr, new.p_vaddr + new.p_memsz) == text
    assert (plan.windows, plan.executable) == (windows, 0)
    assert_apart(plan, align)
    for section in old.sections:  # contents are where the headers say
        assert place(plan.segments, plan.step(section.sh_addr)) == moved(plan.pieces, section.sh_offset)


def assert_apart(plan: Plan, align: int) -> None:
    """No two segments share a page, each is congruent to its place in the file, and pieces do not overlap."""
    loads = [s for s in plan.segments if s.p_type == 1]
    for one, other in itertools.pairwise(loads):
        assert -(-(one.p_vaddr + one.p_memsz) // align) * align <= other.p_vaddr // align * align
    for load in loads:
        assert (load.p_vaddr - load.p_offset) % load.p_align == 0
    for before, after in itertools.pairwise(plan.pieces):
        assert before.source + before.size <= after.source
        assert before.target + before.size <= after.target


def test_nothing_to_do() -> None:
    """Text that is whole stays, although another distance would do as well."""
    old = image(
        [(R, 0, 0, 0x5000), (RX, M, M, M), (RW, 2 * M, 2 * M, 0x1000)],
        [(".dynsym", DYNSYM, ALLOC, 0x1000, 0x100), (".text", PROGBITS, CODE, M, M)],
        M,
    )
    plan = make_separation(old, M, 0)
    assert (plan.edits, plan.windows, plan.windows_before) == ((), 1, 1)


#: What is refused: a change of the first layout, and the code.
REFUSED: dict[str, dict[str, Any]] = {
    "text.small": {"least": 4 * M},
    "fix.no-window": {"page": 16 * M},
    "fix.fixed-address": {"kind": 2},
    "fix.several-texts": {"flags": {2: RX}},
    "fix.writable-first": {"flags": {0: RW}},
    "fix.grows": {"address": 1 << 40},
    "fix.no-dynamic": {"dynamic": False},
    "fix.segment-alignment": {"tls": 3 * M},
}


@pytest.mark.parametrize("code", REFUSED)
def test_refused(code: str) -> None:
    change = REFUSED[code]
    loads, sections, align, _ = LAYOUTS["constants before the text" if code == "fix.no-window" else "separate code"]
    flags = change.get("flags", {})
    loads = [(flags.get(i, old), at, offset, size) for i, (old, at, offset, size) in enumerate(loads)]
    if "address" in change:
        loads[-1] = (loads[-1][0], change["address"] + loads[-1][2], *loads[-1][2:])
    old = image(loads, sections, align)
    if not change.get("dynamic", True):
        old = old.changed(segments=old.segments[:-1])
    if "tls" in change:
        tls = Segment(7, R, 0x406000, 0x407000, 8, 8, change["tls"], len(old.segments), 64 + 56 * len(old.segments))
        old = old.changed(segments=(*old.segments, tls))
    old = old.changed(e_type=change.get("kind", 3))
    with pytest.raises(RefusalError) as caught:
        make_separation(old, change.get("page", M), change.get("least", 0))
    assert caught.value.diagnosis.code == code
