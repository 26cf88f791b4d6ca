"""hugealign together with other tools that stand in front of a compiler, and with other ways to choose a linker.

Every test links a program of 2.9 MiB of text, sees the layout, runs it, and sees that hugealign prints nothing.
"""

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.build.projects import Settings, laid_out, program, quiet, shims, write
from tests.link.bulk import MAIN
from tests.support import Elf, environment, need, run

MOLD_DIRECTORY = Path("/usr/libexec/mold")


@pytest.fixture
def work(bulk: Path, tmp_path: Path) -> Path:
    """A directory with ``main.c`` and ``bulk.o``."""
    (tmp_path / "bulk.o").symlink_to(bulk)
    return write(tmp_path, {"main.c": MAIN})


def link(words: str, directory: Path, exact: bool = True, **settings: Any) -> None:
    """Compile and link with the compiler *words*, in two steps and in one, and look at the program each time."""
    quiet(*shlex.split(words), "-c", "main.c", "-o", "main.o", cwd=directory, **settings)
    for source in ("main.o", "main.c"):
        quiet(*shlex.split(words), source, "bulk.o", "-o", "program", cwd=directory, **settings)
        laid_out(directory / "program", exact)
        (directory / "program").unlink()


# Servers


def free_port() -> int:
    """A TCP port on the loopback that no process listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def answers(port: int) -> bool:
    """Does a process listen on *port* of the loopback?"""
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def until(true: Callable[[], bool], otherwise: str) -> None:
    """Wait until *true()*."""
    end = time.monotonic() + 200  # before the timeout, to say what was not there
    while not true():
        assert time.monotonic() < end, otherwise
        time.sleep(0.02)


@contextlib.contextmanager
def server(words: str, port: int, log: Path = Path(os.devnull), **settings: Any) -> Iterator[None]:
    """Run a server on *port* of the loopback."""
    with log.open("wb") as stream:
        env = environment() | settings
        process = subprocess.Popen(words.split(), stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, env=env)
    try:
        until(lambda: process.poll() is not None or answers(port), f"{words}: no answer")
        assert process.poll() is None, f"{words}: status {process.returncode}"
        yield
    finally:
        process.terminate()
        process.wait()


# Compiler caches


@pytest.fixture
def ccache(tmp_path: Path) -> Settings:
    """The settings of a fresh ccache."""
    need("ccache")
    return {"CCACHE_DIR": str(tmp_path / "cache"), "CCACHE_CONFIGPATH": "/dev/null"}


def ccache_counts(settings: Settings) -> tuple[int, int]:
    """Hits and misses so far."""
    lines = run("ccache", "--print-stats", check=True, **{k: v for k, v in settings.items() if k != "CCACHE_PREFIX"})
    counts = dict(line.split("\t") for line in lines.stdout.splitlines())
    hits = int(counts["direct_cache_hit"]) + int(counts["preprocessed_cache_hit"])
    return hits, int(counts["cache_miss"])


@pytest.mark.parametrize(
    "words", ["hugealign ccache gcc", "ccache hugealign gcc", "ccache hugealign-gcc", "hugealign build ccache gcc"]
)
def test_ccache(words: str, work: Path, ccache: Settings) -> None:
    link(words, work, **ccache)
    link(words, work, **ccache)
    assert ccache_counts(ccache) == (1, 1)


def test_ccache_prefix(work: Path, ccache: Settings) -> None:
    ccache["CCACHE_PREFIX"] = "hugealign"
    link("ccache gcc", work, **ccache)
    link("ccache gcc", work, **ccache)
    assert ccache_counts(ccache) == (1, 1)


def test_ccache_as_the_compiler_on_path(work: Path, ccache: Settings) -> None:
    """Debian's /usr/lib/ccache/gcc."""
    if not Path("/usr/lib/ccache/gcc").exists():
        pytest.skip("/usr/lib/ccache/gcc is not installed")
    ccache["PATH"] = f"/usr/lib/ccache:{environment()['PATH']}"
    link("hugealign gcc", work, **ccache)
    quiet("gcc", "-c", "main.c", "-o", "main.o", cwd=work, **ccache)
    assert ccache_counts(ccache) == (1, 1)


