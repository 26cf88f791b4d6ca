"""References across the break of a separated file: none that `fix` misses, no harmless program that it refuses.

The programs are in tests/link/crossings; README.md there says how the tables are read.  Every program is linked by all
linkers, stripped and not, runs, is separated, and runs again; the referee accounts for every byte of the new file.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.link.bulk import bulk_object
from tests.link.crossings import CASES, PROGRAMS, Builder, Case, wrong
from tests.support import Elf, need_compiler, run

SAMPLE = [case for case in CASES if case.linker == case.program.key("sample")]
UNSEEN = {case.program.name: case.program for case in CASES if case.expected == "unseen"}


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    """Compiles each program once."""
    return Builder(tmp_path_factory.mktemp("programs"))


def test_sample(builder: Builder) -> None:
    """One linker for each kind of reference that a search has missed once, stripped and not."""
    cases = [case for case in SAMPLE if not case.missing()]
    assert {str(case): reason for case in cases if (reason := wrong(case, builder.outcome(case)))} == {}
    assert len({case.program.name for case in SAMPLE}) > 15


@pytest.mark.matrix
@pytest.mark.parametrize("case", CASES, ids=str)
def test_matrix(case: Case, builder: Builder, record_property: Any) -> None:
    if missing := case.missing():
        pytest.skip(f"{missing} is not installed")
    outcome = builder.outcome(case)
    record_property("outcome", str(outcome))
    assert wrong(case, outcome) == ""


@pytest.mark.matrix
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: str(program.name))
def test_default_level(program: Any, builder: Builder) -> None:
    """What `fix` does without --level changes nothing that the program does, unless a mark says so."""
    case = Case(program, program.linkers[0], stripped=False)
    if missing := case.missing():
        pytest.skip(f"{missing} is not installed")
    outcome = builder.outcome(case, level="")
    assert outcome.word in ("fixed", "refused") or case.expected == "unseen", outcome


@pytest.mark.matrix
@pytest.mark.parametrize("name", UNSEEN)
def test_unseen(name: str, builder: Builder) -> None:
    """A mark for what cannot be seen is deserved: with some linker the program does something else afterwards."""
    cases = [case for case in CASES if case.program.name == name and case.expected == "unseen" and not case.missing()]
    outcomes = {str(case): builder.outcome(case).word for case in cases}
    assert not cases or "differs" in outcomes.values(), f"no longer unseen: {outcomes}"


def test_note_of_the_hardware_address_sanitizer(tmp_path: Path) -> None:
    """What clang puts into a note for -fsanitize=hwaddress, distances to data, is as right after fix as before."""
    need_compiler("clang-19", "-fuse-ld=lld")
    need_compiler("aarch64-linux-gnu-gcc")
    (tmp_path / "globals.c").write_text("int g[10] = {1}; int h = 5; int get(int i) { return g[i] + h; }\n")
    options = ("--target=aarch64-linux-gnu", "-O1", "-fPIC", "-fsanitize=hwaddress")
    run("clang-19", *options, "-c", tmp_path / "globals.c", "-o", tmp_path / "globals.o", check=True)
    path, output = tmp_path / "lib.so", tmp_path / "fixed.so"
    bulk = bulk_object(tmp_path, compiler="aarch64-linux-gnu-gcc")
    words = ("clang-19", "--target=aarch64-linux-gnu", "-fuse-ld=lld", "-nostdlib", "-shared", "-Wl,--build-id")
    run(*words, tmp_path / "globals.o", bulk, "-o", path, check=True)
    assert named(path) == "hwasan_globals"
    done = run("hugealign", "fix", "--level=separate", path, "-o", output, HUGEALIGN_MIN_TEXT="0")
    assert done.returncode == 1 or named(output) == "hwasan_globals"


def named(path: Path) -> str | None:
    """Return the section to which the first distance in the note leads, counted from the note's beginning."""
    elf = Elf(path)
    note = elf.sections[".note.hwasan.globals"]
    at = note["sh_offset"] + 12 + 8  # behind the header and the owner, "LLVM"
    place = note["sh_addr"] + int.from_bytes(elf.data[at : at + 4], "little", signed=True)
    return next((name for name, s in elf.sections.items() if s["sh_addr"] == place and s["sh_size"]), None)
