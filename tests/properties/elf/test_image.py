"""The reader against pyelftools on real files, and against files that nobody would make on purpose."""

import os
import struct
from pathlib import Path

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
    """Every field that we read; `commands/test_readelf.py` reads more files."""
    files = [path for path in SYSTEM if is_elf(path)]
    files = files[:: max(1, len(files) // 60)]
    assert len(files) >= 60
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
                stream.seek(segment.header)
                assert struct.unpack("<I", stream.read(4))[0] == segment.p_type


SAMPLE = Path("/bin/true").read_bytes()
#: Where the headers lie in a linked file: the ELF header, the program headers, and offsets from the end.
POSITIONS = st.one_of(st.integers(0, 64 + 13 * 56), st.integers(-2200, -1))


@settings(max_examples=600, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(POSITIONS, st.binary(min_size=1, max_size=8)), min_size=1, max_size=6))
def test_mutations_never_raise_anything_else(tmp_path: Path, edits: list[tuple[int, bytes]]) -> None:
    data = bytearray(SAMPLE)
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
