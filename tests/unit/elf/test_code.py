"""What a function does, whatever its addresses: of both processors."""

import struct
from pathlib import Path

import pytest

from hugealign.elf import code
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
