"""The RPM package: built by rpmbuild, installed by rpm into a root of its own, used there and removed."""

import os
import shutil
from pathlib import Path

import pytest

from hugealign.cli import COMMANDS
from hugealign.version import __version__
from tests.link.bulk import MAIN_OF_ANY
from tests.support import ROOT, environment, run

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.skipif(not shutil.which("rpmbuild"), reason="rpmbuild is not installed"),
]


def built(place: Path) -> Path:
    done = run(ROOT / "packaging/rpm.sh", place)
    assert done.returncode == 0, done.stdout + done.stderr
    (package,) = place.glob("RPMS/noarch/hugealign-[0-9]*.rpm")
    return package


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("rpm") / "out")


def test_the_spec_has_this_version(package: Path) -> None:
    assert package.name.startswith(f"hugealign-{__version__}-1")


def test_all_launchers_and_pages_are_in_it(package: Path) -> None:
    files = set(run("rpm", "-qlp", package, check=True).stdout.splitlines())
    assert {f"/usr/bin/{file.name}" for file in (ROOT / "bin").iterdir()} <= files
    for page in ("hugealign", "hugealign-gcc", *(f"hugealign-{name}" for name in COMMANDS)):
        assert any(file.startswith(f"/usr/share/man/man1/{page}.1") for file in files), page
    assert "/usr/lib/hugealign/hugealign/cli/verify.py" in files
    assert "/usr/lib/hugealign/installed" not in files


@pytest.mark.skipif(os.geteuid() != 0, reason="rpm installs as root")
def test_installed_used_and_removed(package: Path, bulk: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    words = ["rpm", "--root", root, "--nodeps", "--noscripts"]
    run(*words, "-i", package, check=True)
    env = environment() | {"PATH": environment()["PATH"].partition(":")[2]}
    (tmp_path / "main.c").write_text(MAIN_OF_ANY)
    for words_of in (["hugealign", "gcc"], ["hugealign gcc"]):
        launcher, *rest = words_of
        run(root / "usr/bin" / launcher, *rest, tmp_path / "main.c", bulk, "-o", tmp_path / "out", env=env, check=True)
        run(root / "usr/bin/hugealign", "verify", tmp_path / "out", env=env, check=True)
        run(tmp_path / "out", env=env, check=True)
    run(*words, "-e", "hugealign", check=True)
    left = [path for path in root.rglob("*hugealign*") if "rpm" not in path.parts]
    assert left == []


def test_what_it_needs_is_named_where_it_is_missing(tmp_path: Path) -> None:
    done = run("/bin/sh", ROOT / "packaging/rpm.sh", tmp_path / "out", PATH=str(tmp_path))
    assert done.returncode == 3
    assert done.stderr == "make rpm: rpmbuild not found; on Debian: apt-get install rpm\n"
    assert "apt-get install rpm" in (ROOT / "docs" / "guides" / "install.md").read_text()


def test_a_blank_in_the_directory_is_refused_in_one_line(tmp_path: Path) -> None:
    """rpmbuild itself splits its _topdir there, and fails in the middle of the build."""
    done = run("/bin/sh", ROOT / "packaging/rpm.sh", tmp_path / "o ut")
    message = f"make rpm: rpmbuild takes no directory with a blank in its name: {tmp_path}/o ut; move the checkout\n"
    assert (done.returncode, done.stdout, done.stderr) == (3, "", message)
    assert not (tmp_path / "o ut").exists()


def test_two_builds_are_the_same_bytes(tmp_path: Path) -> None:
    """In one place, which rpmbuild writes into the source package, and its checksum into the other."""
    first = built(tmp_path / "out").read_bytes()
    assert built(tmp_path / "out").read_bytes() == first
