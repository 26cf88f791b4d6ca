"""What a function does, whatever its addresses: of both processors."""

import os
import struct
from pathlib import Path

import pytest

from hugealign.code import digests as code
from hugealign.code.blockmap import Block
from hugealign.elf.image import EM_AARCH64, EM_X86_64, ET_EXEC, PF_R, PF_X, PT_LOAD, Image, Segment
from hugealign.elf.symbols import Functions

NOP = {EM_X86_64: b"\x90" * 32, EM_AARCH64: struct.pack("<8I", *[0xD503201F] * 8)}

#: Two pieces of code that differ in nothing but an address.
SAME = {
    "bl": (EM_AARCH64, "00000094", "10000094"),
    "b.ne": (EM_AARCH64, "01000054", "81000054"),
    "cbz x3": (EM_AARCH64, "030000b4", "830000b4"),
    "tbnz w3, #5": (EM_AARCH64, "03002837", "83002837"),
    "adrp x3": (EM_AARCH64, "03000090", "030000b0"),
    "add x3, x4, #lo12": (EM_AARCH64, "83000091", "83400091"),
    "ldr x3, [x4, #lo12]": (EM_AARCH64, "830040f9", "830440f9"),
    "call": (EM_X86_64, "e800000000", "e810203040"),
    "jne": (EM_X86_64, "0f8500000000", "0f8510203040"),
    "lea (%rip), %rax": (EM_X86_64, "488d0500000000", "488d0510203040"),
}
#: Two that do different things.
OTHER = {
    "b and bl": (EM_AARCH64, "00000014", "00000094"),
    "b.ne and b.eq": (EM_AARCH64, "01000054", "00000054"),
    "cbz x3 and x4": (EM_AARCH64, "030000b4", "040000b4"),
    "tbnz of other bits": (EM_AARCH64, "03002837", "03003037"),
    "add to other registers": (EM_AARCH64, "83000091", "84000091"),
    "mov of another number, aarch64": (EM_AARCH64, "200080d2", "400080d2"),
    "call and jmp": (EM_X86_64, "e800000000", "e900000000"),
    "mov of another number": (EM_X86_64, "b801000000", "b802000000"),
}


def digest(tmp_path: Path, machine: int, begin: str) -> bytes:
    data = bytes.fromhex(begin) + NOP[machine]
    (tmp_path / "file").write_bytes(data)
    text = Segment(PT_LOAD, PF_R | PF_X, 0, 0x1000, len(data), len(data), 0x1000)
    image = Image(ET_EXEC, machine, (text,), (), len(data))
    functions = Functions([0x1000], [len(data)], ["f"], [""], {"f": [0]}, image=image)
    return code.digests(tmp_path / "file", functions, [0])[0]


@pytest.mark.parametrize("name", SAME)
def test_addresses_do_not_count(name: str, tmp_path: Path) -> None:
    machine, one, other = SAME[name]
    assert digest(tmp_path, machine, one) == digest(tmp_path, machine, other)


@pytest.mark.parametrize("name", OTHER)
def test_all_else_does(name: str, tmp_path: Path) -> None:
    machine, one, other = OTHER[name]
    assert digest(tmp_path, machine, one) != digest(tmp_path, machine, other)


#: How a block of the same instructions may end: whether it jumps, and how, depends on what lies behind it.
ENDS = {
    EM_X86_64: ("", "7405", "750a", "eb10", "0f8510203040", "e910203040", "7405eb10", "0f8510203040e910203040"),
    EM_AARCH64: ("", "00000014", "01000054", "81000054", "030000b4", "03002837", "0100005400000014"),
}


def block_digests(tmp_path: Path, machine: int, *parts: str) -> list[bytes]:
    """Digests of blocks that lie one behind the other."""
    codes = [bytes.fromhex(part) for part in parts]
    blocks, at = [], 0x1000
    for number, part in enumerate(codes):
        blocks.append(Block(number, at, len(part), False))
        at += len(part)
    data = b"".join(codes)
    (tmp_path / "file").write_bytes(data)
    text = Segment(PT_LOAD, PF_R | PF_X, 0, 0x1000, len(data), len(data), 0x1000)
    image = Image(ET_EXEC, machine, (text,), (), len(data))
    functions = Functions([0x1000], [len(data)], ["f"], [""], {"f": [0]}, image=image)
    return code.block_digests(tmp_path / "file", functions, {0: blocks})[0]


