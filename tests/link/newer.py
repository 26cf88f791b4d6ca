"""Newer linkers than this system has, newer perfs, and LoongArch: unpacked under build/newer, not installed.

``.venv/bin/python -m tests.link.newer`` fetches all of them, and ``make test-links`` begins so: building wild takes
longer than a test may. Cargo builds it from its registry, once. The others come from the Debian mirror that apt uses.
What a suite's index names is trusted because Debian's keys sign the index's checksum, and the index holds each
package's. One past its ``Valid-Until`` is also taken: a mirror that stands still can be tested. patchelf
makes every program run with its own suite's C library.
"""

import fcntl
import hashlib
import json
import lzma
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.support import ROOT

TARGET = ROOT / "build" / "newer"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
SUITES = ("trixie", "sid")
#: What to unpack; of several the one with the highest number.
PACKAGES = (
    "binutils-x86-64-linux-gnu",
    "binutils-aarch64-linux-gnu",
    "binutils-gold-x86-64-linux-gnu",
    "mold",
    r"lld-\d+",
    "linux-perf",
)
#: The links in build/newer/SUITE to the programs among the unpacked files.
PROGRAMS = {
    "bin/ld.bfd": "usr/bin/x86_64-linux-gnu-ld.bfd",
    "bin/ld.gold": "usr/bin/x86_64-linux-gnu-ld.gold",
    "bin/ld.lld": "usr/lib/llvm-*/bin/lld",
    "bin/ld.mold": "usr/bin/mold",
    "aarch64-bfd/ld.bfd": "usr/bin/aarch64-linux-gnu-ld.bfd",
    "aarch64-lld/ld.lld": "usr/lib/llvm-*/bin/lld",
    "aarch64-mold/ld": "usr/bin/mold",
    "perf/perf": "usr/bin/perf",
}
#: The linker that Debian has not: built by cargo, where there is one.
CARGO, WILD = "cargo", "0.10.0"
#: Where Debian's next C library is before it is in sid; only that is unpacked of it.
EXPERIMENTAL = "experimental"
LOADER = "usr/lib64/ld-linux-x86-64.so.2"
#: What LoongArch needs: C and C++ libraries for clang, GNU ld, and a QEMU that knows the vectors they use; from trixie.
LOONGARCH = "loongarch"
SYSROOT = (
    "libc6-dev-loong64-cross libc6-loong64-cross libgcc-14-dev-loong64-cross libgcc-s1-loong64-cross "
    "libstdc++-14-dev-loong64-cross libstdc++6-loong64-cross linux-libc-dev-loong64-cross "
    "binutils-loongarch64-linux-gnu libc6 libjansson4 libzstd1 zlib1g libsframe1 qemu-user"
).split()
Index = dict[str, dict[str, str]]


class UnavailableError(Exception):
    """The programs cannot be had here; the message says why."""


def mirror() -> str:
    """The address of the Debian archive in apt's own configuration."""
    wanted = ("--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian", "Label: Debian")
    try:
        done = subprocess.run(("apt-get", "indextargets", *wanted), capture_output=True, text=True, check=True)
        return done.stdout.split()[0].rstrip("/")
    except (OSError, subprocess.CalledProcessError, IndexError) as error:
        raise UnavailableError(f"apt names no Debian mirror: {error}") from error


def download(url: str, sha256: str | None = None) -> bytes:
    """The bytes at *url*; their checksum must be *sha256*."""
    try:
        with urllib.request.urlopen(url, timeout=60) as reply:  # noqa: S310  # it is apt's own mirror
            data: bytes = reply.read()
    except (OSError, urllib.error.URLError) as error:
        raise UnavailableError(f"nothing newer without a mirror: {url.rpartition('/')[2]}: {error}") from error
    if sha256 and hashlib.sha256(data).hexdigest() != sha256:
        raise UnavailableError(f"{url.rpartition('/')[2]}: not the bytes that the index promises")
    return data


