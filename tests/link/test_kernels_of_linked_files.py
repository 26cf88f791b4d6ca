"""What each system would do with really linked files: a table written by hand from the conditions of each source.

A cell is the number of windows, followed by ``*`` if that is all of the text; ``-`` means 0.
"""

import os
import shutil
from pathlib import Path

import pytest

from hugealign.elf.coverage import coverages
from hugealign.elf.image import read_file
from hugealign.verification.checking import check_fd
from hugealign.verification.kernels import NO, PARTIAL, YES, Eligibility, eligibility
from hugealign.verification.rules import Policy
from tests.support import HUGEALIGN, LLVM, PAGE, run

_LLD = f"-fuse-ld=lld -B{LLVM['lld19']}"
_MAX = "-Wl,-z,max-page-size=0x200000"
#: 1 MiB of read-only data, 5 MiB of text.
_TEXT = """.section .rodata
.fill 1 << 20, 1, 1
.text
.fill 5 << 20, 1, 0xc3
.section .note.GNU-stack,"",@progbits
"""
FILES = {
    "bfd": "gcc -fuse-ld=bfd",
    "gold": "gcc -fuse-ld=gold",
    "lld": f"gcc {_LLD}",
    "mold": "gcc -fuse-ld=mold",
    "bfd max": f"gcc -fuse-ld=bfd {_MAX}",
    "lld max": f"gcc {_LLD} {_MAX}",
    "hugealign": f"{HUGEALIGN} gcc",
    "bfd nopie": "gcc -fuse-ld=bfd -no-pie",
    "bfd so": "gcc -fuse-ld=bfd -shared",
    "gold so": "gcc -fuse-ld=gold -shared",
    "hugealign so": f"{HUGEALIGN} gcc -shared",
    "hugealign static-pie": f"{HUGEALIGN} gcc -static-pie",
}
SYSTEMS = ("linux", "linux-5.10", "glibc-thp")
#: One column for each of SYSTEMS.
EXPECTED = {
    # text in the middle of windows, in 4 KiB pages
    "bfd": "-   -   -",
    # all in one segment that begins at 0, so that glibc sees an aligned segment
    "gold": "-   -   -",
    # p_vaddr - p_offset is 0x1000: no kernel can do anything
    "lld": "-   -   -",
    "mold": "-   -   -",
    "bfd max": "2   2   2",
    "lld max": "2   2   -",
    "hugealign": "3*  3*  3*",
    # glibc asks only for what begins on a window
    "bfd nopie": "1   1   -",
    "bfd so": "-   -   -",
    "gold so": "-   -   3",
    "hugealign so": "3*  3*  3*",
    "hugealign static-pie": "3*  -   3*",
}


def cell(results: Eligibility) -> str:
    return {NO: "-", PARTIAL: str(results.windows), YES: f"{results.windows}*"}[results.answer]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kernels")
    (path / "text.s").write_text(_TEXT)
    (path / "main.c").write_text("int main(void) { return 0; }\n")
    run("gcc", "-fPIC", "-c", "main.c", "text.s", cwd=path, check=True)
    return path


@pytest.mark.parametrize("name", FILES)
def test_answers(name: str, directory: Path) -> None:
    words = FILES[name].split()
    tool = next((w.removeprefix("-fuse-ld=") for w in words if w.startswith("-fuse-ld=")), "bfd")
    if not shutil.which(f"{LLVM['lld19']}/ld.lld" if tool == "lld" else f"ld.{tool}"):
        pytest.skip(f"no {tool} here")
    inputs = ["text.o"] if "-shared" in words else ["main.o", "text.o"]
    run(*words, *inputs, "-o", "linked", cwd=directory, check=True)
    fd = os.open(directory / "linked", os.O_RDONLY)
    try:
        result = check_fd(fd, name, Policy()).kernels
    finally:
        os.close(fd)
    assert tuple(f.system.system for f in result) == SYSTEMS
    assert [cell(f) for f in result] == EXPECTED[name].split()


def test_file_without_text_has_no_answers(directory: Path) -> None:
    run("ld.bfd", "-r", "-b", "binary", "main.c", "-o", "data.o", cwd=directory, check=True)
    run("gcc", "-shared", "-nostdlib", "data.o", "-o", "data.so", "-Wl,-z,noseparate-code", cwd=directory, check=True)
    image = read_file(directory / "data.so")
    if not image.text_segments:
        assert eligibility(image, PAGE, "library", coverages(image, PAGE)) == ()


@pytest.mark.parametrize(
    ("words", "page", "answer", "runs"),
    [
        ((HUGEALIGN, "aarch64-linux-gnu-gcc"), "2M", YES, 3),
        ((HUGEALIGN, "aarch64-linux-gnu-gcc"), "32M", YES, 3),
        pytest.param((HUGEALIGN, "aarch64-linux-gnu-gcc"), "512M", YES, 3, marks=pytest.mark.matrix),
        (("aarch64-linux-gnu-gcc",), "", NO, 0),
        (("aarch64-linux-gnu-gcc", "-Wl,-z,max-page-size=4096"), "", NO, 0),
    ],
    ids=["2M", "32M", "512M", "plain", "4K"],
)
def test_runs_of_kernels_with_64k_pages(
    words: tuple[str, ...], page: str, answer: str, runs: int, directory: Path
) -> None:
    """What the kernel maps by contiguous entries: 2 MiB each, where code lies, however large the window of the link."""
    if not shutil.which("aarch64-linux-gnu-gcc"):
        pytest.skip("no aarch64 cross compiler")
    target = directory / f"aarch64-{page or len(words)}"
    run(*words, "main.c", "text.s", "-o", target, cwd=directory, check=True, HUGEALIGN_PAGE_SIZE=page)
    fd = os.open(target, os.O_RDONLY)
    try:
        report = check_fd(fd, "x", Policy())
    finally:
        os.close(fd)
    (result,) = (k for k in report.kernels if k.system.system == "linux-64k")
    assert (result.answer, result.windows) == (answer, runs)
