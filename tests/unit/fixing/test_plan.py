"""The plan of a fix, on tables of segments as the linkers lay them out."""

from collections.abc import Mapping

import pytest

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.fixrecord import ALIGN, SHIFT, Piece
from hugealign.elf.image import Image, Section, Segment
from hugealign.fixing.fix import FIX, UNDO, Fixed
from hugealign.fixing.moves import moved
from hugealign.fixing.plan import Plan, make_plan
from hugealign.fixing.report import lines

M = 2 << 20
K = 1 << 10
R, RX, RW, RWX, X = 4, 5, 6, 7, 1
ALLOC, CODE = 2, 6
#: The code of a text of three windows behind two windows and 32 KiB.
CODE_OF = Section(".text", 1, CODE, 2 * M + 0x8000, 0, 3 * M)


def load(flags: int, vaddr: int, size: int, offset: int | None = None, bss: int = 0, align: int = 4096) -> Segment:
    return Segment(1, flags, vaddr if offset is None else offset, vaddr, size, size + bss, align)


def image(
    *loads: Segment, sections: tuple[Section, ...] = (), kind: int = 3, machine: int = 62, size: int | None = None
) -> Image:
    header = 64
    for index, segment in enumerate(loads):
        segment.index, segment.header = index, header + 56 * index
    end = max(segment.p_offset + segment.p_filesz for segment in loads)
    return Image(kind, machine, loads, sections, end if size is None else size)


def bfd() -> tuple[Segment, ...]:
    """GNU ld: offsets are addresses, data in whole pages."""
    return load(R, 0, 0x80000), load(RX, 0x80000, 5 * M), load(R, 5 * M + 0x80000, M), load(RW, 7 * M, 0x1000)


def lld() -> tuple[Segment, ...]:
    """LLD: each segment one page further in memory than in the file, no more."""
    return (
        load(R, 0, 0x80800),
        load(RX, 0x81800, 5 * M, 0x80800),
        load(RW, 5 * M + 0x82800, 0x800, 5 * M + 0x80800, bss=0x800),
    )


def mapped(plan: Plan) -> list[tuple[str, int, int, int]]:
    return [(s.flags, s.p_vaddr, s.p_memsz, s.p_offset) for s in plan.segments]


@pytest.mark.parametrize(
    ("loads", "level", "expected"),
    [
        (
            bfd(),
            ALIGN,
            [
                ("R--", 0, 0x80000, 0),
                ("R-E", 0x80000, 5 * M, 0x80000),
                ("R--", 5 * M + 0x80000, M, 5 * M + 0x80000),
                ("RW-", 7 * M, 0x1000, 7 * M),
            ],
        ),
        (bfd(), SHIFT, [("R-E", 0, 6 * M, 0), ("R--", 6 * M, 0x80000, 6 * M), ("RW-", 7 * M, 0x1000, 7 * M)]),
        # The head can be had; the tail cannot: what follows is writable, and addresses do not change.
        (lld(), SHIFT, [("R-E", 0, 5 * M + 0x81800, 0), ("RW-", 5 * M + 0x82800, 0x1000, 5 * M + 0x81800)]),
    ],
    ids=["bfd align", "bfd shift", "lld shift"],
)
def test_layouts(loads: tuple[Segment, ...], level: str, expected: list[tuple[str, int, int, int]]) -> None:
    plan = make_plan(image(*loads), M, level)
    assert mapped(plan) == expected
    text = next(s for s in plan.segments if s.p_flags & 1)
    assert text.p_align == M
    assert (text.p_vaddr - text.p_offset) % M == 0
    assert text.p_filesz == text.p_memsz


def alignments(plan: Plan) -> list[int]:
    return [s.p_align for s in plan.segments]


def test_texts_that_share_a_window_become_one() -> None:
    """As GNU ld makes them of a .text aligned to more than a page: the small one is the PLT."""
    loads = load(R, 0, 0x80000), load(RX, 0x80000, 0x9000), load(RX, 0x90000, 5 * M, align=0x8000), load(RW, 7 * M, 8)
    plan = make_plan(image(*loads), M)
    assert mapped(plan) == [("R-E", 0, 6 * M, 0), ("RW-", 7 * M, 8, 7 * M)]
    assert alignments(plan) == [M, 4096]
    assert plan.pads == ((0x89000, 0x90000), (5 * M + 0x90000, 6 * M))
    assert (plan.text, plan.covered, plan.executable) == (5 * M + 0x9000, 5 * M + 0x9000, 0x80000)
    assert [(e.old.index, e.start < e.end) for e in plan.edits] == [(0, False), (1, False), (2, True)]


