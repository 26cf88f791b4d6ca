"""Gaps that become padding, zeros behind the contents, and the way back."""

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf import fixrecord
from hugealign.elf.fixrecord import HEADERS_SECTION, SECTION, SHIFT, FixRecord, Piece, Read, digest, pack
from hugealign.elf.image import Image, Section, Segment
from hugealign.errors import MalformedElfError
from hugealign.fixing import examine
from hugealign.fixing.output import Output, carved, fixed, original, without_tail

HEADERS = bytes(range(32)) + bytes([64, *bytes(7)]) + bytes(range(80))  # e_phoff is 64
SEGMENT = Segment(1, 5, 0, 0, 8000, 8000, 4096, header=64)
RECORD = FixRecord("shift", 2 << 20, 1000, 120, digest(HEADERS), (Piece(0, 0, 400), Piece(500, 4500, 500)), 7)


def reader(data: bytes) -> Read:
    return lambda size, offset: data[offset : offset + size]


@contextlib.contextmanager
def refused(code: str) -> Iterator[None]:
    with pytest.raises(RefusalError) as refusal:
        yield
    assert refusal.value.diagnosis.code == code


@pytest.mark.parametrize(
    ("start", "end", "left"),
    [
        (0, 100, [Piece(1000, 100, 50)]),
        (120, 130, [Piece(1000, 100, 20), Piece(1030, 130, 20)]),
        (90, 110, [Piece(1010, 110, 40)]),
        (140, 200, [Piece(1000, 100, 40)]),
        (100, 150, []),
        (150, 200, [Piece(1000, 100, 50)]),
    ],
)
def test_a_piece_is_cut(start: int, end: int, left: list[Piece]) -> None:
    image = Image(3, 62, (), (), 2000)
    assert carved(lambda size, _: bytes(size), image, (Piece(1000, 100, 50),), [(start, end - start)])[0] == tuple(left)


def gap(content: bytes, sections: tuple[Section, ...] = ()) -> tuple[tuple[Piece, ...], list[tuple[int, int]]]:
    data = b"x" * 4096 + content.ljust(4096, b"\0") + b"x" * 4096
    return carved(reader(data), Image(3, 62, (), sections, len(data)), (Piece(0, 0, len(data)),), [(4096, 4096)])


def test_zeros_in_a_gap_become_padding_and_a_hole_when_undone() -> None:
    assert gap(b"") == ((Piece(0, 0, 4096), Piece(8192, 8192, 4096)), [(4096, 4096)])


def test_a_gap_that_holds_something_stays() -> None:
    assert gap(b"\0\0y") == ((Piece(0, 0, 12288),), [])
    section = Section(".hidden", 1, 0, 0, 5000, 10)
    assert gap(b"", (section,)) == ((Piece(0, 0, 12288),), [])


def fixed_image(
    headers: bytes = HEADERS, old: bytes = HEADERS, size: int = 8000, made: FixRecord = RECORD
) -> tuple[bytes, Image]:
    record = pack(made)
    data = headers.ljust(6000, b"\1") + record + old
    sections = (
        Section(SECTION, 1, 0, 0, 6000, len(record)),
        Section(HEADERS_SECTION, 1, 0, 0, 6000 + len(record), len(old)),
    )
    return data, Image(3, 62, (SEGMENT,), sections, size)


def test_original() -> None:
    data, image = fixed_image()
    undone = original(reader(data), image)
    assert undone == Output((Piece(0, 0, 400), Piece(4500, 500, 500)), ((0, HEADERS),), 1000)


def test_an_original_longer_than_the_fixed_file() -> None:
    """More zeros were behind its contents than a fix appends."""
    data, image = fixed_image(made=RECORD.changed(size=8000 + 4096))
    assert original(reader(data), image).size == 8000 + 4096
    data, image = fixed_image(made=RECORD.changed(size=8000 + 4097))
    with pytest.raises(MalformedElfError, match="damaged"):
        original(reader(data), image)


def test_originals_that_cannot_be_had() -> None:
    data, image = fixed_image(headers=b"\2" * 120)
    with refused("fix.changed-since"):
        original(reader(data), image)
    data, image = fixed_image(old=b"short")
    with pytest.raises(MalformedElfError, match="damaged"):
        original(reader(data), image)
    data, image = fixed_image(size=4600)  # shorter than the pieces say
    with pytest.raises(MalformedElfError, match="damaged"):
        original(reader(data), image)
    with refused("fix.no-record"):
        original(reader(data), Image(3, 62, (), (), 8000))


@pytest.mark.parametrize(
    ("tail", "cut"),
    [
        (bytes(4096), True),
        (bytes(4097), False),
        (b"\0\0y", False),
        (b"", False),
    ],
)
def test_zeros_behind_the_contents(tail: bytes, cut: bool) -> None:
    data = struct.pack("100x") + tail
    section = Section(".last", 1, 0, 0, 0, 100)
    image = Image(3, 62, (), (section,), len(data))
    section.header = -64
    assert without_tail(reader(data), image).file_size == (100 if cut else len(data))


#: What is odd -> the place in the header, of the program's table or the sections', what is put there; the refusal.
ODD = {
    "as many segments as another": (56, b"\1\0", "fix.header-tables"),
    "no names": (62, b"\0\0", "fix.section-names"),
    "a table within the header": (32, bytes([8, *bytes(7)]), "fix.header-tables"),
    "an address of a kernel": (64 + 24, bytes(8), "fix.physical-addresses"),
}


@pytest.mark.parametrize("name", ODD)
def test_headers_that_are_not_edited(name: str) -> None:
    at, new, code = ODD[name]
    with Path("/usr/bin/python3").open("rb") as file:
        image = examine.read(file.fileno())
        plan = examine.plan(image, 1 << 16, SHIFT)
        real = fixrecord.reader(file.fileno())

        def read(size: int, offset: int) -> bytes:
            data = bytearray(real(size, offset))
            if offset <= at < offset + size:
                data[at - offset : at - offset + len(new)] = new
            return bytes(data)

        with refused(code):
            fixed(read, image, plan)


def test_what_prelink_has_changed_is_not_fixed() -> None:
    with Path("/usr/bin/python3").open("rb") as file:
        image = examine.read(file.fileno())
        plan = examine.plan(image, 1 << 16, SHIFT)
        undo = Section(HEADERS_SECTION, 1, 0, 0, 0, 0)
        with refused("fix.prelinked"):
            fixed(fixrecord.reader(file.fileno()), image.changed(sections=(*image.sections[:-1], undo)), plan)
