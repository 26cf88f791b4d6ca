"""What can be a caller: calls of either processor, by the bytes in front of an address."""

from pathlib import Path

import pytest

from hugealign.code.callsites import CallSites
from hugealign.elf.image import EM_AARCH64, EM_X86_64, ET_EXEC, SHF_EXECINSTR, SHT_NOBITS, Image, Section

#: Machine code, and what it is.
CALLS = {
    "e8 10000000": "call rel32",
    "67 e8 10000000": "addr32 call, as linkers relax calls through the GOT",
    "ff d0": "call *%rax",
    "41 ff d7": "call *%r15",
    "ff 10": "call *(%rax)",
    "ff 50 08": "call *8(%rax)",
    "ff 54 24 08": "call *8(%rsp)",
    "ff 15 00100000": "call *rel32(%rip)",
    "ff 90 00010000": "call *256(%rax)",
    "41 ff 94 24 00010000": "call *256(%r12)",
    "ff 14 c5 00100000": "call *table(,%rax,8)",
}
OTHERS = {
    "90 90 90 90 90 90 90 90": "nops",
    "ff e0": "jmp *%rax",
    "e9 10000000": "jmp",
    "48 89 c3": "mov",
    "ff 30": "push",
}
ARM_CALLS = {"94000010": "bl", "d63f0100": "blr x8", "d73f0901": "blraa", "d63f0be0": "blraaz"}
ARM_OTHERS = {"14000010": "b", "d61f0100": "br x8", "d503201f": "nop", "d65f03c0": "ret"}


def sites(tmp_path: Path, code: bytes, machine: int = EM_X86_64, kind: int = 1) -> CallSites:
    (tmp_path / "file").write_bytes(bytes(64) + code)
    text = Section(".text", kind, SHF_EXECINSTR, 0x1000, 64, len(code))
    return CallSites(tmp_path / "file", Image(ET_EXEC, machine, (), (text,), 64 + len(code)))


@pytest.mark.parametrize("text", CALLS, ids=CALLS.values())
def test_calls(text: str, tmp_path: Path) -> None:
    """Where they return to, the byte before that, and where they begin."""
    code = bytes.fromhex(text)
    result = sites(tmp_path, bytes([0x90] * 8) + code + bytes([0x90] * 16))
    assert result.possible(0x1008 + len(code))
    assert result.possible(0x1008 + len(code) - 1)
    assert result.possible(0x1008)
    assert not result.possible(0x1008 + len(code) + 8)


@pytest.mark.parametrize("text", OTHERS, ids=OTHERS.values())
def test_no_calls(text: str, tmp_path: Path) -> None:
    code = bytes.fromhex(text)
    assert not sites(tmp_path, bytes([0x90] * 8) + code + bytes([0x90] * 8)).possible(0x1008 + len(code))


@pytest.mark.parametrize(
    ("word", "is_call"), [(word, True) for word in ARM_CALLS] + [(word, False) for word in ARM_OTHERS]
)
def test_aarch64(word: str, is_call: bool, tmp_path: Path) -> None:
    nops = bytes.fromhex("1f2003d5") * 3
    result = sites(tmp_path, nops + bytes.fromhex(word)[::-1] + nops, EM_AARCH64)
    assert result.possible(0x1010) == result.possible(0x100F) == result.possible(0x100C) == is_call
    assert not result.possible(0x1018)


def test_where_nothing_is_known_everything_may_be(tmp_path: Path) -> None:
    """In a debug file, of another processor, outside of the code, and when the file is gone."""
    assert sites(tmp_path, bytes(32), kind=SHT_NOBITS).possible(0x1010)
    assert sites(tmp_path, bytes(32), machine=40).possible(0x1010)
    assert sites(tmp_path, bytes(32)).possible(0x9000)
    result = sites(tmp_path, bytes(32))
    assert not result.possible(0x1010)
    (tmp_path / "file").unlink()
    assert result.possible(0x1010)