def test_texts_in_windows_of_their_own_stay_apart() -> None:
    loads = (
        load(RX, 0x80000, 3 * M, 0x1000),
        load(R, 4 * M, 0x100000, 3 * M + 0x1000),
        load(RW, 5 * M, 0x2000, 3 * M + 0x101000),
        load(RX, 7 * M + 0x1000, 2 * M, 3 * M + 0x104000),
    )
    plan = make_plan(image(*loads, kind=2), M)
    texts = [s for s in plan.segments if s.flags == "R-E"]
    assert [(s.p_vaddr, s.p_vaddr + s.p_memsz, s.p_align) for s in texts] == [
        (0x80000, 4 * M, M),
        (7 * M, 10 * M, M),
    ]
    assert all((s.p_vaddr - s.p_offset) % M == 0 for s in texts)
    assert (plan.windows_before, plan.windows, plan.executable) == (0, 6, 0)
    assert [(s.flags, s.p_vaddr, s.p_memsz) for s in plan.segments if s not in texts] == [
        ("R--", 4 * M, 0x100000),
        ("RW-", 5 * M, 0x2000),
    ]


def test_data_between_two_texts_go_to_the_first() -> None:
    loads = load(RX, 0, 2 * M + 0x1000), load(R, 3 * M, M), load(RX, 4 * M + 0x1000, 2 * M), load(RW, 8 * M, 8)
    texts_and_data = [("R-E", 0, 3 * M, 0), ("R--", 3 * M, M, 3 * M), ("R-E", 4 * M, 3 * M, 4 * M)]
    assert mapped(make_plan(image(*loads), M))[:-1] == texts_and_data


def test_two_texts_that_take_from_the_same_data_move_with_them() -> None:
    loads = (
        load(RX, 0, 2 * M + 0x1000),
        load(R, 2 * M + 0x2000, 3 * M - 0x2000, 2 * M + 0x1000),
        load(RX, 5 * M + 0x1000, 2 * M, 5 * M - 0x1000),
        load(RW, 8 * M, 8, 7 * M),
    )
    assert mapped(make_plan(image(*loads), M)) == [
        ("R-E", 0, 3 * M, 0),
        ("R--", 3 * M, 2 * M, 3 * M),
        ("R-E", 5 * M, 3 * M, 5 * M),
        ("RW-", 8 * M, 8, 8 * M),
    ]


def test_two_texts_share_no_page() -> None:
    """A section that is not cut ends within a page, and the second text would begin there."""
    data = load(R, 4 * M - 0x10000, 0x17A90)
    loads = load(RX, 0, 3 * M + 0x1000), data, load(RX, 4 * M + 0x28000, 3 * M), load(RW, 8 * M, 8)
    section = Section(".eh_frame", 1, ALLOC, 4 * M - 0x8000, 4 * M - 0x8000, 0xFA90)
    first, second = (s for s in make_plan(image(*loads, sections=(section,)), M).segments if s.p_flags & 1)
    assert first.p_vaddr + first.p_memsz == 4 * M + 0x7A90
    assert second.p_vaddr == 4 * M + 0x8000


def test_headers_at_the_beginning_stay_there() -> None:
    """Read-only data with them cannot move in the file: undoing, and strip, look for the headers at its beginning."""
    loads = (
        load(R, 0x410000, 0x54A427, 0),
        load(RX, 0xC00000, 0x2C6069, 0x54B000),
        load(R, 0xEC7000, 0xEB5C, 0x812000),
        load(RW, 0xED6DF8, 0x230, 0x820DF8),
    )
    plan = make_plan(image(*loads, kind=2), M)
    assert moved(plan.pieces, 64) == 64
    assert plan.windows


