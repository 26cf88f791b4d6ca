"""Directories: `run --file DIR`, `fix -r`, `warm -r` and `stage -r`, for who has not built what is in them."""

import base64
import contextlib
import csv
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from hugealign.fixing import gains
from hugealign.fixing.fix import FixOptions
from hugealign.io import places
from tests.live import stock as stocks
from tests.live.programs import NOBODY, TEXT, TOUCHED, WINDOW, Programs, huge_kib, hugealign
from tests.support import HUGEALIGN, environment, need, worded

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="root is needed to make a store")
SITE = "lib/python3/site-packages"
# Opens the library late, as an interpreter does.
_LOADS = """\
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
  int (*touch)(void) = (int (*)(void)) dlsym(dlopen(argv[argc - 1], RTLD_NOW), "touch");
  touch();
  printf("ready %d\\n", getpid());
  fflush(stdout);
  pause();
}
"""
_PYTHON = "import ctypes, os, signal, sys; ctypes.CDLL(sys.argv[1]).touch(); print('ready', os.getpid(), flush=True)"


def linked(directory: Path) -> tuple[Path, Path]:
    """Make a program in *directory* that opens a library late, and a library whose linker packed it."""
    for name, text in (("lib.c", TOUCHED), ("loads.c", _LOADS), ("walk.s", TEXT)):
        (directory / name).write_text(text)
    for words in (
        "gcc -shared -fPIC -O1 lib.c walk.s -Wl,-z,max-page-size=0x1000 -fuse-ld=bfd -o libpacked.so",
        "gcc -O1 loads.c -o loads -ldl",
    ):
        subprocess.run(words.split(), cwd=directory, check=True)
    return directory / "loads", directory / "libpacked.so"


@pytest.fixture(scope="module")
def made(built: Programs) -> Path:
    linked(built.directory)
    return built.directory


@pytest.fixture
def venv(made: Path, tmp_path: Path) -> Iterator[Path]:
    """A virtual environment with a wheel's library and a program; both have other names, in a cache."""
    place = made / tmp_path.name
    site, info = place / SITE, place / SITE / "big-1.dist-info"
    for directory in (site / "big", info, place / "bin", place / "cache"):
        directory.mkdir(parents=True)
    shutil.copy(made / "libpacked.so", site / "big/libbig.so")
    shutil.copy(made / "plain", place / "bin/tool")
    os.link(site / "big/libbig.so", site / "big/again.so")  # as npm links a program into another package
    (site / "big/__init__.py").write_text("x = 1\n" * 100)
    os.symlink(place, site / "big/circle")
    for path in (site / "big/libbig.so", place / "bin/tool"):
        os.link(path, place / "cache" / f"{path.name}.cached")
    listed = ["big/__init__.py", "big/libbig.so", "../../../bin/tool"]
    lines = [f"{name},sha256={digest(site / name)},{(site / name).stat().st_size}" for name in listed]
    (info / "RECORD").write_text("\n".join([*lines, "big-1.dist-info/RECORD,,", ""]))
    (place / "cache").rename(made / f"cache-{tmp_path.name}")
    yield place
    shutil.rmtree(place)
    shutil.rmtree(made / f"cache-{tmp_path.name}")


def digest(path: Path) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()


def record(venv: Path) -> list[str]:
    """Return the files of which RECORD says something else than what they are."""
    site = venv / SITE
    with (site / "big-1.dist-info/RECORD").open(newline="") as file:
        rows = [row for row in csv.reader(file) if row[1]]
    assert len(rows) == 3
    now = {row[0]: [f"sha256={digest(site / row[0])}", str((site / row[0]).stat().st_size)] for row in rows}
    return [name for name, *output in rows if output != now[name]]


def library(venv: Path) -> Path:
    return venv / SITE / "big/libbig.so"


def huge(words: Sequence[str | Path], path: Path, environ: dict[str, str] | None = None) -> tuple[int, str]:
    """Return how many windows of *path* are huge in the process that says ``ready``, and what *words* say of theirs."""
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ or environment(), start_new_session=True
    ) as child:
        try:
            assert child.stdout
            assert child.stderr
            ready = child.stdout.readline().split()
            assert ready[:1] == [b"ready"], child.stderr.read()
            result = huge_kib(int(ready[1]), path)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        return result // (WINDOW >> 10), child.stderr.read().decode()


