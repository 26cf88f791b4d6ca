"""A real CMake project, in the ways that the README names."""

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tests.link.bulk import MAIN, bulk_source
from tests.support import BIN, HUGEALIGN, Elf, need, run

LISTS = """
cmake_minimum_required(VERSION 3.20)
project(example LANGUAGES C CXX ASM)
add_library(bulk SHARED bulk.s)
set_target_properties(bulk PROPERTIES LINKER_LANGUAGE C)
add_subdirectory(sub)
"""
SUB_LISTS = """
add_executable(c-program main.c ../bulk.s)
add_executable(cxx-program main.cc)
target_link_libraries(cxx-program bulk)
include(CheckCSourceCompiles)
check_c_source_compiles("int main(void) { return nowhere(); }" SHOULD_FAIL)
if(SHOULD_FAIL)
  message(FATAL_ERROR "an undefined symbol was found")
endif()
if(CMAKE_C_COMPILER_ID STREQUAL GNU)
  include(CheckIPOSupported)
  check_ipo_supported(LANGUAGES C)
endif()
"""

pytestmark = pytest.mark.skipif(not shutil.which("cmake"), reason="cmake is not installed")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    source = tmp_path / "source dir"
    (source / "sub").mkdir(parents=True)
    (source / "CMakeLists.txt").write_text(LISTS)
    (source / "bulk.s").write_text(bulk_source())
    (source / "sub" / "CMakeLists.txt").write_text(SUB_LISTS)
    (source / "sub" / "main.c").write_text(MAIN)
    (source / "sub" / "main.cc").write_text(f'extern "C" {MAIN}')
    return source


