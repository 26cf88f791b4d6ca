"""verify in other people's pipelines: CMake, pytest, pre-commit, GitHub's action; each is really run.

GitHub's runner cannot be had here.  Its part, putting inputs into the environment and handing the script to bash, is
played by `act` below, after the documentation of `jobs.<id>.steps[*].shell`.
"""

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from hugealign.version import __version__
from tests.build.projects import program, write
from tests.support import HUGEALIGN, ROOT, environment, need, run, worded

yaml = pytest.importorskip("yaml")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the same program linked both ways."""
    directory = program(tmp_path_factory.mktemp("built"))
    for name, compiler in (("good", [HUGEALIGN, "gcc"]), ("plain", ["gcc"])):
        run(*compiler, directory / "main.c", directory / "bulk.s", "-o", directory / name, check=True)
    return directory


# -- CMake

LISTS = """
cmake_minimum_required(VERSION 3.20)
project(example LANGUAGES C ASM)
include(CTest)
find_package(hugealign 1.0 REQUIRED)
add_executable(server main.c bulk.s)
hugealign_verify(server {words})
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    need("cmake", "ctest")
    words = "STRICT WINDOWS 2 ARGS --page-size 2M"
    return write(program(tmp_path / "source dir"), {"CMakeLists.txt": LISTS.format(words=words)})


def configure(project: Path, *words: str, status: int = 0) -> tuple[Path, str]:
    build = project.parent / "build"
    directory = run(HUGEALIGN, "path", "cmake", check=True).stdout.rstrip("\n")
    done = run("cmake", "-S", project, "-B", build, f"-Dhugealign_DIR={directory}", *words)
    assert (done.returncode != 0) == (status != 0), done.stdout + done.stderr
    return build, done.stderr


def test_cmake_with_the_toolchain_file(project: Path, built: Path) -> None:
    build, _ = configure(project, "--toolchain", run(HUGEALIGN, "path", "toolchain").stdout.rstrip("\n"))
    run("cmake", "--build", build, check=True)
    tests = run("ctest", "--test-dir", build, check=True)
    assert re.search(r"hugealign\.server \.+ +Passed", tests.stdout)
    # The test looks at the file as it is now, say after a step that replaced it.
    shutil.copy(built / "plain", build / "server")
    tests = run("ctest", "--test-dir", build, "--output-on-failure")
    assert tests.returncode != 0
    assert "error[HA001]" in tests.stdout


def test_cmake_without_the_toolchain_file(project: Path) -> None:
    build, _ = configure(project)
    done = run("cmake", "--build", build)
    assert done.returncode != 0
    assert "server: FAILED" in done.stdout + done.stderr
    assert "error[HA001]" in done.stdout + done.stderr


def test_cmake_asks_for_windows(project: Path) -> None:
    write(project, {"CMakeLists.txt": LISTS.format(words="WINDOWS 3")})
    build, _ = configure(project, "--toolchain", run(HUGEALIGN, "path", "toolchain").stdout.rstrip("\n"))
    done = run("cmake", "--build", build)
    assert done.returncode != 0
    assert "error[HA030]" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [("--strict", "unknown arguments: --strict"), (")\nhugealign_verify(nothing", "nothing is not a target"),
     (")\nadd_library(a STATIC bulk.s)\nhugealign_verify(a", "a is not linked")],
)  # fmt: skip
def test_cmake_says_what_is_wrong(words: str, message: str, project: Path) -> None:
    write(project, {"CMakeLists.txt": LISTS.format(words=words)})
    _, errors = configure(project, status=1)
    assert message in errors


def test_cmake_versions(project: Path) -> None:
    text = LISTS.format(words="")
    write(project, {"CMakeLists.txt": text.replace("hugealign 1.0 ", "hugealign 99 ")})
    _, errors = configure(project, status=1)
    assert __version__ in errors
    write(project, {"CMakeLists.txt": text.replace("hugealign 1.0 ", f"hugealign {__version__} EXACT ")})
    configure(project)


@pytest.mark.parametrize(
    ("wanted", "result"),
    [
        (f"1.0...{__version__}", True),
        (f"1.0...<{__version__}.1", True),
        ("0.1...0.9", False),
        ("0.1...<1.0", False),
        (f"{__version__}.1...1.99", False),
    ],
)
def test_a_range_of_versions(wanted: str, result: bool, tmp_path: Path) -> None:
    """CMake 3.19 and newer request one; both ends count."""
    need("cmake")
    text = f"cmake_minimum_required(VERSION 3.19)\nproject(p NONE)\nfind_package(hugealign {wanted} REQUIRED)\n"
    write(tmp_path, {"CMakeLists.txt": text})
    directory = run(HUGEALIGN, "path", "cmake", check=True).stdout.strip()
    done = run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-Dhugealign_DIR={directory}")
    assert (done.returncode == 0) == result, done.stderr


