"""The Debian package: what lintian says, what is in it, and that two builds are the same bytes.

tests/prebuilt/test_package.py installs it.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hugealign.version import __version__
from tests.support import ROOT, environment, need, run

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.skipif(
        not (shutil.which("dpkg-buildpackage") and shutil.which("dh_python3")),
        reason="debhelper, dh-python: not installed",
    ),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("deb") / "o ut")  # as below a checkout with a blank in its name


def build(place: Path) -> Path:
    done = run(ROOT / "packaging/deb.sh", place)
    assert done.returncode == 0, done.stdout + done.stderr
    return place


def test_lintian_finds_nothing(built: Path) -> None:
    need("lintian")
    (changes,) = built.glob("*.changes")
    done = run("lintian", "--allow-root", "--fail-on", "error,warning", changes)
    assert done.returncode == 0, done.stdout
    assert not re.search("^[EW]:", done.stdout, re.MULTILINE)


def test_the_changelog_has_this_version(built: Path) -> None:
    done = run("dpkg-parsechangelog", "-l", ROOT / "packaging/debian/changelog", "-S", "Version", check=True)
    assert done.stdout == f"{__version__}\n"
    assert (built / f"hugealign_{__version__}_all.deb").exists()


def test_all_that_is_installed_is_in_it(built: Path, tmp_path: Path) -> None:
    """What `make install` puts below a prefix, but for the list of that and for bytecode; zsh has its own place."""
    package, prefix = tmp_path / "package", tmp_path / "prefix"
    run("dpkg-deb", "-x", next(built.glob("hugealign_*.deb")), package, check=True)
    run("make", "-s", "-C", ROOT, "install", PREFIX="/usr", DESTDIR=str(prefix), check=True)
    moved = {"usr/share/zsh/site-functions/_hugealign": "usr/share/zsh/vendor-completions/_hugealign"}
    for file in sorted(prefix.rglob("*")):
        name = str(file.relative_to(prefix))
        if not file.is_file() or name.endswith((".pyc", "/installed")):
            continue
        there = package / moved.get(name, name)
        if "/man/" in name:
            assert there.with_name(f"{there.name}.gz").is_symlink() or there.with_name(f"{there.name}.gz").exists()
        else:
            assert there.read_bytes() == file.read_bytes(), name
            assert there.stat().st_mode == file.stat().st_mode, name
    assert not list(package.rglob("*.pyc"))
    assert not list(package.rglob("installed"))


def test_what_examples_name_is_where_the_package_puts_it(built: Path) -> None:
    contents = run("dpkg-deb", "-c", next(built.glob("hugealign_*.deb")), check=True).stdout
    files = [file for file in (ROOT / "examples").rglob("*") if file.suffix in (".service", ".conf", ".sh")]
    named = {path for file in files for path in re.findall(r"/usr/bin/hugealign\S*", file.read_text())}
    assert named == {"/usr/bin/hugealign"}
    assert " ./usr/bin/hugealign\n" in contents


def test_what_it_needs_is_named_where_it_is_missing(tmp_path: Path) -> None:
    done = run("/bin/sh", ROOT / "packaging/deb.sh", tmp_path / "out", PATH=str(tmp_path))
    install = "apt-get install build-essential debhelper dh-python"
    assert (done.returncode, done.stderr) == (3, f"make deb: dpkg-buildpackage not found; on Debian: {install}\n")
    assert install in (ROOT / "docs" / "guides" / "install.md").read_text()


def test_two_builds_are_the_same_bytes(built: Path, tmp_path: Path) -> None:
    words = f"umask 077; exec '{ROOT}/packaging/deb.sh' '{tmp_path}/out'"
    subprocess.run(["sh", "-c", words], env=environment(TZ="Asia/Tokyo"), capture_output=True, check=True)
    for file in sorted(built.glob("hugealign_*")):
        if file.suffix in (".deb", ".dsc", ".xz"):
            assert (tmp_path / "out" / file.name).read_bytes() == file.read_bytes(), file.name


#: Makes an empty store, and something beside the journal, and runs the scripts of the package in $1 as dpkg does.
_SCRIPTS = """
mount -t tmpfs none /run
mount -t tmpfs none /var/lib
mkdir /run/hugealign /var/lib/hugealign
mount -t tmpfs -o huge=always,mode=755 hugealign /run/hugealign
touch /var/lib/hugealign/kept
"$1/prerm" upgrade 9
"$1/postrm" upgrade 9
test -d /run/hugealign
"$1/prerm" remove
test ! -e /run/hugealign
"$1/postrm" remove
test -e /var/lib/hugealign/kept
"$1/postrm" purge
test ! -e /var/lib/hugealign
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="root is needed to mount")
def test_removal_drops_copies_and_names_what_stays_and_purge_takes_the_journal(built: Path, tmp_path: Path) -> None:
    run("dpkg-deb", "-e", next(built.glob("hugealign_*.deb")), tmp_path / "scripts", check=True)
    clean = tmp_path / "bin/py3clean"  # it wants to find the package installed
    clean.parent.mkdir()
    clean.symlink_to("/bin/true")
    words = ("unshare", "--mount", "env", "-u", "XDG_STATE_HOME", "sh", "-ec", _SCRIPTS, "sh")
    path = f"{clean.parent}:{environment()['PATH']}"
    done = run(*words, tmp_path / "scripts", XDG_CACHE_HOME=str(tmp_path), PATH=path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "to undo it, run: hugealign status --undo" in done.stdout