#: What starts a program that opens the library {}.
COMMANDS = {
    "itself": ["{loads}", "{}"],
    "shell": ["sh", "-c", "{loads} {}; true"],
    "wrappers": ["timeout", "60", "env", "A=b", "nice", "{loads}", "{}"],
    "make": ["make", "--silent", "--eval=all: ; @{loads} {}"],
    "python": [sys.executable, "-c", f"{_PYTHON}; signal.pause()", "{}"],
    "child": [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", "{loads}", "{}"],
}


_SHORT = (("make", "in-place"), ("shell", "stage"), ("python", "stage"))


@pytest.mark.parametrize(
    ("command", "how"),
    [
        pytest.param(command, how, marks=() if (command, how) in _SHORT else pytest.mark.matrix)
        for command in COMMANDS
        for how in ("in-place", "stage")
    ],
)
def test_run_reaches_what_is_opened_later(programs: Programs, venv: Path, command: str, how: str) -> None:
    words = [item.format(library(venv), loads=programs.directory / "loads") for item in COMMANDS[command]]
    if how == "in-place":  # where the file system keeps huge pages: it needs windows, and no copy
        assert hugealign("fix", "-r", venv).returncode == 0
    front: list[str | Path] = [HUGEALIGN, "run", "--fix", f"--how={how}", "--file", venv, "--"]
    count, output = huge([*front, *words], library(venv))
    assert count == 3
    assert "libbig.so" not in output


def test_ps_names_a_venv_by_its_own_python(venv: Path) -> None:
    """Also in a process that `run` started, which sees a copy behind the link; what is huge by a copy stays so."""
    (venv / "bin/python").symlink_to("/usr/bin/python3")
    shutil.copy(library(venv), venv / "bin/other.so")
    other = f"import ctypes, signal, sys; ctypes.CDLL('{venv}/bin/other.so').touch(); {_PYTHON}; signal.pause()"
    words: list[str | Path] = [
        HUGEALIGN,
        "run",
        "--fix",
        "--libs",
        "--how=stage",
        "--file",
        library(venv),
        "--",
        venv / "bin/python",
    ]
    with subprocess.Popen([*words, "-c", other, library(venv)], stdout=subprocess.PIPE, env=environment()) as child:
        try:
            assert child.stdout
            pid = child.stdout.readline().split()[1].decode()
            (result,) = json.loads(hugealign("ps", "--all", "--json", pid).stdout)["processes"]
        finally:
            child.kill()
    remedies = [one["remedy"]["argv"] for one in result["diagnoses"] if one["subject"].endswith("other.so")]
    assert remedies
    for argv in remedies:
        assert argv[-2:] == ["--", str(venv / "bin/python")]
        named = [argv[at + 1] for at, word in enumerate(argv) if word == "--file"]
        assert {str(library(venv)), str(venv / "bin/other.so")} <= set(named)


def test_what_has_no_window_is_told_of_with_what_gives_it_one(venv: Path, made: Path) -> None:
    words: list[str | Path] = [made / "loads", library(venv)]
    count, output = huge(
        [HUGEALIGN, "run", "--how=stage", "--store", made / "none", "--file", venv, "--", *words], library(venv)
    )
    assert (count, output.count("\n")) == (1, 1)
    assert output.startswith("hugealign: 2 of 2 windows huge in 2 files; ")
    assert worded("text.none-below", files=3, without=1, page_size=WINDOW) in output
    assert f"hugealign run --fix --file {venv} -- COMMAND" in output


@needs_root
def test_run_takes_what_the_store_has(venv: Path, made: Path) -> None:
    """Nothing is named: what was staged is there for all that the command starts, also as an ordinary user."""
    with stocks.store(made) as store:
        done = hugealign("stage", "--store", store, "--fix", "-r", venv)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == 3
        words = ["sh", "-c", f"{made}/loads {library(venv)}; true"]
        for prefix in ((), NOBODY):
            count, output = huge([*prefix, HUGEALIGN, "run", "--store", store, "--", *words], library(venv))
            assert (count, output) == (3, ""), prefix
        # What was not named is not counted, for it may not run.
        verbose = hugealign("run", "-v", "--store", store, "--", "true").stderr
        assert verbose.count(" (store)\n") == verbose.count("\n") == 3, verbose
        # A copy of the file as it is does where a fix gives it nothing more: the store's, and no other.
        assert hugealign("fix", "-r", venv).returncode == 0
        assert hugealign("stage", "--store", store, library(venv)).returncode == 0
        (name,) = [item for item in os.listdir(store) if item not in ("path", "for", "lock")]
        for named in ((), ("--file", library(venv))):
            front: list[str | Path] = [HUGEALIGN, "run", "--fix", "--how=stage", "--store", store, *named, "--"]
            look: list[str | Path] = ["stat", "-c", "%d:%i", library(venv), store / name]
            seen = subprocess.run([*front, *look], capture_output=True, text=True, check=True, env=environment())
            assert len(set(seen.stdout.split())) == 1, named
        count, _ = huge([HUGEALIGN, "run", "--store", store, "--how=in-place", "--", *words], library(venv))
        assert count == 0
        library(venv).unlink()  # it is another file: the copy is of no use
        shutil.copy(made / "libpacked.so", library(venv))
        assert huge([HUGEALIGN, "run", "--store", store, "--", *words], library(venv))[0] == 0


@needs_root
def test_a_store_that_is_full(venv: Path, made: Path) -> None:
    """What has the most text is there; two lines tell of the rest, however much that is; nothing is half done."""
    for number in range(3):
        shutil.copy(library(venv), venv / f"bin/{number}.so")
    library(venv).with_name("again.so").unlink()
    store = made / "full"
    store.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "huge=always,size=15M,mode=755", "hugealign", store], check=True)
    try:
        done = hugealign("stage", "--store", store, "--fix", "-r", venv)
        assert done.returncode == 1
        assert (len(done.stdout.splitlines()), len(done.stderr.splitlines())) == (1, 2)
        names = [item for item in os.listdir(store) if item not in ("path", "for", "lock")]
        assert len(names) == 1
        assert hugealign("status", store).stdout.count(", current") == 1
    finally:
        subprocess.run(["umount", "--lazy", store], check=True)