def build(project: Path, *words: str, generator: str = "Unix Makefiles", **settings: Any) -> None:
    """Configure, build, look at the outputs, run them, and configure again."""
    directory = project.parent / "build"
    done = run("cmake", "-S", project, "-B", directory, "-G", generator, *words, **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hugealign:" not in done.stderr
    done = run("cmake", "--build", directory)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hugealign:" not in done.stdout + done.stderr
    for output in ("libbulk.so", "sub/c-program"):
        assert Elf(directory / output).faults() == [], output
    for program in ("sub/c-program", "sub/cxx-program"):
        assert run(directory / program).returncode == 0
    assert run("cmake", directory).returncode == 0
    outputs = [directory / name for name in ("libbulk.so", "sub/c-program", "sub/cxx-program")]
    before = [output.stat().st_mtime_ns for output in outputs]
    assert run("cmake", "--build", directory).returncode == 0
    assert [output.stat().st_mtime_ns for output in outputs] == before, "nothing has changed, and it was linked again"


def toolchain() -> str:
    return run(HUGEALIGN, "path", "toolchain", check=True).stdout.rstrip("\n")


@pytest.mark.matrix
def test_toolchain_file_and_flags_of_the_user(project: Path) -> None:
    build(
        project, "--toolchain", toolchain(), "-DCMAKE_EXE_LINKER_FLAGS=-Wl,-O1", "-DCMAKE_SHARED_LINKER_FLAGS=-Wl,-O1"
    )


@pytest.mark.matrix
def test_toolchain_file_with_ninja_and_clang(project: Path) -> None:
    need("ninja", "clang-19")
    build(project, "--toolchain", toolchain(), generator="Ninja", CC="clang-19", CXX="clang++-19")


@pytest.mark.matrix
def test_compiler_in_the_environment(project: Path) -> None:
    build(project, CC="hugealign gcc", CXX="hugealign g++")


@pytest.mark.matrix
def test_one_word_compiler(project: Path) -> None:
    build(project, f"-DCMAKE_C_COMPILER={BIN}/hugealign-gcc", f"-DCMAKE_CXX_COMPILER={BIN}/hugealign-g++")


@pytest.mark.matrix
def test_top_level_include(project: Path) -> None:
    version = run("cmake", "--version").stdout.split()[2]
    if tuple(map(int, version.split(".")[:2])) < (3, 24):
        pytest.skip("CMAKE_PROJECT_TOP_LEVEL_INCLUDES needs CMake 3.24")
    build(project, f"-DCMAKE_PROJECT_TOP_LEVEL_INCLUDES={toolchain()}")


ORDERED = """
cmake_minimum_required(VERSION 3.21)
project(ordered LANGUAGES C ASM)
{find}
add_library(parts STATIC parts.c)
add_executable(server main.c bulk.s)
target_link_libraries(server parts)
{order}
"""
PARTS = "".join(f"int {name}(int x) {{ return x + {at}; }}\n" for at, name in enumerate(("cold", "second", "first")))
USER = "int cold(int), first(int), second(int);\nint main(void) { return first(second(cold(0))) != 3; }\n"


def ordered(directory: Path, *, find: str = "", order: str = "") -> Path:
    source = directory / "ordered"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(ORDERED.format(find=find, order=order))
    for name, text in (("parts.c", PARTS), ("main.c", USER), ("bulk.s", bulk_source())):
        (source / name).write_text(text)
    write_order(directory, "first", "second")
    return source


def write_order(directory: Path, *names: str) -> Path:
    path = directory / "server.order"
    path.write_text("\n".join(("# hugealign.order/1", "# windows: 1", *names, "")))
    return path


def first_functions(program: Path) -> list[str]:
    lines = run("nm", "-n", "--defined-only", program, check=True).stdout.split("\n")
    return [name for line in lines if line[17:18] == "T" and (name := line[19:]) in ("first", "second", "cold")]


@pytest.mark.parametrize("generator", ["Unix Makefiles", "Ninja"])
@pytest.mark.parametrize("way", ["toolchain", "variable", "package"])
def test_an_order_in_one_go(way: str, generator: str, tmp_path: Path) -> None:
    if generator == "Ninja" and not shutil.which("ninja"):
        pytest.skip("ninja is not installed")
    settings: dict[str, Any] = {}
    if way == "package":
        source = ordered(
            tmp_path, find="find_package(hugealign)", order="hugealign_profile(../server.order server parts)"
        )
        words = [f"-Dhugealign_DIR={run(HUGEALIGN, 'path', 'cmake', check=True).stdout.strip()}"]
    else:
        source = ordered(tmp_path)
        words = ["--toolchain", toolchain()]
        if way == "toolchain":
            words.append(f"-DHUGEALIGN_PROFILE={tmp_path / 'server.order'}")
        else:
            settings = {"HUGEALIGN_PROFILE": str(tmp_path / "server.order")}
    directory = tmp_path / "build"

    def make() -> str:
        done = run("cmake", "--build", directory)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    done = run("cmake", "-S", source, "-B", directory, "-G", generator, *words, **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hugealign:" not in make()  # no function that was not placed
    assert Elf(directory / "server").faults() == []
    assert first_functions(directory / "server") == ["first", "second", "cold"]
    before = (directory / "server").stat().st_mtime_ns
    make()
    assert (directory / "server").stat().st_mtime_ns == before
    time.sleep(2)  # CMake may look at whole seconds; and ninja takes no time to come
    write_order(tmp_path, "second", "first")
    message = make()
    assert first_functions(directory / "server") == ["second", "first", "cold"]
    assert "Building C object" not in message  # a new order is a link, not a compile


@pytest.mark.parametrize("order", ["hugealign_profile(../server.order server)", ""])
def test_an_order_and_a_launcher_of_the_user(order: str, tmp_path: Path) -> None:
    """Both apply; of two orders the last does, and hugealign_profile comes after the toolchain file."""
    source = ordered(tmp_path, find="find_package(hugealign)", order=f"{order}\n" * 2)
    other = tmp_path / "other.order"
    other.write_text("# hugealign.order/1\n# windows: 1\nsecond\nfirst\n")
    launcher = tmp_path / "launcher"
    launcher.write_text(f'#!/bin/sh\necho run >>"{tmp_path}/runs"\nshift\nexec "$@"\n')
    launcher.chmod(0o755)
    words = [f"-Dhugealign_DIR={run(HUGEALIGN, 'path', 'cmake', check=True).stdout.strip()}"]
    words += ["--toolchain", toolchain(), f"-DHUGEALIGN_PROFILE={other}", f"-DCMAKE_C_LINKER_LAUNCHER={launcher};-x"]
    run("cmake", "-S", source, "-B", tmp_path / "build", *words, check=True)
    (tmp_path / "runs").unlink(missing_ok=True)  # CMake tries compilers, and their links
    run("cmake", "--build", tmp_path / "build", check=True)
    assert (tmp_path / "runs").read_text() == "run\n"
    assert first_functions(tmp_path / "build/server")[:2] == (["first", "second"] if order else ["second", "first"])


def test_an_order_that_is_not_there(tmp_path: Path) -> None:
    source = ordered(tmp_path)
    done = run(
        "cmake", "-S", source, "-B", tmp_path / "build", "--toolchain", toolchain(), "-DHUGEALIGN_PROFILE=/no/such"
    )
    assert done.returncode == 1
    assert "hugealign: /no/such: no such order; make it: hugealign order" in done.stderr


FLANG = """\
#!/bin/sh
for word do
    case $word in -B* | -ffunction-sections) echo "unknown argument '$word'" >&2 && exit 1 ;; esac
    [ "$before" != -o ] || : >"$word"
    before=$word
done
"""


@pytest.mark.parametrize("way", ["toolchain", "package"])
def test_a_flang_of_llvm(way: str, tmp_path: Path) -> None:
    """A stub: flang 19 knows no -B, nor -ffunction-sections."""
    order = write_order(tmp_path, "first")
    flang = tmp_path / "flang-new"
    flang.write_text(FLANG)
    flang.chmod(0o755)
    source = tmp_path / "source"
    source.mkdir()
    (source / "main.f90").write_text("end\n")
    text = "cmake_minimum_required(VERSION 3.21)\nproject(p LANGUAGES Fortran)\nadd_executable(p main.f90)\n"
    words = [f"-DCMAKE_Fortran_COMPILER={flang}"]
    words += [f"-DCMAKE_Fortran_COMPILER_{name}" for name in ("ID=LLVMFlang", "ID_RUN=1", "FORCED=1", "VERSION=19")]
    if way == "toolchain":
        words += ["--toolchain", toolchain(), f"-DHUGEALIGN_PROFILE={order}"]
    else:
        text += f"find_package(hugealign REQUIRED)\nhugealign_profile({order} p)\n"
        words.append(f"-Dhugealign_DIR={run(HUGEALIGN, 'path', 'cmake', check=True).stdout.strip()}")
    (source / "CMakeLists.txt").write_text(text)
    run("cmake", "-S", source, "-B", tmp_path / "build", *words, check=True)
    run("cmake", "--build", tmp_path / "build", check=True)
    assert (tmp_path / "build/p").exists()
