"""GLIBC_TUNABLES for a command: added to what there is, never instead of it."""

import struct
from pathlib import Path

import pytest

from hugealign.run.launch import has_tunable, with_tunable


@pytest.mark.parametrize(
    ("given", "result"),
    [
        (None, b"glibc.elf.thp=1"),
        (b"", b"glibc.elf.thp=1"),
        (b"glibc.malloc.check=3", b"glibc.malloc.check=3:glibc.elf.thp=1"),
        (b"glibc.elf.thp=0", b"glibc.elf.thp=0"),
        (b"a=b:glibc.elf.thp=1:c=d", b"a=b:glibc.elf.thp=1:c=d"),
        (b"glibc.elf.thp_x=0", b"glibc.elf.thp_x=0:glibc.elf.thp=1"),
    ],
)
def test_added(given: bytes | None, result: bytes) -> None:
    environ = {b"A": b"1"} | ({} if given is None else {b"GLIBC_TUNABLES": given})
    before = dict(environ)
    assert with_tunable(environ) == {b"A": b"1", b"GLIBC_TUNABLES": result}
    assert environ == before


@pytest.mark.parametrize("offset", [0, 4096, 1 << 62, (1 << 64) - 1])
def test_a_program_whose_loader_has_no_name(offset: int, tmp_path: Path) -> None:
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 3, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 3, 4, offset, 0, 0, 0 if offset == 0 else 16, 16, 1)
    (tmp_path / "program").write_bytes(header + segment)
    assert not has_tunable(str(tmp_path / "program"))
