"""The wheel, built and installed into a fresh environment, and used from there alone."""

import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from hugealign.version import __version__
from tests.link.bulk import MAIN, MAIN_OF_ANY
from tests.support import ROOT, Elf, environment, run


def built(directory: Path) -> list[Path]:
    """The wheel, built from a copy of the checkout whose files have other times."""
    source = directory / "source"
    words = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(words, capture_output=True, text=True, check=True).stdout.split("\0"):
        if name and not name.startswith(("tests/", "docs/", "examples/")) and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    done = run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", directory, source)
    assert done.returncode == 0, done.stdout + done.stderr
    return list(directory.glob("hugealign-*-py3-none-any.whl"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (wheel,) = built(tmp_path_factory.mktemp("wheel"))
    return wheel


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin directory of an environment that holds nothing but our wheel."""
    home = tmp_path_factory.mktemp("environment") / "home"
    venv.create(home, with_pip=False, symlinks=True)
    # This environment's pip installs into the other; no dependency is looked for, since there is none.
    pip = [sys.executable, "-m", "pip", "--python", home / "bin" / "python", "install", "-q", "--no-index", "--no-deps"]
    run(*pip, wheel, check=True)
    return home / "bin"


@pytest.fixture
def env(installed: Path) -> dict[str, str]:
    """An environment in which the checkout is nowhere."""
    path = environment()["PATH"].partition(":")[2]
    return environment() | {"PATH": f"{installed}:{path}", "PYTHONPATH": ""}


@pytest.mark.matrix
def test_prefix_and_one_word_forms(env: dict[str, str], bulk: Path, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(MAIN)
    for number, words in enumerate(
        (["hugealign", "gcc"], ["hugealign-gcc"], ["hugealign-g++", "-xc++", "-fpermissive"])
    ):
        if number == 2:
            (tmp_path / "main.c").write_text('extern "C" unsigned big_sum(); int main() { return big_sum() == 0; }')
        output = tmp_path / f"out{number}"
        done = run(*words, tmp_path / "main.c", "-xnone", bulk, "-o", output, env=env)
        assert (done.returncode, done.stderr) == (0, "")
        assert Elf(output).faults() == []
        assert run(output).returncode == 0


def test_commands(env: dict[str, str], installed: Path) -> None:
    for part in ("toolchain", "ldscripts", "shims"):
        done = run("hugealign", "path", part, env=env, check=True)
        assert done.stdout.startswith(str(installed.parent))
        assert Path(done.stdout.rstrip()).exists()
    assert run("hugealign", "verify", "/bin/sh", env=env).returncode == 0
    assert run("hugealign", "--version", env=env).stdout == f"hugealign {__version__}\n"


def test_links_to_the_commands_elsewhere(env: dict[str, str], installed: Path, tmp_path: Path) -> None:
    """As pipx does it."""
    for name in ("hugealign", "hugealign-gcc"):
        (tmp_path / name).symlink_to(installed / name)
    assert run(tmp_path / "hugealign", "gcc", "-dumpmachine", env=env).stdout == "x86_64-linux-gnu\n"
    assert run(tmp_path / "hugealign-gcc", "-dumpmachine", env=env).stdout == "x86_64-linux-gnu\n"


def test_names_with_a_space(env: dict[str, str], installed: Path) -> None:
    """Configure scripts that quote their $CC call these."""
    assert run(installed / "hugealign gcc", "-dumpmachine", env=env).stdout == "x86_64-linux-gnu\n"


def test_all_of_the_checkout_is_there(installed: Path) -> None:
    """The launchers, the pages and the completions; and of the package all but what Python leaves behind."""
    assert {file.name for file in (ROOT / "bin").iterdir()} <= {file.name for file in installed.iterdir()}
    share = installed.parent / "share"
    for file in sorted((ROOT / "share").rglob("*")):
        assert file.is_dir() or (share / file.relative_to(ROOT / "share")).read_bytes() == file.read_bytes()
    (package,) = installed.parent.glob("lib/python3*/site-packages/hugealign")
    for place, target in (("hugealign", package), ("ld-scripts", package / "ld-scripts"), ("cmake", package / "cmake")):
        for file in (ROOT / place).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                assert (target / file.relative_to(ROOT / place)).read_bytes() == file.read_bytes()


@pytest.mark.matrix
def test_two_builds_are_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    (other,) = built(tmp_path)
    assert other.name == wheel.name
    assert other.read_bytes() == wheel.read_bytes()


def test_cmake_files_of_the_wheel(env: dict[str, str], installed: Path, bulk: Path, tmp_path: Path) -> None:
    toolchain = run("hugealign", "path", "toolchain", env=env, check=True).stdout.rstrip()
    package = run("hugealign", "path", "cmake", env=env, check=True).stdout.rstrip()
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(p C)\nadd_executable(p main.c)\n"
        f'target_link_libraries(p "{bulk}")\nfind_package(hugealign REQUIRED)\nhugealign_verify(p)\n'
    )
    (tmp_path / "main.c").write_text(MAIN_OF_ANY)
    words = ["-S", tmp_path, "-B", tmp_path / "build", "--toolchain", toolchain, f"-Dhugealign_DIR={package}"]
    run("cmake", *words, env=env | {"PATH": environment()["PATH"].partition(":")[2]}, check=True)
    assert f"HUGEALIGN_EXECUTABLE:FILEPATH={installed}/hugealign\n" in (tmp_path / "build/CMakeCache.txt").read_text()
    run("cmake", "--build", tmp_path / "build", env=env, check=True)
    assert Elf(tmp_path / "build" / "p").faults() == []


@pytest.mark.matrix
def test_what_the_workflow_runs(wheel: Path) -> None:
    """The script for other Pythons, on this one."""
    done = run(ROOT / "tests" / "installed.sh", wheel, PYTHON=sys.executable)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_editable_installation_takes_nothing_from_the_working_directory(tmp_path: Path) -> None:
    """A stranger's tree may have a package of our name: Python looks there first, by default."""
    home, tree = tmp_path / "home", tmp_path / "tree"
    venv.create(home, with_pip=False, symlinks=True)
    (packages,) = home.glob("lib/python3*/site-packages")
    (packages / "_hugealign.pth").write_text(f"{ROOT}\n")  # as pip install -e leaves it
    shutil.copy(ROOT / "bin/hugealign", home / "bin")
    (tree / "hugealign").mkdir(parents=True)
    (tree / "hugealign/__init__.py").write_text("open('owned', 'w')\n")
    done = run(home / "bin/hugealign", "--version", cwd=tree, env=environment() | {"PYTHONPATH": str(tree)})
    assert (done.returncode, done.stdout) == (0, f"hugealign {__version__}\n"), done.stderr
    assert not (tree / "owned").exists()
