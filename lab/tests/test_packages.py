"""hugealign-lab as wheel, Debian package and RPM package: found where it is installed beside hugealign."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.support import ROOT, environment, run

MISSING = "simulate: hugealign-lab is not installed; install the package hugealign-lab from where hugealign came from"


def command(launcher: Path) -> tuple[int, str]:
    """Return the status of a command of the laboratory, and what it says; the checkout is not on PATH."""
    env = environment() | {"PATH": environment()["PATH"].partition(":")[2], "PYTHONPATH": ""}
    done = run(launcher, "simulate", "--help", env=env)
    return done.returncode, done.stderr


def wheel(project: Path, directory: Path) -> Path:
    """Build the wheel of a copy of *project*, so that nothing is written into the checkout."""
    source = directory / "source"
    words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = run("git", "-C", project, *words, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (project / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(project / name, source / name)
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", directory, source, check=True)
    (made,) = directory.glob("*.whl")
    return made


def test_wheels(tmp_path: Path) -> None:
    home = tmp_path / "home"
    venv.create(home, with_pip=False, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", home / "bin/python", "install", "-q", "--no-index", "--no-deps"]
    run(*pip, wheel(ROOT, tmp_path / "product"), check=True)
    assert command(home / "bin/hugealign") == (3, f"hugealign: error: {MISSING}\n")
    made = wheel(ROOT / "lab", tmp_path / "lab")
    assert not run("unzip", "-l", made, check=True).stdout.count("tests/")
    run(*pip, made, check=True)
    assert command(home / "bin/hugealign") == (0, "")


@pytest.mark.skipif(
    not (shutil.which("dpkg-buildpackage") and shutil.which("dh_python3")), reason="debhelper, dh-python: not installed"
)
def test_debian_packages(tmp_path: Path) -> None:
    run(ROOT / "packaging/deb.sh", tmp_path / "out", check=True)
    product, lab = ((next((tmp_path / "out").glob(f"{name}_*.deb"))) for name in ("hugealign", "hugealign-lab"))
    run("dpkg-deb", "-x", product, tmp_path / "root", check=True)
    assert command(tmp_path / "root/usr/bin/hugealign") == (3, f"hugealign: error: {MISSING}\n")
    run("dpkg-deb", "-x", lab, tmp_path / "root", check=True)
    assert command(tmp_path / "root/usr/bin/hugealign") == (0, "")


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("rpmbuild"), reason="rpm installs as root")
def test_rpm_packages(tmp_path: Path) -> None:
    run(ROOT / "packaging/rpm.sh", tmp_path / "out", check=True)
    words = ["rpm", "--root", tmp_path / "root", "--nodeps", "--noscripts", "-i"]
    packages = tmp_path / "out/RPMS/noarch"
    run(*words, next(packages.glob("hugealign-[0-9]*.rpm")), check=True)
    assert command(tmp_path / "root/usr/bin/hugealign") == (3, f"hugealign: error: {MISSING}\n")
    run(*words, next(packages.glob("hugealign-lab-*.rpm")), check=True)
    assert command(tmp_path / "root/usr/bin/hugealign") == (0, "")


def test_versions_agree() -> None:
    words = "from lab.src import hugealign_lab; from hugealign.version import __version__ as product; "
    words += "assert product == hugealign_lab.__version__"
    subprocess.run([sys.executable, "-c", words], cwd=ROOT, check=True)
