"""Edits of linked files: what is written, in which order, and what is refused."""

import os
import struct
from pathlib import Path

import pytest

from hugealign.elf.edit import Patch, apply, plan_tail, unclaimed
from hugealign.elf.image import Image, Section, Segment

M = 2 << 20
CODE = 2 | 4


def load(flags: int, vaddr: int, size: int, header: int = 0, **fields: int) -> Segment:
    values = {"p_offset": vaddr, "p_filesz": size, "p_memsz": size, "p_align": M} | fields
    return Segment(
        1, flags, values["p_offset"], vaddr, values["p_filesz"], values["p_memsz"], values["p_align"], 0, header
    )


TEXT = load(5, M, 0x5000, header=120)
LAST = Section("~hugealign.pad", 1, CODE, M + 0x4FFF, M + 0x4FFF, 1, header=5 * M)


def image(*segments: Segment, sections: tuple[Section, ...] = (LAST,), size: int = 8 * M, **fields: int) -> Image:
    values = {"e_shoff": 6 * M} | fields
    return Image(3, values.get("machine", 62), segments, sections, size, e_shoff=values["e_shoff"])


def test_writes_in_an_order_that_can_be_cut_short() -> None:
    plan = plan_tail(image(TEXT, load(6, 2 * M, 0x1000)), M)
    assert isinstance(plan, Patch)
    trap, section, segment = plan.writes
    assert trap == (M + 0x5000, b"\xcc" * (M - 0x5000))
    assert section == (5 * M + 32, struct.pack("<Q", M - 0x4FFF))
    assert segment == (120 + 32, struct.pack("<QQ", M, M))


def test_nothing_to_write() -> None:
    section = Section(".fini", 1, CODE, M, M, M)
    plan = plan_tail(image(load(5, M, M), sections=(section,)), M)
    assert isinstance(plan, Patch)
    assert plan.writes == []


@pytest.mark.parametrize(
    ("what", "broken"),
    [
        ("not exactly one", image(TEXT, load(5, 4 * M, M))),
        ("not exactly one", image(load(4, 0, M))),
        ("not a processor", image(TEXT, machine=40)),
        ("not wholly in the file", image(load(5, M, 0x5000, p_memsz=0x6000))),
        ("does not start on a window", image(load(5, M + 0x1000, 0x4000))),
        ("does not start on a window", image(load(5, M, 0x5000, p_offset=0x1000))),
        ("no section of code", image(TEXT, sections=())),
        ("the file ends", image(TEXT, size=M + 0x6000)),
        ("in the file", image(TEXT, load(6, 2 * M, 0x1000, p_offset=M + 0x5000))),
        ("in memory", image(TEXT, load(6, M + 0x6000, 0x1000, p_offset=3 * M))),
        ("a section lies", image(TEXT, sections=(Section(".debug", 1, 0, 0, M + 0x8000, 64), LAST))),
        ("the section headers", image(TEXT, e_shoff=M + 0x5000)),
    ],
)
def test_refused(what: str, broken: Image) -> None:
    reason = plan_tail(broken, M)
    assert isinstance(reason, str)
    assert what in reason


def test_apply_writes_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"." * 32)
    fd = os.open(path, os.O_RDWR)
    apply(fd, Patch([(2, b"ab"), (30, b"yz")], 32))
    os.close(fd)
    assert path.read_bytes() == b"..ab" + b"." * 26 + b"yz"


def test_gaps_are_only_what_nothing_claims() -> None:
    segments = (load(4, 0, 0x1001), load(5, M, M), load(6, 4 * M, 0x10))
    debug = Section(".debug_info", 1, 0, 0, 5 * M, 100)
    result = unclaimed(image(*segments, sections=(debug,), size=8 * M, e_shoff=7 * M))
    assert result == [
        (0x2000, M),
        (2 * M, 4 * M),
        (4 * M + 0x1000, 5 * M),
        (5 * M + 0x1000, 7 * M),
        (7 * M + 0x1000, 8 * M),
    ]