@contextmanager
def _package(archive: str, fields: Mapping[str, str], place: Path) -> Iterator[Path]:
    """Download the package with these *fields* of the index to *place*, for a while.  Raises UnavailableError."""
    package = place / "package.deb"
    package.write_bytes(download(f"{archive}/{fields['Filename']}", fields["SHA256"]))
    yield package
    package.unlink()


def index(archive: str, suite: str) -> Index:
    """The packages of *suite*: by name, their fields."""
    release = download(f"{archive}/dists/{suite}/InRelease")
    try:
        words = ("gpgv", "--keyring", KEYS, "--output", "-")
        done = subprocess.run(words, input=release, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UnavailableError(f"{suite}: the signature of the index cannot be verified: {error}") from error
    name = "main/binary-amd64/Packages.xz"
    match = re.search(rf"^ ([0-9a-f]{{64}}) +\d+ {re.escape(name)}$", done.stdout.decode(), re.MULTILINE)
    if not match:
        raise UnavailableError(f"{suite}: no {name}")
    text = lzma.decompress(download(f"{archive}/dists/{suite}/{name}", match[1])).decode()
    paragraphs = (dict(re.findall(r"^(\S+): (.*)$", part, re.MULTILINE)) for part in text.split("\n\n"))
    return {fields["Package"]: fields for fields in paragraphs if fields}


def closure(packages: Index) -> list[str]:
    """What PACKAGES names and everything that it depends on, the first of alternatives."""
    wanted = []
    for pattern in PACKAGES:
        names = [name for name in packages if re.fullmatch(pattern, name)]
        wanted.append(max(names, key=lambda name: [int(number) for number in re.findall(r"-(\d+)$", name)]))
    for name in wanted:
        for dependency in packages[name].get("Depends", "").split(","):
            other = dependency.partition("|")[0].split("(")[0].strip().partition(":")[0]
            if other in packages and other not in wanted:
                wanted.append(other)
    return wanted


def unpack(archive: str, suite: str) -> None:
    """Fill build/newer/SUITE: ``root``, the packages; the links; ``versions.json``, last of all."""
    place = TARGET / suite
    root = place / "root"
    packages = index(archive, suite)
    root.mkdir(parents=True, exist_ok=True)
    for name in closure(packages):
        with _package(archive, packages[name], place) as package:
            subprocess.run(("dpkg-deb", "-x", package, root), check=True)
    libraries = f"{root}/usr/lib/x86_64-linux-gnu:{root}/usr/lib"
    # A library with a path of its own does not inherit the program's for what it needs (ld.so(8), DT_RUNPATH).
    for library in {path.resolve() for path in root.glob("usr/lib/x86_64-linux-gnu/libLLVM*")}:
        subprocess.run(("patchelf", "--remove-rpath", library), check=True)
    words = ("patchelf", "--set-interpreter", root / LOADER, "--force-rpath", "--set-rpath", libraries)
    versions = {}
    for name, pattern in PROGRAMS.items():
        program = next(root.glob(pattern)).resolve()
        subprocess.run((*words, program), check=True)
        link = place / name
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(program)
        done = subprocess.run((link, "--version"), capture_output=True, text=True, check=True)
        versions[name] = done.stdout.splitlines()[0]
    (place / "versions.json").write_text(json.dumps(versions))


def build_wild() -> dict[str, str]:
    """Have wild in build/newer/cargo/bin, by the names that compilers look for.  Raises UnavailableError."""
    place = TARGET / CARGO / "bin"
    if not (place / "wild").exists():
        words = ("cargo", "install", "--locked", "wild-linker", "--version", WILD, "--root", place.parent)
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=1800)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnavailableError(f"wild: {error}; cargo builds it, of Rust 1.94 or newer") from error
        if done.returncode:
            raise UnavailableError(f"wild: cargo says: {done.stderr.strip().splitlines()[-1]}")
    for name in ("ld", "ld.wild"):
        link = place / name
        if not link.is_symlink():  # another test may be linking with it
            link.symlink_to("wild")
    done = subprocess.run((place / "wild", "--version"), capture_output=True, text=True, check=True)
    return {"bin/ld.wild": done.stdout.splitlines()[0]}


