"""C sources that are compiled on demand, and the cache of what came out."""

import ctypes
import os
import shutil
from pathlib import Path

import pytest

from hugealign.errors import HugealignError
from hugealign.io import native
from tests.support import ROOT, run

PLUGIN, REPLAY, CDSORT = SOURCES = [
    str(ROOT / name)
    for name in (
        "lab/src/hugealign_lab/plugin.c",
        "lab/src/hugealign_lab/replay.c",
        "hugealign/ordering/cdsort.c",
    )
]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/hugealign"


def test_compiled_once_and_for_each_definition(cache: Path) -> None:
    first = native.library(PLUGIN, "API_VERSION=1")
    (kept,) = cache.iterdir()
    assert os.path.samefile(native.library(PLUGIN, "API_VERSION=1"), first)
    assert os.path.samefile(kept, first)
    assert kept.stat().st_mode & 0o777 == cache.stat().st_mode & 0o777 == 0o700
    native.library(PLUGIN, "API_VERSION=2")
    assert len(list(cache.iterdir())) == 2


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


def test_a_home_that_is_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a container's user who is in no list of users, where Python leaves the ~ as it is."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "nowhere")
    with pytest.raises(HugealignError, match=r"nowhere/.cache/hugealign: nothing is kept .* set XDG_CACHE_HOME"):
        native.library(REPLAY)


def test_a_home_that_does_not_exist_is_not_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As a service's: /nonexistent, which root could make."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    with pytest.raises(HugealignError, match=f"^{tmp_path}/none: no such directory; set XDG_CACHE_HOME"):
        native.library(REPLAY)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "none").mkdir(mode=0o700)
    native.library(REPLAY)


def test_a_directory_that_cannot_be_made_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    with pytest.raises(HugealignError, match=r"^cannot keep .*: /proc/none/hugealign: No such file or"):
        native.library(REPLAY)


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_a_parent_that_others_may_write(cache: Path, mode: int) -> None:
    """They could put another directory in the place of ours between two looks at its name."""
    cache.mkdir(parents=True, mode=0o700)
    cache.parent.chmod(mode)
    with pytest.raises(HugealignError, match="others may write there"):
        native.library(REPLAY)
    cache.parent.chmod(mode | 0o1000)  # sticky, as /tmp: only the owner of an entry may rename it
    native.library(REPLAY)


def test_a_link_in_the_place_of_the_cache(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir(mode=0o700)
    cache.parent.mkdir()
    cache.symlink_to(tmp_path / "other")
    with pytest.raises(HugealignError, match="cannot keep what was compiled"):
        native.library(REPLAY)
    assert not list((tmp_path / "other").iterdir())


@pytest.mark.parametrize("what", ["link", "writable", "owner"])
def test_a_library_that_others_may_have_made(cache: Path, tmp_path: Path, what: str) -> None:
    native.library(REPLAY)
    (kept,) = cache.iterdir()
    if what == "link":
        kept.rename(tmp_path / "elsewhere")
        kept.symlink_to(tmp_path / "elsewhere")
    elif what == "writable":
        kept.chmod(0o722)
    elif os.geteuid():
        pytest.skip("only root can give files away")
    else:
        os.chown(kept, 1000, 1000)
    with pytest.raises(HugealignError, match=r"others may write there|cannot keep what was compiled"):
        native.library(REPLAY)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is trusted with everything")
def test_root_uses_no_cache_of_another_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As after su without -, and sudo -E: HOME is still the user's."""
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 1000, 1000)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(home))
    with pytest.raises(HugealignError, match="others may write there"):
        native.library(REPLAY)
    assert list(home.iterdir()) == []


def test_what_is_loaded_is_what_was_checked(cache: Path) -> None:
    """Another file that takes its name meanwhile is not loaded."""
    path = native.library(REPLAY)
    (kept,) = cache.iterdir()
    kept.unlink()
    kept.write_text("no library")
    assert ctypes.CDLL(path).replay_new


def test_no_room_for_a_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(HugealignError, match=r"compiled: /.*/file/hugealign: Not a directory; set XDG_CACHE_HOME"):
        native.library(REPLAY)


def test_the_sources_have_no_warnings(tmp_path: Path) -> None:
    for source in SOURCES:
        for compiler in filter(shutil.which, ("gcc", "clang-19")):
            words = [compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", "-DAPI_VERSION=1", "-c", source]
            assert run(*words, "-o", tmp_path / "o").stderr == ""
