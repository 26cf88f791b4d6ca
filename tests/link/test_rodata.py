"""HUGEALIGN_SEGMENTS=text,rodata: read-only data end on a window too, and nothing else changes.

The layout is judged by pyelftools, not by hugealign's own reader.
"""

from pathlib import Path

import pytest

from tests.link.test_layout import CANNOT, MODES
from tests.support import HUGEALIGN, PAGE, SRC, Elf, Toolchain, run

BOTH = "text,rodata"
GOLD = "read-only data are as without hugealign: gold cannot part them from text; use -fuse-ld=bfd, lld or mold"


@pytest.fixture(scope="session")
def constants(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("constants") / "constants.o"
    run("gcc", "-O1", "-fPIC", "-c", SRC / "constants.c", "-o", target, check=True)
    return target


def rodata(elf: Elf) -> list[dict[str, int]]:
    return [s for s in elf.loads if s["p_flags"] == 4]


def with_constants(elf: Elf) -> dict[str, int]:
    """The segment that .rodata lies in."""
    at = elf.sections[".rodata"]["sh_addr"]
    return next(s for s in elf.loads if s["p_vaddr"] <= at < s["p_vaddr"] + s["p_memsz"])


def assert_whole_constants(elf: Elf) -> None:
    segment = with_constants(elf)
    end = segment["p_vaddr"] + segment["p_memsz"]
    assert segment["p_flags"] == 4
    assert segment["p_memsz"] == segment["p_filesz"]
    assert end % PAGE == 0
    assert (segment["p_vaddr"] - segment["p_offset"]) % PAGE == 0
    assert elf.size >= segment["p_offset"] + segment["p_filesz"]
    assert not [s for s in elf.loads if s is not segment and s["p_vaddr"] < end and s["p_vaddr"] >= segment["p_vaddr"]]
    pad = next(s for name, s in elf.sections.items() if "hugealign.rodata" in name)
    assert pad["sh_addr"] + pad["sh_size"] == end
    assert not any(elf.data[pad["sh_offset"] : pad["sh_offset"] + pad["sh_size"]])


def linked(toolchain: Toolchain, target: Path, *words: str | Path, segments: str = BOTH) -> str:
    """Link with hugealign and return what it says."""
    done = run(HUGEALIGN, toolchain.cc, *toolchain.flags, *words, "-o", target, check=True, HUGEALIGN_SEGMENTS=segments)
    assert done.stdout == ""
    return done.stderr


@pytest.mark.parametrize(
    "mode", ["pie", *(pytest.param(mode, marks=pytest.mark.matrix) for mode in MODES if mode != "pie")]
)
def test_constants_of_a_program(mode: str, toolchain: Toolchain, constants: Path, bulk: Path, tmp_path: Path) -> None:
    if reason := CANNOT.get((toolchain.linker, mode)):
        pytest.skip(reason)
    words = (*MODES[mode], constants, bulk, "-Wl,--gc-sections")
    program, text_only = tmp_path / "program", tmp_path / "text"
    said = linked(toolchain, program, *words)
    assert linked(toolchain, text_only, *words, segments="") == ""
    elf, without = Elf(program), Elf(text_only)
    assert run(program).returncode == 0
    if toolchain.linker == "gold":
        assert said == f"hugealign: warning: {program}: {GOLD}\n"
        assert program.read_bytes() == text_only.read_bytes()
        return
    assert said == ""
    assert elf.faults() == []
    assert_whole_constants(elf)
    assert elf.lacks(without) == []
    # At most one window of addresses, and no disk but the note and the pad's own page.
    ends = [max(s["p_vaddr"] + s["p_memsz"] for s in e.loads) for e in (elf, without)]
    assert ends[0] - ends[1] <= PAGE
    assert (program.stat().st_blocks - text_only.stat().st_blocks) * 512 <= 64 << 10
    run("strip", program, "-o", tmp_path / "stripped", check=True)
    assert run(tmp_path / "stripped").returncode == 0
    assert_whole_constants(Elf(tmp_path / "stripped"))


@pytest.mark.matrix
def test_constants_of_a_library(toolchain: Toolchain, constants: Path, bulk: Path, tmp_path: Path) -> None:
    said = linked(toolchain, tmp_path / "library.so", "-shared", constants, bulk)
    assert said == ("" if toolchain.linker != "gold" else f"hugealign: warning: {tmp_path / 'library.so'}: {GOLD}\n")
    if toolchain.linker != "gold":
        assert_whole_constants(Elf(tmp_path / "library.so"))
        assert "hugealign" not in run("nm", "-D", tmp_path / "library.so", check=True).stdout


def test_default_is_byte_for_byte_what_it_was(
    toolchain: Toolchain, constants: Path, bulk: Path, tmp_path: Path
) -> None:
    """Nothing of it is in a link that asks for text, in a word or by saying nothing."""
    for name, segments in (("none", ""), ("word", "text")):
        assert linked(toolchain, tmp_path / name, constants, bulk, segments=segments) == ""
    assert (tmp_path / "none").read_bytes() == (tmp_path / "word").read_bytes()
    elf = Elf(tmp_path / "none")
    if toolchain.linker != "wild":  # its text begins on a window only if what is before it ends on one
        assert not [name for name in elf.sections if "rodata" in name and "hugealign" in name]
    assert ".note.hugealign" not in elf.sections


def test_note_asks_for_it(constants: Path, bulk: Path, tmp_path: Path) -> None:
    toolchain = Toolchain("gcc-bfd", "gcc", ("-fuse-ld=bfd",))
    linked(toolchain, tmp_path / "both", constants, bulk)
    assert " of 4 windows huge" in run(HUGEALIGN, "warm", "--check", tmp_path / "both").stdout


def test_unknown_segments_are_refused(constants: Path, tmp_path: Path) -> None:
    for words in ("rodata", "text,", "text,rodata,x", "TEXT", "text,rodata "):
        done = run(HUGEALIGN, "gcc", constants, "-o", tmp_path / "x", HUGEALIGN_SEGMENTS=words)
        assert (done.returncode, done.stderr) == (
            125,
            "hugealign: error: HUGEALIGN_SEGMENTS: not one of text or text,rodata or text,data or text,rodata,data\n",
        )


@pytest.mark.parametrize("linker", ["gcc-bfd", "gcc-lld14", "gcc-lld19", "gcc-mold"])
def test_without_eh_frame(linker: str, toolchains: dict[str, Toolchain], tmp_path: Path) -> None:
    """What the scripts insert after is a place also where there is nothing."""
    toolchains[linker].needed()
    source = tmp_path / "bare.s"
    source.write_text(
        ".globl _start\n.text\n_start: mov $60,%eax\nxor %edi,%edi\nsyscall\n.fill 3000000,1,0xcc\n.section .rodata\n"
        '.fill 300000,1,1\n.section .note.GNU-stack,"",@progbits\n'
    )
    words = ("-nostdlib", "-static", source)
    assert linked(toolchains[linker], tmp_path / "bare", *words) == ""
    assert run(tmp_path / "bare").returncode == 0
    assert Elf(tmp_path / "bare").faults() == []
    assert_whole_constants(Elf(tmp_path / "bare"))


def test_linker_that_refuses(constants: Path, bulk: Path, tmp_path: Path) -> None:
    """The text is whole all the same, and a line says what is not."""
    directory = tmp_path / "refusing"
    directory.mkdir()
    linker = directory / "ld.bfd"
    linker.write_text('#!/bin/sh\ncase "$*" in *-rodata.ld*) echo no >&2; exit 3 ;; esac\nexec /usr/bin/ld.bfd "$@"\n')
    linker.chmod(0o755)
    toolchain = Toolchain("gcc-bfd", "gcc", ("-fuse-ld=bfd", f"-B{directory}"))
    said = linked(toolchain, tmp_path / "p", constants, bulk)
    what = "read-only data are as without hugealign, because with it the linker said: no"
    assert said == f"hugealign: warning: {tmp_path / 'p'}: {what}\n"
    assert Elf(tmp_path / "p").faults() == []
    assert run(tmp_path / "p").returncode == 0


def test_section_of_that_name_with_something_in_it(constants: Path, bulk: Path, tmp_path: Path) -> None:
    """Its bytes stay: a hole is only dug where there are zeros."""
    source = tmp_path / "mine.s"
    source.write_text(
        '.section .hugealign.rodata,"a",@progbits\n.globl mine\nmine: .fill 20000,1,7\n'
        '.section .note.GNU-stack,"",@progbits\n'
    )
    toolchain = Toolchain("gcc-bfd", "gcc", ("-fuse-ld=bfd",))
    linked(toolchain, tmp_path / "p", constants, bulk, source, "-Wl,-u,mine")
    assert b"\7" * 20000 in (tmp_path / "p").read_bytes()
    assert run(tmp_path / "p").returncode == 0


def test_with_an_order(bulk: Path, tmp_path: Path) -> None:
    """Both have a note; there is one, and it says both."""
    (tmp_path / "p.order").write_text("# hugealign.order/1\n# windows: 1\nmain\n")
    toolchain = Toolchain("gcc-bfd", "gcc", ("-fuse-ld=bfd",))
    words = (f"--profile={tmp_path / 'p.order'}", toolchain.cc, *toolchain.flags, SRC / "constants.c", bulk)
    done = run(HUGEALIGN, *words, "-o", tmp_path / "p", check=True, HUGEALIGN_SEGMENTS=BOTH)
    assert done.stderr == ""
    assert_whole_constants(Elf(tmp_path / "p"))
    note = next(line for line in run("readelf", "-nW", tmp_path / "p").stdout.splitlines() if "hugealign" in line)
    assert note
    said = run(HUGEALIGN, "warm", "--check", tmp_path / "p").stdout
    assert "its build asks for 1 window" in said
    assert "read-only data: " in said


@pytest.mark.parametrize("segments", ["text,data", pytest.param("text,rodata,data", marks=pytest.mark.matrix)])
def test_zero_data(segments: str, toolchain: Toolchain, bulk: Path, tmp_path: Path) -> None:
    """.bss is whole windows in memory, and the file is not longer for it; wild says that it cannot."""
    source = tmp_path / "zeros.c"
    source.write_text(
        "unsigned big_sum(void);\nstatic char zeros[5 << 20];\nstatic int data[99] = {1};\n"
        "int main(int argc, char **argv) {\n"
        "  (void)argv;\n  for (long i = 0; i < (long)sizeof zeros; i += 4096) zeros[i] = (char)argc;\n"
        "  return zeros[4096 * argc] != argc || data[0] != argc || big_sum() != 3000u * 2999u / 2u;\n}\n"
    )
    words = ("-O1", source, bulk, "-Wl,--gc-sections")
    said = linked(toolchain, tmp_path / "zeros", *words, segments=segments)
    assert linked(toolchain, tmp_path / "without", *words, segments=segments.replace(",data", "")) in (
        "",
        said.replace("/zeros:", "/without:"),
    )
    assert run(tmp_path / "zeros").returncode == 0
    elf, without = Elf(tmp_path / "zeros"), Elf(tmp_path / "without")
    assert elf.lacks(without) == []
    assert elf.size - without.size <= 4096
    bss = elf.sections[".bss"]
    if toolchain.linker == "wild":
        assert "data are as without hugealign: wild takes no alignment of a window" in said
        return
    gold = f"hugealign: warning: {tmp_path / 'zeros'}: {GOLD}\n"
    assert said == (gold if toolchain.linker == "gold" and "rodata" in segments else "")
    assert elf.faults(exact=toolchain.linker != "gold") == []
    assert bss["sh_addr"] % PAGE == 0
    last = max(elf.loads, key=lambda s: s["p_vaddr"])
    assert (last["p_vaddr"] + last["p_memsz"]) % PAGE == 0
    assert last["p_memsz"] - (bss["sh_addr"] - last["p_vaddr"]) == 3 * PAGE
    run("strip", tmp_path / "zeros", "-o", tmp_path / "stripped", check=True)
    assert run(tmp_path / "stripped").returncode == 0
