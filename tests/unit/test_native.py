"""C sources that are compiled on demand, and the cache of what came out."""

import os
import shutil
from pathlib import Path

import pytest

from hugealign import native
from hugealign.errors import HugealignError
from tests.support import ROOT, run

PLUGIN, REPLAY, CDSORT = SOURCES = [
    str(ROOT / "hugealign" / name) for name in ("lab/plugin.c", "lab/replay.c", "ordering/cdsort.c")
]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/hugealign"


def test_compiled_once_and_for_each_definition(cache: Path) -> None:
    first = native.library(PLUGIN, "API_VERSION=1")
    inode = os.stat(first).st_ino
    assert native.library(PLUGIN, "API_VERSION=1") == first
    assert os.stat(first).st_ino == inode
    second = native.library(PLUGIN, "API_VERSION=2")
    assert sorted(os.listdir(cache)) == sorted(map(os.path.basename, (first, second)))


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HugealignError, match=r"no C compiler found .* apt-get install gcc"):
        native.library(REPLAY)


def test_a_compiler_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'x.c:1: error: no \033[31mheader' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(HugealignError, match=r"cannot compile replay.c: x.c:1: error: no \\x1b"):
        native.library(REPLAY)
    assert os.listdir(cache) == []


def test_a_cache_that_others_may_write(cache: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    with pytest.raises(HugealignError, match="others may write there"):
        native.library(REPLAY)


def test_no_room_for_a_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(HugealignError, match=r"cannot keep what was compiled: .*; set XDG_CACHE_HOME"):
        native.library(REPLAY)


def test_the_sources_have_no_warnings(tmp_path: Path) -> None:
    for source in SOURCES:
        for compiler in filter(shutil.which, ("gcc", "clang-19")):
            words = [compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", "-DAPI_VERSION=1", "-c", source]
            assert run(*words, "-o", tmp_path / "o").stderr == ""
