"""Which linker it is, and the arguments that it gets."""

from pathlib import Path

import pytest

from hugealign.elf.machines import MACHINES
from hugealign.link import linkers
from tests.support import ROOT


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("GNU ld (GNU Binutils for Debian) 2.40", "bfd"),
        ("GNU gold (GNU Binutils for Debian 2.40) 1.16", "gold"),
        ("Debian LLD 14.0.6 (compatible with GNU linkers)", "lld"),
        ("mold 1.10.1 (compatible with GNU ld)", "mold"),
        ("Wild 0.10.0 non-git-build (compatible with GNU linkers)", "wild"),
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
        ("wild", "wild"),
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


def test_each_linker_links_for_a_processor() -> None:
    assert set(linkers.KINDS) <= {name for machine in MACHINES.values() for name in machine.linkers}


@pytest.mark.parametrize("page", ["hugealign/diagnosis/explain/HA031.txt", "docs/reference/processors.md", "README.md"])
def test_pages_name_each_processor(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert not [machine.name for machine in MACHINES.values() if machine.name.replace("_", "-") not in text]
