"""Debian's kernels: found and fetched with apt from the mirror that this machine uses, unpacked, never installed."""

import lzma
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support import ROOT

BUILD = ROOT / "build" / "kernels"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SUITES = ("bullseye", "bookworm", "trixie", "trixie-backports", "sid")
#: The series that are tested, by the kernel's version: the cloud flavour, which is the smallest, or the generic one.
SERIES = ("5.10", "6.1", "6.1-generic", "6.12", "6.16", "6.18", "7.2", "7.3")
#: In the order of need; those that the kernel has built in are left out.  btrfs names its checksum only at run time.
MODULES = ("virtio_pci", "virtio_blk", "ext4", "xfs", "crypto-crc32c", "btrfs")


class Unavailable(Exception):  # noqa: N818
    """A kernel, or a tool, cannot be had here; the message says why."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """An unpacked kernel: its package, image and configuration, and the modules to load, in that order."""

    package: str
    image: Path
    config: str
    modules: tuple[bytes, ...]


def kernel(series: str) -> Kernel:
    """Fetch and unpack the newest kernel of *series*, one of SERIES, after `update`.  Raises Unavailable."""
    version = _newest(series)
    directory = BUILD / "packages" / version
    if not (directory / "complete").exists():
        _unpack(version, directory)
    (modules,) = directory.glob("lib/modules/*/")
    boot = next(d for d in (directory / "boot", modules) if list(d.glob("vmlinuz*")))
    return Kernel(
        f"linux-image-{version}",
        next(boot.glob("vmlinuz*")),
        next(boot.glob("config*")).read_text(encoding="ascii"),
        _modules(directory, modules.name),
    )


def _newest(series: str) -> str:
    number, _, flavour = series.partition("-")
    suffix = "-amd64" if flavour == "generic" else "-cloud-amd64"
    pattern = re.compile(rf"linux-image-({re.escape(number)}\.[0-9.]+(?:-\d+)?(?:\+deb\d+)?{suffix})")
    names = set(_packages())
    found = [
        match[1]
        for name in names
        # Backports keep image and binary of versions whose modules are gone.
        if (match := pattern.fullmatch(name))
        and (f"linux-binary-{match[1]}" not in names or f"linux-modules-{match[1]}" in names)
    ]
    if not found:
        raise Unavailable(f"Debian's archive has no kernel {series} in {', '.join(SUITES)}")
    return max(found, key=lambda version: [int(digits) for digits in re.findall(r"\d+", version)])


def _unpack(version: str, directory: Path) -> None:
    # Since 6.19 the image package is empty and needs the others; the configuration is in base.
    names = {f"linux-{part}-{version}" for part in ("image", "base", "binary", "modules")} & set(_packages())
    unpack(sorted(names), directory)
    if not (directory / "lib").exists():  # modprobe looks there
        (directory / "lib").symlink_to("usr/lib")
    (release,) = os.listdir(directory / "lib" / "modules")
    subprocess.run(["depmod", "-b", directory, release], check=True)
    (directory / "complete").touch()


def unpack(packages: Sequence[str], directory: Path) -> None:
    """Fetch the *packages* and unpack them in *directory*.  Raises Unavailable."""
    directory.mkdir(parents=True, exist_ok=True)
    _apt("apt-get", "-q", "download", *packages, cwd=directory)
    for package in directory.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, directory], check=True)
        package.unlink()


def _modules(directory: Path, release: str) -> tuple[bytes, ...]:
    paths: list[Path] = []
    for module in MODULES:
        command = ["modprobe", "--show-depends", "-d", str(directory), "-S", release, module]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        paths += [Path(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("insmod ")]
    return tuple(
        lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        for path in dict.fromkeys(paths)
    )


def _packages() -> list[str]:
    return _apt("apt-cache", "pkgnames", "linux-").split()


def update() -> None:
    """Fetch the package lists of SUITES into a place of our own.  Raises Unavailable."""
    form = "$(ORIGIN)|$(CODENAME)|$(REPO_URI)"
    command = ["apt-get", "indextargets", "--format", form, "Component: main"]
    try:
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"no apt: {error}") from error
    mirrors = [line.split("|") for line in lines]
    mirror = next((uri for origin, codename, uri in mirrors if origin == "Debian" and "-" not in codename), None)
    if mirror is None or not Path(KEYRING).exists():
        raise Unavailable("apt has no Debian mirror among its sources, or no keyring of Debian's")
    for name in ("apt/lists/partial", "apt/cache/archives/partial"):
        (BUILD / name).mkdir(parents=True, exist_ok=True)
    (BUILD / "apt/status").touch()
    sources = [f"deb [arch=amd64 signed-by={KEYRING}] {mirror} {suite} main\n" for suite in SUITES]
    (BUILD / "apt/sources.list").write_text("".join(sources), encoding="ascii")
    # A suite that has left the mirror is an error of apt's, and a kernel that is not found, of ours.
    _apt("apt-get", "-q", "update", check=False)
    if not _packages():
        raise Unavailable(f"apt cannot fetch the package lists from {mirror}")


def _apt(tool: str, *words: str, cwd: Path | None = None, check: bool = True) -> str:
    place = BUILD / "apt"
    options = {
        "Dir::Etc::SourceList": place / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": place / "lists",
        "Dir::State::status": place / "status",
        "Dir::Cache": place / "cache",
        "APT::Architecture": "amd64",  # only its lists are fetched
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
    }
    command = [tool, *(word for key, value in options.items() for word in ("-o", f"{key}={value}")), *words]
    done = subprocess.run(command, cwd=cwd, check=False, capture_output=True, text=True)
    if check and done.returncode:
        raise Unavailable(f"{tool} {words[0]}: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout
