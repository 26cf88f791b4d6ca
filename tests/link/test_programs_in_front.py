"""Programs in front of the compiler, linkers by their path, and the questions of configure scripts."""

import shutil
from pathlib import Path

import pytest

from tests.link.bulk import MAIN
from tests.support import BIN, HUGEALIGN, LLVM, Elf, need, run

FRONTS = [
    "env A=1",
    "nice -n 5",
    "timeout 60",
    "timeout -k 5 60",
    "setarch -R",
    "setarch x86_64 -R",
    "stdbuf -o0",
    "/usr/bin/time -o times",
    "chrt -o 0",
    "taskset -c 0",
    "taskset 3 nice",
    "ionice -c 3",
    "strace -f -o calls",
    "fakeroot",
    "./front -x c -o gcc -c",
]


LINKERS = [f"{LLVM['lld19']}/ld.lld", "/usr/bin/ld.bfd", "/usr/bin/ld.gold", "/usr/bin/ld.mold", "./own"]


@pytest.fixture
def work(tmp_path: Path, bulk: Path) -> Path:
    (tmp_path / "main.c").write_text(MAIN)
    (tmp_path / "front").write_text('#!/bin/sh\nshift 5\nexec "$@"\n')
    (tmp_path / "front").chmod(0o755)
    (tmp_path / "bulk.o").symlink_to(bulk)
    return tmp_path


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_whatever_runs_the_compiler(front: str, compiler: str, work: Path) -> None:
    """Options of the program in front are its own: the -c of taskset compiles nothing."""
    words = front.split()
    for tool in (words[0], compiler):
        if not shutil.which(tool) and not (work / tool).exists():
            pytest.skip(f"{tool} is not installed")
    link = (*words, compiler, "main.c", "bulk.o", "-o")
    plain = run(*link, "plain", cwd=work)
    if plain.returncode:
        pytest.skip(f"not without hugealign either: {plain.stderr.splitlines()[0]:.100}")
    done = run(HUGEALIGN, *link, "out", cwd=work)
    assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, plain.stderr)
    assert Elf(work / "out").faults() == []
    assert run(HUGEALIGN, *words, compiler, "-c", "main.c", "-o", "one.o", cwd=work).stderr == ""
    run(compiler, "-c", "main.c", "-o", "two.o", cwd=work, check=True)
    assert (work / "one.o").read_bytes() == (work / "two.o").read_bytes()


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ("make", "make: not a compiler; did you mean: hugealign build -- make ..."),
        ("sh", "sh: not a compiler; did you mean: hugealign build -- sh ..."),
        ("sudo", "sudo: it may empty the environment; put hugealign behind it: sudo hugealign gcc ..."),
    ],
)
def test_what_cannot_be_followed_is_said(first: str, message: str) -> None:
    done = run(HUGEALIGN, first, "gcc")
    assert (done.returncode, done.stdout, done.stderr) == (125, "", f"hugealign: error: {message}\n")


@pytest.mark.parametrize("option", ["--ld-path={}", "-fuse-ld={}"])
@pytest.mark.parametrize(
    "linker", [f"{LLVM['lld19']}/ld.lld", "/usr/bin/ld.bfd", "/usr/bin/ld.gold", "/usr/bin/ld.mold", "./own"]
)
@pytest.mark.parametrize("clang", ["clang-14", "clang-19", "ccache clang-19"])
def test_a_linker_by_its_path(clang: str, linker: str, option: str, work: Path) -> None:
    (work / "own").symlink_to("/usr/bin/ld.bfd")
    for tool in (*clang.split(), linker):
        if not shutil.which(tool) and not (work / tool).exists():
            pytest.skip(f"{tool} is not installed")
    words = (*clang.split(), "main.c", "bulk.o", option.format(linker), "-o")
    plain = run(*words, "plain", cwd=work, CCACHE_DIR=str(work / "cache"))
    if plain.returncode:
        pytest.skip(f"not without hugealign either: {plain.stderr.splitlines()[0]:.100}")
    done = run(HUGEALIGN, *words, "out", cwd=work, CCACHE_DIR=str(work / "cache"))
    assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, plain.stderr)
    assert Elf(work / "out").faults(exact="gold" not in linker) == []
    assert Elf(work / "out").guards() == Elf(work / "plain").guards()
    assert run("./out", cwd=work).returncode == 0


@pytest.mark.parametrize("option", ["--ld-path=/nowhere", "-fuse-ld=/nowhere", "--ld-path=/", "--ld-path=ld.lld"])
def test_no_linker_at_the_path(option: str, work: Path) -> None:
    words = ("clang-19", "main.c", "bulk.o", option, "-o", "out")
    plain, done = run(*words, cwd=work), run(HUGEALIGN, *words, cwd=work)
    assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr)


@pytest.mark.parametrize("compiler", ["gcc", "g++", "cc", "c++", "clang", "clang++"])
def test_a_quoted_cc(compiler: str, work: Path) -> None:
    """CPython's configure asks `"$CC" -v --help` for -fwrapv: with CC="hugealign gcc", one word with a space in it."""
    need(compiler)
    quoted = f"hugealign {compiler}"
    assert shutil.which(quoted, path=BIN)
    plain, done = run(compiler, "-v", "--help"), run("sh", "-c", '"$1" -v --help', "sh", quoted)
    assert "-fwrapv" in done.stdout
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    run("sh", "-c", '"$1" -x c main.c -x none bulk.o -o out', "sh", quoted, cwd=work, check=True)
    assert Elf(work / "out").faults() == []
