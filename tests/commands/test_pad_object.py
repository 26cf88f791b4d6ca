"""The pad object that Python writes, against the same from an assembler."""

import subprocess
from pathlib import Path

from elftools.elf.elffile import ELFFile

from hugealign.elf.machines import X86_64
from hugealign.elf.objectfile import Pad, pad_object
from tests.support import ROOT


def test_pad_object_is_the_assembled_pad(tmp_path: Path) -> None:
    subprocess.run(["gcc", "-c", ROOT / "ld-scripts" / "pad.S", "-o", tmp_path / "theirs.o"], check=True)
    (tmp_path / "ours.o").write_bytes(pad_object(Pad(X86_64, ".hugealign.pad")))
    result = []
    for name in ("theirs.o", "ours.o"):
        with (tmp_path / name).open("rb") as stream:
            elf = ELFFile(stream)
            sections = (elf.get_section_by_name(n) for n in (".hugealign.pad", ".note.gnu.property", ".note.GNU-stack"))
            (symbol,) = elf.get_section_by_name(".symtab").get_symbol_by_name("__hugealign_pad")
            fields = [(s["sh_type"], s["sh_flags"], s["sh_addralign"], s.data()) for s in sections]
            result.append((fields, symbol["st_info"], symbol["st_other"], symbol["st_size"]))
    assert result[0] == result[1]