@pytest.mark.parametrize("words", ["hugealign ccache gcc", "ccache gcc"])
def test_ccache_hits_are_shared_with_the_plain_compiler(words: str, work: Path, ccache: Settings) -> None:
    """What was compiled without hugealign is a hit with it, and the other way round."""
    settings = ccache | ({} if words.startswith("hugealign") else {"CCACHE_PREFIX": "hugealign"})
    for first, second in ((ccache, settings), (settings, ccache)):
        shutil.rmtree(ccache["CCACHE_DIR"], ignore_errors=True)
        for variables in (first, second):
            compiler = words if variables is settings else "ccache gcc"
            quiet(*compiler.split(), "-O2", "-c", "main.c", "-o", "main.o", cwd=work, **variables)
        assert ccache_counts(ccache) == (1, 1)


@pytest.mark.parametrize(("words", "check"), [("hugealign ccache gcc", ""), ("ccache hugealign-gcc", "--version")])
def test_ccache_sees_a_new_compiler(words: str, check: str, work: Path, ccache: Settings) -> None:
    """As docs/guides/build-systems.md says."""
    compiler = work / "path" / "gcc"
    compiler.parent.mkdir()
    ccache["PATH"] = f"{compiler.parent}:{environment()['PATH']}"
    if check:
        ccache["CCACHE_COMPILERCHECK"] = f"%compiler% {check}"
    for version in ("1", "22"):
        answer = f'[ "$1" != --version ] || exec echo {version}\n'
        compiler.write_text(f'#!/bin/sh\n{answer}exec {shutil.which("gcc")} -Dmain=main{version} "$@"\n')
        compiler.chmod(0o755)
        quiet(*words.split(), "-c", "main.c", "-o", "main.o", cwd=work, **ccache)
        assert f" main{version}\n" in run("nm", work / "main.o", check=True).stdout


@pytest.fixture
def sccache(tmp_path: Path) -> Iterator[Settings]:
    """The settings of a fresh sccache, whose server runs meanwhile: as our child, since as a daemon it may hang."""
    need("sccache")
    port = free_port()
    settings: Settings = {
        "SCCACHE_DIR": str(tmp_path / "cache"),
        "SCCACHE_CONF": str(tmp_path / "none"),
        "SCCACHE_SERVER_PORT": str(port),
    }
    with server("sccache", port, **settings, SCCACHE_START_SERVER="1", SCCACHE_NO_DAEMON="1"):
        yield settings


@pytest.mark.parametrize(
    "words", ["hugealign sccache gcc", "sccache hugealign-gcc", "sccache hugealign gcc", "hugealign build sccache gcc"]
)
def test_sccache(words: str, work: Path, sccache: Settings) -> None:
    """All link; sccache takes the two words for a compiler and a source, which it never caches."""
    link(words, work, **sccache)
    link(words, work, **sccache)
    lines = run("sccache", "--show-stats", check=True, **sccache).stdout.splitlines()
    counts = {line[:30].strip(): line[30:].strip() for line in lines}
    assert counts["Cache hits"] == ("0" if words == "sccache hugealign gcc" else "1")


def test_sccache_hits_are_shared_with_the_plain_compiler(work: Path, sccache: Settings) -> None:
    for words in ("sccache gcc", "hugealign sccache gcc"):
        quiet(*words.split(), "-c", "main.c", "-o", "main.o", cwd=work, **sccache)
    assert "Cache hits                            1" in run("sccache", "--show-stats", check=True, **sccache).stdout


# Compiling elsewhere


@pytest.fixture
def distcc(tmp_path: Path) -> Iterator[Settings]:
    """The settings of a distcc whose only host is a daemon of ours on the loopback; no falling back to this side."""
    need("distcc", "distccd")
    port = free_port()
    (tmp_path / "distcc").mkdir()
    words = f"distccd --no-detach --daemon --listen 127.0.0.1 --allow 127.0.0.1 --port {port} --jobs 1 --log-stderr"
    with server(words, port, tmp_path / "log"):
        yield {
            "DISTCC_HOSTS": f"127.0.0.1:{port}",
            "DISTCC_DIR": str(tmp_path / "distcc"),
            "DISTCC_FALLBACK": "0",
            "DISTCC_BACKOFF_PERIOD": "0",
        }


@pytest.mark.parametrize("words", ["hugealign distcc gcc", "hugealign build distcc gcc", "hugealign ccache gcc"])
def test_distcc(words: str, work: Path, distcc: Settings) -> None:
    if "ccache" in words:
        need("ccache")
        distcc |= {"CCACHE_DIR": str(work / "cache"), "CCACHE_CONFIGPATH": "/dev/null", "CCACHE_PREFIX": "distcc"}
    quiet(*words.split(), "-c", "main.c", "-o", "main.o", cwd=work, **distcc)
    until(lambda: "COMPILE_OK" in (work / "log").read_text(), "distccd compiled nothing")
    quiet(*words.split(), "main.o", "bulk.o", "-o", "program", cwd=work, **distcc)
    laid_out(work / "program")


