"""One archive of each kind, made by the tool that makes them for others; used by the tests and the fuzzer."""

import subprocess
from pathlib import Path

SPEC = """\
Name: prog
Version: 1
Release: 1
Summary: x
License: x
%global __os_install_post %{nil}
%global debug_package %{nil}
%description
x
%install
cp -a {tree}/. %{buildroot}
%files
/
"""


def tree(directory: Path) -> Path:
    """Make a directory with a program, a library, an object, a script, and links."""
    source = directory / "prog.c"
    source.write_text("int main(void) { return 0; }\n")
    top = directory / "tree"
    for name in ("usr/bin", "usr/lib", "usr/share"):
        (top / name).mkdir(parents=True)
    sh("gcc prog.c -o tree/usr/bin/prog", directory)
    sh("gcc -shared -fPIC prog.c -o tree/usr/lib/libprog.so", directory)
    sh("gcc -c prog.c -o tree/usr/lib/prog.o", directory)
    (top / "usr/share/script").write_text("#!/bin/sh\n" * 100)
    (top / "usr/bin/other").symlink_to("prog")
    (top / "usr/bin/hard").hardlink_to(top / "usr/share/script")
    return top


def sh(command: str, cwd: Path) -> None:
    """Run a shell command that must succeed."""
    done = subprocess.run(["sh", "-ec", command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"


PROGRAMS = ("usr/bin/prog", "usr/lib/libprog.so")
_TAR = "tar {} -cf {{out}} -C tree ."
_DEB = (
    "rm -rf deb && cp -a tree deb && mkdir deb/DEBIAN && printf"
    "  'Package: prog\\nVersion: 1\\nArchitecture: all\\nMaintainer: x\\nDescription: y\\n' >deb/DEBIAN/control && "
    "dpkg-deb --root-owner-group -Z{} -b deb {{out}}"
)
_RPM = (
    "rpmbuild -bb --quiet --define '_topdir '$PWD/rpm --define '_binary_payload {}' "
    "--define '_build_id_links none' prog.spec && mv rpm/RPMS/*/*.rpm {{out}}"
)
_IMAGE = (
    "umoci init --layout oci && umoci new --image oci:x && umoci unpack --rootless --image oci:x bundle && "
    "cp -a tree/. bundle/rootfs/ && umoci repack --image oci:x bundle && rm -rf bundle && "
    "umoci unpack --rootless --image oci:x bundle && rm bundle/rootfs/usr/lib/libprog.so && "
    "cp tree/usr/bin/prog bundle/rootfs/again && umoci repack --image oci:x bundle && "
)

#: Two archives in one file, as an initial ram disk has them: what is between them, and what packs the second.
_TWO = (
    "cd tree && (find . -path '*bin*' | cpio --quiet -o -H newc; {}; "
    "find . ! -path '*bin*' | cpio --quiet -o -H newc | {}) >{{out}}"
)

#: kind -> the command that makes it
COMMANDS = {
    **{f"tar.{f}": _TAR.format(f"--format={f}") for f in ("v7", "ustar", "gnu", "pax")},
    **{f"tar.{s}": _TAR.format(flag) for s, flag in {"gz": "-z", "bz2": "-j", "xz": "-J", "zst": "--zstd"}.items()},
    **{f"sparse.{f}.tar": f"truncate -s +3M tree/usr/bin/prog; tar -S --format={f} -cf {{out}} -C tree ."
       for f in ("gnu", "pax")},
    **{f"{z}.deb": _DEB.format(z) for z in ("none", "gzip", "xz", "zstd")},
    **{f"{n}.rpm": _RPM.format(p) for n, p in {"gz": "w9.gzdio", "xz": "w2.xzdio", "zst": "w3.zstdio",
       "bz2": "w9.bzdio", "none": "w.ufdio"}.items()},
    "zip": "cd tree && zip -qry {out} .",
    "stored.zip": "cd tree && zip -0qry {out} .",
    "streamed.zip": "cd tree && zip -qr - . | cat >{out}",
    "bz2.zip": "cd tree && zip -Z bzip2 -qry {out} .",
    "cpio": "cd tree && find . | cpio --quiet -o -H newc >{out}",
    "two.cpio": _TWO.format("head -c 4096 /dev/zero", "cat"),
    "initrd.cpio": _TWO.format("true", "gzip"),
    "oci.tar": _IMAGE + "tar -cf {out} -C oci .",
    "oci.tar.gz": _IMAGE + "tar -czf {out} -C oci .",
    "docker.tar": _IMAGE + "skopeo --insecure-policy copy -q oci:oci:x docker-archive:{out}:x:y",
}  # fmt: skip


def make(kind: str, directory: Path, of: Path | None = None) -> Path:
    """Return the archive of *kind*, made in *directory* of the tree that is in *of*."""
    work = directory / f"{kind}.work"
    work.mkdir()
    sh(f"cp -a {of or directory}/tree .", work)
    (work / "prog.spec").write_text(SPEC.replace("{tree}", str(work / "tree")))
    out = directory / f"archive.{kind}"
    sh(COMMANDS[kind].replace("{out}", str(out)), work)
    return out


IMAGES = ("oci.tar", "oci.tar.gz", "docker.tar")


def tools(kind: str) -> list[str]:
    """Return the programs that making *kind* takes, of those that not every system has."""
    words = COMMANDS[kind].split()
    wanted = [tool for tool in ("dpkg-deb", "rpmbuild", "zip", "cpio", "umoci", "skopeo") if tool in words]
    return wanted + ["zstd"] * ("zst" in kind)
