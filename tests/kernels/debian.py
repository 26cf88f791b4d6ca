"""Debian's kernels: found and fetched with apt from the mirror that this machine uses, unpacked, never installed."""

import lzma
import os
import re
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support import ROOT, MissingError

BUILD = ROOT / "build" / "kernels"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SUITES = ("bullseye", "bookworm", "trixie", "trixie-backports", "sid")
#: Of other processors: a name of a release may fail where its alias does not.
ALIASES = ("stable", "testing", "sid")
#: The series that are tested, by the kernel's version: the cloud flavour, which is the smallest, or the generic one.
SERIES = ("5.10", "6.1", "6.1-generic", "6.12", "6.16", "6.18", "7.2", "7.3")
#: In the order of need; those that the kernel has built in are left out.  btrfs names its checksum only at run time.
MODULES = ("virtio_pci", "virtio_blk", "ext4", "xfs", "crypto-crc32c", "btrfs")
#: What the guests call, of a system that is not this one.
SYSTEM = ("python3-minimal", "libpython3-stdlib", "dash", "coreutils", "mount", "util-linux", "busybox-static")


class Unavailable(MissingError):  # noqa: N818
    """A kernel, or a tool, cannot be had here; the message says why."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """An unpacked kernel: its package, image and configuration, and the modules to load, in that order."""

    package: str
    image: Path
    config: str
    modules: tuple[bytes, ...]


def kernel(series: str, arch: str = "amd64", flavour: str = "") -> Kernel:
    """Fetch and unpack the newest kernel of *series*, one of SERIES, after `update`.  Raises Unavailable.

    Kernels for another *arch*, by Debian's name, have a *flavour*, and the version's number is their series.
    """
    version = _newest(series, arch, flavour)
    directory = BUILD / "packages" / version
    if not (directory / "complete").exists():
        _unpack(version, directory, arch)
    (modules,) = directory.glob("lib/modules/*/")
    boot = next(d for d in (directory / "boot", modules) if list(d.glob("vmlinu*")))
    return Kernel(
        f"linux-image-{version}",
        boots(next(boot.glob("vmlinu*"))),
        next(boot.glob("config*")).read_text(encoding="ascii"),
        _modules(directory, modules.name),
    )


def boots(packed: Path) -> Path:
    """Return *packed*, or what is in it: QEMU boots no EFI program that unpacks itself.

    See drivers/firmware/efi/libstub/zboot-header.S.
    """
    data = packed.read_bytes()
    magic, start, size, method = struct.unpack_from("<4x4sII8x32s", data)
    if magic != b"zimg":
        return packed
    if method.rstrip(b"\0") != b"zstd":
        raise RuntimeError(f"{packed}: not the form of image that is known")
    image = packed.with_name("image")
    packed_data = data[start : start + size]
    image.write_bytes(subprocess.run(["zstd", "-dqc"], input=packed_data, stdout=subprocess.PIPE, check=True).stdout)
    return image


def _newest(series: str, arch: str, flavour: str) -> str:
    number, _, kind = series.partition("-")
    suffix = f"-{flavour}" if flavour else "-amd64" if kind == "generic" else "-cloud-amd64"
    pattern = re.compile(rf"linux-image-({re.escape(number)}\.[0-9.]+(?:-\d+)?(?:\+deb\d+)?{suffix})")
    names = set(_packages(arch))
    result = [
        match[1]
        for name in names
        # Backports keep image and binary of versions whose modules are gone.
        if (match := pattern.fullmatch(name))
        and (f"linux-binary-{match[1]}" not in names or f"linux-modules-{match[1]}" in names)
    ]
    if not result:
        raise Unavailable(f"Debian's archive has no kernel {series} in {', '.join(_suites(arch))}")
    return max(result, key=lambda version: [int(digits) for digits in re.findall(r"\d+", version)])


def _unpack(version: str, directory: Path, arch: str) -> None:
    # Since 6.19 the image package is empty and needs the others; the configuration is in base.
    names = {f"linux-{part}-{version}" for part in ("image", "base", "binary", "modules")} & set(_packages(arch))
    unpack(sorted(names), directory, arch)
    if not (directory / "lib").exists():  # modprobe looks there
        (directory / "lib").symlink_to("usr/lib")
    (release,) = os.listdir(directory / "lib" / "modules")
    subprocess.run(["depmod", "-b", directory, release], check=True)
    (directory / "complete").touch()


def unpack(packages: Sequence[str], directory: Path, arch: str = "amd64") -> None:
    """Fetch the *packages* and unpack them in *directory*.  Raises Unavailable."""
    directory.mkdir(parents=True, exist_ok=True)
    _apt(arch, "apt-get", "-q", "download", *packages, cwd=directory)
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


def unpack_system(arch: str, suite: str, tree: Path, packages: Sequence[str] = SYSTEM) -> None:
    """Unpack a Debian *suite* with *packages* for *arch* in *tree*: their scripts do not run.

    The download is kept.  Raises Unavailable.
    """
    archive = BUILD / f"{arch}-{packages[0]}.tar"
    if not archive.exists():
        half = archive.with_suffix(".new.tar")
        # A mirror that stands still can be tested.
        words = ["mmdebstrap", "--quiet", '--aptopt=Acquire::Check-Valid-Until "false"', "--variant=extract"]
        words += [f"--arch={arch}", f"--include={','.join(packages)}", suite, str(half)]
        words.append(f"deb [signed-by={KEYRING}] {_mirror()} {suite} main")
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=900)
        if done.returncode:
            raise Unavailable(f"mmdebstrap: {done.stderr.strip()[-200:]}")
        half.rename(archive)
    subprocess.run(["tar", "-xf", archive, "-C", tree, "--exclude=./dev/*"], check=True)
    for link in ("bin", "lib", "lib64", "sbin"):  # base-files would have them, by its script
        if (tree / "usr" / link).exists():
            (tree / link).symlink_to(f"usr/{link}")


def _packages(arch: str) -> list[str]:
    return _apt(arch, "apt-cache", "pkgnames", "linux-").split()


def _suites(arch: str) -> tuple[str, ...]:
    return SUITES if arch == "amd64" else ALIASES


def update(arch: str = "amd64") -> None:
    """Fetch the package lists of *arch* into a place of our own.  Raises Unavailable."""
    mirror = _mirror()
    place = BUILD / "apt" / arch
    for name in ("lists/partial", "cache/archives/partial"):
        (place / name).mkdir(parents=True, exist_ok=True)
    (place / "status").touch()
    sources = [f"deb [arch={arch} signed-by={KEYRING}] {mirror} {suite} main\n" for suite in _suites(arch)]
    (place / "sources.list").write_text("".join(sources), encoding="ascii")
    # A suite that has left the mirror is an error of apt's, and a kernel that is not found, of ours.
    _apt(arch, "apt-get", "-q", "update", check=False)
    if not _packages(arch):
        raise Unavailable(f"apt cannot fetch the package lists of {arch} from {mirror}")


def _mirror() -> str:
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
    return mirror


def _apt(arch: str, tool: str, *words: str, cwd: Path | None = None, check: bool = True) -> str:
    place = BUILD / "apt" / arch
    options = {
        "Dir::Etc::SourceList": place / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": place / "lists",
        "Dir::State::status": place / "status",
        "Dir::Cache": place / "cache",
        "APT::Architecture": arch,  # only its lists are fetched
        "APT::Architectures": arch,
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
    }
    command = [tool, *(word for key, value in options.items() for word in ("-o", f"{key}={value}")), *words]
    done = subprocess.run(command, cwd=cwd, check=False, capture_output=True, text=True)
    if check and done.returncode:
        raise Unavailable(f"{tool} {words[0]}: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout
