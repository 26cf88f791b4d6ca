"""The reader against pyelftools on real files, and against files that no tool makes on purpose."""

import errno
import os
import shutil
import struct
from pathlib import Path

import pytest

from hugealign.elf.image import read_file
from hugealign.errors import MalformedElfError, NotElfError


def elf32(order: str) -> bytes:
    """A 32-bit program with one text segment, in either byte order."""
    ident = b"\x7fELF\x01" + (b"\x01" if order == "<" else b"\x02") + b"\x01" + b"\0" * 9
    ehdr = struct.pack(order + "HHIIIIIHHHHHH", 2, 3, 1, 0x10000, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    return ident + ehdr + struct.pack(order + "IIIIIIII", 1, 0, 0x10000, 0x10000, 84, 84, 5, 0x1000)


@pytest.mark.parametrize("order", ["<", ">"])
def test_32_bit_in_both_byte_orders(order: str, tmp_path: Path) -> None:
    path = tmp_path / "elf"
    path.write_bytes(elf32(order))
    (segment,) = read_file(path).text_segments
    assert (segment.p_vaddr, segment.p_filesz, segment.p_align, segment.flags) == (0x10000, 84, 0x1000, "R-E")


def test_not_elf(tmp_path: Path) -> None:
    for name, data in {"empty": b"", "text": b"hello\n", "magic": b"\x7fEL"}.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(NotElfError):
            read_file(tmp_path / name)


@pytest.fixture(scope="module")
def sample() -> bytes:
    return Path(shutil.which("true") or "/bin/true").read_bytes()


def test_every_truncation_is_told_or_read(sample: bytes, tmp_path: Path) -> None:
    path = tmp_path / "elf"
    for length in [*range(4, 1200), *range(1200, len(sample), 997)]:
        path.write_bytes(sample[:length])
        try:
            image = read_file(path)
        except MalformedElfError:
            continue
        assert image.file_size == length


def header(**fields: int) -> bytes:
    """A 64-bit ELF header with the given fields."""
    values = {
        "e_phoff": 64,
        "e_shoff": 0,
        "e_phentsize": 56,
        "e_phnum": 0,
        "e_shentsize": 64,
        "e_shnum": 0,
        "e_shstrndx": 0,
    }
    values |= fields
    return b"\x7fELF\x02\x01\x01" + b"\0" * 9 + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, values["e_phoff"], values["e_shoff"], 0, 64,
        values["e_phentsize"], values["e_phnum"], values["e_shentsize"], values["e_shnum"], values["e_shstrndx"],
    )  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [
        header(e_phnum=1),
        header(e_phnum=0xFFFF),
        header(e_phnum=1, e_phentsize=57) + b"\0" * 57,
        header(e_phnum=1, e_phoff=1 << 63) + b"\0" * 56,
        header(e_phnum=1, e_phoff=(1 << 64) - 1) + b"\0" * 56,
        header(e_shoff=64, e_shnum=1),
        header(e_shoff=64, e_shnum=0),
        header(e_shoff=64, e_shentsize=0, e_shnum=1) + b"\0" * 64,
        header(e_shoff=64, e_shnum=0) + struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 1 << 60, 0, 0, 0, 0),
        header(e_shoff=64, e_phnum=0xFFFF) + struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 1, 0, 0xFFFFFFFF, 0, 0),
    ],
)
def test_absurd_headers(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "elf"
    path.write_bytes(data)
    with pytest.raises(MalformedElfError):
        read_file(path)


def test_a_name_table_without_end_costs_no_time(tmp_path: Path) -> None:
    """100,000 sections, each with a name of a megabyte without a terminator."""
    count = 100_000
    names = 64 + count * 64
    section = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, names, 1 << 20, 0, 0, 1, 0)
    path = tmp_path / "elf"
    path.write_bytes(header(e_shoff=64, e_shnum=0, e_shstrndx=0) + b"")
    first = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, names, count, 0, 0, 1, 0)
    path.write_bytes(header(e_shoff=64) + first + section * (count - 1) + b"x" * (1 << 20))
    image = read_file(path)
    assert len(image.sections) == count
    assert max(len(s.name) for s in image.sections) <= 256


@pytest.mark.parametrize(
    ("code", "error"), [(errno.EIO, OSError), (errno.EINVAL, MalformedElfError), (errno.EOVERFLOW, MalformedElfError)]
)
def test_a_read_that_fails_is_no_damage(
    code: int, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only an offset that no file can have is: pread(2) calls it EINVAL or EOVERFLOW."""
    path = tmp_path / "copy"
    shutil.copy("/bin/true", path)
    read = os.pread

    def failing(fd: int, size: int, offset: int) -> bytes:
        if offset:
            raise OSError(code, os.strerror(code))
        return read(fd, size, offset)

    monkeypatch.setattr(os, "pread", failing)
    with pytest.raises(error) as raised:
        read_file(path)
    assert isinstance(raised.value, OSError) == (error is OSError)
