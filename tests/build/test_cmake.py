"""A real CMake project, in the ways that the README names."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.link.bulk import bulk_source
from tests.support import BIN, HUGEALIGN, Elf, run

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
MAIN = "unsigned big_sum(void);\nint main(void) { return big_sum() != 3000u * 2999u / 2u; }\n"

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
    return run(HUGEALIGN, "path", "--toolchain", check=True).stdout.rstrip("\n")


def test_toolchain_file(project: Path) -> None:
    build(project, "--toolchain", toolchain())


def test_toolchain_file_and_flags_of_the_user(project: Path) -> None:
    build(
        project, "--toolchain", toolchain(), "-DCMAKE_EXE_LINKER_FLAGS=-Wl,-O1", "-DCMAKE_SHARED_LINKER_FLAGS=-Wl,-O1"
    )


def test_toolchain_file_with_ninja_and_clang(project: Path) -> None:
    for tool in ("ninja", "clang-19"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    build(project, "--toolchain", toolchain(), generator="Ninja", CC="clang-19", CXX="clang++-19")


def test_compiler_in_the_environment(project: Path) -> None:
    build(project, CC="hugealign gcc", CXX="hugealign g++")


def test_one_word_compiler(project: Path) -> None:
    build(project, f"-DCMAKE_C_COMPILER={BIN}/hugealign-gcc", f"-DCMAKE_CXX_COMPILER={BIN}/hugealign-g++")


def test_top_level_include(project: Path) -> None:
    version = run("cmake", "--version").stdout.split()[2]
    if tuple(map(int, version.split(".")[:2])) < (3, 24):
        pytest.skip("CMAKE_PROJECT_TOP_LEVEL_INCLUDES needs CMake 3.24")
    build(project, f"-DCMAKE_PROJECT_TOP_LEVEL_INCLUDES={toolchain()}")
