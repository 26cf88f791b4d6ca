"""What `hugealign run` finds of texts that are not huge, and which of them it tells of; glibc's tunable."""

import struct
from pathlib import Path

import pytest

from hugealign.diagnosis.values import Diagnosis
from hugealign.run.launch import IN_PLACE, STAGE, Launch, LaunchOptions, TextResult, prepare
from hugealign.run.tunable import has_tunable, with_tunable
from hugealign.verification.verify import verify

WHY = Diagnosis("thp.partial", "/a", {"huge": 1, "windows": 3})
WHOLE, SHORT = TextResult("/a", STAGE, 3, 3), TextResult("/b", IN_PLACE, 3, 1, WHY)
NONE = TextResult("/c", IN_PLACE, diagnosis=Diagnosis("text.small", "/c", {"text": 1, "least": 2}))
STARTS = TextResult("/d", IN_PLACE, diagnosis=Diagnosis("program.small", "/d", {"text": 1}))
GONE = TextResult("/e", IN_PLACE, diagnosis=Diagnosis("file.unreadable", "/e", {"error": "ENOENT"}))


@pytest.mark.parametrize(
    ("texts", "worst"),
    [
        ([], []),
        ([WHOLE], []),
        ([WHOLE, SHORT], [SHORT]),
        ([NONE, WHOLE, SHORT], [SHORT]),
        ([NONE, WHOLE], [NONE]),
        ([STARTS], [STARTS]),
        ([STARTS, GONE], [GONE]),  # what was named rather than what starts it
    ],
)
def test_windows_that_are_not_huge_are_told_of_first(texts: list[TextResult], worst: list[TextResult]) -> None:
    assert list(Launch(texts).worst) == worst


@pytest.mark.parametrize(
    ("size", "named", "code"),
    [(200 << 10, False, "program.small"), (200 << 10, True, "text.small"), (300 << 10, False, "text.no-window")],
)
def test_a_program_without_windows(tmp_path: Path, size: int, named: bool, code: str) -> None:
    path = tmp_path / "program"
    path.write_bytes(_program(size))
    path.chmod(0o755)
    command, files = ("/nonexistent", [str(path)]) if named else (str(path), [])
    (text,) = prepare(command, LaunchOptions(place=str(tmp_path / "none"), files=files)).texts
    assert text.diagnosis
    assert text.diagnosis.code == code


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (text,) = prepare(
        "/nonexistent", LaunchOptions(place=str(tmp_path / "none"), files=[str(tmp_path / "missing")])
    ).texts
    assert text.diagnosis
    assert (text.diagnosis.code, text.diagnosis.facts) == ("file.unreadable", {"error": "ENOENT"})


def test_a_file_whose_headers_are_damaged(tmp_path: Path) -> None:
    path = tmp_path / "damaged"
    path.write_bytes(_program(300 << 10)[:80])
    (text,) = prepare("/nonexistent", LaunchOptions(place=str(tmp_path / "none"), files=[str(path)])).texts
    assert text.diagnosis == Diagnosis("file.damaged", str(path), {"part": "program header table"})
    (report,) = verify(path).files
    assert report.problem
    assert report.problem.code == "file.damaged"


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
def test_a_tunable_is_added(given: bytes | None, result: bytes) -> None:
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


def _program(size: int) -> bytes:
    """Return an ELF file with one executable segment of *size* bytes and nothing else."""
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0x1000, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0x1000, 0x1000, 0x1000, size, size, 0x1000)
    return (header + segment).ljust(0x1000, b"\0") + b"\xcc" * size