def test_a_second_text_without_a_window_is_left_alone() -> None:
    loads = load(RX, 0, 3 * M + 0x1000), load(RW, 4 * M, 0x1000), load(RX, 4 * M + 0x2000, 0x3000), load(RW, 5 * M, 8)
    plan = make_plan(image(*loads), M)
    assert mapped(plan)[1:] == [(s.flags, s.p_vaddr, s.p_memsz, s.p_offset) for s in loads[1:]]
    assert alignments(plan) == [M, 4096, 4096, 4096]
    assert (plan.text, plan.covered) == (3 * M + 0x4000, 3 * M + 0x1000)


def test_align_of_two_texts_moves_what_is_not_congruent() -> None:
    loads = load(RX, 0, 3 * M + 0x1000), load(RW, 4 * M, 0x1000), load(RX, 6 * M, 3 * M, 4 * M + 0x1000)
    plan = make_plan(image(*loads), M, ALIGN)
    assert mapped(plan) == [(s.flags, s.p_vaddr, s.p_memsz, o) for s, o in zip(loads, (0, 4 * M, 5 * M), strict=True)]
    assert alignments(plan) == [M, 4096, M]
    assert plan.executable == 0


def test_what_is_said() -> None:
    plan = make_plan(image(*bfd()), M)
    assert (plan.windows_before, plan.windows) == (0, 6)
    assert (plan.text, plan.covered_before, plan.covered) == (5 * M, 0, 5 * M)
    assert plan.executable == 0x80000 + M - 0x80000
    assert plan.pieces == (Piece(0, 0, 7 * M + 0x1000),)
    assert lines(Fixed("a\x1bb", FIX, 100 * K, 106 * K, "out", plan=plan)) == [
        "a\\x1bb: 0 -> 6 windows of 2.0 MiB",
        "  LOAD 0 (R--) becomes part of the text",
        "  LOAD 1 (R-E): 0x80000-0xa80000 becomes 0x0-0xc00000",
        "  LOAD 1 (R-E): p_align 4.0 KiB becomes 2.0 MiB",
        "  LOAD 2 (R--): 0xa80000-0xc80000 becomes 0xc00000-0xc80000",
        "  text in whole windows: 0.0 % of 10.0 MiB -> 100.0 % of 10.0 MiB",
        "  2.0 MiB of read-only data become executable",
        "  file: 100.0 KiB -> 106.0 KiB",
    ]
    assert lines(Fixed("a", UNDO, 106 * K, 100 * K, "a")) == ["a: restored, 100.0 KiB"]


def test_contents_that_move_keep_their_order_and_make_room() -> None:
    plan = make_plan(image(*lld()), M)
    assert plan.pieces == (
        Piece(0, 0, 0x80800),
        Piece(0x80800, 0x81800, 5 * M + 0x800),
    )
    assert plan.pads == ()
    assert moved(plan.pieces, 0x80800) == 0x81800
    assert moved(plan.pieces, 5 * M + 0x81000) == 5 * M + 0x82000  # the end of the file


def test_a_gap_between_segments_is_padded() -> None:
    loads = load(R, 0, 0x1000), load(RX, 0x8000, 2 * M, 0x1000), load(RW, 4 * M, 0x1000, 2 * M + 0x1000)
    plan = make_plan(image(*loads), M)
    assert plan.pads == ((0x1000, 0x8000), (2 * M + 0x8000, 3 * M))
    assert [(s.p_vaddr, s.p_offset) for s in plan.segments] == [(0, 0), (4 * M, 3 * M)]


@pytest.mark.parametrize(
    ("name", "sh_type", "vaddr", "end"),
    [
        (".rodata", 1, 6 * M, 6 * M),
        (".rela.dyn", 4, 6 * M, 6 * M),
        (".eh_frame", 1, 6 * M, 6 * M + 0x11000),  # debuggers read it as a whole: the next page boundary
        (".gopclntab", 1, 6 * M, 6 * M + 0x11000),
        (".dynsym", 11, 6 * M, 6 * M + 0x11000),
    ],
)
def test_only_what_nobody_reads_as_a_whole_is_cut(name: str, sh_type: int, vaddr: int, end: int) -> None:
    section = Section(name, sh_type, ALLOC, vaddr - 0x800, vaddr - 0x800, 0x11000)
    plan = make_plan(image(*bfd(), sections=(section,)), M)
    text = next(s for s in plan.segments if s.p_flags & 1)
    assert text.p_vaddr + text.p_memsz == end
    assert plan.windows == 6