def unpack_libc() -> dict[str, str]:
    """Have the C library of EXPERIMENTAL in build/newer.  Raises UnavailableError."""
    place = TARGET / EXPERIMENTAL
    root = place / "root"
    loader = root / "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
    if not loader.exists():
        archive = mirror()
        fields = index(archive, EXPERIMENTAL).get("libc6")
        if fields is None:
            raise UnavailableError(f"{EXPERIMENTAL}: no libc6, which is in sid by now")
        root.mkdir(parents=True, exist_ok=True)
        with _package(archive, fields, place) as package:
            subprocess.run(("dpkg-deb", "-x", package, root), check=True)
    done = subprocess.run((loader, "--version"), capture_output=True, text=True, check=True)
    return {"lib/ld.so": done.stdout.splitlines()[0]}


def unpack_loongarch() -> dict[str, str]:
    """Have SYSROOT in build/newer, 100 MB of downloads.  Raises UnavailableError."""
    root = TARGET / LOONGARCH / "root"
    linker, qemu = root / "usr/bin/loongarch64-linux-gnu-ld.bfd", root / "usr/bin/qemu-loongarch64"
    if not qemu.exists():
        archive = mirror()
        packages = index(archive, SUITES[0])
        root.mkdir(parents=True, exist_ok=True)
        for name in SYSROOT:  # QEMU, the largest by far, comes last: it says that all is there
            with _package(archive, packages[name], root.parent) as package:
                if name == "qemu-user":
                    command = ("dpkg-deb", "--fsys-tarfile", package)
                    tar = subprocess.run(command, capture_output=True, check=True).stdout
                    subprocess.run(("tar", "-x", "-C", root, "./usr/bin/qemu-loongarch64"), input=tar, check=True)
                else:
                    subprocess.run(("dpkg-deb", "-x", package, root), check=True)
            if linker.exists() and name == SYSROOT[-2]:
                words = ("--force-rpath", "--set-rpath", f"{root}/usr/lib/x86_64-linux-gnu")
                subprocess.run(("patchelf", "--set-interpreter", root / LOADER, *words, linker), check=True)
    versions = {}
    for program in (linker, qemu):
        done = subprocess.run((program, "--version"), capture_output=True, text=True, check=True)
        versions[program.name] = done.stdout.splitlines()[0]
    return versions


def fetch(suite: str) -> dict[str, str]:
    """Have the programs of *suite*: by the link's name in build/newer/SUITE, what it calls itself.

    Raises UnavailableError; what has been unpacked once is kept.  One process at a time, since tests run in several.
    """
    (TARGET / suite).mkdir(parents=True, exist_ok=True)
    with open(TARGET / suite / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _fetched(suite)


def _fetched(suite: str) -> dict[str, str]:
    versions = TARGET / suite / "versions.json"
    makers = {CARGO: build_wild, EXPERIMENTAL: unpack_libc, LOONGARCH: unpack_loongarch}
    if suite in makers:
        made = makers[suite]()
        versions.write_text(json.dumps(made))
        return made
    known: dict[str, str] = json.loads(versions.read_text()) if versions.exists() else {}
    if known.keys() != PROGRAMS.keys():
        unpack(mirror(), suite)
        known = json.loads(versions.read_text())
    return known


@cache
def unavailable(suite: str) -> str | None:
    """Why the programs of *suite* cannot be had here, or None when they are there."""
    try:
        fetch(suite)
    except UnavailableError as error:
        return str(error)
    return None


def main() -> None:
    for suite in (*SUITES, EXPERIMENTAL, LOONGARCH, CARGO):
        try:
            for name, version in fetch(suite).items():
                print(f"{TARGET / suite / name}: {version}")
        except UnavailableError as error:
            print(f"{suite}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
