"""The pads of a linker that packs its segments: from the headers of one link to the sizes for the next."""

import pytest

from hugealign.elf.image import EM_AARCH64, Image, Section, Segment
from hugealign.link.packed_segments import pads

M = 2 << 20
ALLOC, CODE = 2, 6
LEAD = ".hugealign.rodata"


def image(data_end: int, sections: list[tuple[int, int, int]], *, pad: bool = True, text: int | None = None) -> Image:
    """Read-only data up to *data_end*, and behind them a text of *sections*: address, size, alignment."""
    start = sections[0][0] if text is None else text
    end = sections[-1][0] + sections[-1][1]
    result = [Section(LEAD, 1, ALLOC, data_end - 1, data_end - 1, 1)] if pad else []
    result += [Section(".text", 1, CODE, at, at, size, sh_addralign=align) for at, size, align in sections]
    segments = Segment(1, 4, 0, 0, data_end, data_end, M), Segment(1, 5, start, start, end - start, end - start, M, 1)
    return Image(3, 62, segments, tuple(result), end)


def test_both_grow_to_their_windows() -> None:
    # The text is at the next window, whatever it is aligned to, and loses no byte between its sections.
    first = image(0x1234, [(M + 0x1240, 0x40, 16), (M + 0x1400, M + 0x8000, 1024)])
    assert pads(first, M, 4096, LEAD, 0) == (1 + M - 0x8400, M - 0x1234 + 1)


def test_least_pad_is_one_trap() -> None:
    """An instruction of aarch64 has four bytes, and that many the pad of the first link."""
    first = image(0x1234, [(M + 0x1240, 0x40, 16), (M + 0x1400, M + 0x8000, 1024)])
    arm = Image(first.e_type, EM_AARCH64, first.segments, first.sections, first.file_size)
    assert pads(arm, M, 4096, LEAD, 0) == (4 + M - 0x8400, M - 0x1234 + 1)


def test_short_tail_gets_none() -> None:
    first = image(0x1234, [(M + 0x1240, 0x40, 16), (M + 0x1400, M + 16, 1024)])
    assert pads(first, M, 4096, LEAD, 0) == (1, M - 0x1234 + 1)


@pytest.mark.parametrize("tail", [0, 4096])
def test_nothing_to_do(tail: int) -> None:
    assert pads(image(M, [(M, M + tail, 16)]), M, 4096, LEAD, 0) is None


def test_text_that_did_not_come_to_lie_on_the_window() -> None:
    """64 bytes less of headers than in the link before: once more, with the same pad behind the text."""
    assert pads(image(M - 64, [(2 * M - 64, M, 16)]), M, 4096, LEAD, 100) == (100, 65)


@pytest.mark.parametrize(("size", "padded", "needed"), [(M + 6, 106, 100), (M - 6, 100, 106), (M, 100, None)])
def test_text_that_changed_with_its_place(size: int, padded: int, needed: int | None) -> None:
    """The linker chose other instructions (RISC-V, relaxation): the pad makes up for it."""
    result = pads(image(M, [(M, size, 16)]), M, 16, LEAD, padded)
    assert result == (needed and (needed, 1))


@pytest.mark.parametrize(
    "other",
    [
        image(0x1234, [(M, M, 16)], pad=False),
        Image(3, 62, (Segment(1, 4, 0, 0, 8, 8, M),), (), 8),
        image(M + 1, [(0x1000, M, 16)]),
    ],
    ids=["no pad", "no text", "text first"],
)
def test_what_is_laid_out_in_another_way_is_left(other: Image) -> None:
    assert pads(other, M, 4096, LEAD, 0) is None