def test_a_section_before_the_text_is_not_cut_either() -> None:
    loads = load(R, 0, 3 * M), load(RX, 3 * M, 4 * M + 0x1000), load(RW, 8 * M, 0x1000)
    loads[0].p_memsz = loads[0].p_filesz = 3 * M - 0x1000
    loads[1].p_vaddr = loads[1].p_offset = 3 * M - 0x1000
    section = Section(".dynstr", 3, ALLOC, 2 * M - 0x1800, 2 * M - 0x1800, 0x2000)
    plans = [make_plan(image(*loads, sections=s), M, max_executable=2 * M) for s in ((), (section,))]
    assert [plan.segments[1].p_vaddr for plan in plans] == [2 * M, 2 * M - 0x2000]


@pytest.mark.parametrize(
    ("loads", "level"),
    [
        ((load(RX, 0, 2 * M, align=M), load(RW, 2 * M, 0x1000)), SHIFT),
        ((load(R, 0, 0x1000), load(RX, M, M, align=M), load(RW, 2 * M, 0x1000)), ALIGN),
    ],
)
def test_nothing_to_do(loads: tuple[Segment, ...], level: str) -> None:
    assert make_plan(image(*loads), M, level).edits == ()


def refused(headers: Image, level: str = SHIFT) -> tuple[str, Mapping[str, int | str]]:
    """The code and the facts of the diagnosis for a file that no plan can be made for."""
    with pytest.raises(RefusalError) as refusal:
        make_plan(headers, M, level)
    return refusal.value.diagnosis.code, refusal.value.diagnosis.facts


TEXT = load(RX, 0, 4 * M)
REFUSED: list[tuple[str, dict[str, int | str], Image]] = [
    ("file.object", {}, image(TEXT, kind=1)),
    ("file.core", {}, image(TEXT, kind=4)),
    ("file.no-program", {}, image(TEXT, kind=9)),
    ("fix.other-processor", {"processor": "i386, 64-bit, little-endian"}, image(TEXT, machine=3)),
    ("text.none", {}, image(load(R, 0, M))),
    ("text.writable", {}, image(TEXT, load(RWX, 6 * M, 0x1000))),
    ("text.execute-only", {}, image(TEXT, load(X, 6 * M, 0x1000))),
    ("text.not-in-file", {}, image(load(RX, 0, 4 * M, bss=1))),
    ("fix.segments-overlap", {"first": 0, "second": 1}, image(TEXT, load(RW, 4 * M - 0x1000, 0x1000))),
    ("fix.segment-outside-memory", {"segment": 0}, image(load(RX, 1 << 60, 4 * M, 0))),
    ("fix.segment-alignment", {"segment": 0, "alignment": "0x3000"}, image(load(RX, 0, 4 * M, align=0x3000))),
    ("fix.segment-alignment", {"segment": 0, "alignment": "0x80000000"}, image(load(RX, 0, 4 * M, align=1 << 31))),
    ("fix.segment-shifted", {"segment": 0}, image(load(RX, 0x1000, 4 * M, 0x800))),
    ("fix.image-base", {"page_size": M}, image(load(RX, 0x1000, 4 * M, 0))),
    ("file.appended", {"appended": M}, image(TEXT, size=5 * M)),
    ("fix.segment-outside-file", {"segment": 0}, image(TEXT, size=3 * M)),
    ("file.truncated", {"missing": 512}, image(TEXT, sections=(Section(".debug", 1, 0, 0, 4 * M, 512),), size=4 * M)),
    (
        "fix.no-window",
        {"page_size": M},
        image(load(R, 0, 0x1000), load(RX, 0x1000, 0x50000), load(RW, 0x51000, 0x1000)),
    ),
    ("text.small", {"text": 261, "least": 262144}, image(load(RX, 0, 261), load(R, 0x1000, 4 * M))),
    # A program in one file that unpacks what it runs: there is nothing to gain.
    ("text.small", {"text": 261, "least": 262144}, image(load(RX, 0, 261), load(R, 0x1000, 4 * M), size=5 * M)),
]


