"""Packages that are built with hugealign in one line: `dh $@ --with hugealign`, and `%hugealign` in a spec."""

import shutil
from pathlib import Path

import pytest

from tests.link.bulk import MAIN, bulk_source
from tests.support import BIN, ROOT, environment, run

PACKAGING = ROOT / "packaging"
MAKEFILE = """\
CC = gcc
all: server small
server: main.o bulk.o
	$(CC) $(LDFLAGS) main.o bulk.o -o $@
small: small.o
	$(CC) $(LDFLAGS) small.o -o $@
install: all
	install -D server $(DESTDIR)/usr/bin/server
	install -D small $(DESTDIR)/usr/bin/small
clean:
	rm -f *.o server small
"""
CONTROL = """\
Source: server
Section: misc
Priority: optional
Maintainer: Nobody <nobody@server.example>
Build-Depends: debhelper-compat (= 13)
Rules-Requires-Root: no

Package: server
Architecture: any
Depends: ${shlibs:Depends}, ${misc:Depends}
Description: a server
 It serves.

Package: server-doc
Architecture: all
Depends: ${misc:Depends}
Description: its documentation
 It documents.
"""
CHANGELOG = """\
server (1.0) unstable; urgency=low

  * First.

 -- Nobody <nobody@server.example>  Mon, 23 Nov 2026 10:00:00 +0000
"""
RULES = "#!/usr/bin/make -f\n%:\n\tdh $@ --with hugealign\n{}"
SPEC = """\
Name: server
Version: 1.0
Release: 1
Summary: A server
License: none
{front}
%global debug_package %{{nil}}
%description
It serves.
%build
%{{__make}} -C {source}
%install
%{{__make}} -C {source} install DESTDIR=%{{buildroot}}
%files
/usr/bin/*
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "server-1.0"
    directory.mkdir()
    files = {"Makefile": MAKEFILE, "main.c": MAIN, "bulk.s": bulk_source(), "small.c": "int main(void) { return 0; }\n"}
    for name, text in files.items():
        (directory / name).write_text(text)
    return directory


def debian_build(source: Path, override: str = "") -> tuple[int, str]:
    debian = source / "debian"
    shutil.rmtree(debian, ignore_errors=True)
    (debian / "source").mkdir(parents=True)
    for name, text in {
        "control": CONTROL,
        "changelog": CHANGELOG,
        "rules": RULES.format(override),
        "source/format": "3.0 (native)\n",
        "server.install": "usr/bin\n",
    }.items():
        (debian / name).write_text(text)
    (debian / "rules").chmod(0o755)
    modules = source.parent / "perl" / "Debian" / "Debhelper" / "Sequence"  # where the package puts it
    modules.mkdir(parents=True, exist_ok=True)
    shutil.copy(PACKAGING / "debhelper" / "hugealign.pm", modules)
    done = run(
        *("dpkg-buildpackage", "-us", "-uc", "-b", "-d"),
        cwd=source,
        PERL5LIB=str(source.parent / "perl"),
        PATH=f"{PACKAGING / 'debhelper'}:{BIN}:{environment()['PATH']}",
    )
    return done.returncode, done.stdout + done.stderr


def text_of(package: Path, where: Path) -> str:
    run("dpkg-deb", "-x", package, where, check=True)
    return run(BIN / "hugealign", "verify", where / "usr/bin/server").stdout


@pytest.mark.matrix
@pytest.mark.skipif(not shutil.which("dh"), reason="debhelper is not installed")
def test_debhelper(source: Path, tmp_path: Path) -> None:
    status, output = debian_build(source)
    assert status == 0, output
    assert "dh_hugealign" in output
    (package,) = tmp_path.glob("server_1.0_*.deb")
    assert "server: ok  100 %" in text_of(package, tmp_path / "with")
    assert run(tmp_path / "with/usr/bin/server").returncode == 0


@pytest.mark.skipif(not shutil.which("dh"), reason="debhelper is not installed")
@pytest.mark.matrix
def test_debhelper_judges_what_is_in_the_package(source: Path, tmp_path: Path) -> None:
    """A program that the build links by ld itself, or by another linker, is found."""
    override = "override_dh_auto_build:\n\tenv -u COMPILER_PATH $(MAKE)\n"
    status, output = debian_build(source, override)
    assert status != 0
    assert "error[HA004]" in output
    never = override + "override_dh_hugealign:\n\tdh_hugealign -- --fail-on never\n"
    status, output = debian_build(source, never)
    assert status == 0, output
    assert "error[HA004]" in output
    (package,) = tmp_path.glob("server_1.0_*.deb")
    assert "server: FAILED" in text_of(package, tmp_path / "without")


@pytest.mark.skipif(not shutil.which("rpmbuild"), reason="rpmbuild is not installed")
@pytest.mark.parametrize(
    ("front", "status"), [("", 0), ("%hugealign", 0), ("%hugealign --select HA999", 1), ("%hugealign\nEXTRA", 1)]
)
def test_rpm(front: str, status: int, source: Path, tmp_path: Path) -> None:
    spec = SPEC.format(front=front.replace("EXTRA", ""), source=source)
    if "EXTRA" in front:  # the build goes around the shims
        spec = spec.replace("%build\n", "%build\nunset COMPILER_PATH\n")
    (tmp_path / "server.spec").write_text(spec)
    load = f"--load={PACKAGING / 'rpm' / 'macros.hugealign'}"
    words = ["rpmbuild", load, "-bb", "--define", f"_topdir {tmp_path}/rpm", tmp_path / "server.spec"]
    done = run(*words, PATH=f"{BIN}:{environment()['PATH']}")
    assert (done.returncode != 0) == status, done.stdout + done.stderr
    if not status:
        (package,) = (tmp_path / "rpm").glob("RPMS/*/*.rpm")
        run("sh", "-c", 'rpm2cpio "$1" | cpio -id --quiet', "-", package, cwd=tmp_path, check=True)
        verdict = "ok  100 %" if front else "FAILED"
        assert f"server: {verdict}" in run(BIN / "hugealign", "verify", tmp_path / "usr/bin/server").stdout
