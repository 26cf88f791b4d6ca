"""Sizes, settings, names, recipes."""

import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

from hugealign.elf.image import EM_AARCH64, EM_X86_64
from hugealign.elf.objectfile import pad_object
from hugealign.errors import UsageError
from hugealign.link import linkers
from hugealign.settings import from_environ
from hugealign.units import format_size, parse_page_size, parse_size, printable
from tests.support import ROOT


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("4096", 4096), ("64K", 65536), ("2M", 2 << 20), ("2m", 2 << 20), ("2MiB", 2 << 20), ("1GB", 1 << 30)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text, "x") == size


@pytest.mark.parametrize("text", ["", "M", "-1", "1.5M", "2X", "0x10", "٣", "9" * 30, "2000G", "1 M"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(UsageError, match=r"^x: "):
        parse_size(text, "x")


@pytest.mark.parametrize("text", ["3M", "32K", "2G", "0"])
def test_no_page_sizes(text: str) -> None:
    with pytest.raises(UsageError):
        parse_page_size(text, "x")


def test_page_sizes() -> None:
    assert [parse_page_size(text, "x") for text in ("64K", "2M", "32M", "512M", "1G")] == [
        1 << n for n in (16, 21, 25, 29, 30)
    ]


@given(st.integers(0, 1 << 40))
def test_formatted_sizes_are_short_and_right_to_a_tenth(size: int) -> None:
    text = format_size(size)
    assert len(text) <= 10
    value, unit = text.split()
    scale = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]
    assert abs(float(value) * scale - size) <= scale * 0.0501


@given(st.text() | st.binary().map(lambda b: b.decode("utf-8", "surrogateescape")))
def test_printable_is_printable(text: str) -> None:
    assert printable(text).isprintable()


def test_printable_escapes() -> None:
    assert printable("a\x1b[1m\n\udcff\u202e") == "a\\x1b[1m\\n\\xff\\xe2\\x80\\xae"
    assert printable("plain ü") == "plain ü"


def test_settings() -> None:
    settings = from_environ({"HUGEALIGN_PAGE_SIZE": "32M", "HUGEALIGN_ONLY": "a::b*", "HUGEALIGN_MIN_TEXT": ""})
    assert (settings.page_size, settings.only, settings.min_text) == (32 << 20, ("a", "b*"), 256 << 10)
    for name in ("PAGE_SIZE", "MIN_TEXT", "PAD_THRESHOLD", "CHECK", "DEBUG"):
        with pytest.raises(UsageError, match=f"HUGEALIGN_{name}"):
            from_environ({f"HUGEALIGN_{name}": "nonsense"})


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("GNU ld (GNU Binutils for Debian) 2.40", "bfd"),
        ("GNU gold (GNU Binutils for Debian 2.40) 1.16", "gold"),
        ("Debian LLD 14.0.6 (compatible with GNU linkers)", "lld"),
        ("mold 1.10.1 (compatible with GNU ld)", "mold"),
        ("strange 1.0", "unknown"),
    ],
)
def test_linkers_by_version(version: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "ld").write_text("")
    linker = linkers.identify(str(tmp_path / "ld"), version)
    assert linker is not None
    assert linker.name == name


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("x86_64-linux-gnu-ld.bfd", "bfd"),
        ("lld", "lld"),
        ("ld.lld-19", "lld"),
        ("mold", "mold"),
        ("x86_64-linux-gnu-ld.gold", "gold"),
    ],
)
def test_linkers_by_the_name_behind_the_link(file: str, name: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text("")
    (tmp_path / "ld").symlink_to(file)
    linker = linkers.identify(str(tmp_path / "ld"))
    assert linker is not None
    assert linker.name == name


def test_an_unnamed_linker_has_to_be_asked(tmp_path: Path) -> None:
    (tmp_path / "ld").write_text("")
    assert linkers.identify(str(tmp_path / "ld")) is None


def test_order_of_arguments() -> None:
    words = linkers.Bfd("bfd").arguments(["-T", "user.ld", "x.o", "-z", "now"], 2 << 20, "/pad.o", "/ours.ld")
    assert words[:2] == ["-T", "/ours.ld"]
    assert words[2:7] == ["-T", "user.ld", "x.o", "-z", "now"]
    assert words[7:] == ["/pad.o", "-z", "max-page-size=0x200000", "-z", "separate-code"]


@pytest.mark.parametrize("machine", [EM_X86_64, EM_AARCH64])
def test_pad_object_in_the_eyes_of_pyelftools(machine: int, tmp_path: Path) -> None:
    path = tmp_path / "pad.o"
    path.write_bytes(pad_object(machine, "~hugealign.pad", 4096))
    with path.open("rb") as stream:
        elf = ELFFile(stream)
        section = elf.get_section_by_name("~hugealign.pad")
        assert section["sh_flags"] == 6
        assert section.data_size == 4096
        assert set(section.data()) == ({0xCC} if machine == EM_X86_64 else {0})
        (symbol,) = elf.get_section_by_name(".symtab").get_symbol_by_name("__hugealign_pad")
        assert symbol["st_other"]["visibility"] == "STV_HIDDEN"
        assert elf.get_section_by_name(".note.GNU-stack")["sh_flags"] == 0


def test_pad_object_is_the_assembled_pad(tmp_path: Path) -> None:
    subprocess.run(["gcc", "-c", ROOT / "ld-scripts" / "pad.S", "-o", tmp_path / "theirs.o"], check=True)
    (tmp_path / "ours.o").write_bytes(pad_object(EM_X86_64, ".hugealign.pad"))
    found = []
    for name in ("theirs.o", "ours.o"):
        with (tmp_path / name).open("rb") as stream:
            elf = ELFFile(stream)
            sections = (elf.get_section_by_name(n) for n in (".hugealign.pad", ".note.gnu.property", ".note.GNU-stack"))
            (symbol,) = elf.get_section_by_name(".symtab").get_symbol_by_name("__hugealign_pad")
            fields = [(s["sh_type"], s["sh_flags"], s["sh_addralign"], s.data()) for s in sections]
            found.append((fields, symbol["st_info"], symbol["st_other"], symbol["st_size"]))
    assert found[0] == found[1]