@pytest.mark.parametrize(("code", "facts", "headers"), REFUSED)
def test_refusals(code: str, facts: dict[str, int | str], headers: Image) -> None:
    assert refused(headers) == (code, facts)


def test_too_many_segments() -> None:
    loads = [load(R, 0x1000 * i, 0x1000) for i in range(70)]
    headers = image(*loads, load(RX, 0x1000 * 70, 4 * M))
    assert refused(headers) == ("fix.many-segments", {"segments": 71})


def test_align_moves_contents_and_makes_nothing_executable() -> None:
    plan = make_plan(image(*lld()), M, ALIGN)
    assert mapped(plan)[1] == ("R-E", 0x81800, 5 * M, 0x81800)
    assert (plan.windows, plan.executable, plan.most) == (4, 0, 5)


def sized(name: str, at: int, end: int, flags: int = ALLOC, kind: int = 1) -> Section:
    return Section(name, kind, flags, at, at, end - at)


def test_little_code_is_left_alone_however_large_its_segment() -> None:
    loads = load(RX, 0, 4 * M), load(RW, 5 * M, 8)
    few = sized(".text", 0x1000, 0x1105, CODE), sized(".rodata", 0x2000, 4 * M)
    assert refused(image(*loads, sections=few))[0] == "text.small"
    assert make_plan(image(*loads, sections=few), M, min_text=261).windows == 1
    assert make_plan(image(*loads), M).windows == 4


