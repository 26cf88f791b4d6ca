"""The pad object as an independent reader of ELF sees it."""

from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.enums import ENUM_E_MACHINE

from hugealign.elf.machines import MACHINES, Machine
from hugealign.elf.objectfile import Pad, pad_object


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda machine: machine.name)
def test_pad_object_in_the_eyes_of_pyelftools(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "pad.o"
    path.write_bytes(pad_object(Pad(machine, "~hugealign.pad", 4096, flags=5)))
    with path.open("rb") as stream:
        elf = ELFFile(stream)
        assert (elf.elfclass, elf.little_endian, elf["e_flags"]) == (64, not machine.big, 5)
        assert ENUM_E_MACHINE[elf["e_machine"]] == machine.number
        section = elf.get_section_by_name("~hugealign.pad")
        assert section["sh_flags"] == 6
        assert section.data_size == 4096
        assert set(section.data()) == set(machine.trap)
        (symbol,) = elf.get_section_by_name(".symtab").get_symbol_by_name("__hugealign_pad")
        assert symbol["st_other"]["visibility"] == "STV_HIDDEN"
        assert elf.get_section_by_name(".note.GNU-stack")["sh_flags"] == 0
