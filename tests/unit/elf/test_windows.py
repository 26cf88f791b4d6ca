from hugealign.elf.image import ET_DYN, ET_EXEC, PF_R, PF_X, PT_LOAD, Image, Segment
from hugealign.elf.windows import (
    load_bias,
    text_windows,
    whole_windows,
)


def text(vaddr: int, size: int, offset: int | None = None, align: int = 1 << 30) -> Segment:
    return Segment(PT_LOAD, PF_R | PF_X, vaddr if offset is None else offset, vaddr, size, size, align)


def test_congruence_and_alignment_decide() -> None:
    page = 2 << 20
    assert whole_windows(text(page, page), page) == (page, 2 * page)
    assert whole_windows(text(page, page, offset=page + 0x1000), page) == (page, page)
    assert whole_windows(text(page, page, align=0x1000), page) == (page, page)
    assert whole_windows(text(page, page, align=0), page) == (page, page)
    assert whole_windows(text(3 * page, page, offset=page), page) == (3 * page, 4 * page)
    assert whole_windows(text(page, page - 4096), page)[0] == whole_windows(text(page, page - 4096), page)[1]
    assert whole_windows(text(page, page - 4095), page) == (page, 2 * page)  # the mapping ends on a 4 KiB page


M = 1 << 20


def image(*segments: Segment, e_type: int = ET_DYN, file_size: int = 1 << 40) -> Image:
    for index, segment in enumerate(segments):
        segment.index = index
    return Image(e_type, 62, segments, (), file_size)


def runs(result: Image, page: int = 2 * M) -> list[tuple[int, int]]:
    return [(first // M, last // M) for _, first, last in text_windows(result, page)]


def other(vaddr: int, size: int, align: int = 2 * M) -> Segment:
    return Segment(PT_LOAD, PF_R, vaddr, vaddr, size, size, align)


def test_windows_end_with_the_file() -> None:
    assert runs(image(other(0, 1), text(2 * M, 6 * M))) == [(2, 8)]
    assert runs(image(other(0, 1), text(2 * M, 6 * M), file_size=7 * M)) == [(2, 6)]
    assert runs(image(other(0, 1), text(2 * M, 6 * M), file_size=8 * M - 4095)) == [(2, 8)]
    assert runs(image(other(0, 1), text(2 * M, 6 * M), file_size=8 * M - 4096)) == [(2, 6)]
    assert runs(image(other(0, 1), text(2 * M, 6 * M), file_size=64)) == []


def test_what_is_mapped_over_the_text_takes_its_windows() -> None:
    assert runs(image(other(0, 1), text(2 * M, 6 * M), other(5 * M, 1))) == [(2, 4), (6, 8)]
    assert runs(image(other(0, 1), text(2 * M, 6 * M), other(0, 2 * M + 1))) == [(4, 8)]
    assert runs(image(other(0, 1), text(2 * M, 6 * M), other(7 * M, 9 * M))) == [(2, 6)]
    assert runs(image(other(0, 1), text(2 * M, 6 * M), other(8 * M, 9 * M))) == [(2, 8)]
    assert runs(image(other(0, 1), text(2 * M, 6 * M), other(3 * M, 0))) == [(2, 8)]


def test_the_first_segment_and_the_largest_alignment_decide() -> None:
    moved = image(other(M, 1), text(3 * M, 4 * M, offset=2 * M))
    assert load_bias(moved) == -M
    assert [(first % (2 * M), last % (2 * M)) for _, first, last in text_windows(moved, 2 * M)] == [(M, M)]
    assert load_bias(image(other(M, 1), e_type=ET_EXEC)) == 0
    assert load_bias(image()) == 0
    assert image(other(0, 1, 4096), other(M, 1, 3 * M), other(2 * M, 1, 0)).load_alignment == 4096
    assert image().load_alignment == 0
    assert runs(image(other(0, 1, 2 * M), text(2 * M, 2 * M, align=4096))) == [(2, 4)]
    assert runs(image(other(0, 1, 4096), text(2 * M, 2 * M, align=4096))) == []
    assert runs(image(other(0, 1, 4096), text(2 * M, 2 * M, align=4096), e_type=ET_EXEC)) == [(2, 4)]