def test_fix_of_a_tree_and_back(venv: Path, made: Path) -> None:
    """What gains is fixed, once; caches keep the old file, wheels list the new one; and --undo restores all."""
    paths = [library(venv), venv / "bin/tool"]
    repeated = library(venv).with_name("again.so")
    before = {path: path.read_bytes() for path in paths}
    done = hugealign("fix", "-r", "--json", venv)
    assert (done.returncode, done.stderr) == (0, "")
    fixed = json.loads(done.stdout)
    assert sorted(item["path"] for item in fixed["files"]) == sorted(map(str, (repeated, paths[1])))
    assert repeated.samefile(paths[0])
    assert all(item["plan"]["windows"] > item["plan"]["windows_before"] for item in fixed["files"])
    cache = made / f"cache-{venv.name}"
    for path in paths:
        assert (cache / f"{path.name}.cached").read_bytes() == before[path]
        assert path.read_bytes() != before[path]
        assert path.stat().st_nlink == 1 + (path == paths[0])
    assert record(venv) == []
    assert hugealign("fix", "-r", venv).stdout == "nothing to do\n"
    # A run that was killed between the file and its list.
    info = venv / SITE / "big-1.dist-info/RECORD"
    info.write_text(info.read_text().replace(digest(paths[0]), "A" * 43))
    assert record(venv) == ["big/libbig.so"]
    assert hugealign("fix", "-r", venv).returncode == 0
    assert record(venv) == []
    assert hugealign("fix", "-r", "--undo", venv).returncode == 0
    assert {path: path.read_bytes() for path in paths} == before
    assert repeated.samefile(paths[0])
    assert record(venv) == []


@needs_root
def test_names_in_a_lower_layer_of_an_image(venv: Path, made: Path) -> None:
    """On overlayfs a file with several names is another inode as soon as it is copied up, as by an exchange."""
    layers = made / f"layers-{venv.name}"
    for name in ("upper", "work", "merged"):
        (layers / name).mkdir(parents=True)
    merged = layers / "merged"
    options = f"lowerdir={venv},upperdir={layers / 'upper'},workdir={layers / 'work'}"
    before = library(venv).read_bytes()
    subprocess.run(["mount", "-t", "overlay", "-o", options, "overlay", merged], check=True)
    try:
        done = hugealign("fix", "-r", merged)
        assert (done.returncode, done.stderr) == (0, "")
        assert "2 files fixed" in done.stdout
        assert library(merged).samefile(library(merged).with_name("again.so"))
        assert library(merged).read_bytes() != library(venv).read_bytes() == before
        assert record(merged) == []
        assert hugealign("fix", "-r", "--undo", merged).returncode == 0
        assert library(merged).read_bytes() == before
    finally:
        subprocess.run(["umount", "--lazy", merged], check=True)
        shutil.rmtree(layers)


