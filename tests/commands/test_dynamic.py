"""The dynamic section and the notes against pyelftools on the files of known packages, and against damage."""

import os
import struct
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import NoteSection

from hugealign.elf.dynamic import Dynamic, read_dynamic
from hugealign.elf.image import read_image
from hugealign.elf.notes import Notes, read_notes
from tests.packaged import elf_files
from tests.support import run


def ours(path: Path) -> tuple[Dynamic, Notes]:
    fd = os.open(path, os.O_RDONLY)
    try:
        image = read_image(fd)
        return read_dynamic(fd, image), read_notes(fd, image)
    finally:
        os.close(fd)


def theirs(path: Path) -> dict[str, object]:
    result: dict[str, object] = {"needed": [], "soname": "", "versions": set(), "build_id": "", "interpreter": ""}
    tags: dict[str, int] = {}
    with path.open("rb") as stream:
        elf = ELFFile(stream)
        for segment in elf.iter_segments():
            if segment["p_type"] == "PT_INTERP":
                result["interpreter"] = segment.get_interp_name()
            if segment["p_type"] == "PT_DYNAMIC":
                for tag in segment.iter_tags():
                    tags.setdefault(tag.entry.d_tag, tag.entry.d_val)
                    if tag.entry.d_tag == "DT_NEEDED":
                        result["needed"].append(tag.needed)  # type: ignore[attr-defined]
                    if tag.entry.d_tag == "DT_SONAME":
                        result["soname"] = tag.soname
        for section in elf.iter_sections():
            if isinstance(section, GNUVerNeedSection):
                for _, versions in section.iter_versions():
                    result["versions"] |= {version.name for version in versions}  # type: ignore[operator]
            if isinstance(section, NoteSection):
                ids = [note["n_desc"] for note in section.iter_notes() if note["n_type"] == "NT_GNU_BUILD_ID"]
                result["build_id"] = result["build_id"] or (ids[0] if ids else "")
    result["textrel"] = "DT_TEXTREL" in tags or bool(tags.get("DT_FLAGS", 0) & 4)
    result["pie"] = bool(tags.get("DT_FLAGS_1", 0) & 0x08000000)
    return result


def test_agrees_with_pyelftools() -> None:
    files = [path for path in elf_files() if path.suffix not in (".o", ".debug")][::5]
    assert len(files) > 50
    for path in files:
        dynamic, notes = ours(path)
        assert {
            "needed": list(dynamic.needed),
            "soname": dynamic.soname,
            "versions": set(dynamic.versions),
            "build_id": notes.build_id,
            "interpreter": dynamic.interpreter,
            "textrel": dynamic.textrel,
            "pie": dynamic.pie,
        } == theirs(path), path


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dynamic")
    (directory / "a.c").write_text('#include <stdio.h>\nint used(void) { return puts(""); }\n')
    run("gcc", "-shared", "-fPIC", "a.c", "-o", "a.so", cwd=directory, check=True)
    return directory / "a.so"


def test_names_behind_many_others(tmp_path: Path) -> None:
    """The names of 20 MB of dynamic symbols lie in front of those of the libraries and versions that are needed."""
    long = "".join(f".globl f{i}{'_' * 100_000}\nf{i}{'_' * 100_000}:\n" for i in range(200))
    (tmp_path / "many.s").write_text(long + '.section .note.GNU-stack,"",@progbits\n')
    (tmp_path / "a.c").write_text('#include <stdio.h>\nint used(void) { return puts(""); }\n')
    words = ("-Wl,-soname,liba.so.1", "-Wl,-rpath,/opt/a", "-Wl,--build-id")
    run("gcc", "-shared", "-fPIC", "many.s", "a.c", *words, "-o", "a.so", cwd=tmp_path, check=True)
    dynamic, _ = ours(tmp_path / "a.so")
    expected = theirs(tmp_path / "a.so")
    with (tmp_path / "a.so").open("rb") as stream:
        (tags,) = [
            list(s.iter_tags("DT_NEEDED")) for s in ELFFile(stream).iter_segments() if s["p_type"] == "PT_DYNAMIC"
        ]
    assert tags[0].entry.d_val > 1 << 24
    assert (dynamic.needed, dynamic.soname, dynamic.runpath) == (("libc.so.6",), "liba.so.1", "/opt/a")
    assert set(dynamic.versions) == expected["versions"] != set()


def damaged(path: Path, tag: int, value: int) -> Path:
    """A copy of *path* whose dynamic entry *tag* has another value."""
    data = bytearray(path.read_bytes())
    with path.open("rb") as stream:
        (dynamic,) = [s for s in ELFFile(stream).iter_segments() if s["p_type"] == "PT_DYNAMIC"]
        at = next(
            dynamic["p_offset"] + 16 * index
            for index, entry in enumerate(dynamic.iter_tags())
            if struct.unpack_from("<Q", data, dynamic["p_offset"] + 16 * index)[0] == tag
        )
    struct.pack_into("<Q", data, at + 8, value)
    target = path.with_name("damaged")
    target.write_bytes(data)
    return target


def test_tables_that_are_not_there(library: Path) -> None:
    assert ours(library)[0].versions
    assert ours(damaged(library, 0x6FFFFFFE, 1 << 62))[0].versions == ()
    assert ours(damaged(library, 5, 1 << 62))[0].needed == ()
    assert ours(damaged(library, 0x6FFFFFFF, (1 << 64) - 1))[0].versions


def test_lists_that_never_end(library: Path) -> None:
    """Version needs whose next entry is the entry itself: 2 to the power of 64 times, says the header."""
    path = damaged(library, 0x6FFFFFFF, (1 << 64) - 1)
    with library.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".gnu.version_r")
        offset = section["sh_offset"]
    data = bytearray(path.read_bytes())
    struct.pack_into("<H", data, offset + 2, 0xFFFF)  # vn_cnt
    struct.pack_into("<I", data, offset + 12, 0)  # vn_next
    struct.pack_into("<I", data, offset + 16 + 12, 0)  # vna_next
    path.write_bytes(data)
    assert len(ours(path)[0].versions) <= 2