# -- pytest

PYTEST = """
from hugealign.testing import assert_huge_text

def test_good():
    assert_huge_text("good", windows=2)

def test_plain():
    assert_huge_text("plain")

def test_too_few():
    assert_huge_text("good", windows=3)

def test_absent():
    assert_huge_text("absent")

def test_no_windows_of_that_size():
    assert_huge_text("good", page_size=32 << 20)
"""


def test_pytest_helper(built: Path, tmp_path: Path) -> None:
    write(tmp_path, {"test_text.py": PYTEST})
    for name in ("good", "plain"):
        (tmp_path / name).symlink_to(built / name)
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--tb=short",
        "--junitxml=junit.xml",
        "test_text.py",
    ]
    run(*words, cwd=tmp_path, PYTHONPATH=str(ROOT))
    cases = ET.parse(tmp_path / "junit.xml").getroot().iter("testcase")  # noqa: S314
    reported = {case.attrib["name"]: "".join(failure.text or "" for failure in case) for case in cases}
    assert list(reported) == ["test_good", "test_plain", "test_too_few", "test_absent", "test_no_windows_of_that_size"]
    assert reported["test_good"] == ""
    assert "text is not on huge pages" in reported["test_plain"]
    assert "error[HA001]" in reported["test_plain"]
    assert "2 windows, not 3: 100 % of 2.9 MiB of text" in reported["test_too_few"]
    assert f"absent: could not check: {worded('file.unreadable', error='ENOENT')}" in reported["test_absent"]
    assert "error[HA001]" in reported["test_no_windows_of_that_size"]
    assert "hugealign/testing.py" not in reported["test_plain"]  # the failure is where the caller stands


# -- pre-commit


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository with the hook and the parts that it runs, as this checkout holds them now."""
    need("git")
    pytest.importorskip("pre_commit")
    directory = tmp_path_factory.mktemp("hooks")
    for name in ("bin", "hugealign", "cmake", "ld-scripts"):
        shutil.copytree(ROOT / name, directory / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", directory)
    commit(directory)
    return directory


def git(directory: Path, *words: object) -> str:
    identity = (
        "-c",
        "user.name=n",
        "-c",
        "user.email=e",
        "-c",
        "commit.gpgsign=false",
        "-c",
        "core.hooksPath=/dev/null",
    )
    return run("git", *identity, *words, cwd=directory, check=True).stdout.strip()


def commit(directory: Path) -> None:
    git(directory, "init", "-q")
    git(directory, "add", "-A")
    git(directory, "commit", "-q", "-m", "all")


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("name", "arguments", "passes"),
    [("good", "", True), ("plain", "", False), ("plain", "args: [--fail-on=never]", True)],
)
def test_pre_commit_hook(name: str, arguments: str, passes: bool, hooks: Path, built: Path, tmp_path: Path) -> None:
    config = f"""
repos:
- repo: file://{hooks}
  rev: {git(hooks, "rev-parse", "HEAD")}
  hooks:
  - id: hugealign-verify
    {arguments}
"""
    user = write(
        tmp_path / "user", {".pre-commit-config.yaml": config, "README": "not a program", "run.sh": "#!/bin/sh\n"}
    )
    (user / "run.sh").chmod(0o755)
    shutil.copy(built / name, user / f"{name} program")
    commit(user)
    words = [sys.executable, "-m", "pre_commit", "run", "--all-files", "--verbose"]
    done = run(*words, cwd=user, PRE_COMMIT_HOME=str(tmp_path / "cache"), COLUMNS="80")
    assert done.returncode == (0 if passes else 1), done.stdout + done.stderr
    assert "Skipped" not in done.stdout  # a hook that no file matches would pass as well
    assert ("error[HA001]" in done.stdout) == (name == "plain")
    assert "README" not in done.stdout
    assert "run.sh" not in done.stdout


@pytest.mark.matrix
def test_pre_commit_manifest_is_valid() -> None:
    pytest.importorskip("pre_commit")
    done = run(sys.executable, "-m", "pre_commit", "validate-manifest", ROOT / ".pre-commit-hooks.yaml")
    assert done.returncode == 0, done.stdout


# -- GitHub's action

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())


@pytest.fixture
def workspace(built: Path, tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "workspace"
    directory.mkdir()
    for name in ("good", "plain"):
        os.link(built / name, directory / name)
    yield directory
    assert not (tmp_path / "owned").exists()
    assert not (directory / "owned").exists()


def act(workspace: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the action's only step as GitHub's runner does, with *inputs* (``_`` for ``-``)."""
    (step,) = ACTION["runs"]["steps"]
    assert step["shell"] == "bash"
    values = {name: str(spec.get("default", "")) for name, spec in ACTION["inputs"].items()}
    values |= {name.replace("_", "-"): value for name, value in inputs.items()}
    variables = {}
    for name, expression in step["env"].items():
        match = re.fullmatch(r"\$\{\{ inputs\.([a-z-]+) \}\}", expression)
        assert match, expression
        variables[name] = values[match[1]]
    script = workspace.parent / "script.sh"
    script.write_text(step["run"])
    output = workspace.parent / "github-output"
    output.touch()
    env = environment() | variables | {"GITHUB_ACTION_PATH": str(ROOT), "GITHUB_OUTPUT": str(output)}
    return run("bash", "--noprofile", "--norc", "-eo", "pipefail", script, cwd=workspace, env=env)


