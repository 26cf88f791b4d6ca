"""``make install`` and ``make uninstall``: below a prefix with spaces, whole at any moment, gone without a trace."""

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.link.bulk import MAIN_OF_ANY
from tests.support import ROOT, Elf, environment, run

PARTS = ("bin", "hugealign", "ld-scripts", "cmake", "lld-plugin", "share", "packaging", "Makefile")


def make(target: str, source: Path = ROOT, **settings: object) -> subprocess.CompletedProcess[str]:
    words = [f"{name}={value}" for name, value in settings.items()]
    return run("make", "-s", "-C", source, target, *words, env=plain())


def plain() -> dict[str, str]:
    """An environment in which the checkout is nowhere."""
    return environment() | {"PATH": environment()["PATH"].partition(":")[2], "PYTHONPATH": ""}


def tree(place: Path) -> dict[str, tuple[int, bytes | None]]:
    """What is below *place*: mode, and contents of files."""
    return {
        str(path.relative_to(place)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else None)
        for path in sorted(place.rglob("*"))
    }


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("install") / "a pre fix"
    done = make("install", PREFIX=place)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return place


def test_links_verifies_runs(prefix: Path, bulk: Path, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(MAIN_OF_ANY)
    for number, words in enumerate((["hugealign", "gcc"], ["hugealign-gcc"], ["hugealign gcc"])):
        output = tmp_path / f"out{number}"
        done = run(prefix / "bin" / words[0], *words[1:], tmp_path / "main.c", bulk, "-o", output, env=plain())
        assert (done.returncode, done.stderr) == (0, "")
        assert Elf(output).faults() == []
        done = run(prefix / "bin/hugealign", "verify", "--json", output, env=plain())
        assert done.returncode == 0, done.stdout
        assert run(prefix / "bin/hugealign", "run", "--how=in-place", "--", output, env=plain()).returncode == 0


def test_parts_are_found(prefix: Path) -> None:
    for part in ("toolchain", "cmake", "ldscripts", "shims"):
        done = run(prefix / "bin/hugealign", "path", part, env=plain())
        assert done.returncode == 0
        assert done.stdout.startswith(f"{prefix}/lib/hugealign/")
    assert "HA004" in run(prefix / "bin/hugealign", "explain", "HA004", env=plain(), check=True).stdout


def test_cmake_finds_the_package_and_its_command(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(p C)\nfind_package(hugealign REQUIRED)\n"
    )
    run("cmake", "-S", tmp_path, "-B", tmp_path / "b", f"-DCMAKE_PREFIX_PATH={prefix}", env=plain(), check=True)
    assert f"HUGEALIGN_EXECUTABLE:FILEPATH={prefix}/bin/hugealign\n" in (tmp_path / "b/CMakeCache.txt").read_text()


def test_all_of_the_checkout_is_there(prefix: Path) -> None:
    private = prefix / "lib/hugealign"
    for place, target in (("bin", prefix), ("share", prefix), *((part, private) for part in PARTS[1:5])):
        for file in sorted((ROOT / place).rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                copy = target / file.relative_to(ROOT)
                assert copy.read_bytes() == file.read_bytes()
                assert os.access(copy, os.X_OK) == os.access(file, os.X_OK)


def test_no_command_compiles_anything_later(prefix: Path) -> None:
    """The bytecode is there and is used, for otherwise root's first command would leave files behind."""
    before = tree(prefix)
    run(prefix / "bin/hugealign", "verify", "/bin/sh", env=plain(), check=True)
    run(prefix / "bin/hugealign", "help", "order", env=plain(), check=True)
    assert tree(prefix) == before


@pytest.mark.matrix
def test_destdir_stands_before_and_nothing_inside_names_it(tmp_path: Path) -> None:
    stage = tmp_path / "de st"
    assert make("install", PREFIX="/usr", DESTDIR=stage).returncode == 0
    assert [path.name for path in stage.iterdir()] == ["usr"]
    for name, (_, contents) in tree(stage).items():
        assert contents is None or os.fsencode(str(stage)) not in contents, name
    assert make("uninstall", PREFIX="/usr", DESTDIR=stage).returncode == 0
    assert not stage.exists()


@pytest.mark.matrix
def test_modes_do_not_depend_on_umask(tmp_path: Path) -> None:
    for name, mask in (("one", "022"), ("two", "077")):
        words = f'umask {mask}; exec make -s -C "$0" install PREFIX=/usr DESTDIR="$1"'
        run("sh", "-c", words, ROOT, tmp_path / name, env=plain(), check=True)
    assert tree(tmp_path / "one") == tree(tmp_path / "two")


@pytest.mark.matrix
def test_uninstall_leaves_others_files_and_nothing_else(tmp_path: Path) -> None:
    other = tmp_path / "share/man/man1/other.1"
    other.parent.mkdir(parents=True)
    other.write_text("not ours")
    before = tree(tmp_path)
    assert make("install", PREFIX=tmp_path).returncode == 0
    assert make("install", PREFIX=tmp_path).returncode == 0  # again, over it
    assert make("uninstall", PREFIX=tmp_path).returncode == 0
    assert tree(tmp_path) == before
    done = make("uninstall", PREFIX=tmp_path)
    assert done.returncode == 2  # make's
    assert "nothing of `make install` is here" in done.stderr


@pytest.mark.matrix
def test_an_upgrade_removes_what_the_new_version_lacks(prefix: Path, tmp_path: Path) -> None:
    old = source(tmp_path / "old", "0.0.9")
    (old / "bin/hugealign-gone").write_text("#!/bin/sh\n")
    (old / "hugealign/gone.py").touch()
    assert make("install", old, PREFIX=tmp_path / "to").returncode == 0
    assert (tmp_path / "to/bin/hugealign-gone").exists()
    assert make("install", PREFIX=tmp_path / "to").returncode == 0
    assert set(tree(tmp_path / "to")) == set(tree(prefix))


@pytest.mark.matrix
def test_a_list_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    assert make("install", PREFIX=tmp_path / "to").returncode == 0
    for line in ("../victim", str(victim), "bin/../../victim"):
        (tmp_path / "to/lib/hugealign/installed").write_text(f"bin/hugealign\n{line}\n")
        done = make("uninstall", PREFIX=tmp_path / "to")
        assert done.returncode == 2
        assert "is not below" in done.stderr
        assert victim.read_text() == "precious"
        assert (tmp_path / "to/bin/hugealign").exists()


@pytest.mark.parametrize("prefix", ["relative", "/proc/nowhere"])
def test_prefixes_that_cannot_be(prefix: str) -> None:
    done = make("install", PREFIX=prefix)
    assert done.returncode == 2
    assert done.stderr.startswith("install: ")  # nothing about options, which were not typed
    assert prefix in done.stderr


@pytest.mark.matrix
def test_characters_that_mean_something_to_shells(tmp_path: Path) -> None:
    place = tmp_path / "a'b\"c;d&e`f*g"
    assert make("install", PREFIX=place).returncode == 0
    assert run(place / "bin/hugealign", "--version", env=plain()).stdout.startswith("hugealign ")
    assert make("uninstall", PREFIX=place).returncode == 0
    assert list(tmp_path.iterdir()) == []


def source(place: Path, version: str) -> Path:
    """A checkout of another version: each of its commands says which, from two files that have to fit."""
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        place.mkdir(exist_ok=True)
        copy(ROOT / part, place / part)
    init = place / "hugealign/version.py"
    init.write_text(init.read_text().replace('__version__ = "', f'__version__ = "{version}+'))
    main = place / "hugealign/cli/arguments.py"
    main.write_text(
        f"from hugealign.version import __version__\nassert __version__.startswith({version!r})\n" + main.read_text()
    )
    return place


@pytest.mark.matrix
def test_killed_at_any_moment_one_version_is_whole(tmp_path: Path) -> None:
    versions = [source(tmp_path / name, name) for name in ("1.1", "2.2")]
    to = tmp_path / "to"
    assert make("install", versions[0], PREFIX=to).returncode == 0
    began = time.monotonic()
    assert make("install", versions[1], PREFIX=to).returncode == 0
    takes = time.monotonic() - began
    rng, seen = random.Random(1), set()
    for number in range(6):
        words = ["make", "-s", "-C", str(versions[number % 2]), "install", f"PREFIX={to}"]
        with subprocess.Popen(words, env=plain(), start_new_session=True) as installing:
            time.sleep(takes * rng.uniform(0.1, 1.0))
            if installing.poll() is None:
                os.killpg(installing.pid, signal.SIGKILL)
        version = run(to / "bin/hugealign", "--version", env=plain())
        assert version.returncode == 0, version.stderr
        done = run(to / "bin/hugealign", "help", "order", env=plain())
        assert done.returncode == 0, done.stderr
        seen.add(version.stdout.split()[1][:3])
    assert seen <= {"1.1", "2.2"}
    assert make("install", PREFIX=to).returncode == 0
    assert make("install", PREFIX=tmp_path / "fresh").returncode == 0
    assert set(tree(to)) == set(tree(tmp_path / "fresh"))
    assert make("uninstall", PREFIX=to).returncode == 0
    assert not to.exists()
