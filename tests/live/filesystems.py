"""File systems mounted for a moment, and what a kernel does on them with a program's text: cells of a table."""

import contextlib
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.live.programs import NO_THP, NOBODY, WINDOW, WINDOWS, Programs, huge_kib, hugealign, running
from tests.support import MissingError

ALL = WINDOWS * WINDOW >> 10
THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
USERS: dict[str, tuple[str, ...]] = {"root": (), "nobody": NOBODY}
MODES = ("never", "madvise", "always")
#: What makes the image of a file system on a loop device.
MKFS = {"ext4": ("mkfs.ext4", "-qF"), "xfs": ("mkfs.xfs", "-qf"), "btrfs": ("mkfs.btrfs", "-qf")}
FILE_SYSTEMS = (
    *MKFS,
    *(f"tmpfs huge={mode}" for mode in ("never", "always", "within_size", "advise")),
    "overlay on ext4",
)
#: How the file comes there; {good} is the program, {to} where it is wanted.
WRITERS = {
    "cp": "cp {good} {to}",
    "dd bs=8M": "dd if={good} of={to} bs=8M status=none",
    "dd bs=4k": "dd if={good} of={to} bs=4k status=none",
    "install": "install {good} {to}",
    "dpkg": "dpkg-deb -x {deb} {directory}",
    "tar": "tar -xf {tar} -C {directory}",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """KiB of text that PMDs map in a process: from the file *as_written*, and once it is *warmed*; *disabled*: in a
    process with THP disabled by prctl.  *status* and *said*: of ``hugealign warm``.
    """

    as_written: int
    warmed: int
    disabled: int
    status: int
    said: str


def kernel() -> tuple[int, int]:
    """The kernel's version, its first two numbers."""
    major, minor = platform.release().split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()))


@contextlib.contextmanager
def mounted(name: str, work: Path, size: int = 400 << 20) -> Iterator[Path]:
    """Mount the file system *name* below *work*, of *size* bytes on a loop device, and unmount it afterwards."""
    if os.geteuid() != 0:
        raise MissingError("root is needed to mount")
    with contextlib.ExitStack() as stack:
        kind = name.split(maxsplit=1)[0]
        at = work / f"at-{name.replace(' ', '-')}"
        at.mkdir()
        stack.callback(at.rmdir)
        if kind == "overlay":
            lower = stack.enter_context(mounted("ext4", work))
            for part in ("lower", "upper", "work"):
                (lower / part).mkdir()
            options = ",".join(f"{part}dir={lower / part}" for part in ("lower", "upper", "work"))
            words = ["-t", "overlay", "-o", options, "none"]
        elif kind == "tmpfs":
            words = ["-t", "tmpfs", "-o", f"{name.split()[1]},size=128M", "none"]
        else:
            image = work / f"{kind}.image"
            stack.callback(image.unlink, missing_ok=True)
            with image.open("wb") as file:
                file.truncate(size)
            if not shutil.which(MKFS[kind][0]):
                raise MissingError(f"{MKFS[kind][0]} is not installed")
            _do(*MKFS[kind], image)
            words = ["-t", kind, "-o", "loop", str(image)]
        _do("mount", *words, at)
        stack.callback(_do, "umount", "--lazy", at)
        at.chmod(0o755)
        yield at


@contextlib.contextmanager
def thp(mode: str) -> Iterator[None]:
    """Set THP ``enabled`` to *mode*, and back to what it was whatever happens."""
    if not os.access(THP, os.W_OK):
        raise MissingError("root is needed to set THP")
    before = THP.read_text(encoding="ascii").partition("[")[2].partition("]")[0]
    try:
        THP.write_text(mode, encoding="ascii")
        yield
    finally:
        THP.write_text(before, encoding="ascii")


def packages(programs: Programs) -> dict[str, str]:
    """Pack the program as a package and as an archive, once; return the values for WRITERS."""
    directory = programs.directory
    root, deb, tar = directory / "package", directory / "good.deb", directory / "good.tar"
    if not root.exists():
        (root / "DEBIAN").mkdir(parents=True)
        control = (
            "Package: good\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: test\n"
        )
        (root / "DEBIAN/control").write_text(control, encoding="ascii")
        shutil.copy(programs.good, root / "good")
        if shutil.which("dpkg-deb"):
            _do("dpkg-deb", "-Znone", "--root-owner-group", "--build", root, deb)
        _do("tar", "-cf", tar, "-C", directory, "good")
    return {"good": str(programs.good), "deb": str(deb), "tar": str(tar)}


def measure(programs: Programs, directory: Path, writer: str, user: str = "root") -> Cell:
    """Write the program to *directory*, run it, warm it, run it again."""
    path = directory / "good"
    path.unlink(missing_ok=True)
    words = WRITERS[writer].format(**packages(programs), to=path, directory=directory).split()
    if not shutil.which(words[0]):
        raise MissingError(f"{words[0]} is not installed")
    _do(*words)
    path.chmod(0o755)
    with running(path, "5") as child:
        as_written = huge_kib(child.pid, path)
    done = hugealign("warm", path, prefix=USERS[user])
    with running(path, "5") as child:
        warmed = huge_kib(child.pid, path)
    with running(*NO_THP, path, "5") as child:
        disabled = huge_kib(child.pid, path)
    return Cell(as_written, warmed, disabled, done.returncode, done.stdout + done.stderr)


def _do(*words: str | Path) -> None:
    done = subprocess.run(words, check=False, capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise MissingError(f"{words[0]}: {done.stderr.strip()}")
