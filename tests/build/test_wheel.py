"""The wheel, built and installed into a fresh environment, and used from there alone."""

import sys
import venv
from pathlib import Path

import pytest

from tests.support import ROOT, Elf, environment, run


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin directory of an environment that holds nothing but our wheel."""
    directory = tmp_path_factory.mktemp("wheel")
    done = run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", directory, ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = directory.glob("hugealign-*-py3-none-any.whl")
    home = directory / "home"
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


def test_prefix_and_one_word_forms(env: dict[str, str], bulk: Path, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(
        "unsigned big_sum(void); int main(void) { return big_sum() != 3000u * 2999u / 2u; }"
    )
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
    for part in ("--toolchain", "--ldscripts", "--shims"):
        done = run("hugealign", "path", part, env=env, check=True)
        assert done.stdout.startswith(str(installed.parent))
        assert Path(done.stdout.rstrip()).exists()
    assert run("hugealign", "verify", "/bin/sh", env=env).returncode == 0
    assert run("hugealign", "--version", env=env).stdout == "hugealign 0.1.0\n"


def test_links_to_the_commands_elsewhere(env: dict[str, str], installed: Path, tmp_path: Path) -> None:
    """As pipx does it."""
    for name in ("hugealign", "hugealign-gcc"):
        (tmp_path / name).symlink_to(installed / name)
    assert run(tmp_path / "hugealign", "gcc", "-dumpmachine", env=env).stdout == "x86_64-linux-gnu\n"
    assert run(tmp_path / "hugealign-gcc", "-dumpmachine", env=env).stdout == "x86_64-linux-gnu\n"


def test_cmake_files_of_the_wheel(env: dict[str, str], installed: Path, bulk: Path, tmp_path: Path) -> None:
    toolchain = run("hugealign", "path", "--toolchain", env=env, check=True).stdout.rstrip()
    package = run("hugealign", "path", "--cmake", env=env, check=True).stdout.rstrip()
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(p C)\nadd_executable(p main.c)\n"
        f'target_link_libraries(p "{bulk}")\nfind_package(hugealign REQUIRED)\nhugealign_verify(p)\n'
    )
    (tmp_path / "main.c").write_text("unsigned big_sum(void); int main(void) { return big_sum() == 0; }")
    words = ["-S", tmp_path, "-B", tmp_path / "build", "--toolchain", toolchain, f"-Dhugealign_DIR={package}"]
    run("cmake", *words, env=env | {"PATH": environment()["PATH"].partition(":")[2]}, check=True)
    assert f"HUGEALIGN_EXECUTABLE:FILEPATH={installed}/hugealign\n" in (tmp_path / "build/CMakeCache.txt").read_text()
    run("cmake", "--build", tmp_path / "build", env=env, check=True)
    assert Elf(tmp_path / "build" / "p").faults() == []


def test_what_the_workflow_runs(installed: Path) -> None:
    """The script for other Pythons, on this one."""
    (wheel,) = installed.parents[1].glob("*.whl")
    done = run(ROOT / "tests" / "installed.sh", wheel, PYTHON=sys.executable)
    assert done.returncode == 0, done.stdout + done.stderr