def test_fix_of_a_tree_within_bounds(venv: Path) -> None:
    def fixed(*words: str) -> list[str]:
        done = hugealign("fix", "-r", "--json", *words)
        return [os.path.basename(item["path"]) for item in json.loads(done.stdout)["files"]]

    names = fixed("--dry-run", str(venv))
    assert fixed("--max=1M", str(venv)) == []
    assert fixed("--max=6M", str(venv)) == names[:1]
    assert fixed("--max=6M", str(venv)) == []  # what is there already counts
    assert fixed(str(venv)) == names[1:]


def test_a_list_that_cannot_be_written_prevents_no_fix(venv: Path) -> None:
    info = venv / SITE / "big-1.dist-info/RECORD"
    info.write_bytes(b'big/libbig.so,"' + b"x" * (1 << 18))
    done = hugealign("fix", "-r", venv)
    assert done.returncode == 0
    assert worded("file.not-recorded", record=str(info)) in done.stderr
    assert library(venv).stat().st_nlink == 2
    # Behind a link there may be anybody's file.
    other = venv / "other"
    other.write_text("big/libbig.so,sha256=x,1\n")
    info.unlink()
    info.symlink_to(other)
    assert hugealign("fix", "-r", "--undo", venv).returncode == 0
    assert other.read_text() == "big/libbig.so,sha256=x,1\n"


def test_warm_of_a_tree(programs: Programs, venv: Path) -> None:
    for number in range(2):
        shutil.copy(programs.good, venv / f"bin/good{number}")

    def warmed(*words: str) -> dict[str, int]:
        result = json.loads(hugealign("warm", "-r", "--json", *words, str(venv)).stdout)["files"]
        return {os.path.basename(item["path"]): item["windows_huge"] for item in result if item["windows"]}

    assert warmed("--max=9M") == {"good0": 3, "again.so": 1}
    assert warmed("--max=1M") == {}
    assert warmed() == {"good0": 3, "good1": 3, "again.so": 1}
    assert set(warmed("--undo").values()) == {0}
    done = hugealign("warm", "-r", venv / SITE)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", [("fix", "-r"), ("fix", "-r", "--undo"), ("warm", "-r")])
def test_trees_with_nothing_in_them(tmp_path: Path, command: tuple[str, ...]) -> None:
    os.symlink(tmp_path, tmp_path / "circle")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "text").write_bytes(b"\x7fELF" + b"x" * (1 << 20))
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    done = hugealign(*command, tmp_path)
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)
    assert hugealign(*command, tmp_path / "missing").returncode == 3


def test_a_file_that_vanishes_after_the_walk_is_left_out(made: Path, tmp_path: Path) -> None:
    left = shutil.copy(made / "libpacked.so", tmp_path / "left.so")
    gained = gains.gather([places.real(str(tmp_path / "gone.so")), places.real(str(left))], FixOptions())
    assert [gain.place.path for gain in gained] == [str(left)]


def test_a_walk_opens_only_what_can_have_text(tmp_path: Path) -> None:
    """It costs less than three times what a look at the first bytes of each file costs, in system calls."""
    need("strace", "find", "xargs")
    for number in range(600):
        (tmp_path / f"{number // 50}").mkdir(exist_ok=True)
        (tmp_path / f"{number // 50}" / f"f{number}.py").write_text("x = 1\n" * 20)

    def calls(*words: str | Path) -> int:
        strace = ["strace", "-f", "-qq", "-e", "trace=%file", "-o", f"{tmp_path}.calls"]
        subprocess.run([*strace, *map(str, words)], check=True, capture_output=True, env=environment())
        return Path(f"{tmp_path}.calls").read_text().count('.py"')

    plain = calls("sh", "-c", f"find {tmp_path} -type f | xargs head -qc4")
    assert 600 <= calls(HUGEALIGN, "fix", "-r", tmp_path) <= 3 * plain
