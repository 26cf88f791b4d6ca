"""A Debian package built with hugealign: what debhelper does to a program and its library leaves the layout."""

import shutil
from pathlib import Path

import pytest

from tests.link.bulk import bulk_source
from tests.support import HUGEALIGN, SRC, Elf, need, run

pytestmark = pytest.mark.matrix

FUNCTIONS = 600
#: What ``own_sum`` and ``big_sum`` add up to.
SUM = FUNCTIONS * (FUNCTIONS - 1) // 2


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the unpacked packages, each under its name, beside the packages and the log of the build."""
    need("dpkg-buildpackage", "dh", "dwz")
    directory = tmp_path_factory.mktemp("package")
    source = directory / "source"
    shutil.copytree(SRC / "package", source)
    (source / "big.s").write_text(bulk_source(FUNCTIONS))
    (source / "own.s").write_text(bulk_source(FUNCTIONS).replace("big_sum", "own_sum"))
    done = run("dpkg-buildpackage", "-us", "-uc", "-b", cwd=source, CC=f"{HUGEALIGN} gcc")
    assert done.returncode == 0, done.stdout + done.stderr
    (directory / "log").write_text(done.stdout + done.stderr)
    for package in directory.glob("*.deb"):
        run("dpkg-deb", "-x", package, directory / package.name.partition("_")[0], check=True)
    return directory


def test_the_usual_steps_were_taken(packages: Path) -> None:
    log = (packages / "log").read_text()
    for step in ("dh_dwz", "dh_strip", "dh_makeshlibs", "dh_shlibdeps"):
        assert f"   {step}" in log
    (package,) = packages.glob("program_*.deb")
    assert "libbig1" in run("dpkg-deb", "-f", package, "Depends").stdout


def library_of(packages: Path) -> Path:
    (library,) = (packages / "libbig1").rglob("libbig.so.1")
    return library


@pytest.mark.parametrize("name", ["program", "library"])
def test_installed_file(name: str, packages: Path) -> None:
    path = packages / "program/usr/bin/program" if name == "program" else library_of(packages)
    elf = Elf(path)
    assert elf.faults() == []
    assert ".symtab" not in elf.sections
    assert run(HUGEALIGN, "verify", path).returncode == 0


def test_program_runs(packages: Path) -> None:
    program = packages / "program/usr/bin/program"
    assert run(program, LD_LIBRARY_PATH=str(library_of(packages).parent)).stdout == f"{SUM} {SUM}\n"


@pytest.mark.parametrize("name", ["program", "libbig1"])
def test_debug_symbols_fit(name: str, packages: Path, tmp_path: Path) -> None:
    """dh_strip puts them into a package of their own, under the build ID; together they are the program again."""
    need("eu-unstrip")
    stripped = packages / "program/usr/bin/program" if name == "program" else library_of(packages)
    notes = run("readelf", "-n", stripped, check=True).stdout
    build_id = notes.partition("Build ID: ")[2].split()[0]
    debug = packages / f"{name}-dbgsym/usr/lib/debug/.build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    assert debug.exists()
    run("eu-unstrip", stripped, debug, "-o", tmp_path / "whole", check=True)
    assert " T own_sum" in (symbols := run("nm", tmp_path / "whole").stdout) or " T big_sum" in symbols
    assert Elf(tmp_path / "whole").faults() == []