# libtool


def test_libtool_script(tmp_path: Path) -> None:
    """Debian's libtool script links libraries with the gcc it was made for, whatever follows: `build` reaches that."""
    need("libtool")
    program(tmp_path)
    tool = ["hugealign", "build", "libtool", "--silent", "--tag=CC"]
    quiet(*tool, "--mode=compile", "gcc", "-c", "bulk.s", cwd=tmp_path)
    quiet(*tool, "--mode=compile", "gcc", "-c", "main.c", cwd=tmp_path)
    to_link = [*tool, "--mode=link", "gcc"]
    quiet(*to_link, "-rpath", "/usr/local/lib", "bulk.lo", "-o", "libbulk.la", cwd=tmp_path)
    laid_out(tmp_path / ".libs" / "libbulk.so.0.0.0")
    quiet(*to_link, "main.lo", "libbulk.la", "-o", "program", cwd=tmp_path)
    assert run(tmp_path / "program").returncode == 0
    quiet(*to_link, "-static", "main.lo", "libbulk.la", "-o", "static", cwd=tmp_path)
    laid_out(tmp_path / "static")


# Ways to choose a linker


@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
@pytest.mark.parametrize("spelling", ["-B{}", "-B{}/", "-B {}"])
def test_directory_of_the_user(compiler: str, spelling: str, work: Path) -> None:
    """A user's -B has a linker in it: that one is used, and the text is laid out."""
    need(compiler)
    if not MOLD_DIRECTORY.exists():
        pytest.skip(f"{MOLD_DIRECTORY} is not installed")
    words = f"hugealign {compiler} {spelling.format(MOLD_DIRECTORY)}"
    quiet(*words.split(), "main.c", "bulk.o", "-o", "program", cwd=work)
    laid_out(work / "program")
    assert b"\0mold " in (work / "program").read_bytes()


def test_directory_of_the_user_without_a_linker(work: Path) -> None:
    (work / "empty").mkdir()
    link("hugealign gcc -Bempty", work)


def test_linker_by_path_of_the_shim(work: Path) -> None:
    need("clang-19")
    quiet("clang-19", f"--ld-path={shims()}/ld", "main.c", "bulk.o", "-o", "program", cwd=work)
    laid_out(work / "program")


MAKEFILE = """\
program: main.o bulk.o
\t$(LD) -r main.o bulk.o -o both.o
\t$(CC) both.o -o $@
main.o: main.c
\t$(CC) -c main.c
"""


@pytest.mark.parametrize("linker", ["", "ld", "ld.gold", "shim"])
def test_ld_of_the_user(linker: str, work: Path) -> None:
    """LD= is for those who call the linker themselves: here for a relocatable link, as libtool and Linux do."""
    need("make", *filter(None, [linker.removeprefix("shim")]))
    (work / "Makefile").write_text(MAKEFILE)
    words = [f"LD={shims()}/ld" if linker == "shim" else f"LD={linker}"] if linker else []
    quiet("make", "CC=hugealign gcc", *words, cwd=work)
    laid_out(work / "program")
    assert Elf(work / "both.o").type == "ET_REL"


# hugealign and hugealign


@pytest.mark.parametrize(
    "words",
    [
        "hugealign hugealign gcc",
        "hugealign hugealign-gcc",
        "hugealign build hugealign gcc",
        "hugealign build hugealign build hugealign-gcc",
        "hugealign build hugealign gcc -fuse-ld=gold",
        "hugealign hugealign clang-19 -fuse-ld=lld",
        "hugealign build hugealign clang-19",
    ],
)
def test_nested(words: str, work: Path) -> None:
    need(*[word for word in words.split() if word == "clang-19"])
    link(words, work, exact="gold" not in words)


@pytest.mark.matrix
def test_nested_installations(work: Path) -> None:
    """A link in a build under another copy of hugealign: one of the two lays it out."""
    other = work / "other"
    root = Path(shims()).parents[1]
    for part in ("bin", "hugealign", "ld-scripts"):
        shutil.copytree(root / part, other / part, ignore=shutil.ignore_patterns("__pycache__"))
    for compiler in ("gcc", "clang-19"):
        if shutil.which(compiler):
            link(f"{other}/bin/hugealign build hugealign {compiler}", work)
            link(f"hugealign build {other}/bin/hugealign build {compiler}", work)
