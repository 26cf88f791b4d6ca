"""Kernels with READ_ONLY_THP_FOR_FS, which Debian's do not have and Fedora's and Arch's do: built here, once.

The sources are Debian's linux-source packages.  The configuration is the smallest that boots the guest of
tests/kernels/machine.py: `make tinyconfig` and the options in built.config.
"""

import os
import shutil
import subprocess
from pathlib import Path

from tests.kernels import debian

SERIES = ("6.1-thp", "6.12-thp")
BEFORE_COLLAPSE = "5.10-thp"
_FRAGMENT = Path(__file__).with_name("built.config")
_TOOLS = ("gcc", "make", "flex", "bison", "bc", "xz")
_IMAGE = "arch/x86/boot/bzImage"
SECONDS = 3600  # to build one; some five minutes on two idle cores


def kernel(series: str) -> debian.Kernel:
    """Return the kernel of *series*, one of SERIES, after `debian.update`; built if it is not there.

    Raises debian.Unavailable.
    """
    name = f"linux-source-{series.removesuffix('-thp')}"
    directory = debian.BUILD / "built" / series
    wanted = _FRAGMENT.read_text(encoding="ascii")
    if not (directory / "bzImage").exists() or (directory / "fragment").read_text(encoding="ascii") != wanted:
        _build(name, directory, wanted)
    version = (directory / "version").read_text(encoding="ascii").strip()
    config = (directory / "config").read_text(encoding="ascii")
    return debian.Kernel(f"{name} {version}, READ_ONLY_THP_FOR_FS=y", directory / "bzImage", config, ())


def _build(name: str, directory: Path, fragment: str) -> None:
    if missing := [tool for tool in _TOOLS if not shutil.which(tool)]:
        raise debian.Unavailable(f"not installed: {', '.join(missing)}")
    shutil.rmtree(directory, ignore_errors=True)
    tree = directory / "tree"
    tree.mkdir(parents=True)
    debian.unpack([name], directory)
    (archive,) = directory.glob("usr/src/*.tar.xz")
    subprocess.run(["tar", "-C", tree, "--strip-components=1", "-xf", archive], check=True)
    subprocess.run(["make", "-s", "tinyconfig"], cwd=tree, check=True, capture_output=True)
    with (tree / ".config").open("a", encoding="ascii") as config:
        config.write(fragment)
    subprocess.run(["make", "-s", "olddefconfig"], cwd=tree, check=True, capture_output=True)
    chosen = (tree / ".config").read_text(encoding="ascii")
    if lost := [line for line in fragment.splitlines() if line.endswith("=y") and f"\n{line}\n" not in chosen]:
        raise RuntimeError(f"{name} has no {', '.join(lost)}")
    jobs = str(len(os.sched_getaffinity(0)))
    with (directory / "log").open("wb") as log:
        words = ["nice", "-n", "10", "make", "-s", "-j", jobs, "bzImage"]
        done = subprocess.run(words, cwd=tree, check=False, stdout=log, stderr=log, timeout=SECONDS)
    if done.returncode:
        raise RuntimeError(f"{name} does not build; see {directory / 'log'}")
    words = ["make", "-s", "kernelversion"]
    version = subprocess.run(words, cwd=tree, check=True, capture_output=True, text=True).stdout
    (directory / "version").write_text(version, encoding="ascii")
    (directory / "config").write_text(chosen, encoding="ascii")
    (directory / "fragment").write_text(fragment, encoding="ascii")
    shutil.rmtree(directory / "usr")
    shutil.copy(tree / _IMAGE, directory / "bzImage.new")
    (directory / "bzImage.new").rename(directory / "bzImage")  # last: it says that all is there
    shutil.rmtree(tree)
