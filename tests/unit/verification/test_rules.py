"""The rules on images made by hand: each rule fires on its own fault, and on nothing when all is well."""

import pytest

from hugealign.diagnosis import render
from hugealign.elf.coverage import Coverage, coverage
from hugealign.elf.image import Image, Section, Segment
from hugealign.verification.rules import Policy, check

M = 2 << 20
R, RW, RX, RWX = 4, 6, 5, 7


def load(flags: int, vaddr: int, size: int, offset: int | None = None, **fields: int) -> Segment:
    values = {"p_filesz": size, "p_memsz": size, "p_align": M} | fields
    return Segment(1, flags, vaddr if offset is None else offset, vaddr, **values)


def image(*segments: Segment, sections: tuple[Section, ...] = (), file_size: int = 1 << 40, e_type: int = 3) -> Image:
    for index, segment in enumerate(segments):
        segment.index = index
    return Image(e_type, 62, segments, sections, file_size)


def ids(*segments: Segment, **fields: object) -> list[str]:
    entries = check(image(*segments, **fields), Policy())  # type: ignore[arg-type]
    assert all(map(render.text, entries))  # no fact is missing
    return [diagnosis.code for diagnosis in entries]


INTERP = Segment(3, R, 0x200, 0x200, 0x1C, 0x1C, 1)


def test_nothing_to_find() -> None:
    assert ids(load(R, 0, 0x1000), load(RX, M, 2 * M), load(RW, 3 * M, 0x1000)) == []
    assert ids(load(R, 0, 0x1000)) == []
    assert ids() == []


@pytest.mark.parametrize(
    ("rule", "segments"),
    [
        ("HA001", [load(RX, M, M, p_align=0x1000), INTERP]),
        ("HA001", [load(RX, M, M, p_align=0), INTERP]),
        ("HA027", [load(R, 0, 0x1000, p_align=0x1000), load(RX, M, M, p_align=0x1000)]),  # the file's offset may decide
        ("HA027", [load(RX, M, M, p_align=0x1000)]),  # or the address that the loader requests
        ("HA002", [load(RX, M, M, offset=M + 0x1000)]),
        ("HA003", [load(R, 0, 0x1000), load(RX, M + 0x1000, M - 0x1000)]),
        ("HA004", [load(RX, M, M + 0x2000)]),
        ("HA005", [load(RX, M, M), load(RW, 2 * M - 0x1000, 0x1000)]),
        ("HA005", [load(R, 0, M + 1), load(RX, M, M)]),
        ("HA006", [load(RX, M, M, p_filesz=M - 1)]),
        ("HA007", [load(RX, M, 0x1000), load(RX, 4 * M, 0x1000)]),  # too small for the others
        ("HA008", [load(RWX, M, M)]),
    ],
)
def test_each_fault_alone(rule: str, segments: list[Segment]) -> None:
    assert ids(*segments) == [rule]


def test_texts_that_are_all_whole() -> None:
    """As BOLT's, fixed: nothing of either stays on small pages."""
    assert ids(load(RX, M, M), load(RX, 4 * M, M)) == []
    assert sorted(ids(load(RX, M, M), load(RX, 4 * M, M + 0x2000))) == ["HA004", "HA007"]


def test_fixed_addresses_need_no_alignment() -> None:
    segment = load(RX, 3 * M, M, p_align=0x1000)
    assert check(image(segment, e_type=2), Policy()) == []
    assert coverage(image(segment, e_type=2), M).windows == 1
    assert coverage(image(segment), M).windows == 0


def test_who_places_the_file_rounds_its_base() -> None:
    """Linux puts a program whose first segment begins off a page a page lower than glibc puts such a library."""
    text = load(R, 0x120, 0x100), load(RX, M, 2 * M)
    assert coverage(image(*text), M).windows == 2
    assert coverage(image(*text, INTERP), M).windows == 0
    assert ids(*text, INTERP) == ["HA002", "HA003", "HA004"]
    assert coverage(image(*text).changed(static_pie=True), M).windows == 0
    moved = load(R, 0x120, 0x100), load(RX, M + 0x1000, 2 * M, offset=M)
    assert (coverage(image(*moved), M).windows, coverage(image(*moved, INTERP), M).windows) == (0, 2)