def test_windows_of_data_alone_are_no_gain_and_do_not_become_executable() -> None:
    """Where the boundary lies in a section that must not be cut, as in .eh_frame or a payload."""
    loads = load(R, 0, 9 * M // 2), load(RX, 9 * M // 2, 5 * M // 2), load(R, 7 * M, 6 * M), load(RW, 14 * M, 8)
    code = sized(".text", 9 * M // 2, 7 * M - 0x1000, CODE)
    plan = make_plan(image(*loads, sections=(sized(".eh_frame", M, 9 * M // 2), code)), M)
    assert (plan.windows, plan.executable) == (2, 0)  # of three, whose first would have taken 3.5 with it
    near = make_plan(image(*loads, sections=(sized(".eh_frame", 4 * M - 0x5000, 9 * M // 2), code)), M)
    assert (near.windows, near.executable) == (3, M // 2 + 0x5000)
    tail = load(R, 0, M), load(RX, M, 5 * M // 2), load(R, 7 * M // 2, 6 * M), load(RW, 14 * M, 8)
    sections = sized(".text", M, 7 * M // 2, CODE), sized(".payload", 7 * M // 2, 9 * M)
    assert make_plan(image(*tail, sections=sections), M, max_executable=9 * M).windows == 2


def test_a_payload_alone_makes_no_window() -> None:
    loads = load(R, 0, 0x1000), load(RX, 0x1000, M // 2), load(R, M // 2 + 0x1000, 9 * M), load(RW, 12 * M, 8)
    sections = sized(".text", 0x1000, M // 2 + 0x1000, CODE), sized(".payload", M // 2 + 0x1000, 9 * M)
    assert refused(image(*loads, sections=sections)) == ("fix.no-window", {"page_size": M})


def test_a_section_in_two_segments_stays_in_one_piece() -> None:
    """As patchelf makes them of a program at fixed addresses: .dynstr begins in a page of its own in front."""
    base = 2 * M

    def patched(page: int) -> Image:
        loads = (
            load(R, base - page, page, 0),
            load(R, base, 0x8000, page),
            load(RX, base + 0x8000, 3 * M, page + 0x8000),
        )
        strings = Section(".dynstr", 3, ALLOC, base - 0x800, page - 0x800, 0x2000)
        return image(*loads, load(RW, base + 4 * M, 8, page + 0x8000 + 3 * M), sections=(strings, CODE_OF), kind=2)

    assert refused(patched(0x1000)) == ("fix.section-torn", {"section": ".dynstr", "page_size": M})
    plan = make_plan(patched(M), M)
    assert (plan.windows, plan.cuts) == (4, (base, base + 4 * M))
    assert mapped(plan)[:2] == [("R--", base - M, M, 0), ("R-E", base, 4 * M, M)]


@pytest.mark.parametrize(
    ("limit", "start", "end", "windows", "executable"),
    [
        (None, 0, 6 * M, 6, M // 4 + 0x100000),
        (4 * M, 0, 6 * M, 6, M // 4 + 0x100000),
        (M // 4 + 0x100000, 0, 6 * M, 6, M // 4 + 0x100000),
        (M // 4, 0x100000, 6 * M, 5, M // 4),
        (M // 4 - 1, 0x100000, 5 * M + 3 * M // 4, 4, 0),
        (0, 0x100000, 5 * M + 3 * M // 4, 4, 0),
    ],
)
def test_data_become_executable_up_to_a_limit(
    limit: int | None, start: int, end: int, windows: int, executable: int
) -> None:
    """The boundary that costs the most data for the text that it gains stays where it is."""
    loads = (
        load(R, 0, 0x100000),
        load(RX, 0x100000, 5 * M - 0x100000 + 3 * M // 4),
        load(R, 5 * M + 3 * M // 4, M),
        load(RW, 8 * M, 8),
    )
    plan = make_plan(image(*loads), M, max_executable=limit)
    text = next(s for s in plan.segments if s.p_flags & 1)
    assert (text.p_vaddr, text.p_vaddr + text.p_memsz) == (start, end)
    assert (plan.windows, plan.executable) == (windows, executable)


def test_data_that_cost_more_than_their_share_stay_data() -> None:
    """By default a quarter of the text that comes into windows, and of two texts the cheaper boundaries."""
    loads = (
        load(R, 0, M - 0x1000),
        load(RX, M - 0x1000, M + 0x1000),
        load(RW, 2 * M, 0x1000),
        load(RX, 3 * M, M - 0x4000),
        load(R, 4 * M - 0x4000, M),
        load(RW, 6 * M, 8),
    )
    plan = make_plan(image(*loads), M)
    assert (plan.windows, plan.executable) == (2, 0x4000)
    assert make_plan(image(*loads), M, max_executable=0).windows == 1
    alone = load(R, 0, M // 2), load(RX, M // 2, M), load(R, 3 * M // 2, M), load(RW, 3 * M, 8)
    assert refused(image(*alone))[0] == "fix.no-window"
    assert make_plan(image(*alone), M, max_executable=M).windows == 2


def test_a_fixed_address_needs_no_base_on_a_window() -> None:
    loads = load(R, 0x10000, 0x1000, 0), load(RX, 0x11000, 4 * M, 0x1000), load(RW, 6 * M, 0x1000)
    plan = make_plan(image(*loads, kind=2), M)
    assert (plan.windows_before, plan.windows) == (0, 4)


def test_the_writable_segment_before_the_text_stays_out_of_its_windows() -> None:
    loads = load(RW, 0, M + 0x1000), load(RX, M + 0x2000, 5 * M), load(RW, 8 * M, 0x1000)
    text = next(s for s in make_plan(image(*loads), M).segments if s.p_flags & 1)
    assert (text.p_vaddr, text.p_vaddr + text.p_memsz) == (M + 0x2000, 7 * M)


def test_what_is_not_loaded_moves_with_its_contents() -> None:
    loads = lld()
    note = Segment(4, R, 0x81000, 0x82000, 0x20, 0x20, 4)
    made = image(*loads, note)
    plan = make_plan(made, M)
    assert next(s for s in plan.segments if s.p_type == 4).p_offset == 0x82000


def test_the_table_of_program_headers_says_its_own_size() -> None:
    phdr = Segment(6, R, 64, 64, 56 * 5, 56 * 5, 8)
    plan = make_plan(image(phdr, *bfd()), M)
    assert len(plan.segments) == 4  # the first R went into the text
    assert plan.segments[0].p_filesz == plan.segments[0].p_memsz == 56 * 4
    assert [s.index for s in plan.segments] == [0, 1, 2, 3]


def test_what_lies_before_the_first_segment_stays() -> None:
    loads = load(RX, 0, 4 * M, 0x1000), load(RW, 6 * M, 0x1000, 4 * M + 0x1000)
    plan = make_plan(image(*loads), M)
    assert plan.pieces == (Piece(0, 0, 0x1000), Piece(0x1000, M, 4 * M + 0x1000))
