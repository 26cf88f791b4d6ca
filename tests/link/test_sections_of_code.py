"""Code that compilers split and sort into sections of its own: hot, cold, startup, one per function or basic block."""

from pathlib import Path

import pytest

from tests.link import test_situations
from tests.link.test_situations import as_plain
from tests.support import SRC, Elf, Toolchain, need, run

work = test_situations.work

CLANG = ("clang19-lld19", "clang19-bfd", "clang19-mold")


def chosen(toolchains: dict[str, Toolchain], name: str) -> Toolchain:
    return toolchains[name].needed()


def input_sections(path: Path) -> set[str]:
    return {name for name in Elf(path).sections if name.startswith(".text")}


def profile(toolchain: Toolchain, work: Path, *words: str) -> Path:
    """Run parts.c instrumented by clang, and return the profile."""
    tool = f"/usr/lib/llvm-{toolchain.cc.rpartition('-')[2]}/bin/llvm-profdata"
    need(tool)
    run(toolchain.cc, "-O2", "-fprofile-generate", SRC / "parts.c", *words, "-o", "instrumented", cwd=work, check=True)
    run(work / "instrumented", cwd=work, check=True, LLVM_PROFILE_FILE=str(work / "raw.profraw"))
    run(tool, "merge", "raw.profraw", "-o", "profile", cwd=work, check=True)
    return work / "profile"


@pytest.mark.parametrize("name", CLANG)
def test_split_machine_functions(name: str, toolchains: dict[str, Toolchain], work: Path, bulk: Path) -> None:
    toolchain = chosen(toolchains, name)
    data = profile(toolchain, work)
    words = ("-O2", "-fPIE", f"-fprofile-use={data}", "-fsplit-machine-functions", "-c", SRC / "parts.c")
    run(toolchain.cc, *words, "-o", "parts.o", cwd=work, check=True)
    assert any(section.startswith(".text.split") for section in input_sections(work / "parts.o"))
    as_plain(toolchain, work, "parts.o", bulk)


@pytest.mark.parametrize("name", CLANG)
def test_basic_block_sections(name: str, toolchains: dict[str, Toolchain], work: Path, bulk: Path) -> None:
    toolchain = chosen(toolchains, name)
    words = ("-O2", "-fPIE", "-fbasic-block-sections=all", "-funique-basic-block-section-names", "-c", SRC / "parts.c")
    run(toolchain.cc, *words, "-o", "parts.o", cwd=work, check=True)
    assert len(input_sections(work / "parts.o")) > 10
    as_plain(toolchain, work, "parts.o", bulk)


def test_profile_of_gcc(toolchain: Toolchain, work: Path, bulk: Path) -> None:
    """-fprofile-use makes .text.hot, .text.unlikely and .text.startup of one source."""
    if not toolchain.name.startswith("gcc"):
        pytest.skip("gcc's sections need gcc")
    compiling = ("gcc", "-O2", "-fPIE", "-c", SRC / "parts.c", "-o", "parts.o")
    run(*compiling, "-fprofile-generate", cwd=work, check=True)
    run("gcc", "-fprofile-generate", "parts.o", "-o", "parts", cwd=work, check=True)
    run(work / "parts", cwd=work, check=True)
    run(*compiling, "-fprofile-use", "-freorder-functions", cwd=work, check=True)
    assert {".text.hot", ".text.unlikely", ".text.startup"} <= input_sections(work / "parts.o")
    as_plain(toolchain, work, "parts.o", bulk)


@pytest.mark.parametrize("words", ["-Wl,--gc-sections", "-Wl,--gc-sections,--icf=all", "-Wl,--gc-sections,--icf=safe"])
def test_collected_and_folded(words: str, toolchain: Toolchain, work: Path, bulk: Path) -> None:
    """One section per function, of which some go and some become one."""
    compiling = (toolchain.cc, "-O1", "-fPIE", "-ffunction-sections", "-fdata-sections", "-c", SRC / "parts.c")
    run(*compiling, cwd=work, check=True)
    as_plain(toolchain, work, words, "parts.o", bulk)
    folded = []
    for name in ("plain", "out"):
        symbols = {
            line.split()[2]: line.split()[0] for line in run("nm", work / name).stdout.splitlines() if line[0] != " "
        }
        assert "unused" not in symbols
        # mold drops the name of what it has folded into the other.
        folded.append(len({symbols[same] for same in ("same_one", "same_two") if same in symbols}) == 1)
    assert folded[1] == folded[0]
    if "safe" not in words:  # which may fold or not
        assert folded[0] == ("icf=all" in words)
