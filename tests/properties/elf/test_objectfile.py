"""The pad object as an independent reader of ELF sees it."""

from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from hugealign.elf.image import EM_AARCH64, EM_X86_64
from hugealign.elf.objectfile import Pad, pad_object


@pytest.mark.parametrize("machine", [EM_X86_64, EM_AARCH64])
def test_pad_object_in_the_eyes_of_pyelftools(machine: int, tmp_path: Path) -> None:
    path = tmp_path / "pad.o"
    path.write_bytes(pad_object(Pad(machine, "~hugealign.pad", 4096)))
    with path.open("rb") as stream:
        elf = ELFFile(stream)
        section = elf.get_section_by_name("~hugealign.pad")
        assert section["sh_flags"] == 6
        assert section.data_size == 4096
        assert set(section.data()) == ({0xCC} if machine == EM_X86_64 else {0})
        (symbol,) = elf.get_section_by_name(".symtab").get_symbol_by_name("__hugealign_pad")
        assert symbol["st_other"]["visibility"] == "STV_HIDDEN"
        assert elf.get_section_by_name(".note.GNU-stack")["sh_flags"] == 0
