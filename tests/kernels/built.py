"""Kernels that Debian does not have: built here, once.

With READ_ONLY_THP_FOR_FS, as Fedora's and Arch's; and for aarch64 with pages of 64 KiB, where Debian's have 4 or 16.
The sources are Debian's linux-source packages.  The configuration is the smallest that boots the guests of
tests/kernels: `make tinyconfig` and the options of a file here.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.kernels import debian

SERIES = ("6.1-thp", "6.12-thp")
BEFORE_COLLAPSE = "5.10-thp"
PAGES_64K = "6.12-64k"
_TOOLS = ("make", "flex", "bison", "bc", "xz")


@dataclass(frozen=True, slots=True)
class _Kind:
    """What is built: by which *config*, *compiler* and words of *make*, and where the *image* is."""

    title: str
    config: str
    make: tuple[str, ...]
    compiler: str
    image: str


_KINDS = {
    "thp": _Kind("READ_ONLY_THP_FOR_FS=y", "built.config", (), "gcc", "arch/x86/boot/bzImage"),
    "64k": _Kind(
        "ARM64_64K_PAGES=y",
        "built-64k.config",
        ("ARCH=arm64", "CROSS_COMPILE=aarch64-linux-gnu-"),
        "aarch64-linux-gnu-gcc",
        "arch/arm64/boot/Image",
    ),
}
SECONDS = 3600  # to build one; some five minutes on two idle cores


def kernel(series: str) -> debian.Kernel:
    """Return the kernel of *series*, PAGES_64K or one of SERIES, after `debian.update`; built if it is not there.

    Raises debian.Unavailable.
    """
    number, _, name = series.partition("-")
    kind, name = _KINDS[name], f"linux-source-{number}"
    directory = debian.BUILD / "built" / series
    wanted = Path(__file__).with_name(kind.config).read_text(encoding="ascii")
    if not (directory / "image").exists() or (directory / "fragment").read_text(encoding="ascii") != wanted:
        _build(name, kind, directory, wanted)
    version = (directory / "version").read_text(encoding="ascii").strip()
    config = (directory / "config").read_text(encoding="ascii")
    return debian.Kernel(f"{name} {version}, {kind.title}", directory / "image", config, ())


def _build(name: str, kind: _Kind, directory: Path, fragment: str) -> None:
    if missing := [tool for tool in (*_TOOLS, kind.compiler) if not shutil.which(tool)]:
        raise debian.Unavailable(f"not installed: {', '.join(missing)}")
    shutil.rmtree(directory, ignore_errors=True)
    tree = directory / "tree"
    tree.mkdir(parents=True)
    debian.unpack([name], directory)
    (archive,) = directory.glob("usr/src/*.tar.xz")
    subprocess.run(["tar", "-C", tree, "--strip-components=1", "-xf", archive], check=True)
    make = ["make", "-s", *kind.make]
    subprocess.run([*make, "tinyconfig"], cwd=tree, check=True, capture_output=True)
    with (tree / ".config").open("a", encoding="ascii") as config:
        config.write(fragment)
    subprocess.run([*make, "olddefconfig"], cwd=tree, check=True, capture_output=True)
    chosen = (tree / ".config").read_text(encoding="ascii")
    if lost := [line for line in fragment.splitlines() if line.endswith("=y") and f"\n{line}\n" not in chosen]:
        raise RuntimeError(f"{name} has no {', '.join(lost)}")
    jobs = str(len(os.sched_getaffinity(0)))
    with (directory / "log").open("wb") as log:
        words = ["nice", "-n", "10", *make, "-j", jobs, Path(kind.image).name]
        done = subprocess.run(words, cwd=tree, check=False, stdout=log, stderr=log, timeout=SECONDS)
    if done.returncode:
        raise RuntimeError(f"{name} does not build; see {directory / 'log'}")
    version = subprocess.run([*make, "kernelversion"], cwd=tree, check=True, capture_output=True, text=True).stdout
    (directory / "version").write_text(version, encoding="ascii")
    (directory / "config").write_text(chosen, encoding="ascii")
    (directory / "fragment").write_text(fragment, encoding="ascii")
    shutil.rmtree(directory / "usr")
    shutil.copy(tree / kind.image, directory / "image.new")
    (directory / "image.new").rename(directory / "image")  # last: it says that all is there
    shutil.rmtree(tree)