@pytest.mark.parametrize("machine", ENDS)
def test_the_jump_at_the_end_of_a_block_does_not_count(machine: int, tmp_path: Path) -> None:
    body = NOP[machine].hex()
    assert len({*block_digests(tmp_path, machine, *(body + end for end in ENDS[machine]))}) == 1


@pytest.mark.parametrize("name", SAME)
def test_nor_do_addresses_within_it(name: str, tmp_path: Path) -> None:
    machine, one, other = SAME[name]
    assert len({*block_digests(tmp_path, machine, *(part + NOP[machine].hex() for part in (one, other)))}) == 1


def test_all_else_in_a_block_does(tmp_path: Path) -> None:
    result = block_digests(tmp_path, EM_X86_64, "b801000000", "b802000000", "b80100000090", "", "90", "9090")
    assert len({*result}) == 6


def test_functions_that_lie_on_each_other_are_not_all_read(tmp_path: Path) -> None:
    """A thousand functions of one mebibyte, in a file of one: a few are read, however little of them are blocks."""
    size = 1 << 20
    (tmp_path / "file").write_bytes(b"\x90" * size)
    text = Segment(PT_LOAD, PF_R | PF_X, 0, 0x1000, size, size, 0x1000)
    image = Image(ET_EXEC, EM_X86_64, (text,), (), size)
    functions = Functions([0x1000] * 1000, [size] * 1000, ["f"] * 1000, [""] * 1000, {"f": [0]}, image=image)
    blocks = {index: [Block(0, 0x1000, 16, False)] for index in range(1000)}
    assert 1 <= len(code.block_digests(tmp_path / "file", functions, blocks)) <= 4
    assert 1 <= len(code.digests(tmp_path / "file", functions, range(1000))) <= 4


def test_holes_are_not_all_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of any size can consist of them."""
    size = 1 << 20
    count = 2 * code._READ_MOST // size
    with (tmp_path / "file").open("wb") as file:
        file.truncate(count * size)
    text = Segment(PT_LOAD, PF_R | PF_X, 0, 0x1000, count * size, count * size, 0x1000)
    image = Image(ET_EXEC, EM_X86_64, (text,), (), count * size)
    starts = [0x1000 + size * n for n in range(count)]
    functions = Functions(starts, [size] * count, ["f"] * count, [""] * count, {"f": [0]}, image=image)
    asked: list[int] = []

    def read(_: int, wanted: int, at: int) -> bytes:
        asked.append(at)
        return bytes(wanted)

    monkeypatch.setattr(os, "pread", read)
    assert code.digests(tmp_path / "file", functions, range(count)) == {}
    assert len(asked) == count // 2


def test_a_function_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    size = (1 << 20) + 1
    (tmp_path / "file").write_bytes(b"\x90" * size)
    text = Segment(PT_LOAD, PF_R | PF_X, 0, 0x1000, size, size, 0x1000)
    image = Image(ET_EXEC, EM_X86_64, (text,), (), size)
    functions = Functions([0x1000, 0x1000], [size, size - 1], ["f", "g"], ["", ""], {}, image=image)
    assert list(code.digests(tmp_path / "file", functions, [0, 1])) == [1]


def test_what_cannot_be_read_has_no_digest(tmp_path: Path) -> None:
    text = Segment(PT_LOAD, PF_R | PF_X, 0, 0x1000, 64, 64, 0x1000)
    functions = Functions([0x1000], [64], ["f"], [""], {"f": [0]}, image=Image(ET_EXEC, EM_X86_64, (text,), (), 64))
    blocks = {0: [Block(0, 0x1000, 64, False)]}
    assert code.block_digests(tmp_path / "absent", functions, blocks) == {}
    (tmp_path / "short").write_bytes(b"\x90" * 8)
    assert code.block_digests(tmp_path / "short", functions, blocks) == {}
    (tmp_path / "holes").write_bytes(bytes(64))
    assert code.block_digests(tmp_path / "holes", functions, blocks) == {}
