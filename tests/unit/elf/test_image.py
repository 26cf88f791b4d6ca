"""The reader against pyelftools on real files, and against files that nobody would make on purpose."""

import os
import shutil
import struct
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hugealign.elf.coverage import coverage
from hugealign.elf.image import read_file
from hugealign.errors import MalformedElfError, NotElfError
from hugealign.verification.rules import Policy, check

SYSTEM = [
    Path(entry.path)
    for directory in ("/usr/bin", "/usr/lib/x86_64-linux-gnu")
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name)
    if entry.is_file() and not entry.is_symlink()
]


def is_elf(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(4) == b"\x7fELF"
    except OSError:
        return False


def test_agrees_with_pyelftools_on_the_system() -> None:
    """Every field that we read, on a few hundred files."""
    files = [path for path in SYSTEM if is_elf(path)][::3]
    assert len(files) > 50
    for path in files:
        ours = read_file(path)
        with path.open("rb") as stream:
            elf = ELFFile(stream)
            theirs = [segment.header for segment in elf.iter_segments()]
            fields = ("p_flags", "p_offset", "p_vaddr", "p_filesz", "p_memsz", "p_align")
            assert [[getattr(s, f) for f in fields] for s in ours.segments] == [[h[f] for f in fields] for h in theirs]
            loads = [h["p_type"] == "PT_LOAD" for h in theirs]
            assert [s.p_type == 1 for s in ours.segments] == loads
            sections = [
                (s.name, s["sh_flags"], s["sh_addr"], s["sh_offset"], s["sh_size"]) for s in elf.iter_sections()
            ]
            assert [(s.name, s.sh_flags, s.sh_addr, s.sh_offset, s.sh_size) for s in ours.sections] == sections
        for segment in ours.segments:
            assert struct.unpack("<I", path.read_bytes()[segment.header : segment.header + 4])[0] == segment.p_type


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


#: Where the headers lie in a linked file: the ELF header, the program headers, and offsets from the end.
POSITIONS = st.one_of(st.integers(0, 64 + 13 * 56), st.integers(-2200, -1))


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(POSITIONS, st.binary(min_size=1, max_size=8)), min_size=1, max_size=6))
def test_mutations_never_raise_anything_else(sample: bytes, tmp_path: Path, edits: list[tuple[int, bytes]]) -> None:
    data = bytearray(sample)
    for position, value in edits:
        start = position % len(data)
        data[start : start + len(value)] = value
    path = tmp_path / "elf"
    path.write_bytes(data)
    try:
        image = read_file(path)
    except (MalformedElfError, NotElfError):
        return
    check(image, Policy(min_text=0))
    result = coverage(image, 2 << 20)
    assert result.windows >= 0


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