def test_action_splices_nothing_into_its_script() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"]
    inputs = {"files", "recursive", "fail-on", "min-windows", "format", "sarif", "working-directory"}
    assert set(ACTION["inputs"]) == inputs
    used = "".join(ACTION["runs"]["steps"][0]["env"].values())
    assert all(f"inputs.{name} " in used for name in ACTION["inputs"])


def test_action_script_is_clean(tmp_path: Path) -> None:
    need("shellcheck")
    (tmp_path / "script.sh").write_text("#!/bin/bash\nset -eo pipefail\n" + ACTION["runs"]["steps"][0]["run"])
    assert run("shellcheck", tmp_path / "script.sh").stdout == ""


def test_action(workspace: Path) -> None:
    assert act(workspace, files="good").returncode == 0
    done = act(workspace, files="good\nplain\n", sarif="result.sarif")
    assert done.returncode == 1
    assert done.stdout.startswith("::error file=plain,title=HA001%3A ")
    assert '"ruleId": "HA001"' in (workspace / "result.sarif").read_text()
    assert (workspace.parent / "github-output").read_text() == "status=0\nstatus=1\n"
    assert act(workspace, files="plain", fail_on="never").returncode == 0
    assert [act(workspace, files="good", min_windows=number).returncode for number in ("2", "3")] == [0, 1]
    assert act(workspace, files="[gp][ol]*", format="text").stdout.count("could not check") == 1
    first, *_, last = act(workspace, files="good", format="json").stdout.splitlines()
    assert re.fullmatch(r"::stop-commands::([0-9a-f-]{36})", first)
    assert last == f"::{first.rpartition('::')[2]}::"
    assert act(workspace.parent, files="workspace").returncode == 3
    assert act(workspace.parent, files=".", recursive="true", working_directory="workspace").returncode == 1
    assert act(workspace, files="").returncode == 2
    assert act(workspace, files="good", recursive="maybe").returncode == 2
    assert act(workspace, files="good", working_directory="missing").returncode == 2  # 1 would be findings


HOSTILE = (
    "$(touch owned)", "`touch owned`", '"; touch owned; "', "'; touch owned; '", "x\ntouch owned\n", "; touch owned",
    "| touch owned", "-oowned\ngood", "--output=owned\ngood", "${IFS}touch owned", "$((x[$(touch owned)]))",
    "a[$(touch owned)]", "::set-output name=x::y", "--", "<(touch owned)", "{a,b}$(touch owned)", "*",
    "good' $(touch ../owned) '",
)  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE, ids=ascii)
@pytest.mark.parametrize("name", ["files", "recursive", "fail_on", "format", "sarif", "working_directory"])
def test_action_with_hostile_inputs(name: str, value: str, workspace: Path) -> None:
    """None is obeyed: whatever happens, no file named owned comes to be (see `workspace`)."""
    inputs = {"files": "good"} | {name: value}
    done = act(workspace, **inputs)
    assert done.returncode in (0, 1, 2, 3)
    if name != "sarif":
        assert done.returncode != 0
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["--", "-x", "-", "--fail-on=never", "--help", "*", "@x", "-o"])
def test_action_takes_each_line_for_a_file(name: str, workspace: Path) -> None:
    (workspace / "plain").rename(workspace / name)
    for files in (name, f"good\n{name}", f"{name}\ngood\n"):
        done = act(workspace, files=files, format="text")
        assert (done.returncode, done.stderr) == (1, "")
        assert f"{name}: FAILED" in done.stdout
    assert act(workspace, files=f"good\n{name}\nmissing", format="text").stdout.count("could not check") == 1