def test_segments_that_the_kernel_joins_are_one_text() -> None:
    assert coverage(image(load(RX, M, M // 2), load(RX, M + M // 2, M // 2)), M).windows == 1
    assert ids(load(RX, M, M // 2), load(RX, M + M // 2, M // 2)) == []
    # Not if one of them can be written to, or lies elsewhere in the file.
    assert coverage(image(load(RX, M, M // 2), load(RWX, M + M // 2, M // 2)), M).windows == 0
    assert coverage(image(load(RX, M, M // 2), load(RX, M + M // 2, M // 2, offset=3 * M)), M).windows == 0


def test_windows_without_code_do_not_count() -> None:
    code = Section(".text", 1, 6, 2 * M + 5, 2 * M + 5, 0x80000)
    data = Section(".rodata", 1, 2, M, M, M)
    held = image(load(RX, M, 3 * M), sections=(data, code))
    assert coverage(held, M) == Coverage(text=M, huge=M, windows=1, pad=0)
    assert coverage(image(load(RX, M, 3 * M)), M).windows == 3
    # Heads and tails without code lack nothing.
    off = load(R, 0, 0x1000), load(RX, M + 0x1000, 3 * M)
    assert ids(*off, sections=(data, code)) == []
    assert ids(*off) == ["HA003"]


def test_memory_behind_the_file_copies_the_last_page() -> None:
    assert coverage(image(load(RWX, M, 2 * M, p_filesz=2 * M - 0x10)), M).windows == 1
    assert coverage(image(load(RWX, M, 2 * M + 0x10, p_filesz=2 * M)), M).windows == 2


def test_file_that_ends_too_soon() -> None:
    assert ids(load(RX, M, M), file_size=M + 5) == ["HA006"]


def test_data_among_the_text_is_a_warning() -> None:
    sections = (
        Section(".text", 1, 6, M, M, 0x1000),
        Section(".rodata", 1, 2, M + 0x1000, M + 0x1000, 0x1000),
        Section(".comment", 1, 0, 0, 0, 64),
    )
    (entries,) = check(image(load(RX, M, M), sections=sections), Policy())
    assert (entries.code, entries.facts) == ("HA009", {"segment": 0, "flags": "R-E", "section": ".rodata", "more": 0})


def test_thresholds() -> None:
    tail = load(RX, M, M + 0x1000)
    assert check(image(tail), Policy()) == []
    assert [d.code for d in check(image(tail), Policy(min_text=0))] == ["HA004"]
    small = load(R, 0, 0x1000, p_align=0x1000), load(RX, 0x1000, 0x3FFFF, p_align=0x1000)
    assert check(image(*small), Policy()) == []
    assert [d.code for d in check(image(*small), Policy(min_text=0))] == ["HA001", "HA003"]


def test_coverage_counts_text_and_not_padding() -> None:
    pad = Section(".hugealign.pad", 1, 6, M + 0x5000, M + 0x5000, M - 0x5000)
    result = coverage(image(load(RX, M, M), sections=(pad,)), M)
    assert (result.text, result.huge, result.windows, result.pad) == (0x5000, 0x5000, 1, M - 0x5000)
    result = coverage(image(load(R, 0, 0x1000), load(RX, M + 0x1000, 2 * M)), M)
    assert (result.text, result.huge, result.windows) == (2 * M, M, 1)
    result = coverage(image(load(RX, M, M, p_align=0x1000)), M)
    assert (result.text, result.huge, result.windows) == (M, 0, 0)
    assert coverage(image(), M).text == 0


def test_a_pad_section_that_lies_is_not_believed() -> None:
    for section in (
        Section(".hugealign.pad", 1, 6, 0, 0, 1 << 60),
        Section(".hugealign.pad", 1, 6, M, M, 0x10),
        Section(".hugealign.pad", 1, 0, M, M, M),
    ):
        assert coverage(image(load(RX, M, M), sections=(section,)), M).text == M


def test_other_page_sizes() -> None:
    page = 32 << 20
    segment = load(RX, page, page, p_align=page)
    assert check(image(segment), Policy(page_size=page)) == []
    off_grid = image(load(R, 0, 0x1000, p_align=M), load(RX, M, page, p_align=M))
    assert [d.code for d in check(off_grid, Policy(page_size=page))] == ["HA001", "HA003", "HA004"]


def test_the_first_segment_lies_on_the_aligned_address() -> None:
    """An image base off the grid moves every window of what is not fixed."""
    moved = load(R, 0x1000, 0x1000), load(RX, M + 0x1000, M, offset=M)
    assert coverage(image(*moved), M).windows == 1
    assert ids(*moved) == []
    assert ids(load(R, 0x1000, 0x1000), load(RX, M, M)) == ["HA002", "HA003", "HA004"]


def test_the_largest_alignment_counts_for_all() -> None:
    assert ids(load(R, 0, 0x1000), load(RX, M, M, p_align=0x1000)) == []
    assert ids(load(R, 0, 0x1000, p_align=3 * M), load(RX, M, M, p_align=0x1000), INTERP) == ["HA001"]
