"""A package that Conan builds under a profile of two lines, by the build system that it has."""

import shutil
from pathlib import Path

import pytest

from tests.link.bulk import bulk_source
from tests.support import HUGEALIGN, Elf, run

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.skipif(not shutil.which("conan"), reason="conan is not installed (pip install conan)"),
    pytest.mark.skipif(not shutil.which("cmake"), reason="cmake is not installed"),
]

RECIPE = """
from conan import ConanFile
from conan.tools.cmake import CMake
from conan.tools.files import copy


class Server(ConanFile):
    name, version = "server", "1.0"
    settings = "os", "compiler", "build_type", "arch"
    generators = "CMakeToolchain", "VirtualBuildEnv"
    exports_sources = "CMakeLists.txt", "main.c", "bulk.s"

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "server", self.build_folder, self.package_folder)
"""
LISTS = "cmake_minimum_required(VERSION 3.20)\nproject(server LANGUAGES C ASM)\nadd_executable(server main.c bulk.s)\n"


@pytest.mark.parametrize("profile", ["", "[buildenv]\nCOMPILER_PATH={}\n"])
def test_profile(profile: str, tmp_path: Path) -> None:
    shims = run(HUGEALIGN, "path", "shims", check=True).stdout.strip()
    source = tmp_path / "source"
    source.mkdir()
    for name, text in {
        "conanfile.py": RECIPE,
        "CMakeLists.txt": LISTS,
        "main.c": "int main(void) { return 0; }\n",
        "bulk.s": bulk_source(),
        "profile": f"include(default)\n{profile.format(shims)}",
    }.items():
        (source / name).write_text(text)
    home = str(tmp_path / "home")
    run("conan", "profile", "detect", check=True, CONAN_HOME=home)
    done = run("conan", "create", ".", "--profile:all=./profile", cwd=source, CONAN_HOME=home)
    assert done.returncode == 0, done.stderr
    (made,) = (tmp_path / "home").glob("p/b/*/p/server")
    assert bool(Elf(made).faults()) == (not profile)
