"""The reader against GNU readelf, segment by segment and section by section, on the ELF files of known packages."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hugealign.elf.image import read_file
from hugealign.errors import MalformedElfError
from tests.packaged import elf_files
from tests.support import need, run

_BATCH = 100  # files of one readelf

#: What `readelf -lW` calls the types that have a name there; others it writes as numbers or by processor.
_TYPES = {
    "NULL": 0, "LOAD": 1, "DYNAMIC": 2, "INTERP": 3, "NOTE": 4, "SHLIB": 5, "PHDR": 6, "TLS": 7,
    "GNU_EH_FRAME": 0x6474E550, "GNU_STACK": 0x6474E551, "GNU_RELRO": 0x6474E552, "GNU_PROPERTY": 0x6474E553,
    "GNU_SFRAME": 0x6474E554,
}  # fmt: skip
_SECTION_TYPES = {"NULL": 0, "PROGBITS": 1, "SYMTAB": 2, "STRTAB": 3, "RELA": 4, "DYNAMIC": 6, "NOTE": 7, "NOBITS": 8}
_FLAGS = {"W": 1, "A": 2, "X": 4, "M": 16, "S": 32, "I": 64, "L": 128, "O": 256, "G": 512, "T": 1024, "C": 2048}
_SEGMENT = re.compile(r"  (\S.*?) +" + r"0x([0-9a-f]+) " * 5 + r"([R ])([W ])([E ]) (?:0x)?([0-9a-f]+)")
_SECTION = re.compile(
    r"  \[ *\d+\] (.*?) +(\S.*?) +([0-9a-f]{8}|[0-9a-f]{16}) ([0-9a-f]{6,}) ([0-9a-f]{6,}) [0-9a-f]{2,}"
    r" +([A-Za-z]*) +\d+ +\d+ +(\d+)"
)


def readelf(files: list[Path]) -> Iterator[tuple[Path, str]]:
    """What readelf says of each of *files*, its lines on standard error left out."""
    for at in range(0, len(files), _BATCH):
        batch = files[at : at + _BATCH]
        done = subprocess.run(
            ["readelf", "-lSW", *batch],
            check=False,
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",
            env={"LC_ALL": "C", "PATH": os.environ["PATH"]},
        )
        parts = re.split(r"^File: (.*)\n", done.stdout, flags=re.MULTILINE)
        if len(batch) == 1:  # then it does not name it
            parts = ["", str(batch[0]), done.stdout]
        yield from ((Path(name), text) for name, text in zip(parts[1::2], parts[2::2], strict=True))


def differences(path: Path, text: str) -> list[str]:
    """Where our view of the file at *path* and readelf's *text* disagree."""
    ours = read_file(path)
    wrong = []
    theirs = [m.groups() for m in map(_SEGMENT.match, text.splitlines()) if m]
    if len(theirs) != len(ours.segments):
        return [f"{len(ours.segments)} segments, readelf has {len(theirs)}"]
    for segment, (kind, *words) in zip(ours.segments, theirs, strict=True):
        offset, vaddr, _, filesz, memsz = (int(word, 16) for word in words[:5])
        seen = (offset, vaddr, filesz, memsz, int(words[8], 16), "".join(w if w != " " else "-" for w in words[5:8]))
        mine = (
            segment.p_offset, segment.p_vaddr, segment.p_filesz, segment.p_memsz, segment.p_align, segment.flags,
        )  # fmt: skip
        if seen != mine or _TYPES.get(kind, segment.p_type) != segment.p_type:
            wrong.append(f"segment {segment.index}: {mine}, readelf {kind} {seen}")
    sections = [m.groups() for m in map(_SECTION.match, text.splitlines()) if m]
    if len(sections) != len(ours.sections):
        return [*wrong, f"{len(ours.sections)} sections, readelf has {len(sections)}"]
    for section, (name, kind, addr, offset_, size, flags, align) in zip(ours.sections, sections, strict=True):
        known = sum(bit for letter, bit in _FLAGS.items() if letter in flags)
        seen_section = (int(addr, 16), int(offset_, 16), int(size, 16), known, int(align))
        mine_section = (
            section.sh_addr, section.sh_offset, section.sh_size, section.sh_flags & sum(_FLAGS.values()),
            section.sh_addralign,
        )  # fmt: skip
        if seen_section != mine_section or _SECTION_TYPES.get(kind, section.sh_type) != section.sh_type:
            wrong.append(f"section {name}: {mine_section}, readelf {kind} {seen_section}")
        if name != section.name:
            wrong.append(f"section {section.name!r}: readelf {name!r}")
    return wrong


def compare(files: list[Path]) -> int:
    """Compare every file and return how many there were."""
    count = 0
    wrong: list[str] = []
    for path, text in readelf(files):
        try:
            result = differences(path, text)
        except MalformedElfError as error:
            result = [str(error)]
        count += 1
        wrong += [f"{path}: {line}" for line in result]
    assert wrong == []
    return count


@pytest.fixture(scope="module")
def files() -> list[Path]:
    need("readelf")
    return list(elf_files())


def test_some_files(files: list[Path], record_property: Callable[[str, object], None]) -> None:
    some = files[:: max(1, len(files) // 100)]
    compared = compare(some)
    record_property("files compared", compared)
    assert compared == len(some) >= 50


def test_megabytes_of_section_names(tmp_path: Path) -> None:
    """An object with a section for each of many functions of C++, whose names are long."""
    need("readelf")
    names = "".join(f'.section .text.{"_" * 200}{i},"ax"\nnop\n' for i in range(10_000))
    (tmp_path / "many.s").write_text(names + '.section .behind,"ax"\nnop\n')
    run("gcc", "-c", "many.s", cwd=tmp_path, check=True)
    assert compare([tmp_path / "many.o"]) == 1


@pytest.mark.matrix
def test_all_files(files: list[Path], record_property: Callable[[str, object], None]) -> None:
    compared = compare(files)
    record_property("files compared", compared)
    print(f"{compared} files compared")
    assert compared == len(files) >= 500
